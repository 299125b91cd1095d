"""`python -m helpers.lab_check`."""

import sys

from helpers.lab_check.command import main

if __name__ == "__main__":
    sys.exit(main())
