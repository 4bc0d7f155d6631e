"""``python -m onward``: the same as the command ``onward``."""

from onward.cli.main import main

if __name__ == "__main__":
    main()
