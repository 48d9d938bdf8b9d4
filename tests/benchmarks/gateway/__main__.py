import sys

from tests.benchmarks.gateway.report import main

sys.exit(main())
