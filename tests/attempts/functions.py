"""How many functions of Dragoman one question enters, and in how many files: `python -m tests.attempts.functions` shows
them, and `--write` records them as the most that a test allows.

A question is asked once before, to fill the caches. Functions that other threads run and those of the tests' own parts
do not count. Comprehensions are not functions: in some versions of Python they are, in others not.
"""

import argparse
import asyncio
import json
import os
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import CodeType, FrameType
from typing import Any

os.environ.setdefault("DRAGOMAN_ENGINE", "httpx")

import dragoman
from dragoman import AsyncClient, Session
from dragoman_gateway import GatewaySettings, create_app
from tests.attempts.provider import MODEL, Provider

SPARE = 3
"""Functions that a bound leaves room for: whether a wait or a draw of randomness is entered depends on the machine."""
BOUNDS = Path(__file__).with_name("functions.toml")
_SHOWN = ("dragoman", "dragoman_adapters", "dragoman_gateway")
_TESTING = str(Path(dragoman.__file__).with_name("testing"))
_ASKED = [{"role": "user", "content": "Where is Bern?"}]


class Entered:
    """Notes the functions that a thread enters. ``calls`` counts each entry."""

    def __init__(self) -> None:
        self.code: set[CodeType] = set()
        self.calls = 0

    def __call__(self, frame: FrameType, event: str, argument: Any) -> None:
        if event != "call" or not _is_own(code := frame.f_code):
            return
        self.code.add(code)
        self.calls += 1

    @property
    def counts(self) -> dict[str, int]:
        files = {code.co_filename for code in self.code}
        return {"calls": self.calls, "functions": len(self.code), "files": len(files)}


def _is_own(code: CodeType) -> bool:
    if code.co_name.endswith("comp>") or code.co_name == "<genexpr>":
        return False
    parts = Path(code.co_filename).parts
    return any(name in parts for name in _SHOWN) and not code.co_filename.startswith(_TESTING)


def _count(work: Callable[[], object]) -> dict[str, int]:
    work()
    entered = Entered()
    before = sys.getprofile()
    sys.setprofile(entered)
    try:
        work()
    finally:
        sys.setprofile(before)
    return entered.counts


def count_session() -> dict[str, int]:
    """`Session.ask`, with nothing that governs."""
    with Provider().serve() as server:
        at = {"anthropic": {"base_url": server.url, "api_key": "sk-ant-test-0123456789"}}
        with Session(MODEL, providers=at) as session:
            return _count(lambda: session.ask("Where is Bern?"))


def count_gateway(path: str, body: dict[str, Any]) -> dict[str, int]:
    """One request of a client to an open gateway, as its server hands it over."""
    with Provider().serve() as server:
        at = {"anthropic": {"base_url": server.url, "api_key": "sk-ant-test-0123456789"}}
        app = create_app(GatewaySettings(models={"house": MODEL}), client=AsyncClient(providers=at))
        return asyncio.run(_count_requests(app, path, json.dumps(body).encode()))


async def _count_requests(app: Any, path: str, body: bytes) -> dict[str, int]:
    async with app.router.lifespan_context(app):
        await _request(app, path, body)
        entered = Entered()
        before = sys.getprofile()
        sys.setprofile(entered)
        try:
            await _request(app, path, body)
        finally:
            sys.setprofile(before)
        return entered.counts


async def _request(app: Any, path: str, body: bytes) -> None:
    """Hand a request to an application, and wait for its whole answer."""
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "POST", "scheme": "http",
        "path": path, "raw_path": path.encode(), "query_string": b"", "root_path": "",
        "headers": [(b"host", b"127.0.0.1"), (b"content-type", b"application/json"),
                    (b"content-length", str(len(body)).encode())],
        "client": ("127.0.0.1", 50_000), "server": ("127.0.0.1", 80), "state": {},
    }  # fmt: skip
    messages: list[dict[str, Any]] = [{"type": "http.request", "body": body, "more_body": False}]
    status: list[int] = []
    forever = asyncio.Event()

    async def receive() -> dict[str, Any]:
        if messages:
            return messages.pop()
        await forever.wait()
        return {"type": "http.disconnect"}

    async def send(message: dict[str, Any]) -> None:
        if message["type"] == "http.response.start":
            status.append(message["status"])

    await app(scope, receive, send)
    assert status == [200], status


ROADS: dict[str, Callable[[], dict[str, int]]] = {
    "Session.ask": count_session,
    "gateway, own wire": lambda: count_gateway(
        "/v1/messages", {"model": "house", "max_tokens": 100, "messages": _ASKED}
    ),
    "gateway, other wire": lambda: count_gateway(
        "/v1/chat/completions", {"model": "house", "max_tokens": 100, "messages": _ASKED}
    ),
}


def bounds() -> dict[str, dict[str, int]]:
    return tomllib.loads(BOUNDS.read_text("utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tests.attempts.functions", description=__doc__)
    parser.add_argument("--write", action="store_true", help="record the numbers as bounds")
    counted = {name: count() for name, count in ROADS.items()}
    if parser.parse_args().write:
        lines = ['# Written by "python -m tests.attempts.functions --write": the most that a question may enter.', ""]
        for name, numbers in counted.items():
            lines += [
                f'["{name}"]',
                f"functions = {numbers['functions'] + SPARE}",
                f"files = {numbers['files'] + 1}",
                "",
            ]
        BOUNDS.write_text("\n".join(lines), "utf-8")
    for name, numbers in counted.items():
        sys.stdout.write(f"{name}: {', '.join(f'{number} {what}' for what, number in numbers.items())}\n")


if __name__ == "__main__":
    main()
