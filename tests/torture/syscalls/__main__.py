"""``python -m tests.torture.syscalls --tier quick --seed 1``."""

import sys

from tests.torture.command import main
from tests.torture.syscalls import run, run_storage

if __name__ == "__main__":
    sys.exit(main(kills=run, storage=run_storage))
