"""``python -m onward``: the same as the command ``onward``."""

import signal

if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
    # Ctrl-C while the modules are loaded ends the process, as any other signal does, and not in a traceback. See ``main``.
    signal.signal(signal.SIGINT, signal.SIG_DFL)

import os

# The supervisor's program, which must not load what reads a command line.
if "_ONWARD_SUPERVISED" in os.environ:
    from onward.cli.supervise import main
else:
    from onward.cli.main import main

if __name__ == "__main__":
    main()
