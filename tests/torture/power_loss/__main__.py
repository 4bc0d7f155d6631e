"""``python -m tests.torture.power_loss --tier quick --seed 1``."""

import sys

from tests.torture.command import main
from tests.torture.power_loss import run

if __name__ == "__main__":
    sys.exit(main(power_loss=run))
