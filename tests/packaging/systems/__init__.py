"""Features that some systems lack, and the marks of the tests that need them."""

import multiprocessing
import sys
from pathlib import Path

import pytest

FORKS = "fork" in multiprocessing.get_all_start_methods()
PROCESSES = Path("/proc/self")
"""What Linux reports about this process, as files."""

READS_FILES = sys.platform != "win32"
"""Windows cannot open a file below a folder without following links: there every file of a workspace is refused."""

needs_fork = pytest.mark.skipif(not FORKS, reason="this system does not fork")
needs_proc = pytest.mark.skipif(not PROCESSES.exists(), reason="this system has no /proc")
needs_files = pytest.mark.skipif(not READS_FILES, reason="this system refuses every file of a workspace")
