"""Measures Onward beside the plainest loop that does the same work on the same database: ``python -m benchmarks``, or ``make bench``."""
