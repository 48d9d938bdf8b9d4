"""Importing dragoman is light and harmless: no socket, no process, no secret, no vendor's SDK."""

import json
import subprocess
import sys
from functools import cache

PROGRAM = """
import json, os, sys

events, reads = [], []
sys.addaudithook(lambda event, arguments: events.append(event))
environment = type(os.environ)

def noting(method):
    def note(self, name, *default):
        reads.append(str(name))
        return method(self, name, *default)
    return note

environment.__getitem__ = noting(environment.__getitem__)
environment.get = noting(environment.get)
import dragoman
print(json.dumps({
    "events": sorted(set(events)), "reads": sorted(set(reads)), "modules": sorted(sys.modules),
    "missing": [name for name in dragoman.__all__ if not hasattr(dragoman, name)],
}))
"""

VENDORS = {
    "anthropic", "openai", "ollama", "google", "mistralai", "cohere", "boto3", "botocore", "openvino", "openvino_genai",
    "litellm", "tiktoken",
}  # fmt: skip
HEAVY = {"httpx", "httpcore", "typer", "rich", "jsonschema_rs", "sqlalchemy", "asyncio", "numpy", "yaml", "vcr"}
SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")


@cache
def import_library() -> dict[str, list[str]]:
    """Return what is seen when the library is imported in a process of its own."""
    completed = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    seen: dict[str, list[str]] = json.loads(completed.stdout)
    return seen


def test_importing_has_no_side_effects() -> None:
    """Every audited event and every read of the environment is seen."""
    seen = import_library()
    assert seen["missing"] == []
    assert "import" in seen["events"], "the hook sees nothing"
    forbidden = ("socket.", "subprocess.", "os.exec", "os.fork", "os.spawn", "os.system", "ctypes.dlopen", "urllib.")
    assert [event for event in seen["events"] if event.startswith(forbidden)] == []
    assert [name for name in seen["reads"] if any(word in name.upper() for word in SECRETS)] == []


def test_importing_loads_no_vendor_and_nothing_heavy() -> None:
    """Adapters, transports and the command line are imported on first use."""
    modules = {name.partition(".")[0] for name in import_library()["modules"]}
    assert modules & VENDORS == set()
    assert modules & HEAVY == set()
    assert {name for name in modules if name.startswith("dragoman")} == {"dragoman"}
