"""Ray itself, if it is installed: the command on a cluster of this machine, and a worker that is killed."""

import json
import os
import random
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.bulk import cluster, scale
from tests.bulk.mock_provider import ROOT, mock_provider

pytestmark = [
    pytest.mark.exhaustive,
    pytest.mark.skipif(find_spec("ray") is None, reason="Ray is not installed: dragoman[ray]"),
]


def test_the_command_runs_on_a_local_cluster(tmp_path: Path) -> None:
    """All rows are answered, each with one request."""
    scale.write_rows(tmp_path / "rows.jsonl", 60)
    with mock_provider() as url:
        command = [sys.executable, "-c", "from dragoman.cli import main; main()", "bulk", str(tmp_path / "rows.jsonl")]
        command += ["-m", scale.MODEL, "--base-url", url, "--ray", "local", "--workers", "2", "--quiet"]
        completed = subprocess.run(
            command, cwd=ROOT, env={**os.environ, "ANTHROPIC_API_KEY": "none"}, capture_output=True, text=True
        )
        assert completed.returncode == 0, completed.stderr
        assert scale.request_counts(url) == {"rows": 60, "requests": 60, "under_way": 0}
    lines = (tmp_path / "rows.answers.jsonl").read_text().splitlines()
    assert [json.loads(line)["answer"] for line in lines] == [f"answer {n}" for n in range(60)]


def test_killed_workers_lose_no_row(tmp_path: Path) -> None:
    """Signal 9: no row is missing, and each row that was requested twice is recorded with its cost."""
    with cluster.cluster() as nodes:
        result = cluster.run(nodes, tmp_path / "rows.jsonl", 600, 2, random.Random(3), 0.05)
    lost_costs = scale.lost_estimates(f"sqlite:///{tmp_path / 'rows.answers.jsonl'}.manifest")
    assert cluster.faults_of(result, 600, lost_costs) == []
    assert result.kills == 2
