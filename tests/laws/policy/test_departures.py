"""No provider ever receives words that its labels forbid, whichever plugin labels them, and however the model was
chosen."""

import asyncio
import json
from collections.abc import Callable, Iterator
from contextlib import nullcontext, suppress
from itertools import product
from typing import Any

import httpx
import pytest

from dragoman import AsyncClient, Client, Message
from dragoman.adapter.errors import NoModelError, ProviderError
from dragoman.batch import BatchError, BatchRequest
from dragoman.policy import (
    Extensions,
    Mode,
    PolicyDeniedError,
    SecurityExtension,
    Step,
    SubjectExtension,
    SubjectType,
    Violation,
    hook,
)
from dragoman.policy.labels import with_labels
from dragoman.policy.plugins import Finder, Finding, LabelledModels, Redaction
from dragoman.routing import Router, label_rules
from dragoman.session.effects import Send, intercept
from dragoman.transport import RetryPolicy
from tests.gateway.upstream import PATHS, gateway_before, question, whole_reply
from tests.unit.session.handwritten_replies import Call, handwritten_anthropic, handwritten_ollama

FORBIDDEN, ALLOWED = "anthropic:claude-opus-5-5", "ollama:qwen3"
EMBEDDER = "openai:text-embedding-3-small"
WORD = "ward-seven"
PROMPT = f"Who lies in {WORD}?"
GUARDS = ("plugin", "router", "both")
MODES = ("sequential", "transform", "audit", "concurrent", "redaction")
ORDERS = (1, 999)


def find_word(text: str) -> list[Finding]:
    start = text.find("4711")
    return [] if start < 0 else [Finding(start, start + 4, "number")]


def labeller(mode: str, priority: int) -> Any:
    """Return a plugin that labels what holds the word, in that mode; the bundled redaction does it for a number."""
    if mode == "redaction":
        redaction = Redaction([Finder(find_word, max_length=4)], label="PHI")
        redaction.priority = priority
        return redaction

    @hook("llm_input", name="labeller", mode=Mode(mode), capabilities=["append_labels"], priority=priority)
    def label(step: Step) -> Extensions | None:
        found = any(WORD in (view.content or "") for view in step.views())
        return with_labels(step.extensions, {"PHI"}) if found else None

    return label


class Providers:
    """Answers for every provider, and notes what each received."""

    def __init__(self) -> None:
        self.received: dict[str, list[str]] = {"anthropic": [], "ollama": [], "openai": []}
        self.failing: dict[str, int] = {}
        self.calls_tool = False

    def settings(self, kind: Any) -> dict[str, Any]:
        return {
            name: {
                "client": kind(transport=httpx.MockTransport(lambda request, name=name: self._answer(name, request))),
                "api_key": "nobody",
                "retry": RetryPolicy(max_retries=1, initial_wait=0, jitter=0),
            }
            for name in self.received
        }

    def _answer(self, name: str, request: httpx.Request) -> httpx.Response:
        text = request.content.decode()
        self.received[name].append(text)
        if self.failing.get(name, 0):
            self.failing[name] -= 1
            return httpx.Response(500, json={"error": {"type": "api_error", "message": "broken"}})
        if "count_tokens" in str(request.url):
            return httpx.Response(200, json={"input_tokens": 3})
        if name == "openai":
            embedding = {"object": "embedding", "index": 0, "embedding": [0.5, 0.5]}
            usage = {"prompt_tokens": 1, "total_tokens": 1}
            return httpx.Response(200, json={"data": [embedding], "model": "m", "object": "list", "usage": usage})
        if str(request.url).endswith("/batches"):
            return httpx.Response(200, json={"id": "msgbatch_1", "processing_status": "in_progress"})
        write: Any = handwritten_anthropic if name == "anthropic" else handwritten_ollama
        called = self.calls_tool and "result" not in text and '"role":"tool"' not in text.replace(" ", "")
        reply = write(Call("call_1", "look")) if called else write("Fine.")
        if json.loads(text).get("stream"):
            return httpx.Response(200, headers={"content-type": reply.content_type}, content=b"".join(reply.frames))
        return httpx.Response(200, headers={"content-type": "application/json"}, content=reply.body)

    def leaked(self) -> list[str]:
        return [text for name in ("anthropic", "openai") for text in self.received[name] if WORD in text]


def guarded(guard: str, mode: str, priority: int, *, mentions: bool = False) -> dict[str, Any]:
    """Return the settings of a client that keeps labelled words from all models but one."""
    plugins = [labeller(mode, priority)]
    if guard != "router":
        plugins.append(LabelledModels({"PHI": ["ollama:**"]}))
    settings: dict[str, Any] = {"policy": plugins}
    if guard != "plugin":
        settings["router"] = Router(
            rules=label_rules({"PHI": [ALLOWED]}), mentions=mentions, aliases={"cloud": FORBIDDEN, "house": ALLOWED}
        )
    return settings


