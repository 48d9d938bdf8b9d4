"""Sessions and the kits as a type checker sees them. Nothing here runs: mypy, pyright and pyrefly read it.

A line that must not pass carries the code of mypy's error: an unused ``type: ignore`` is an error too.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal, NamedTuple, TypedDict, assert_type

from pydantic import BaseModel

from dragoman import (
    AsyncClient,
    AsyncSession,
    Client,
    Loss,
    Message,
    Session,
    Tool,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
    ask,
    tool,
)
from dragoman.batch import BatchError, Batches, BatchHandle, BatchRequest, BatchState
from dragoman.canonical.events import TextDelta
from dragoman.embeddings import Embeddings, embed, embed_async
from dragoman.errors import OutputError
from dragoman.events import EventBus, OutputComplete, OutputProblem, Subscription, ToolProgress
from dragoman.formats import from_cmf, to_cmf
from dragoman.limits import Limit, Limits
from dragoman.pricing import PriceTable, price_table
from dragoman.routing import Router, When
from dragoman.session import AsyncReplyStream, Budget, Cost, Preview, Reply, ReplyStream, SessionEvent, ToolAnswered
from dragoman.store import AsyncStore, SessionRecord, Store
from dragoman.testing import ScriptedProvider, block_network, scripted_reply
from dragoman.tools import Context, Deferred, Progress

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


class City(BaseModel):
    name: str


@dataclass
class River:
    name: str


class Movie(TypedDict):
    title: str


class Point(NamedTuple):
    x: int


class Colour(Enum):
    RED = "red"


def outputs(session: Session, client: Client, failed: OutputError) -> None:
    assert_type(session.ask("?", output=City), Reply[City])
    assert_type(session.ask("?", output=City).output, City)
    assert_type(session.ask("?", output=River, temperature=0, output_retries=2).output, River)
    assert_type(session.ask("?", output=Movie).output, Movie)
    assert_type(session.ask("?", output=Point).output.x, int)
    assert_type(session.ask("?", output=Colour).output, Colour)
    assert_type(session.ask("?", output=Literal["yes", "no"]).output, Literal["yes", "no"])
    assert_type(session.ask("?", output=City | River).output, City | River)
    assert_type(session.ask("?", output=City | None).output, City | None)
    assert_type(session.ask("?", output=list[City]).output, list[City])
    assert_type(session.ask("?", output=dict[str, int]).output, dict[str, int])
    assert_type(session.ask("?", output=Annotated[int, "at most 5"]).output, int)
    assert_type(session.ask("?", output=bool).output, bool)
    assert_type(session.ask("?", output=str).output, str)
    assert_type(session.ask("?", output_schema={"type": "object"}).output, str)
    assert_type(ask(MODEL, "?", output=City, system="Be exact.").output, City)
    assert_type(client.ask(MODEL, "?", output=City), Reply[City])
    assert_type(client.stream(MODEL, "?", output=City), ReplyStream[City])
    with session.stream("?", output=list[City], partial_strings=True) as stream:
        for event in stream:
            if isinstance(event, OutputComplete):
                print(event.value)
        assert_type(stream.reply.output, list[City])
    assert_type(failed.problems, tuple[OutputProblem, ...])
    assert_type(failed.problems[0].path, tuple[str | int, ...])

    session.ask("?", output=City, output_retries="1")  # type: ignore[call-overload]
    session.ask("?", output=City).output.population()  # type: ignore[attr-defined]


async def async_outputs(session: AsyncSession, client: AsyncClient) -> None:
    assert_type((await session.ask("?", output=City)).output, City)
    assert_type(session.stream("?", output=City | River), AsyncReplyStream[City | River])
    assert_type(await client.ask(MODEL, "?", output=list[Point]), Reply[list[Point]])
    assert_type(client.stream(MODEL, "?", output=City), AsyncReplyStream[City])


async def embeddings(client: Client, asynchronous: AsyncClient) -> None:
    found = client.embed("openai:text-embedding-3-small", ["a", "b"], purpose="query", truncate="end", user_id="u")
    assert_type(found, Embeddings)
    assert_type(found[0][0], float)
    assert_type([vector[0] for vector in found], list[float])
    assert_type(found.usage.cost_usd, Decimal | None)
    assert_type(embed("ollama:m", "a", dimensions=256), Embeddings)
    assert_type(await embed_async("ollama:m", "a"), Embeddings)
    assert_type(await asynchronous.embed("ollama:m", "a"), Embeddings)

    client.embed("ollama:m", "a", purpose="search")  # type: ignore[arg-type]
    client.embed("ollama:m", 7)  # type: ignore[arg-type]


def tool_calls() -> None:
    @tool(timeout=5, retries=2)
    def look(context: Context[River], name: str) -> str:
        assert_type(context.value, River)
        assert_type(context.messages, tuple[Message, ...])
        return context.value.name + name

    @tool
    def walk(to: int) -> Iterator[Progress | str]:
        yield Progress("half", fraction=0.5)
        yield "arrived"

    def choose(context: Context[River]) -> list[Tool]:
        return [look] if context.messages else [walk]

    assert_type(look(Context(River("Aare")), "a"), str)
    Session(MODEL, tools=[look, walk], context=River("Aare"), max_parallel_tools=2)
    Session(MODEL, tools=choose, context=River("Aare"))

    look("a")  # type: ignore[call-arg, arg-type]
    tool(timeout="5")  # type: ignore[call-overload]


def calls_that_wait(session: Session) -> None:
    definition = ToolDefinition(name="pay", description="Pays a bill.", input_schema={"type": "object"})
    Session(MODEL, tools=[definition], approve=lambda call, definition: Deferred("the owner decides"))
    assert_type(session.pending, tuple[ToolUseBlock, ...])
    assert_type(session.answer({call.id: "ok" for call in session.pending}), Reply[Any])
    assert_type(session.stream_answer({"tu_1": ValueError("no")}, output=City), ReplyStream[Any])
    session.answer("ok")  # type: ignore[arg-type]


def tool_progress(event: SessionEvent) -> str:
    return event.message if isinstance(event, ToolProgress) else ""


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
    assert_type(ask(MODEL, "Hi", max_output_tokens=1, budgets=[Budget(usd=1)]), Reply[str])
    assert_type(ask(MODEL, messages=[Message.user("Hi")]), Reply[str])
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

    session.ask("Hi", max_tokens=1)  # type: ignore[call-overload]
    ask(MODEL, "Hi", max_tokens=1)  # type: ignore[call-overload]
    session.ask("Hi", tool_choice="always")  # type: ignore[call-overload]
    session.ask("Hi", prompt_cache="2h")  # type: ignore[call-overload]
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
    assert_type(await AsyncClient().ask(MODEL, "Hi", temperature=0.5, system="Be brief."), Reply[str])
    assert_type(AsyncClient().stream(MODEL, "Hi", max_output_tokens=1), AsyncReplyStream[str])
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
    assert_type(await store.create(MODEL, title="T"), SessionRecord)
    assert_type(await store.append("sess_1", expected_version=None), int)
    await store.append("sess_1", [])  # type: ignore[call-arg]


def doubles() -> None:
    with (
        block_network(),
        ScriptedProvider(scripted_reply("a"), scripted_reply(calls={"look": {"path": "b"}})) as provider,
    ):
        assert_type(provider.model, str)
        assert_type(provider.remaining, int)

    scripted_reply(7)  # type: ignore[arg-type]
