"""A denying plugin on recorded streams: nothing passes, on any wire."""

import base64
import json
from collections.abc import Iterator
from functools import cache
from typing import Any

import httpx
import pytest

from dragoman.adapter.contract import RequestContext
from dragoman.adapter.errors import TurnLimitError
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.blocks import ProviderBlock
from dragoman.canonical.events import TextDelta, ThinkingDelta, ToolUseInputDelta, ToolUseStart
from dragoman.canonical.message import Message, MessageStatus
from dragoman.canonical.message_view.kinds import is_native_tool
from dragoman.canonical.tools import ToolDefinition
from dragoman.policy import Pipeline, PolicyDeniedError
from dragoman.session import Session, Tool
from tests.exchanges import RecordedExchange, load_or_skip
from tests.unit.session.middleware.policy_plugins import DenyingPlugin, RecordingPlugin

PROVIDERS = ("anthropic", "openai-chat", "openai-responses", "ollama", "google", "mistral", "cohere", "bedrock")
OUTPUT = "cmf.llm_output"
EACH = 4
"""Recordings of each provider: all of them would take too long for each run."""

pytestmark = [pytest.mark.exchanges, pytest.mark.parametrize("provider", PROVIDERS)]


def model(exchange: RecordedExchange) -> str:
    name = {"openai-responses": "openai"}.get(exchange.provider, exchange.provider)
    return f"{name}:{exchange.model}"


@cache
def load_exchanges(provider: str, feature: str) -> tuple[tuple[RecordedExchange, Message], ...]:
    """Complete streams with that feature, and the message of each without a policy."""
    return tuple(_iter_exchanges(provider, feature))[:EACH]


def _iter_exchanges(provider: str, feature: str) -> Iterator[tuple[RecordedExchange, Message]]:
    for exchange in load_or_skip(provider):
        if not (exchange.is_genuine and exchange.streamed and exchange.status == 200 and feature in exchange.features):
            continue
        context = RequestContext.for_model(model(exchange))
        *_, last = get_adapter(model(exchange)).iter_stream([exchange.body], context)
        message = getattr(last, "message", None)
        if message is not None and message.metadata.status is MessageStatus.COMPLETE:
            yield exchange, message


class ReplayTransport:
    """Answers each request with the recorded bytes, and counts them."""

    def __init__(self, exchange: RecordedExchange) -> None:
        self.exchange = exchange
        self.requests = 0

    def __call__(self, request: httpx.Request) -> httpx.Response:
        self.requests += 1
        kind = {name.lower(): value for name, value in self.exchange.headers.items()}.get("content-type")
        headers = {"content-type": kind or "text/event-stream"}
        return httpx.Response(200, headers=headers, content=self.exchange.body)


def session(transport: ReplayTransport, *plugins: Any, tools: Any = ()) -> Session:
    client = httpx.Client(transport=httpx.MockTransport(transport))
    model_id = model(transport.exchange)
    key = {"bedrock": base64.b64encode(b"test key").decode()}.get(transport.exchange.provider, "test-key")
    settings: dict[str, Any] = {"client": client, "api_key": key, "base_url": "http://127.0.0.1:1"}
    providers = {model_id.partition(":")[0]: settings}
    return Session(model_id, providers=providers, policy=Pipeline(plugins), tools=tools, max_rounds=1)


def collect(chat: Session) -> tuple[list[Any], PolicyDeniedError | None]:
    seen: list[Any] = []
    try:
        seen.extend(chat.stream("Go"))
    except PolicyDeniedError as error:
        return seen, error
    except TurnLimitError:  # nothing was denied, and tools were run
        return seen, None
    return seen, None


def visible_text(events: list[Any]) -> str:
    texts = (TextDelta, ThinkingDelta)
    return "".join(event.text if isinstance(event, texts) else getattr(event, "partial_json", "") for event in events)


@pytest.mark.parametrize("window", [None, 16])
def test_nothing_of_a_denied_stream_is_shown(provider: str, window: int | None) -> None:
    """No text, no thinking, no argument, not even the name of a tool; nothing is kept or run."""
    for exchange, message in load_exchanges(provider, "tool_call"):
        transport = ReplayTransport(exchange)
        ran: list[str] = []
        chat = session(transport, DenyingPlugin(hooks=[OUTPUT], window=window), tools=_tools(message, ran))
        seen, error = collect(chat)
        assert error is not None, exchange.id
        assert {event.type for event in seen} <= {"message_start", "usage_update"}, exchange.id
        assert (chat.messages, ran, transport.requests) == ((), [], 1), exchange.id


