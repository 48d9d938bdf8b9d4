"""`python -m tests.gateway.loaded [part ...] [--seconds N] [--sqlite]`: the table of what holds under full load."""

import sys

from tests.gateway.loaded.report import main

sys.exit(main())
