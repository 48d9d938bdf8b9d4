import sys

from tests.conformance.way_back.report import main

sys.exit(main())
