"""Work counted instead of timed: how many functions a fixed piece of work calls, and which modules an import loads.

Both counts are the same in every run and on every machine, so a test can compare them with a budget. The budgets are in
`budgets.toml`; `python -m tests.benchmarks.call_counts` counts again and writes them.
"""

import json
import subprocess
import sys
import tomllib
from collections.abc import Callable
from datetime import UTC, datetime
from itertools import count
from pathlib import Path
from typing import Any

from dragoman import AdapterOptions, Client, Message, RequestContext, WireResponse, get_adapter
from tests.benchmarks.wires import SENTENCE, WIRES, MockWire, arguments, words
from tests.laws.streams import call_counts

BUDGETS = Path(__file__).with_name("budgets.toml")
ROOT = Path(__file__).resolve().parents[2]
VERSION = f"{sys.version_info.major}.{sys.version_info.minor}"
DELTAS, MESSAGES = 200, 200

Work = Callable[[], object]


def calls_of(work: Work) -> int:
    """The number of function calls in the work, built-ins included. The work runs once before, to fill the caches."""
    work()
    return call_counts.calls_of(work)


def works(wire: MockWire) -> dict[str, Work]:
    """The pieces of work of one wire, none of which needs a network."""
    adapter = get_adapter(wire.model)
    body = json.dumps(wire.text_reply(SENTENCE)).encode()
    question = [Message.user("What is the capital of France?")]
    frames = list(wire.text_stream(words(DELTAS)))
    fragments = list(wire.call_stream([arguments(1000)] * 2))
    history = [
        message
        for number in range(MESSAGES // 2)
        for message in (Message.user(f"Question {number}?"), Message.assistant(f"Answer {number}."))
    ]
    session, turns = _context(wire), count()
    growing = list(history)

    def request(messages: list[Message], context: RequestContext) -> object:
        return adapter.to_wire(messages, [], AdapterOptions(max_output_tokens=100, context=context))

    def one_call() -> object:
        context = _context(wire)
        request(question, context)
        return adapter.from_wire_response(WireResponse(200, body), context)

    def stream(chunks: list[bytes]) -> Work:
        return lambda: [event.type for event in adapter.iter_stream(chunks, _context(wire))]

    def next_turn() -> object:
        number = next(turns)
        growing.extend((Message.user(f"More {number}?"), Message.assistant(f"More {number}.")))
        return request([*growing, Message.user("And?")], session)

    next_turn()
    return {
        "one call": one_call,
        "one question in a session of its own": _question(wire, body),
        f"{DELTAS} deltas at once": stream([b"".join(frames)]),
        f"{DELTAS} deltas one by one": stream(frames),
        "2 calls of 1 KB in fragments": stream([b"".join(fragments)]),
        f"first request of {MESSAGES} messages": lambda: request([*history, *question], _context(wire)),
        f"next turn after {MESSAGES} messages": next_turn,
    }


class _Provider:
    """An HTTP client that has its reply ready: it is also the response."""

    status_code, headers, is_stream_consumed, is_closed = 200, {"content-type": "application/json"}, True, False

    def __init__(self, body: bytes) -> None:
        self.content = body

    def build_request(self, *_: object, **__: object) -> None: ...

    def send(self, *_: object, **__: object) -> "_Provider":
        return self

    def close(self) -> None: ...


def _question(wire: MockWire, body: bytes) -> Work:
    """One question in a session of its own. Its count may vary by two calls: each millisecond needs new randomness."""
    provider = wire.model.partition(":")[0]
    client = Client(providers={provider: {"client": _Provider(body), "api_key": "none"}})

    def ask() -> object:
        with client.session(wire.model) as session:
            return session.ask("What is the capital of France?")

    return ask


def _context(wire: MockWire) -> RequestContext:
    """A context without clock or randomness: the count must not depend on either."""
    numbers, now = count(), datetime(2026, 11, 1, tzinfo=UTC)
    return RequestContext.for_model(
        wire.model, session_id="ses_1", request_id="req_1", new_id=lambda: f"msg_{next(numbers)}", clock=lambda: now
    )


STAGES = {
    "import dragoman": "import dragoman",
    "a session": "import dragoman; dragoman.Session('anthropic:claude-sonnet-4-6')",
    "one ask": """
import httpx, json
from dragoman import Session
from tests.benchmarks.wires import SENTENCE, WIRES
body = json.dumps(WIRES["messages"].text_reply(SENTENCE)).encode()
client = httpx.Client(transport=httpx.MockTransport(lambda request: httpx.Response(200, content=body)))
session = Session("anthropic:claude-sonnet-4-6", providers={"anthropic": {"client": client, "api_key": "none"}})
assert session.ask("What is the capital of France?").text == SENTENCE
""",
}
"""The code that a fresh process runs before its modules are counted."""


_DECODERS = {"brotli", "brotlicffi", "zstandard"}


def modules_of(code: str) -> tuple[list[str], list[str]]:
    """The modules of Dragoman that a fresh process has loaded after it ran the code, and the third-party packages,
    without those that httpx loads if they are installed.
    """
    note_start = "import sys; at_start = {*sys.modules}\n"  # Debian's Python has a sitecustomize
    print_modules = """
own = sorted(name for name in sys.modules if name.partition(".")[0].startswith("dragoman"))
known = {*sys.stdlib_module_names, *sys.builtin_module_names, "tests"}
packages = {name.partition(".")[0] for name in sys.modules.keys() - at_start if not name.startswith("dragoman")}
import json
print(json.dumps([own, sorted(name for name in packages - known if not name.startswith("_"))]))
"""
    program = note_start + code + print_modules
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, cwd=ROOT)
    own, others = json.loads(done.stdout)
    return own, [name for name in others if name not in _DECODERS]


def budgets() -> dict[str, Any]:
    return tomllib.loads(BUDGETS.read_text("utf-8"))


def recorded_version() -> str:
    """The Python version whose budgets apply here: this one, or the latest one before it that has any."""
    calls: dict[str, Any] = budgets()["calls"]
    known = [version for version in calls if _order(version) <= sys.version_info[:2]]
    return max(known, key=_order)


def _order(version: str) -> tuple[int, ...]:
    return tuple(map(int, version.split(".")))


def main() -> None:
    """Writes the budgets of this version of Python, next to those of the others."""
    calls: dict[str, dict[str, dict[str, int]]] = budgets()["calls"] if BUDGETS.exists() else {}
    calls[VERSION] = {
        name: {what: calls_of(work) for what, work in works(wire).items()} for name, wire in WIRES.items()
    }
    lines = [f'# Written by "python -m {__spec__.name}": see there.' if __spec__ else "", ""]
    for version in sorted(calls, key=_order):
        for name, counted in calls[version].items():
            lines += [f'[calls."{version}".{name}]', *(f'"{what}" = {number}' for what, number in counted.items()), ""]
    for stage, code in STAGES.items():
        own, others = modules_of(code)
        lines += [f'[modules."{stage}"]', f"others = {json.dumps(others)}", "own = ["]
        lines += [*(f'  "{name}",' for name in own), "]", ""]
    BUDGETS.write_text("\n".join(lines), "utf-8")
    sys.stdout.write(f"{BUDGETS.name} is written for Python {VERSION}\n")


if __name__ == "__main__":
    main()
