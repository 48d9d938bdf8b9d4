"""Each of the three wires that llama-server supports, plain and streamed, with and without tools.

Replayed by default. `pytest tests/cassettes --record-mode=rewrite` records again from a server at LLAMA_SERVER (by
default http://127.0.0.1:8931); see cassettes/README.md.
"""

import os
from typing import Any

import pytest

from dragoman.canonical.message import StopReason
from dragoman.cli import demo
from dragoman.session import AsyncSession, Session, ToolAnswered

ORIGIN = os.environ.get("LLAMA_SERVER", "http://127.0.0.1:8931")
WIRES = [part.provider for part in demo.RECORDED_PARTS]

pytestmark = [pytest.mark.vcr, pytest.mark.filterwarnings("ignore::DeprecationWarning:vcr")]


def settings(provider: str, **more: Any) -> dict[str, Any]:
    address = {"api_key": "recorded", "base_url": ORIGIN + demo.BASE_PATHS[provider]}
    return {"providers": {provider: address}, "new_id": demo.sequential_ids(), **more}


def model(provider: str) -> str:
    return f"{provider}:{demo.RECORDED_MODEL}"


@pytest.mark.parametrize("provider", WIRES, ids=lambda provider: f"{provider}-plain")
def test_a_plain_answer(provider: str) -> None:
    """A question without tools is answered with text, and its tokens are counted."""
    with Session(model(provider), **settings(provider)) as session:
        reply = session.ask("What is the capital of France?", max_output_tokens=32)
    assert "Paris" in reply.text
    assert reply.stop_reason is StopReason.END_TURN
    assert reply.usage is not None
    assert reply.usage.prompt_tokens > 0
    assert 0 < reply.usage.output_tokens <= 32


@pytest.mark.parametrize("provider", WIRES, ids=lambda provider: f"{provider}-stream")
def test_a_streamed_answer(provider: str) -> None:
    """The deltas of a stream add up to its message."""
    with Session(model(provider), **settings(provider)) as session:
        events = list(session.stream("What is the capital of France?", max_output_tokens=32))
    assert "".join(event.text for event in events if event.type == "text_delta") == session.messages[-1].text
    assert "Paris" in session.messages[-1].text


@pytest.mark.parametrize("provider", WIRES, ids=lambda provider: f"{provider}-tools")
def test_a_call_and_its_answer(provider: str) -> None:
    """A tool is called, run here, and the model answers from its result."""
    with Session(model(provider), tools=demo.TOOLS, **settings(provider)) as session:
        reply = session.ask(demo.RECORDED_PARTS[0].prompt, max_output_tokens=128)
    assert [message.role for message in session.messages] == ["user", "assistant", "tool", "assistant"]
    (call,) = session.messages[1].tool_uses
    assert (call.name, call.input) == ("read_file", {"path": "config.toml"})
    assert "8080" in reply.text


@pytest.mark.parametrize("provider", WIRES, ids=lambda provider: f"{provider}-stream-tools")
def test_a_streamed_call_and_its_answer(provider: str) -> None:
    """The call ends with its whole input, and the tool's answer is an event."""
    with Session(model(provider), tools=demo.TOOLS, **settings(provider)) as session:
        events = list(session.stream(demo.RECORDED_PARTS[0].prompt, max_output_tokens=128))
    (ended,) = [event for event in events if event.type == "tool_use_end"]
    assert ended.final_input == {"path": "config.toml"}
    (answered,) = [event for event in events if isinstance(event, ToolAnswered)]
    assert answered.result.tool_use_id == ended.tool_use_id
    assert "8080" in session.messages[-1].text


@pytest.mark.parametrize("provider", WIRES, ids=lambda provider: f"{provider}-async")
def test_an_async_answer(provider: str) -> None:
    """The async driver uses the same wire."""
    import asyncio

    async def answer() -> str:
        async with AsyncSession(model(provider), **settings(provider)) as session:
            return (await session.ask("What is the capital of France?", max_output_tokens=32)).text

    assert "Paris" in asyncio.run(answer())
