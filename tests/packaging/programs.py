"""Programs that run with the installed package only, in a process of their own: ``python -I -c``."""

from pathlib import Path

WATCHED = """
import os, sys

seen, reads = [], []
BEFORE = ("socket.", "subprocess.", "os.exec", "os.fork", "os.spawn", "os.system", "ctypes.dlopen", "urllib.")
sys.addaudithook(lambda event, arguments: seen.append(event) if event.startswith(("import", *BEFORE)) else None)
environment = type(os.environ)

def noting(method):
    def note(self, name, *default):
        reads.append(str(name))
        return method(self, name, *default)
    return note

environment.__getitem__ = noting(environment.__getitem__)
environment.get = noting(environment.get)
import dragoman

SECRETS = ("KEY", "TOKEN", "SECRET", "PASSWORD", "CREDENTIAL")
assert "import" in seen, "the hook sees nothing"
touched = sorted({event for event in seen if event != "import"})
assert not touched, f"import touches {touched}"
secret = sorted({name for name in reads if any(word in name.upper() for word in SECRETS)})
assert not secret, f"import reads {secret}"
"""
"""Importing opens no socket, starts no process and reads no key."""

INSTALLED = """
import importlib.metadata, sys
import dragoman
from dragoman.bundled import bundled_path
from dragoman.errors import MissingExtraError
from dragoman.pricing import price_table

assert "site-packages" in dragoman.__file__, dragoman.__file__

def loads(name):
    try:
        return getattr(dragoman, name) is not None
    except MissingExtraError as error:
        assert "pip install" in str(error), error
        return False

assert [name for name in dragoman.__all__ if not loads(name)] == ["Store"]
for entry in importlib.metadata.entry_points(group="dragoman.adapters"):
    entry.load()
assert price_table().providers() and list(bundled_path("cassettes").rglob("*.yaml"))
assert dragoman.Session("anthropic:claude-opus-5-5").preview("openai:gpt-4.1").fits
print(len(price_table().providers()), "providers with prices")
"""
"""Every adapter loads, and the data is there, with the required packages only; the store names its extra."""

GATEWAY = """
from importlib.metadata import version

import dragoman_gateway
from dragoman_gateway import create_app

assert "site-packages" in dragoman_gateway.__file__, dragoman_gateway.__file__
paths = {route.path for route in create_app().routes}
assert {"/v1/messages", "/v1/chat/completions", "/v1/responses"} <= paths, paths
print(f"dragoman-gateway {version('dragoman-gateway')}, {len(paths)} paths")
"""
"""The gateway's application."""

ENTRY_POINTS = """
import sys
from importlib.metadata import distribution

import dragoman

assert dragoman.__version__ == sys.argv[1], dragoman.__version__
loaded, absent = 0, []
for name in ("dragoman", "dragoman-gateway"):
    found = distribution(name)
    assert found.version == sys.argv[1], found.version
    for entry in found.entry_points:
        try:
            entry.load()
            loaded += 1
        except ModuleNotFoundError as error:
            assert error.name in ("pytest", "vcr", "hypothesis"), (entry, error)
            absent.append(entry.name)
print(loaded, "entry points" + (f", without {', '.join(absent)}" if absent else ""))
"""
"""Every entry point of both distributions loads; that of pytest needs an extra."""

STORED = """
import sys
from pathlib import Path

import dragoman
from dragoman import Session, Store
from dragoman.messages import read_message, write_message
from dragoman.pricing import list_versions

folder = Path(sys.argv[1])
sessions = [Session.load(path.read_bytes()) for path in sorted(folder.glob("session_*.json"))]
messages = [read_message(path.read_bytes()) for path in sorted((folder / "messages").rglob("*.json"))]
assert sessions and messages
assert all(read_message(write_message(each)) == each for each in messages)
stores = sorted((folder / "stores").glob("*.db"))
for path in stores:
    with Store(f"sqlite:///{path}") as store:
        assert store.load("sess_first").messages, path
        version = store.record("sess_first").version
        store.append("sess_first", [dragoman.Message.user("Still there?")], expected_version=version)
print(f"{len(sessions)} sessions, {len(messages)} messages, {len(stores)} stores")
"""
"""What earlier versions stored opens, is migrated, and takes another message. The argument is a copy of the files."""

OFFLINE = """
import runpy, sys

LOOPBACK = ("127.", "::1", "localhost")

def judge(event, arguments):
    if event == "socket.connect" and isinstance(arguments[1], tuple) and not arguments[1][0].startswith(LOOPBACK):
        raise SystemExit(f"the demo reached for {arguments[1]}")
    if event == "socket.getaddrinfo" and arguments[0] and not str(arguments[0]).startswith(LOOPBACK):
        raise SystemExit(f"the demo looked up {arguments[0]}")

sys.addaudithook(judge)
sys.argv = [sys.argv[1], "demo"]
runpy.run_path(sys.argv[0], run_name="__main__")
"""
"""The demo, as its command runs it; a connection away from this machine ends it."""


def python(environment: Path) -> str:
    """The interpreter of a virtual environment."""
    return str(environment / "bin" / "python")
