"""One policy stands before every way out: each public function that reaches a provider asks its plugins first.

Every public function of the modules that reach a transport is walked here, or named as one that sends no content.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import dragoman
import dragoman.bulk
import dragoman.embeddings
from dragoman import (
    AsyncClient,
    AsyncSession,
    Client,
    ImageBlock,
    MediaSource,
    Message,
    PolicyDeniedError,
    Session,
    Store,
    ToolDefinition,
    ToolUseBlock,
    set_default_client,
)
from dragoman.batch import AsyncBatches, BatchError, Batches
from dragoman.bulk import bulk, bulk_async, embed_rows
from dragoman.cli.app import COMMANDS, app
from dragoman.embeddings import embed, embed_async
from dragoman.policy import CheckResult, Pipeline, Step
from dragoman.services import AsyncServices, Services
from dragoman.transport import FetchedMedia
from tests.unit.client.governed_provider import HARMLESS, LEAK, MODEL, GovernedProvider
from tests.unit.session.middleware.policy_plugins import DenyingPlugin

EMBEDDING = "openai:text-embedding-3-small"
HISTORY = [Message.user("One."), Message.assistant("Two."), Message.user("Three."), Message.assistant("Four.")]
RESULT = {"tu_1": HARMLESS}
PICTURE = Message.user([ImageBlock(source=MediaSource(kind="url", data="https://example.org/a.png"))])


class CountingPlugin(DenyingPlugin):
    """Denies everything, and counts how often it was asked."""

    asked = 0

    def check(self, step: Step) -> CheckResult:
        self.asked += 1
        return super().check(step)


class Kit:
    """A governed client on a provider of this process, and what reached the outside."""

    def __init__(self, provider: GovernedProvider, settings: dict[str, Any], folder: Path) -> None:
        self.provider, self.settings, self.folder = provider, settings, folder
        self.plugin = CountingPlugin()
        self.policy = Pipeline([self.plugin])
        self.fetched: list[str] = []
        self.store = Store("sqlite://")
        self.client = Client(**settings, policy=self.policy, store=self.store)
        self.async_client = AsyncClient(**settings, policy=self.policy)
        self.own = {**settings, "policy": self.policy, "fetch": self.fetch}

    def fetch(self, url: str) -> FetchedMedia:
        self.fetched.append(url)
        return FetchedMedia(b"x", "image/png")

    def stored(self) -> str:
        return str(self.store.create(MODEL, HISTORY).id)

    def handle(self) -> Any:
        """A batch that an ungoverned client submitted."""
        with Client(**self.settings).batches(MODEL) as batches:
            return batches.submit({"one": LEAK})

    def command(self, *words: str) -> None:
        set_default_client(Client(**self.settings, policy=self.policy))
        run = CliRunner().invoke(app, list(words), input="Hello.\n")
        raise run.exception or PolicyDeniedError("cli", "cli", "denied", run.output)


def denied_rows(report: Any) -> None:
    with report:
        if all(row["answer"] is None and "denied" in row["error"] for row in report):
            raise PolicyDeniedError("bulk", "bulk", "denied", "all rows")


def denied_results(results: Any) -> None:
    if all(isinstance(each, BatchError) and each.error_class == "PolicyDeniedError" for each in results):
        raise PolicyDeniedError("batch", "batch", "denied", "all results")


async def read_stream(stream: Any) -> None:
    async with stream as events:
        async for _ in events:
            pass


def waiting(kind: Any, kit: Kit) -> Any:
    """A session whose call is answered elsewhere."""
    call = ToolUseBlock(id="tu_1", name="look_up", input={})
    history = [Message.user("Look it up."), Message.assistant([call])]
    return kind(MODEL, messages=history, tools=[ToolDefinition(name="look_up", description="Looks up.")], **kit.own)


def drain(stream: Any) -> None:
    with stream as events:
        for _ in events:
            pass


Way = Callable[[Kit], object]

WAYS: dict[str, Way] = {
    "dragoman.ask": lambda kit: _ask_default(kit),
    "Session.ask": lambda kit: Session(MODEL, **kit.own).ask(HARMLESS),
    "Session.stream": lambda kit: drain(Session(MODEL, **kit.own).stream(HARMLESS)),
    "Session.answer": lambda kit: waiting(Session, kit).answer(RESULT),
    "Session.stream_answer": lambda kit: drain(waiting(Session, kit).stream_answer(RESULT)),
    "Session.compact": lambda kit: Session(MODEL, messages=HISTORY, **kit.own).compact(keep_last=1),
    "Session.load": lambda kit: Session.load(Session(MODEL, messages=HISTORY).dump(), **kit.own).ask(HARMLESS),
    "Session.resume": lambda kit: Session.resume(kit.stored(), kit.store, **kit.own).ask(HARMLESS),
    "AsyncSession.ask": lambda kit: AsyncSession(MODEL, **kit.own).ask(HARMLESS),
    "AsyncSession.stream": lambda kit: read_stream(AsyncSession(MODEL, **kit.own).stream(HARMLESS)),
    "AsyncSession.answer": lambda kit: waiting(AsyncSession, kit).answer(RESULT),
    "AsyncSession.stream_answer": lambda kit: read_stream(waiting(AsyncSession, kit).stream_answer({"tu_1": HARMLESS})),
    "AsyncSession.compact": lambda kit: AsyncSession(MODEL, messages=HISTORY, **kit.own).compact(keep_last=1),
    "AsyncSession.load": lambda kit: AsyncSession.load(Session(MODEL).dump(), **kit.own).ask(HARMLESS),
    "AsyncSession.resume": lambda kit: _ask(AsyncSession.resume(kit.stored(), kit.store, **kit.own)),
    "Client.ask": lambda kit: kit.client.ask(MODEL, HARMLESS),
    "Client.stream": lambda kit: drain(kit.client.stream(MODEL, HARMLESS)),
    "Client.session": lambda kit: kit.client.session(MODEL).ask(HARMLESS),
    "Client.load": lambda kit: kit.client.load(Session(MODEL).dump()).ask(HARMLESS),
    "Client.resume": lambda kit: kit.client.resume(kit.stored()).ask(HARMLESS),
    "Client.bulk": lambda kit: denied_rows(kit.client.bulk([HARMLESS], MODEL)),
    "Client.batches": lambda kit: denied_results(_batch(kit.client.batches(MODEL))),
    "Client.with_": lambda kit: kit.client.with_(prices=None).ask(MODEL, HARMLESS),
    "AsyncClient.ask": lambda kit: kit.async_client.ask(MODEL, HARMLESS),
    "AsyncClient.stream": lambda kit: read_stream(kit.async_client.stream(MODEL, HARMLESS)),
    "AsyncClient.session": lambda kit: kit.async_client.session(MODEL).ask(HARMLESS),
    "AsyncClient.load": lambda kit: kit.async_client.load(Session(MODEL).dump()).ask(HARMLESS),
    "AsyncClient.resume": lambda kit: _ask(kit.async_client.resume(kit.stored(), kit.store)),
    "AsyncClient.bulk": lambda kit: _rows(kit.async_client.bulk([HARMLESS], MODEL)),
    "AsyncClient.batches": lambda kit: _async_batch(kit.async_client.batches(MODEL)),
    "AsyncClient.with_": lambda kit: kit.async_client.with_(prices=None).ask(MODEL, HARMLESS),
    "Batches.submit": lambda kit: denied_results(_batch(Batches(MODEL, client=kit.client))),
    "Batches.fetch": lambda kit: denied_results(Batches(MODEL, client=kit.client).fetch(kit.handle())),
    "Batches.results": lambda kit: denied_results(
        dict(Batches(MODEL, client=kit.client).results(kit.handle())).values()
    ),
    "Batches.outputs": lambda kit: denied_results(
        dict(Batches(MODEL, client=kit.client).outputs(kit.handle(), int)).values()
    ),
    "AsyncBatches.submit": lambda kit: _async_batch(AsyncBatches(MODEL, client=kit.async_client)),
    "AsyncBatches.fetch": lambda kit: _async_fetch(AsyncBatches(MODEL, client=kit.async_client), kit.handle()),
    "AsyncBatches.results": lambda kit: _async_results(AsyncBatches(MODEL, client=kit.async_client), kit.handle()),
    "AsyncBatches.outputs": lambda kit: _async_outputs(AsyncBatches(MODEL, client=kit.async_client), kit.handle()),
    "Client.services": lambda kit: kit.client.services(MODEL).count_tokens(HARMLESS),
    "Services.count_tokens": lambda kit: Services(MODEL, client=kit.client).count_tokens(HARMLESS),
    "Services.upload": lambda kit: Services(MODEL, client=kit.client).upload(b"Hello.", name="a.txt"),
    "AsyncClient.services": lambda kit: kit.async_client.services(MODEL).count_tokens(HARMLESS),
    "AsyncServices.count_tokens": lambda kit: AsyncServices(MODEL, client=kit.async_client).count_tokens(HARMLESS),
    "AsyncServices.upload": lambda kit: AsyncServices(MODEL, client=kit.async_client).upload(b"Hello.", name="a.txt"),
    "bulk.bulk": lambda kit: denied_rows(bulk([HARMLESS], MODEL, client=kit.client)),
    "bulk.bulk_async": lambda kit: _rows(bulk_async([HARMLESS], MODEL, client=kit.client)),
    "command ask": lambda kit: kit.command("ask", MODEL, HARMLESS),
    "command chat": lambda kit: kit.command("chat", MODEL),
    "command bulk": lambda kit: _bulk_command(kit),
    "Client.embed": lambda kit: kit.client.embed(EMBEDDING, HARMLESS),
    "AsyncClient.embed": lambda kit: kit.async_client.embed(EMBEDDING, HARMLESS),
    "embeddings.embed": lambda kit: embed(EMBEDDING, [HARMLESS], client=kit.client),
    "embeddings.embed_async": lambda kit: embed_async(EMBEDDING, [HARMLESS], client=kit.async_client),
    "bulk.embed_rows": lambda kit: embed_rows(_texts(kit), EMBEDDING, to=kit.folder / "v.jsonl", client=kit.client),
    "command embed": lambda kit: kit.command("embed", str(_texts(kit)), "--model", EMBEDDING, "-o", _vectors(kit)),
}
"""How each public function is called so that content would leave, if the policy let it."""

QUIET = {
    # Settings, state and prices: nothing is sent.
    "dragoman.cost", "dragoman.price_table", "dragoman.get_adapter", "dragoman.set_default_client", "dragoman.tool",
    *(f"{kind}.{name}" for kind in ("Session", "AsyncSession")
      for name in ("cost_on", "declassify", "dump", "identify", "apply_policy", "close", "preview", "swap")),
    *(f"{kind}.{name}" for kind in ("Client", "AsyncClient") for name in ("from_config", "close")),
    # The id of a batch, and no content.
    *(f"{kind}.{name}" for kind in ("Batches", "AsyncBatches") for name in ("poll", "wait", "cancel", "close")),
    # Facts and vectors.
    *(f"embeddings.{name}" for name in ("check_comparable", "embedding_adapter", "similarities")),
    # Names of files and models.
    *(f"{kind}.{name}" for kind in ("Services", "AsyncServices")
      for name in ("files", "delete_file", "models", "close")),
    # Files and tables of this machine, and the library's own scripts.
    *(f"command {name}" for name in ("config", "conform", "convert", "cassette", "cost", "demo", "doctor", "history",
                                     "keys", "models", "policy", "prices", "local", "store", "view")),
}  # fmt: skip
"""Public functions that send no content. `preview` and `swap` may fetch media: see the test below."""


def _ask_default(kit: Kit) -> None:
    set_default_client(kit.client)
    dragoman.ask(MODEL, HARMLESS)


async def _ask(session: Awaitable[AsyncSession]) -> None:
    await (await session).ask(HARMLESS)


def _batch(batches: Any) -> Any:
    with batches:
        handle = batches.submit({"one": HARMLESS, "two": HARMLESS})
        return batches.fetch(handle)


async def _async_batch(batches: Any) -> None:
    async with batches:
        denied_results(await batches.fetch(await batches.submit({"one": HARMLESS})))


async def _async_fetch(batches: Any, handle: Any) -> None:
    async with batches:
        denied_results(await batches.fetch(handle))


async def _async_results(batches: Any, handle: Any) -> None:
    async with batches:
        denied_results([result async for _, result in batches.results(handle)])


async def _async_outputs(batches: Any, handle: Any) -> None:
    async with batches:
        denied_results([value async for _, value in batches.outputs(handle, int)])


async def _rows(report: Awaitable[Any]) -> None:
    denied_rows(await report)


def _bulk_command(kit: Kit) -> None:
    source, target = kit.folder / "in.jsonl", kit.folder / "out.jsonl"
    source.write_text('{"prompt": "Hello."}\n')
    set_default_client(Client(**kit.settings, policy=kit.policy))
    run = CliRunner().invoke(app, ["bulk", str(source), "--model", MODEL, "--output", str(target)])
    assert "denied" in target.read_text(), run.output
    raise PolicyDeniedError("bulk", "bulk", "denied", "all rows")


def _texts(kit: Kit) -> Path:
    source = kit.folder / "in.jsonl"
    source.write_text('{"text": "Hello."}\n', encoding="utf-8")
    return source


def _vectors(kit: Kit) -> str:
    return str(kit.folder / "v.jsonl")


def go(way: Way, kit: Kit) -> None:
    async def finish(waiting: Awaitable[Any]) -> None:
        await waiting

    outcome = way(kit)
    if inspect.isawaitable(outcome):
        asyncio.run(finish(outcome))


def public_functions() -> Iterator[str]:
    """Every public function that could reach a provider, by name."""
    for name in dragoman.__all__:
        if inspect.isfunction(getattr(dragoman, name)):
            yield f"dragoman.{name}"
    kinds = (Session, AsyncSession, Client, AsyncClient, Batches, AsyncBatches, Services, AsyncServices)
    for kind in kinds:
        for name in dir(kind):
            if not name.startswith("_") and callable(getattr(kind, name)):
                yield f"{kind.__name__}.{name}"
    for module in (dragoman.bulk, dragoman.embeddings):
        for name in module.__all__:
            if inspect.isfunction(getattr(module, name)):
                yield f"{module.__name__.removeprefix('dragoman.')}.{name}"
    yield from (f"command {name}" for name in COMMANDS)


def test_every_public_function_is_walked_or_sends_nothing() -> None:
    """A new one has to be added to either table."""
    assert sorted({*public_functions()}) == sorted({*WAYS, *QUIET})
    assert not WAYS.keys() & QUIET


@pytest.mark.parametrize("name", WAYS)
def test_a_denying_plugin_is_asked_before_anything_leaves(
    name: str, provider: GovernedProvider, settings: dict[str, Any], tmp_path: Path
) -> None:
    """And what it denies is not sent: neither to the provider, nor by fetching what the content refers to."""
    kit = Kit(provider, settings, tmp_path)

    with pytest.raises(PolicyDeniedError):
        go(WAYS[name], kit)
    assert kit.plugin.asked > 0
    assert {*provider.prompts} <= {LEAK}, "an answer of the batch that an ungoverned client submitted"
    assert kit.fetched == []


def test_a_preview_fetches_only_what_the_policy_has_judged(settings: dict[str, Any]) -> None:
    """An address tells its server something, too."""
    fetched: list[str] = []

    def fetch(url: str) -> FetchedMedia:
        fetched.append(url)
        return FetchedMedia(b"x", "image/png")

    blind = "ollama:llava"
    governed = Session(MODEL, messages=[PICTURE], fetch=fetch, policy=Pipeline([DenyingPlugin("nothing")]), **settings)
    governed.preview(blind)
    governed.swap(blind)
    assert fetched == []
    Session(MODEL, messages=[PICTURE], fetch=fetch, **settings).preview(blind)
    assert fetched == ["https://example.org/a.png"]
