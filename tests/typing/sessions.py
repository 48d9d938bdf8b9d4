"""Sessions and the kits as a type checker sees them. Nothing here runs; test_typing.py lets mypy and pyright read it.

A line that must not pass carries the code of mypy's error: an unused ``type: ignore`` is an error too.
"""

from decimal import Decimal
from typing import assert_type

from dragoman import AsyncSession, Loss, Message, Session, ToolResultBlock, ask, tool
from dragoman.batch import BatchError, Batches, BatchHandle, BatchRequest, BatchState
from dragoman.canonical.events import TextDelta
from dragoman.events import EventBus, Subscription
from dragoman.formats import from_cmf, to_cmf
from dragoman.limits import Limit, Limits
from dragoman.pricing import PriceTable, price_table
from dragoman.routing import Router, When
from dragoman.session import AsyncReplyStream, Budget, Cost, Preview, Reply, ReplyStream, SessionEvent, ToolAnswered
from dragoman.store import AsyncStore, SessionRecord, Store
from dragoman.testing import ScriptedProvider, block_network, scripted_reply

MODEL = "anthropic:claude-opus-5-5"


def tools() -> None:
    @tool
    def plain(path: str) -> str:
        return path

    @tool(side_effects="read", name="look")
    async def async_tool(path: str) -> str:
        return path

    assert_type(plain("a.txt"), str)
    plain(1)  # type: ignore[arg-type]
    plain(file="a.txt")  # type: ignore[call-arg]
    assert_type(plain.name, str)
    Session(MODEL, tools=[plain, async_tool, print])

    tool(side_effects=7)  # type: ignore[call-overload]
    Session(MODEL, tools=["plain"])  # type: ignore[list-item]


def events(session: Session) -> None:
    for event in session.stream("Hi"):
        if event.type == "text_delta":
            assert_type(event, TextDelta)
        elif event.type == "tool_answered":
            assert_type(event.result, ToolResultBlock)
        elif event.type == "message_complete":
            assert_type(event.message, Message)


def sessions(session: Session) -> None:
    assert_type(ask(MODEL, "Hi", system="Be brief.", user_id="u"), Reply[str])
    assert_type(session.ask("Hi", max_output_tokens=1, tool_choice="none"), Reply[str])
    assert_type(session.stream("Hi"), ReplyStream[str])
    assert_type(list(session.stream("Hi")), list[SessionEvent])
    assert_type(session.ask("Hi").output, str)
    assert_type(session.messages, tuple[Message, ...])
    assert_type(session.model, str | None)
    assert_type(session.cost, Cost)
    assert_type(session.cost.usd, Decimal | None)
    assert_type(session.dump(), bytes)
    assert_type(Session.load(b"", model=MODEL, max_rounds=3), Session)
    preview = session.preview("openai:gpt-6.1-sol")
    assert_type(preview, Preview)
    assert_type(preview.losses, tuple[Loss, ...])
    assert_type(preview.fits, bool)
    assert_type(session.swap("openai:gpt-6.1-sol"), Preview)
    with Session(None, router=Router(), events=EventBus(), budgets=[Budget(usd="1.50")]) as opened:
        assert_type(opened, Session)

    session.ask("Hi", max_tokens=1)  # type: ignore[call-arg]
    session.ask("Hi", tool_choice="always")  # type: ignore[arg-type]
    session.ask("Hi", prompt_cache="2h")  # type: ignore[arg-type]
    session.messages = ()  # type: ignore[misc]
    Session()  # type: ignore[call-arg]
    Session(MODEL, [])  # type: ignore[call-arg, arg-type]
    Session(MODEL, budget=Budget(usd=1))  # type: ignore[call-arg]
    Budget(usd=0.5)  # type: ignore[arg-type]
    Session.load(b"", sesion_id="s")  # type: ignore[call-arg]
    session.cost.usd + 1  # type: ignore[operator]


async def asynchronous(session: AsyncSession) -> None:
    @tool
    async def look(path: str) -> str:
        return path

    assert_type(await look("a.txt"), str)
    assert_type(await session.ask("Hi", temperature=0.5), Reply[str])
    assert_type(session.stream("Hi"), AsyncReplyStream[str])
    assert_type(session.swap("openai:gpt-6.1-sol"), Preview)
    async with AsyncSession(MODEL) as opened:
        assert_type(opened, AsyncSession)

    session.ask("Hi").text.strip()  # type: ignore[attr-defined]


def session_events(event: SessionEvent) -> str:
    match event:
        case ToolAnswered():
            assert_type(event.result, ToolResultBlock)
            return event.tool_name
        case _:
            return event.type


def around(store: Store, bus: EventBus) -> None:
    assert_type(store.create(MODEL), SessionRecord)
    assert_type(Session.resume("sess_1", store, user_id="u"), Session)
    assert_type(bus.subscribe(lambda event: None, types="turn.completed"), Subscription)
    assert_type(price_table(), PriceTable)
    assert_type(price_table().version, str)
    assert_type(from_cmf({}), list[Message])
    assert_type(to_cmf([]).losses, tuple[Loss, ...])
    Limits([Limit("anthropic:*", requests=1)])
    assert_type(When(cost_under_usd="0.10", cost_over_usd=0).cost_under_usd, Decimal | None)

    store.append("sess_1", [])  # type: ignore[call-arg]
    bus.subscribe("turn.completed")  # type: ignore[arg-type]
    When(cost_under_usd=0.1)  # type: ignore[arg-type]


def batches(batch: Batches, handle: BatchHandle) -> None:
    assert_type(batch.submit([BatchRequest(custom_id="a", messages="Hi")]), BatchHandle)
    assert_type(batch.fetch(handle), list[Message | BatchError])
    assert_type(batch.poll(handle), BatchState)


async def stored(store: AsyncStore) -> None:
    assert_type(await store.create(MODEL), SessionRecord)


def doubles() -> None:
    with (
        block_network(),
        ScriptedProvider(scripted_reply("a"), scripted_reply(calls={"look": {"path": "b"}})) as provider,
    ):
        assert_type(provider.model, str)
        assert_type(provider.remaining, int)

    scripted_reply(7)  # type: ignore[arg-type]
