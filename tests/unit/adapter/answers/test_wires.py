"""What single wires need of a reply, written by hand from their documentation."""

import json
import sys
from typing import Any

import pytest

from dragoman import Message, RequestContext, get_adapter
from dragoman.adapter.answers.state_keys import StateKeys
from dragoman.canonical.blocks import Citation, ProviderBlock, TextBlock, ToolUseBlock
from dragoman.canonical.events import (
    MessageComplete,
    MessageStart,
    StreamEvent,
    TextDelta,
    ToolUseEnd,
    ToolUseInputDelta,
    ToolUseStart,
)
from dragoman.canonical.message import MessageMetadata, StopReason
from dragoman.errors import MissingExtraError, RequestError
from tests.conformance.way_back.grammar import GRAMMARS

LINK = Citation(kind="url", title="Bern", url="https://bern.example", start=3, end=7)
BARE = Citation(kind="file", title="a.pdf")


def message(*blocks: Any, provider: str = "mistral", **fields: Any) -> Message:
    metadata = MessageMetadata(model=f"{provider}:m", provider=provider, **fields)
    return Message(id="m1", role="assistant", content=blocks, metadata=metadata)  # type: ignore[arg-type]  # pydantic makes the role


def stream(wire: str, events: list[StreamEvent], context: RequestContext) -> bytes:
    body = b"".join(get_adapter(f"{wire}:client").iter_encoded(events, context))
    assert list(GRAMMARS[wire](body)) == []
    return body


def data(body: bytes) -> list[dict[str, Any]]:
    return [json.loads(line[6:]) for line in body.decode().splitlines() if line.startswith("data: {")]


def test_a_tool_of_free_text_is_called_with_free_text() -> None:
    """Codex declares its patch tool so, and runs nothing else; the text comes back byte for byte."""
    patch = '*** Begin Patch\n+"ü"\n*** End Patch'
    call = ToolUseBlock(id="tu_1", name="apply_patch", input={"input": patch})
    fields = {"tools": [{"type": "custom", "name": "apply_patch"}, {"type": "function", "name": "f"}]}
    adapter, context = get_adapter("openai:client"), RequestContext(model="mistral:m", client_fields=fields)
    reply = message(call, stop_reason=StopReason.TOOL_USE)
    (item,) = json.loads(adapter.to_wire_response(reply, context).body)["output"]
    assert (item["type"], item["name"], item["input"]) == ("custom_tool_call", "apply_patch", patch)
    text = json.dumps(call.input)
    events = [
        MessageStart("m1", "m"), ToolUseStart("m1", 0, "tu_1", "apply_patch"),
        ToolUseInputDelta("m1", 0, "tu_1", text[:9]), ToolUseInputDelta("m1", 0, "tu_1", text[9:]),
        ToolUseEnd("m1", 0, "tu_1", call.input), MessageComplete(reply),
    ]  # fmt: skip
    found = data(stream("openai", events, RequestContext(model="mistral:m", client_fields=fields)))
    deltas = [each["delta"] for each in found if each["type"] == "response.custom_tool_call_input.delta"]
    assert "".join(deltas) == patch
    assert found[-1]["response"]["output"] == [item]


@pytest.mark.parametrize("tool", ["function", "custom"])
def test_a_call_that_was_cut_is_an_incomplete_item(tool: str) -> None:
    """A call that was cut is an incomplete item in a stream from the end of the item on: agents act on items, and not
    on the response.
    """
    fields = {"tools": [{"type": tool, "name": "rm"}]}
    reply = message(ToolUseBlock(id="tu_1", name="rm", input={}, raw_input='{"path": "/tm'), stop_reason="max_tokens")
    events = [
        MessageStart("m1", "m"), ToolUseStart("m1", 0, "tu_1", "rm"),
        ToolUseInputDelta("m1", 0, "tu_1", '{"path": "/tm'), MessageComplete(reply),
    ]  # fmt: skip
    assert item_statuses(reply, events, fields) == ["incomplete"]
    ended = [*events[:3], ToolUseEnd("m1", 0, "tu_1", {}), events[3]]
    assert item_statuses(reply, ended, fields) == ["incomplete"]


def test_a_text_that_was_cut_is_an_incomplete_item() -> None:
    """One that another item follows is whole."""
    call = ToolUseBlock(id="tu_1", name="f", input={})
    reply = message(TextBlock(text="I"), call, TextBlock(text="par"), stop_reason="max_tokens")
    events = [
        MessageStart("m1", "m"), TextDelta("m1", 0, "I"), ToolUseStart("m1", 1, "tu_1", "f"),
        ToolUseEnd("m1", 1, "tu_1", {}), TextDelta("m1", 2, "par"), MessageComplete(reply),
    ]  # fmt: skip
    assert item_statuses(reply, events, {}) == ["completed", "completed", "incomplete"]


def item_statuses(reply: Message, events: list[StreamEvent], fields: dict[str, Any]) -> list[str]:
    """Return the status of each item, which is the same in the whole reply, in the events, and at their end."""
    context = RequestContext(model="mistral:m", client_fields=fields)
    whole = json.loads(get_adapter("openai:client").to_wire_response(reply, context).body)["output"]
    found = data(stream("openai", events, RequestContext(model="mistral:m", client_fields=fields)))
    done = [each["item"] for each in found if each["type"] == "response.output_item.done"]
    last = found[-1]["response"]["output"]
    statuses = [[item["status"] for item in items] for items in (whole, done, last)]
    assert statuses[0] == statuses[1] == statuses[2]
    return statuses[0]


