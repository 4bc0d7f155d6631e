"""What every SQL backend shares: operations that do no I/O, the loader of statements, and how a row becomes a ``Job``."""
