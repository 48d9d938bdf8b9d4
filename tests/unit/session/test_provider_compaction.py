"""`session.compact(on="provider")`: Anthropic's own block takes the place of what it summarises."""

import json
from typing import Any

import anthropic
import httpx
import pytest

from dragoman import AdapterOptions, Message, get_adapter
from dragoman.adapter.errors import CompactionError, ConfigurationError
from dragoman.canonical.blocks import ProviderBlock
from dragoman.canonical.message import Role
from tests.conformance.coverage.loopback import Sent, loopback
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, Driver
from tests.unit.session.handwritten_replies import handwritten_anthropic, handwritten_ollama
from tests.unit.session.test_routes import wires

BLOCK = {"type": "compaction", "content": "They met.", "encrypted_content": "b3BhcXVl", "signature": "c2ln"}
COMPACTED = {
    "id": "msg_2", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "content": [BLOCK],
    "stop_reason": "compaction", "stop_sequence": None, "usage": {"input_tokens": 9, "output_tokens": 4},
}  # fmt: skip
HELLO = handwritten_anthropic("Hello.")


def sdk_request(**arguments: Any) -> Sent:
    """What Anthropic's SDK sends for a compaction."""
    with loopback() as server:
        server.answer = ("application/json", json.dumps(COMPACTED).encode())
        with anthropic.Anthropic(api_key="key-of-a-test", base_url=server.url) as client:
            reply = client.beta.messages.create(**arguments)
        assert reply.to_dict()["content"] == [BLOCK]
        return server.sent[-1]


def test_the_request_is_that_of_the_sdk_and_the_block_comes_first(driver: Driver) -> None:
    """The system prompt stays, what is kept is the whole history, and the next request begins with the block."""
    provider = wires([HELLO, httpx.Response(200, json=COMPACTED), handwritten_anthropic("Well.")])
    session = driver.session(provider, system="Be kind.")
    driver.ask(session, "Hi")
    summary = driver.compact(session, on="provider", instructions="Names.")
    wire = provider["anthropic"]
    sent = wire.requests[1]
    same = {name: sent[name] for name in ("model", "max_tokens", "messages", "system")}
    theirs = sdk_request(
        **same, compaction={"type": "summarize", "instructions": "Names."}, betas=["compact-2026-09-04"]
    )
    assert sent == theirs.body
    options = get_adapter(ANTHROPIC).compaction_options(AdapterOptions(), "Names.")
    headers = get_adapter(ANTHROPIC).to_wire([Message.user("Hi")], [], options).headers
    assert headers["anthropic-beta"] == theirs.headers["anthropic-beta"]
    assert (summary.role, summary.content[0]) == (
        Role.ASSISTANT, ProviderBlock(provider="anthropic", kind="compaction", data=BLOCK),
    )  # fmt: skip
    driver.ask(session, "And now?")
    assert wire.requests[2]["messages"] == [
        {"role": "assistant", "content": [BLOCK]},
        {"role": "user", "content": [{"type": "text", "text": "And now?"}]},
    ]
    assert "compaction" not in wire.requests[2]
    assert len(session.messages) == 6
    assert session.cost.replies == 3


def test_another_provider_has_no_such_block(driver: Driver) -> None:
    """It is refused before anything is sent, and a swap names the loss."""
    provider = wires([HELLO, httpx.Response(200, json=COMPACTED)], [handwritten_ollama("Hello.")])
    other = driver.session(provider, OLLAMA)
    driver.ask(other, "Hi")
    with pytest.raises(CompactionError, match="writes no summary of its own"):
        driver.compact(other, on="provider")
    assert len(provider["ollama"].requests) == 1
    session = driver.session(provider, ANTHROPIC)
    driver.ask(session, "Hi")
    driver.compact(session, on="provider")
    assert [loss.kind for loss in session.preview(OLLAMA).losses] == ["native_block", "empty_message"]
    for arguments in ({"on": "nobody"}, {"on": "provider", "keep_last": 1}):
        with pytest.raises(ConfigurationError):
            driver.compact(session, **arguments)
