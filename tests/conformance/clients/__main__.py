import sys

from tests.conformance.clients.report import main

sys.exit(main())
