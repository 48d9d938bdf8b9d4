"""`python -m tests.gateway.replicas`: the table of what holds across replicas."""

import sys

from tests.gateway.replicas.report import main

sys.exit(main())