def test_a_denied_call_is_not_run(provider: str) -> None:
    """Although the model requested it, and the reply is in the history."""
    for exchange, message in load_exchanges(provider, "tool_call"):
        if not message.tool_uses:
            continue
        transport = ReplayTransport(exchange)
        ran: list[str] = []
        chat = session(transport, DenyingPlugin(hooks=["cmf.tool_pre_invoke"]), tools=_tools(message, ran))
        _, error = collect(chat)
        assert error is not None, exchange.id
        assert error.hook == "cmf.tool_pre_invoke"
        assert (ran, transport.requests) == ([], 1), exchange.id


def test_a_denied_word_is_never_shown(provider: str) -> None:
    """Whatever comes before it, and however the stream is cut: at the end of the text, and of the arguments."""
    for exchange, message in load_exchanges(provider, "tool_call"):
        for word in filter(None, (message.text[-12:], message.thinking[-12:])):
            if not word.strip():
                continue
            seen, error = collect(
                session(ReplayTransport(exchange), DenyingPlugin(word, hooks=[OUTPUT], window=len(word)))
            )
            assert error is not None, exchange.id
            assert word not in visible_text(seen), exchange.id
        for use in message.tool_uses:
            for value in (each for each in use.input.values() if isinstance(each, str) and len(each) > 3):
                seen, error = collect(
                    session(ReplayTransport(exchange), DenyingPlugin(value, hooks=[OUTPUT], window=len(value)))
                )
                if error is None:  # escaped in JSON, so that the plugin looked for something else
                    continue
                arguments = [event for event in seen if isinstance(event, (ToolUseStart, ToolUseInputDelta))]
                assert not any(value in getattr(event, "partial_json", "") for event in arguments), exchange.id


def test_plugins_see_what_tools_of_a_provider_did(provider: str) -> None:
    """As results, at the hook of replies and at that of results; other native parts are denied."""
    for exchange, message in load_exchanges(provider, "server_tool"):
        natives = [block for block in message.content if isinstance(block, ProviderBlock)]
        if not natives:
            continue
        recording = RecordingPlugin(hooks=[OUTPUT, "tool_post_invoke"])
        seen, error = collect(session(ReplayTransport(exchange), recording))
        if not all(is_native_tool(block.kind) for block in natives):
            assert error is not None, exchange.id
            assert error.code == "unknown_part"
            assert {event.type for event in seen} <= {"message_start", "usage_update"}, exchange.id
            assert recording.seen == []
            continue
        assert error is None, exchange.id
        found = " ".join(recording.at("cmf.tool_post_invoke"))
        for block in natives:
            text = json.dumps(block.data, ensure_ascii=False)
            assert text in found, exchange.id
            assert text in recording.at(OUTPUT)[-1], exchange.id
            denied = collect(session(ReplayTransport(exchange), DenyingPlugin(text, hooks=["tool_post_invoke"])))[1]
            assert denied is not None, exchange.id


def test_a_permissive_plugin_changes_nothing(provider: str) -> None:
    """With and without a window, the history is the same as without a policy."""
    for exchange, message in load_exchanges(provider, "tool_call"):
        for window in (None, 16):
            chat = session(ReplayTransport(exchange), RecordingPlugin(hooks=[OUTPUT], window=window))
            if any(isinstance(block, ProviderBlock) for block in message.content):
                continue
            seen = list(_until_complete(chat))
            reply = chat.messages[1]
            assert [block.type for block in reply.content] == [block.type for block in message.content], exchange.id
            assert (reply.text, reply.thinking) == (message.text, message.thinking), exchange.id
            shown = "".join(event.text for event in seen if isinstance(event, TextDelta))
            assert shown in ("", message.text), exchange.id
            assert bool(shown) == bool(message.text), exchange.id


def _until_complete(chat: Session) -> Iterator[Any]:
    for event in chat.stream("Go"):
        yield event
        if event.type == "message_complete":
            return


def _tools(message: Message, ran: list[str]) -> list[Tool]:
    """Tools with the names of the reply's calls, if these are valid names."""

    def new_tool(name: str) -> Tool:
        return Tool(ToolDefinition(name=name, requires_workspace=False), lambda **_: ran.append(name))

    named = dict.fromkeys(use.name for use in message.tool_uses)
    return [new_tool(name) for name in named if not ToolDefinition(name=name).problems()]
