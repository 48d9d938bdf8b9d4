"""Looks for an API key in the local variables of every frame of an error, as error reporters send them."""

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from inspect import signature
from typing import Any

from dragoman import AsyncSession, Client, Session, ask
from dragoman.bulk import bulk
from dragoman.errors import DragomanError
from dragoman.session.config import SessionSettings
from dragoman.testing.faults.server import HANG_UP, RESET, STALL, FaultyServer, HttpReply, json_reply, sse_reply
from dragoman.transport import AsyncHttpTransport, HttpTransport, RetryPolicy
from dragoman.transport.settings import ProviderSettings, TransportSettings

KEY = "canary-5d1c9be07f34"
MODELS = {
    "anthropic": "anthropic:claude-opus-5-5",
    "openai": "openai:gpt-5.1",
    "openai-chat": "openai-chat:gpt-5.1",
    "google": "google:gemini-2.5-flash",
    "mistral": "mistral:mistral-large-latest",
    "ollama": "ollama:qwen3",
}
SYNC_ENGINES, ASYNC_ENGINES = ("httpx", "httpx2"), ("httpx", "httpx2", "aiohttp")
REPLIES: dict[str, HttpReply] = {
    "no JSON": HttpReply(body=b"{"),
    "a list": HttpReply(body=b"[]"),
    "unauthorized": HttpReply(status=401, body=f'{{"error":{{"message":"Incorrect API key: {KEY}"}}}}'.encode()),
    "rate limited": HttpReply(status=429, body=b"{}", headers={"retry-after": "0"}),
    "server error": HttpReply(status=500, body=f"<html>{KEY}</html>".encode()),
    "redirect": HttpReply(status=302, headers={"location": f"http://127.0.0.1:9/?key={KEY}"}),
    "no head": HttpReply(before=RESET),
    "hung up": HttpReply(before=HANG_UP),
    "silence": HttpReply(before=STALL),
    "half a body": json_reply({"a": "b"}, RESET),
    "a broken stream": sse_reply(b"data: {\n\n", RESET),
    "a cut stream": sse_reply(b'data: {"type":"message_start"}\n\n', HANG_UP),
    "a stream's error": sse_reply(f'event: error\ndata: {{"error":{{"message":"{KEY}"}}}}\n\n'.encode()),
    "an error that is not an error": json_reply({"error": {"message": f"no such key: {KEY}", "code": KEY}}),
    "wrong compression": HttpReply(body=b"no gzip", headers={"content-encoding": "gzip"}),
    "a short body": HttpReply(body=b"{}", headers={"content-length": "9"}),
}  # fmt: skip
ECHOES = ("unauthorized", "server error", "redirect", "a stream's error", "an error that is not an error")
"""Replies that repeat the key. Their bytes are in the frames that read them, but in no error."""
_TESTS = "tests"
_NOWHERE = "http://127.0.0.1:9"
_NOTHING = object()
"""A value that no setting takes."""


@dataclass
class FrameSearch:
    """How many errors, frames and variables were looked at, and where the key was found."""

    name: str
    errors: int = 0
    variables: int = 0
    hits: list[str] = field(default_factory=list)
    bare: list[str] = field(default_factory=list)

    @property
    def enough(self) -> bool:
        return self.variables > 0 and not self.hits and not self.bare

    def add(self, what: str, error: BaseException, *, echo: bool = False) -> None:
        self.errors += 1
        for place, value in variables(error):
            if echo and not place.startswith("error "):
                continue
            self.variables += 1
            if KEY in render(value):
                self.hits.append(f"{what}: {place}")

    def attempt(self, what: str, work: Callable[[], object], *, echo: bool = False) -> None:
        try:
            work()
        except DragomanError as error:
            self.add(what, error, echo=echo)
        except Exception as error:
            self.bare.append(f"{what}: {type(error).__name__}")


def variables(error: BaseException) -> Iterator[tuple[str, Any]]:
    """Yield the local variables of all frames of an error and of its causes, except those of the tests."""
    seen: set[int] = set()
    waiting: list[BaseException | None] = [error]
    while waiting:
        current = waiting.pop()
        if current is None or id(current) in seen:
            continue
        seen.add(id(current))
        waiting += [current.__cause__, current.__context__, *getattr(current, "exceptions", ())]
        yield f"error {type(current).__name__}", (str(current), current.args, vars(current))
        trace = current.__traceback__
        while trace is not None:
            frame = trace.tb_frame
            if frame.f_globals.get("__name__", "").partition(".")[0] != _TESTS:
                for name, value in list(frame.f_locals.items()):
                    yield f"{frame.f_code.co_name}, {name}", value
            trace = trace.tb_next


