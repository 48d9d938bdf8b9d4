"""Shared by the live tests. None of them asserts what the model chooses: its words, their number, or why it stopped.

A test may assert what the runtime enforces: the limit of tokens, and the grammar of the output. A grammar may leave the
model little or much choice. `forced` leaves none. JSON objects leave any amount of white space, so a limit may cut any
of them: `check_call` allows for that.
"""

from collections.abc import Mapping
from typing import Any

import pytest

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.message import Message, MessageStatus, StopReason
from dragoman.canonical.tools import ToolDefinition
from dragoman.local import LocalTransport

MODEL = "local:smollm2-135m"

FREE_ENDS = (StopReason.END_TURN, StopReason.MAX_TOKENS)
"""The possible ends of a text without a grammar and a stop sequence."""

LONG = " ".join(["word"] * 400)
"""No token of the model has two words, so writing this takes at least 400."""


def forced_schema(text: str) -> dict[str, Any]:
    """Return the JSON Schema of this string only. Its only JSON is what the model writes, and then it must stop."""
    return {"enum": [text]}


def check_call(reply: Message, name: str, arguments: Mapping[str, Any] | None = None) -> None:
    """Check that the reply is one call of that tool, with these arguments unless the limit cut it within them."""
    (call,) = reply.tool_uses
    assert reply.content == (call,)
    assert call.name == name
    if call.raw_input is not None:
        assert reply.stop_reason is StopReason.MAX_TOKENS
        assert call.input == {}
    else:
        assert reply.stop_reason in (StopReason.TOOL_USE, StopReason.MAX_TOKENS)
        assert arguments is None or call.input == arguments


class Asker:
    """Asks the embedded model, without a session around it."""

    def __init__(self, model: str = MODEL) -> None:
        self.adapter = get_adapter(model)
        self.transport = LocalTransport()

    def context(self) -> RequestContext:
        return RequestContext.for_model(str(self.adapter.model_id))

    def __call__(
        self, history: list[Message] | str, tools: tuple[ToolDefinition, ...] = (), **options: object
    ) -> Message:
        context = self.context()
        messages = [Message.user(history)] if isinstance(history, str) else history
        wire = self.adapter.to_wire(messages, tools, AdapterOptions(context=context, **options))  # type: ignore[arg-type]
        reply = self.adapter.from_wire_response(self.transport.send(self.adapter, wire), context)
        assert reply.metadata.status is MessageStatus.COMPLETE
        return reply


@pytest.fixture(scope="session")
def ask() -> Asker:
    return Asker()
