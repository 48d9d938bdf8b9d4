"""`python -m tests.gateway.hostile`: the table of what one hostile key costs the others."""

import sys

from tests.gateway.hostile.report import main

if __name__ == "__main__":  # the processes that it starts import this file too
    sys.exit(main())
