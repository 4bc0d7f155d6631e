"""Measures Onward beside other libraries on the same work: ``python -m benchmarks.peers``, or ``make bench-peers``.

A module here is named after its library, has the functions of ``benchmarks.subjects``, each at the best setting that the library
documents and with every commit on the disk, and says of itself

- ``STORE``: sqlite or postgres;
- ``DISTRIBUTION``: what is installed;
- ``JOBS``: how many a process works off in a measurement, fewer where 20,000 would take minutes on a busy machine; Onward gets as many;
- ``SETTING``: what differs from the defaults;
- ``KEEPS``: what becomes of a job's row, since who keeps none has less to write.
"""
