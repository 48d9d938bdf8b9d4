"""What a session costs an agent, in this process: the provider has its reply ready."""

import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from itertools import count
from typing import Any

from dragoman import AdapterOptions, Budget, Client, Message, RequestContext, Session, get_adapter, tool
from dragoman.canonical.usage import Usage
from dragoman.events import EventBus
from dragoman.session.config import merge_options
from tests.benchmarks.agents.requests import MODEL, PROVIDER, RESULT, history
from tests.benchmarks.call_counts import _Provider
from tests.benchmarks.timing import Row, time_in_turns
from tests.benchmarks.wires import SENTENCE, WIRES

TURNS = 8
NAME = f"{PROVIDER}:{MODEL}"
REPLY = json.dumps(WIRES["messages"].text_reply(SENTENCE)).encode()
PROVIDERS: dict[str, Any] = {PROVIDER: {"client": _Provider(REPLY), "api_key": "none"}}
LARGE = Decimal(1_000_000)


SIGNING_MODEL = f"{PROVIDER}:claude-opus-5-5"
"""A model whose signatures are bound to what precedes them."""


def session(messages: Iterable[Message] = (), **settings: Any) -> Session:
    return Session(NAME, messages=messages, providers=PROVIDERS, **settings)


def turns(kept: Session, most: int = TURNS) -> Callable[[], object]:
    """One turn of a session that has answered before, so that only what is new is encoded."""

    def run() -> None:
        for _ in range(most):
            kept.ask("And what now?")

    run()
    return run


def growth() -> list[Row]:
    lengths = (100, 1_000, 3_000, 10_000)
    times = time_in_turns({str(each): turns(session(history(each))) for each in lengths}, rounds=5, repeat=1)
    per_turn = {name: value / TURNS for name, value in times.items()}
    return [
        Row(f"a turn at {each:,} messages", "a turn at 100", per_turn["100"], per_turn[str(each)], "at most 5x")
        for each in lengths[1:]
    ]


def signed() -> list[Row]:
    """A session that has grown turn by turn, so that every reply is bound to all before it."""
    reply = WIRES["messages"].text_reply(SENTENCE)
    reply["content"].insert(0, {"type": "thinking", "thinking": "", "signature": "c2lnbmF0dXJl"})
    provider: dict[str, Any] = {PROVIDER: {"client": _Provider(json.dumps(reply).encode()), "api_key": "none"}}
    lengths = (100, 10_000)
    grown = {length: Session(SIGNING_MODEL, providers=provider) for length in lengths}
    for length, kept in grown.items():
        for number in range(length // 2):
            kept.ask(f"{number}: {RESULT}")
    times = time_in_turns({str(length): turns(kept) for length, kept in grown.items()}, rounds=5, repeat=1)
    small, large = (times[str(length)] / TURNS for length in lengths)
    return [Row(f"a turn at {lengths[1]:,} messages, each reply signed", "a turn at 100", small, large, "at most 5x")]


def governed() -> list[Row]:
    messages = history(3_000)
    kinds = {
        "none": session(messages),
        "an event bus": session(messages, events=_bus()),
        "a budget": session(messages, budgets=[Budget(usd=LARGE)]),
    }
    times = time_in_turns({name: turns(each) for name, each in kinds.items()}, rounds=5)
    return [
        Row(f"a turn at 3,000 messages, {name}", "without", times["none"] / TURNS, times[name] / TURNS, "at most 1.5x")
        for name in kinds
        if name != "none"
    ]


def _bus() -> EventBus:
    bus = EventBus()
    bus.subscribe(lambda event: None)
    return bus


def _functions(number: int) -> list[Any]:
    def new(name: str) -> Any:
        def function(path: str, pattern: str = "", limit: int = 10, recursive: bool = False) -> str:
            """Search the files.

            Args:
                path: The folder.
                pattern: What to look for.
                limit: The most lines.
                recursive: Whether to look into folders.
            """
            return path

        return tool(name=name)(function)

    return [new(f"search_{index}") for index in range(number)]


def tooled(number: int = 20) -> list[Row]:
    client, functions = Client(providers=PROVIDERS), _functions(number)

    def asking(model: str, **settings: Any) -> Callable[[], object]:
        def run() -> None:
            with client.session(model, **settings) as opened:
                opened.ask("What is the capital of France?")

        return run

    found = []
    for model in (NAME, SIGNING_MODEL):
        contestants = {"none": asking(model), "tools": asking(model, tools=functions)}
        times = time_in_turns(contestants, rounds=15, repeat=10)
        what = f"a Session for a question with {number} tools, {model}"
        found.append(Row(what, "no tools", times["none"], times["tools"], "1.5x"))
    return found


def first_requests(number: int = 2_000) -> list[Row]:
    messages, rows = [*history(number), Message.user("And now?")], []
    for name, wire in WIRES.items():
        adapter = get_adapter(wire.model)

        def build(adapter: Any = adapter, model: str = wire.model) -> bytes:
            context = RequestContext.for_model(model)
            written: bytes = adapter.to_wire(messages, [], AdapterOptions(max_output_tokens=100, context=context)).body
            return written

        fields = json.loads(build())
        times = time_in_turns({"dumps": lambda fields=fields: json.dumps(fields), "ours": build}, rounds=7)
        what = f"first request of {number:,} messages with rounds of tools, {name}"
        rows.append(Row(what, "json.dumps", times["dumps"], times["ours"], "at most 4x"))
    return rows


def options() -> list[Row]:
    base = AdapterOptions(max_output_tokens=1000)
    times = time_in_turns(
        {"none": lambda: merge_options(base), "one": lambda: merge_options(base, {"temperature": 0.5})},
        rounds=9, repeat=2_000,
    )  # fmt: skip
    return [Row("one option for a turn", "none", times["none"], times["one"], "at most 3 us")]


def sums(number: int = 10_000) -> list[Row]:
    usage, numbers = Usage(input_tokens=10, output_tokens=5), count()
    messages = [
        each.model_copy(update={"metadata": each.metadata.model_copy(update={"usage": usage, "model": NAME})})
        if each.role == "assistant" else each
        for each in history(number)
    ]  # fmt: skip
    kept = session(messages)
    kept.ask("And now?")
    times = time_in_turns(
        {"nothing": lambda: next(numbers), "usage": lambda: kept.usage, "cost": lambda: kept.cost}, rounds=9
    )
    return [
        Row(f"session.{name} at {number:,} messages", "nothing", times["nothing"], times[name], "at most 1 ms")
        for name in ("usage", "cost")
    ]


def rows() -> list[Row]:
    return [*growth(), *signed(), *governed(), *tooled(), *first_requests(), *options(), *sums()]