def look() -> str:
    """Looks."""
    return f"A. Jones, 4711, lies in {WORD}."


def pinned(client: Client, model: str) -> None:
    client.session(model).ask(f"{PROMPT} 4711")


def swapped(client: Client, model: str) -> None:
    session = client.session(ALLOWED)
    session.ask(f"{PROMPT} 4711")
    session.swap(model)
    session.ask("And then?")


def in_the_middle(client: Client, model: str) -> None:
    client.session(model, tools=[look]).ask("Look.")


def retried(client: Client, model: str) -> None:
    session = client.session(model, tools=[look])
    session.ask("Look.")


def added(client: Client, model: str) -> None:
    """A middleware of the program adds the words, where a request is sent."""

    def add(turn: Any) -> Any:
        def handle(effect: Any) -> Any:
            if isinstance(effect, Send):
                more = Message.user(f"{PROMPT} 4711")
                effect = Send(
                    **{
                        name: getattr(effect, name)
                        for name in Send.__dataclass_fields__
                        if name not in ("messages", "history")
                    },
                    messages=[more, *effect.messages],
                    history=[more, *effect.history],
                )
            return (yield effect)

        return intercept(turn, handle)

    client.session(model, middleware=[add]).ask("Go on.")


def compacted(client: Client, model: str) -> None:
    said = [Message.user(f"{PROMPT} 4711"), Message.assistant("A."), Message.user("And?"), Message.assistant("B.")]
    client.session(model, messages=said).compact(keep_last=1)


ROUTES: dict[str, Callable[[Client, str], None]] = {
    each.__name__: each for each in (pinned, swapped, in_the_middle, retried, added, compacted)
}


@pytest.mark.parametrize("route", ROUTES)
@pytest.mark.parametrize("guard", GUARDS)
def test_no_route_to_a_model_gets_round_the_labels(route: str, guard: str) -> None:
    """Whatever labels the words, in any mode and order; a model that may see them gets them."""
    for mode, priority, model in product(MODES, ORDERS, (FORBIDDEN, ALLOWED)):
        providers = Providers()
        providers.calls_tool = route in ("in_the_middle", "retried")
        providers.failing = {"anthropic": 1, "ollama": 1} if route == "retried" else {}
        settings = guarded(guard, mode, priority)
        denied = False
        with Client(providers=providers.settings(httpx.Client), **settings) as client:
            try:
                ROUTES[route](client, model)
            except (PolicyDeniedError, NoModelError):
                denied = True
        assert providers.leaked() == [], (mode, priority)
        arrived = any(WORD in text for text in providers.received["ollama"])
        by_rule = guard != "plugin" and model == FORBIDDEN  # the rules may choose the model that is allowed
        assert arrived or (model == FORBIDDEN and denied), (mode, priority, model, by_rule)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("guard", ["router", "both"])
def test_neither_a_mention_nor_a_fallback_gets_round_the_labels(mode: str, guard: str) -> None:
    """The user's own choice of a model, an override of the program, and the model after one that failed."""
    for priority, how in product(ORDERS, ("mention", "override", "fallback")):
        providers = Providers()
        settings = guarded(guard, mode, priority, mentions=True)
        if how == "fallback":
            providers.failing = {"ollama": 9}
            settings["router"] = Router(rules=label_rules({"PHI": [ALLOWED]}), global_default=FORBIDDEN)
        with Client(providers=providers.settings(httpx.Client), **settings) as client:
            session = client.session(None if how == "fallback" else ALLOWED)
            text = f"{PROMPT} 4711"
            prompt = f"@cloud {text}" if how == "mention" else text
            model = {"mention": None, "override": FORBIDDEN, "fallback": ALLOWED}[how]
            with pytest.raises((PolicyDeniedError, ProviderError)):
                session.ask(prompt, model=model)
        assert providers.leaked() == [], (priority, how)


def _ask(client: Client) -> None:
    client.ask(FORBIDDEN, f"{PROMPT} 4711")


def _stream(client: Client) -> None:
    with client.session(FORBIDDEN).stream(f"{PROMPT} 4711") as stream:
        for _ in stream:
            pass


def _embed(client: Client) -> None:
    client.embed(EMBEDDER, ["Hi", f"{PROMPT} 4711"])


def _count(client: Client) -> None:
    with client.services(FORBIDDEN) as services:
        services.count_tokens(f"{PROMPT} 4711")


def _batch(client: Client) -> None:
    with client.batches(FORBIDDEN) as batches:
        handle = batches.submit([BatchRequest(custom_id="a", messages=f"{PROMPT} 4711")])
        (result,) = batches.fetch(handle)
        assert isinstance(result, BatchError)
        raise result.error


def _bulk(client: Client) -> None:
    with client.bulk([{"prompt": f"{PROMPT} 4711"}], FORBIDDEN) as report:
        (row,) = report
        assert "denied" in row["error"]