def test_a_response_repeats_the_clients_fields() -> None:
    """The types of OpenAI's clients require some, and the rest says how the reply was made."""
    body = {"model": "client", "input": "Hi", "temperature": 0.5, "metadata": {"a": "b"}, "tools": []}
    adapter, context = get_adapter("openai:client"), RequestContext(model="mistral:m")
    adapter.from_wire_request(body, context)
    native = json.loads(adapter.to_wire_response(message(TextBlock(text="x")), context).body)
    assert (native["temperature"], native["metadata"], native["model"]) == (0.5, {"a": "b"}, "client")
    assert native["parallel_tool_calls"] is True
    assert native["tool_choice"] == "auto"
    assert "input" not in native


SOURCES: dict[str, Any] = {
    "anthropic": lambda reply: [each["url"] for each in reply["content"][0]["citations"]],
    "openai-chat": lambda reply: [
        each["url_citation"]["url"] for each in reply["choices"][0]["message"]["annotations"]
    ],
    "openai": lambda reply: [each["url"] for each in reply["output"][0]["content"][0]["annotations"]],
    "google": lambda reply: [
        each["web"]["uri"] for each in reply["candidates"][0]["groundingMetadata"]["groundingChunks"]
    ],
}


@pytest.mark.parametrize("wire", SOURCES)
def test_sources_with_an_address_reach_the_client(wire: str) -> None:
    """Whole and streamed; one without an address is a loss."""
    reply = message(TextBlock(text="In Bern.", citations=(LINK, BARE)))
    context = RequestContext(model="mistral:m")
    written = get_adapter(f"{wire}:client").to_wire_response(reply, context)
    assert SOURCES[wire](json.loads(written.body)) == ["https://bern.example"]
    assert [loss.kind for loss in written.losses] == ["citations"]
    events = [MessageStart("m1", "m"), TextDelta("m1", 0, "In Bern."), MessageComplete(reply)]
    assert b"https://bern.example" in stream(wire, events, RequestContext(model="mistral:m"))


def test_ollama_has_no_sources() -> None:
    reply = message(TextBlock(text="In Bern.", citations=(LINK,)))
    context = RequestContext(model="mistral:m")
    assert get_adapter("ollama:client").to_wire_response(reply, context).losses[0].kind == "citations"
    streamed = RequestContext(model="mistral:m")
    stream("ollama", [MessageStart("m1", "m"), TextDelta("m1", 0, "In Bern."), MessageComplete(reply)], streamed)
    assert [loss.kind for loss in streamed.losses] == ["citations"]


@pytest.mark.parametrize("wire", ["anthropic", "openai", "ollama"])
def test_sources_of_a_text_that_ended_are_a_loss(wire: str) -> None:
    """Messages and Responses say them inside the text."""
    reply = message(TextBlock(text="In Bern.", citations=(LINK,)), TextBlock(text="Yes."))
    events = [
        MessageStart("m1", "m"), TextDelta("m1", 0, "In Bern."), TextDelta("m1", 1, "Yes."), MessageComplete(reply),
    ]  # fmt: skip
    context = RequestContext(model="mistral:m")
    assert b"bern.example" not in stream(wire, events, context)
    assert [loss.kind for loss in context.losses if loss.kind == "citations"] == ["citations"]


@pytest.mark.parametrize("wire", ["openai-chat", "google"])
def test_other_wires_send_the_sources_of_all_texts_at_the_end(wire: str) -> None:
    reply = message(TextBlock(text="In Bern.", citations=(LINK,)), TextBlock(text="Yes.", citations=(LINK,)))
    events = [
        MessageStart("m1", "m"), TextDelta("m1", 0, "In Bern."), TextDelta("m1", 1, "Yes."), MessageComplete(reply),
    ]  # fmt: skip
    context = RequestContext(model="mistral:m")
    body = stream(wire, events, context).decode()
    assert body.count("https://bern.example") == 2
    assert ('"start_index":11' in body) or ('"startIndex":11' in body)
    assert context.losses == []


def test_native_blocks_of_the_own_wire_keep_their_place() -> None:
    """What follows one in the stream waits for it, because the events do not carry it."""
    native = {"type": "server_tool_use", "id": "srv_1", "name": "web_search", "input": {}}
    blocks = [
        TextBlock(text="I search."),
        ProviderBlock(provider="anthropic", kind="server_tool_use", data=native),
        TextBlock(text="Found."),
    ]
    reply = message(*blocks, provider="anthropic", stop_reason=StopReason.END_TURN)
    events = [
        MessageStart("m1", "m"), TextDelta("m1", 0, "I search."), TextDelta("m1", 2, "Fou"), TextDelta("m1", 2, "nd."),
        MessageComplete(reply),
    ]  # fmt: skip
    context = RequestContext(model="anthropic:m")
    found = data(stream("anthropic", events, context))
    starts = [each["content_block"]["type"] for each in found if each["type"] == "content_block_start"]
    assert starts == ["text", "server_tool_use", "text"]
    assert context.losses == []


@pytest.mark.parametrize("wire", list(GRAMMARS))
def test_a_message_of_the_user_is_no_reply(wire: str) -> None:
    """The caller's mistake is an exception, and not an answer to the client."""
    with pytest.raises(RequestError, match="not a reply to a client"):
        get_adapter(f"{wire}:client").to_wire_response(Message.user("Hi"), RequestContext(model="mistral:m"))


def test_sealing_needs_its_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error says what to install."""
    monkeypatch.setitem(sys.modules, "cryptography.hazmat.primitives.ciphers.aead", None)
    with pytest.raises(MissingExtraError, match=r"dragoman\[sealed\]"):
        StateKeys({"a": bytes(64)})
