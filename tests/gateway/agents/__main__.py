import sys

from tests.gateway.agents.report import main

sys.exit(main())