def render(value: Any) -> str:
    """Return the repr of a value. One that fails shows nothing."""
    try:
        return repr(value)
    except Exception as error:
        return f"<{type(error).__name__}>"


def requests(names: tuple[str, ...] = tuple(REPLIES)) -> FrameSearch:
    """Send requests that fail with every reply: every engine, sync and async, whole and streamed."""
    search = FrameSearch("requests that fail")
    for reply in names:
        with FaultyServer(REPLIES[reply]) as server:
            for provider, model in MODELS.items():
                for stream in (False, True):
                    for engine, work in _ways(model, provider, server.url, stream=stream):
                        search.attempt(f"{reply}, {model}, {engine}", work, echo=reply in ECHOES)
    return search


def _ways(model: str, provider: str, url: str, *, stream: bool) -> Iterator[tuple[str, Callable[[], object]]]:
    def settings(engine: str) -> dict[str, dict[str, Any]]:
        silence = {"timeout": 0.3, "retry": RetryPolicy(max_retries=1, initial_wait=0.001)}
        return {provider: {"api_key": KEY, "base_url": url, "engine": engine, **silence}}

    def ask(engine: str) -> None:
        with Session(model, providers=settings(engine)) as session:
            if stream:
                session.stream("Hi").get_reply()
            else:
                session.ask("Hi")

    async def ask_async(engine: str) -> None:
        async with AsyncSession(model, providers=settings(engine)) as session:
            if stream:
                async with session.stream("Hi") as events:
                    async for _ in events:
                        pass
            else:
                await session.ask("Hi")

    for engine in filter(find_spec, SYNC_ENGINES):
        yield engine, partial(ask, engine)
    for engine in filter(find_spec, ASYNC_ENGINES):
        yield f"async {engine}", lambda engine=engine: asyncio.run(ask_async(engine))


def configurations() -> FrameSearch:
    """Make sessions, clients and bulk runs with a wrong setting beside the key, each setting in turn."""
    search = FrameSearch("configurations that fail")
    model = MODELS["anthropic"]
    for name in (*SessionSettings.__annotations__, "no_setting"):
        for make in (
            lambda wrong: Session(model, **{**_alone(), **wrong}),
            lambda wrong: AsyncSession(model, **{**_alone(), **wrong}),
            lambda wrong: Session.load(b"{", **{**_alone(), **wrong}),
            lambda wrong: ask(model, "Hi", **{**_alone(), **wrong}),
            lambda wrong: Client(**{"providers": _own(), **wrong}),
            lambda wrong: Client(providers=_own()).with_(**wrong),
            lambda wrong: Client(providers=_own()).ask(model, "Hi", **wrong),
            lambda wrong: Client().ask(model, "Hi", **{**_alone(), **wrong}),
            lambda wrong: bulk(["Hi"], model, **{"client": Client(providers=_own()), **wrong}),
        ):
            search.attempt(name, partial(make, {name: _NOTHING}))
    for name in (*ProviderSettings.__annotations__, "no_setting"):
        wrong = {"anthropic": {"api_key": KEY, name: _NOTHING}}
        for make in (Session, AsyncSession):
            search.attempt(f"providers {name}", partial(make, model, providers=wrong))
        for make_client in (Client, Client().with_):
            search.attempt(f"providers {name}", partial(make_client, providers=wrong))
        if name in signature(HttpTransport).parameters or name in TransportSettings.__annotations__:
            for transport in (HttpTransport, AsyncHttpTransport):
                search.attempt(f"transport {name}", partial(transport, **wrong["anthropic"]))
    return search


def _own() -> dict[str, dict[str, Any]]:
    """Settings of a provider that nobody reaches, for values that are accepted after all."""
    return {"anthropic": {"api_key": KEY, "base_url": _NOWHERE, "max_retries": 0}}


def _alone() -> dict[str, Any]:
    return {"api_key": KEY, "base_url": _NOWHERE, "providers": {"anthropic": {"max_retries": 0}}}


def rows() -> Iterator[FrameSearch]:
    yield configurations()
    yield requests()


def lines(searched: Iterator[FrameSearch]) -> Iterator[str]:
    yield f"{'frames of':<28}{'errors':>8}{'variables':>11}{'bare':>6}{'hits':>6}"
    for row in searched:
        yield f"{row.name:<28}{row.errors:>8}{row.variables:>11}{len(row.bare):>6}{len(row.hits):>6}"
        yield from (f"    {each}" for each in [*row.bare, *row.hits][:10])
