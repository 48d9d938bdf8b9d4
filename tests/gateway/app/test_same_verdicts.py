"""A plugin says the same of a conversation in a session and through the gateway, on each wire."""

from collections.abc import Callable, Iterator
from typing import Any

import httpx
import pytest

from dragoman import (
    AdapterOptions,
    ImageBlock,
    MediaSource,
    Message,
    Session,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
    get_adapter,
)
from dragoman.errors import DragomanError
from dragoman.policy import Extensions, Pipeline, Plugin, PolicyDeniedError, Step, Violation, hook
from dragoman.policy.labels import with_labels
from dragoman.policy.plugins import (
    AllowUris,
    Confirmation,
    DenyUris,
    LabelledModels,
    ObjectAccess,
    OpaPolicy,
    RemotePlugin,
    UntrustedData,
)
from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest, json_reply
from dragoman.transport import RetryPolicy
from tests.gateway.app.test_policy import redaction
from tests.gateway.upstream import KEY, gateway_before, whole_reply

MODELS = {
    "anthropic": "anthropic:claude-opus-4-6", "openai-chat": "openai-chat:gpt-4.1", "openai": "openai:gpt-4.1",
    "google": "google:gemini-2.5-flash", "ollama": "ollama:qwen3",
}  # fmt: skip
PATHS = {
    "anthropic": "/v1/messages", "openai-chat": "/v1/chat/completions", "openai": "/v1/responses",
    "google": "/v1beta/models/house:generateContent", "ollama": "/api/chat",
}  # fmt: skip
TOOL = ToolDefinition(name="read_file", description="Reads.", input_schema={"type": "object", "properties": {}})
PICTURE = ImageBlock(source=MediaSource(kind="url", data="https://evil.example/a.png"), media_type="image/png")
CALL = ToolUseBlock(id="tu_01M7YJFK7P2ZFT4X2CGGZPP6M5", name="read_file", input={"path": "S-104233"})
CONVERSATIONS = {
    "a number": [Message.user("I am S-104233.")],
    "an answer": [Message.user("Hi"), Message.assistant("Hello S-104233."), Message.user("And?")],
    "a result": [
        Message.user("Read."),
        Message.assistant([CALL]),
        Message(role="tool", content=(ToolResultBlock(tool_use_id=CALL.id, content="S-104299 of ward 3"),)),
    ],
    "a picture": [Message.user([PICTURE])],
    "a ward": [Message.user("Who lies in ward 3?")],
}
DENYING = ("labelled_models", "untrusted_data", "concurrent", "opa", "remote")
ADDRESSES = ("deny_uris", "allow_uris")
"""Plugins that deny the picture, on the wires that have pictures by address."""
MARKS = (b"S-104233", b"S-104299", b"staff_number", b"evil.example", b"ward 3")


@hook("llm_input", name="wards", mode="audit", capabilities=["append_labels"])
def wards(step: Step) -> Extensions | None:
    found = any("ward" in text for text in step.texts())
    return with_labels(step.extensions, {"PHI"}) if found else None


@hook("llm_input", "tool_post_invoke", name="numbers", mode="concurrent")
def numbers(step: Step) -> Violation | None:
    return Violation("no numbers", code="number") if any("S-1042" in text for text in step.texts()) else None


def decide(received: ReceivedRequest) -> HttpReply:
    """A policy service, written by hand: no staff numbers, and wards are labelled."""
    seen = received.body.decode()
    if "S-1042" in seen or "evil.example" in seen:
        return json_reply({"result": {"allow": False, "reason": "no numbers", "code": "number"}})
    return json_reply({"result": {"allow": True, "labels": ["PHI"] if "ward" in seen else []}})


@pytest.fixture(scope="module")
def service() -> Iterator[tuple[str, httpx.Client]]:
    with FaultyServer(decide) as server, httpx.Client(trust_env=False) as client:
        yield server.url, client


def asking(plugin: Plugin) -> list[Plugin]:
    """Return what makes the labels of a service count."""
    return [plugin, LabelledModels({"PHI": ["local:**"]})]


ASKS: dict[str, Any] = {"hooks": ("llm_input", "tool_post_invoke"), "capabilities": ["append_labels"]}
SERVICES: dict[str, Callable[[str, httpx.Client], list[Plugin]]] = {
    "opa": lambda url, client: asking(OpaPolicy(url, "app/allow", client=client, **ASKS)),
    "remote": lambda url, client: asking(RemotePlugin(f"{url}/judge", client=client, **ASKS)),
}
PLUGINS: dict[str, list[Plugin]] = {
    "redaction": [redaction()],
    "deny_uris": [DenyUris("https://evil.example/**")],
    "allow_uris": [AllowUris("tool://**", "https://good.example/**")],
    "labelled_models": [wards, LabelledModels({"PHI": ["local:**"]})],
    "untrusted_data": [UntrustedData(), LabelledModels({"untrusted": ["local:**"]})],
    "object_access": [ObjectAccess(unlisted="deny")],
    "confirmation": [Confirmation(lambda view: False)],
    "concurrent": [numbers],
}


def verdict(denied: bool, bodies: list[bytes]) -> tuple[str, tuple[bytes, ...]]:
    """Return what came of a request: denied, or the words of it that arrived."""
    if denied:
        assert not bodies
        return "denied", ()
    return "sent", tuple(mark for mark in MARKS if any(mark in body for body in bodies))


@pytest.mark.parametrize("provider", MODELS)
@pytest.mark.parametrize("plugin", [*PLUGINS, *SERVICES])
def test_a_plugin_says_the_same_in_a_session_and_through_the_gateway(
    plugin: str, provider: str, service: tuple[str, httpx.Client]
) -> None:
    adapter = get_adapter(MODELS[provider])
    plugins = SERVICES[plugin](*service) if plugin in SERVICES else PLUGINS[plugin]
    found: set[str] = set()
    with gateway_before(whole_reply("messages"), models={"house": MODELS[provider]}, client={"policy": plugins}) as (
        url,
        server,
    ):
        base = f"{server.url}/v1" if provider.startswith("openai") else server.url
        settings = {"api_key": KEY, "base_url": base, "retry": RetryPolicy(max_retries=0)}
        for name, messages in CONVERSATIONS.items():
            body = adapter.to_wire(messages, [TOOL], AdapterOptions()).body
            if name == "a picture" and b"evil.example" not in body:
                continue  # the wire has no pictures by address
            *history, prompt = messages if messages[-1].role == "user" else [*messages, None]
            session = Session(
                MODELS[provider],
                messages=history,
                tools=[TOOL],
                policy=Pipeline(plugins),
                providers={provider: settings},
            )
            denied, start = False, len(server.requests)
            try:
                session.ask(prompt)
            except PolicyDeniedError:
                denied = True
            except DragomanError:  # the reply is one of another wire, on purpose: only requests count
                pass
            before = len(server.requests)
            expected = verdict(denied, [request.body for request in server.requests[start:]])
            named = body.replace(adapter.model.encode(), b"house")
            answer = httpx.post(url + PATHS[provider], content=named, headers={"content-type": "application/json"})
            arrived = [request.body for request in server.requests[before:]]
            assert verdict(not arrived, arrived) == expected, (name, answer.text)
            found.add(expected[0])
    assert ("denied" in found) is (plugin in DENYING or (plugin in ADDRESSES and provider != "ollama"))