SYNC_ROADS = {each.__name__: each for each in (_ask, _stream, _embed, _count, _batch, _bulk)}


@pytest.mark.parametrize("road", SYNC_ROADS)
@pytest.mark.parametrize("guard", GUARDS)
@pytest.mark.parametrize("mode", MODES)
def test_no_road_gets_round_the_labels(road: str, guard: str, mode: str) -> None:
    for priority in ORDERS:
        providers = Providers()
        kind: Any = httpx.AsyncClient if road == "_bulk" else httpx.Client
        denied: Any = nullcontext() if road == "_bulk" else pytest.raises(PolicyDeniedError)
        with Client(providers=providers.settings(kind), **guarded(guard, mode, priority)) as client, denied:
            SYNC_ROADS[road](client)
        assert providers.received["anthropic"] == providers.received["openai"] == []


async def _async_walks(client: AsyncClient) -> list[BaseException]:
    denials: list[BaseException] = []

    async def streamed() -> None:
        async with client.session(FORBIDDEN).stream(f"{PROMPT} 4711") as stream:
            async for _ in stream:
                pass

    async def counted() -> None:
        async with client.services(FORBIDDEN) as services:
            await services.count_tokens(f"{PROMPT} 4711")

    for walk in (
        client.ask(FORBIDDEN, f"{PROMPT} 4711"),
        streamed(),
        client.embed(EMBEDDER, [f"{PROMPT} 4711"]),
        counted(),
    ):
        try:
            await walk
        except PolicyDeniedError as denial:
            denials.append(denial)
    return denials


@pytest.mark.parametrize("mode", MODES)
def test_no_async_road_gets_round_the_labels(mode: str) -> None:
    for priority in ORDERS:
        providers = Providers()

        async def main(providers: Providers = providers, priority: int = priority) -> list[BaseException]:
            settings = providers.settings(httpx.AsyncClient)
            async with AsyncClient(providers=settings, **guarded("plugin", mode, priority)) as client:
                return await _async_walks(client)

        assert len(asyncio.run(main())) == 4
        assert providers.received["anthropic"] == providers.received["openai"] == []


def _requests(model: str) -> Iterator[tuple[str, dict[str, Any]]]:
    for wire in PATHS:
        for stream in (False, True):
            yield (
                PATHS[wire],
                json.loads(
                    json.dumps(question(wire, model, stream=stream)).replace("Where is Bern?", f"{PROMPT} 4711")
                ),
            )
    yield (
        "/v1/messages/count_tokens",
        question("messages", model) | {"messages": [{"role": "user", "content": f"{PROMPT} 4711"}]},
    )
    yield "/v1/embeddings", {"model": "vectors", "input": f"{PROMPT} 4711"}


@pytest.mark.parametrize("behind", ["anthropic:m", "openai-chat:m", "openai:m"])
@pytest.mark.parametrize("mode", ["transform", "concurrent"])
def test_no_wire_of_the_gateway_gets_round_the_labels(behind: str, mode: str) -> None:
    """No wire of the gateway gets round the labels: the client's own wire and another one, whole and streamed."""
    policy = [labeller(mode, 1), LabelledModels({"PHI": ["ollama:**"]})]
    models = {"house": behind, "vectors": EMBEDDER}
    with gateway_before(whole_reply("messages"), models=models, client={"policy": policy}) as (url, server):
        for path, body in _requests("house"):
            answer = httpx.post(url + path, json=body)
            is_estimate = path.endswith("count_tokens") and behind != "anthropic:m"
            assert is_estimate or answer.status_code >= 400, (path, answer.text)
        assert not server.requests


def staff_only(seen: list[str]) -> Any:
    @hook("llm_input", name="staff", capabilities=["read_roles"])
    def check(step: Step) -> Violation | None:
        seen.append(step.hook)
        subject = step.extensions.security and step.extensions.security.subject
        return None if subject and "staff" in subject.roles else Violation("ask somebody of the staff")

    return check


@pytest.mark.parametrize("road", SYNC_ROADS)
@pytest.mark.parametrize("role", ["staff", "guest"])
def test_the_subject_of_a_client_reaches_plugins_on_every_road(road: str, role: str) -> None:
    subject = SubjectExtension(id="u1", type=SubjectType.USER, roles=frozenset({role}))
    extensions = Extensions(security=SecurityExtension(subject=subject))
    providers, seen = Providers(), list[str]()
    kind: Any = httpx.AsyncClient if road == "_bulk" else httpx.Client
    settings = {"policy": [staff_only(seen)], "extensions": extensions}
    with Client(providers=providers.settings(kind), **settings) as client, suppress(Exception):
        SYNC_ROADS[road](client)
    assert seen
    assert bool(providers.received["anthropic"] or providers.received["openai"]) is (role == "staff")
