"""Requests that a provider would have refused, one rule each, as found by the swap matrix."""

import base64
import json
from typing import Any

import pytest

from dragoman import AdapterOptions, Message, ToolUseBlock
from dragoman.adapter.errors import RequestError
from dragoman.adapter.losses import LossKind
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.blocks import DocumentBlock, ImageBlock, MediaSource, TextBlock
from dragoman.canonical.message import MessageMetadata

ANTHROPIC = "anthropic:claude-opus-5-5"
RESPONSES = "openai:gpt-6.1-sol"
CHAT = "openai-chat:gpt-4.1"
OLLAMA = "ollama:qwen3:4b"
GOOGLE = "google:gemini-3-flash-preview"
COHERE = "cohere:command-a-03-2025"
CALL = "tu_01M7YJFK7P2ZFT4X2CGGZPP6M5"


def body_of(model: str, *messages: Message) -> tuple[dict[str, Any], list[LossKind]]:
    wire = get_adapter(model).to_wire(messages, [], AdapterOptions())
    return json.loads(wire.body), [loss.kind for loss in wire.losses]


def foreign_reply(*blocks: Any) -> Message:
    return Message.assistant(blocks, metadata=MessageMetadata(model="elsewhere:model", provider="elsewhere"))


@pytest.mark.parametrize("model", [ANTHROPIC, RESPONSES, CHAT, OLLAMA, GOOGLE, "mistral:mistral-large-latest"])
def test_instructions_alone_are_followed_by_a_user_message(model: str) -> None:
    """A request needs a message to answer."""
    body, lost = body_of(model, Message.system("Be brief."))
    assert "Continue." in json.dumps(body)
    assert lost == [LossKind.EMPTY_MESSAGE]


def test_an_empty_text_is_left_out_of_an_answer() -> None:
    """Anthropic refuses empty text blocks in tool results too; an answer with only an empty text becomes empty."""
    answer = [TextBlock(text=""), TextBlock(text="Sunny.")]
    call = ToolUseBlock(id=CALL, name="look")
    body, lost = body_of(ANTHROPIC, Message.user("Hi"), foreign_reply(call), Message.tool(CALL, answer))
    assert body["messages"][-1]["content"][0]["content"] == "Sunny."
    assert lost == [LossKind.EMPTY_TEXT]
    body, lost = body_of(ANTHROPIC, Message.user("Hi"), foreign_reply(call), Message.tool(CALL, ""))
    assert (body["messages"][-1]["content"][0]["content"], lost) == ("", [])


def test_text_documents_go_to_anthropic_as_text() -> None:
    """Base64 is for PDF there; every other type that is text is sent as plain text."""
    data = base64.b64encode("a;b\nü".encode()).decode()
    source = MediaSource(kind="base64", data=data)
    body, lost = body_of(ANTHROPIC, Message.user([DocumentBlock(source=source, media_type="text/csv")]))
    sent = body["messages"][0]["content"][0]["source"]
    plain = {"type": "text", "media_type": "text/plain", "data": "a;b\nü"}
    assert (sent, lost) == (plain, [LossKind.FLATTENED])
    cut = MediaSource(kind="base64", data=data[:5])
    body, _ = body_of(ANTHROPIC, Message.user([DocumentBlock(source=cut, media_type="text/csv")]))
    assert body["messages"][0]["content"][0]["source"]["data"] == "a;b"
    body, lost = body_of(ANTHROPIC, Message.user([DocumentBlock(source=source, media_type="application/zip")]))
    assert lost == [LossKind.MEDIA]


def text_document(data: str) -> Message:
    return Message.user([DocumentBlock(source=MediaSource(kind="base64", data=data), media_type="text/plain")])


@pytest.mark.parametrize(
    ("data", "text", "severity"),
    [
        ("café".encode(), "café", "info"),
        (b"\xef\xbb\xbfHi", "Hi", "info"),
        ("Hi".encode("utf-16"), "Hi", "info"),
        ("café".encode("latin-1"), "caf\ufffd", "warning"),
    ],
)
def test_a_text_document_in_base64_is_decoded(data: bytes, text: str, severity: str) -> None:
    """The loss is a warning if characters are gone."""
    encoded = base64.encodebytes(data).decode()
    wire = get_adapter(ANTHROPIC).to_wire([text_document(encoded)], [], AdapterOptions())
    assert json.loads(wire.body)["messages"][0]["content"][0]["source"]["data"] == text
    assert [(loss.kind, loss.severity) for loss in wire.losses] == [(LossKind.FLATTENED, severity)]


@pytest.mark.parametrize("data", ["!!!!", "data:text/plain;base64,aGVsbG8=", "ääää"])
def test_a_text_document_that_is_not_base64_is_refused(data: str) -> None:
    """It would become an empty text, or another one."""
    with pytest.raises(RequestError, match="not base64"):
        body_of(ANTHROPIC, text_document(data))


@pytest.mark.parametrize(
    ("messages", "sent"),
    [
        ([Message.user("")], [{"role": "user", "content": ""}]),
        ([Message.user([])], [{"role": "user", "content": ""}]),
        ([Message.user("Hi"), foreign_reply(), Message.user("Hi")][1:2], None),
    ],
)
def test_responses_input_is_never_empty(messages: list[Message], sent: list[dict[str, Any]] | None) -> None:
    """An empty list is refused; an empty message is none."""
    body, _ = body_of(RESPONSES, *messages)
    assert body["input"]
    assert sent is None or body["input"] == sent


def test_gemini_messages_always_alternate() -> None:
    """Empty user messages, in the middle or at the end, do not leave two model messages next to each other."""
    body, lost = body_of(GOOGLE, Message.user("Hi"), foreign_reply(TextBlock(text="A")), Message.user(""))
    assert [content["role"] for content in body["contents"]] == ["user", "model", "user"]
    assert LossKind.EMPTY_MESSAGE in lost


def test_gemini_receives_a_failure_without_text() -> None:
    """A tool that failed with an image still failed."""
    image = ImageBlock(source=MediaSource(kind="base64", data="YQ=="), media_type="image/png")
    call = ToolUseBlock(id=CALL, name="look")
    body, _ = body_of(GOOGLE, Message.user("Hi"), foreign_reply(call), Message.tool(CALL, [image], is_error=True))
    assert "error" in body["contents"][-1]["parts"][0]["functionResponse"]["response"]


@pytest.mark.parametrize("model", [CHAT, COHERE, OLLAMA])
def test_text_after_a_call_is_a_loss_if_it_moves(model: str) -> None:
    """These wires hold a message's words and its calls apart, so that the words come first."""
    reply = foreign_reply(ToolUseBlock(id=CALL, name="look"), TextBlock(text="Wait."))
    _, lost = body_of(model, Message.user("Hi"), reply, Message.tool(CALL, "Sunny."))
    assert lost == [LossKind.FLATTENED]


def test_two_texts_become_one_for_ollama() -> None:
    """Its content is a string; that it was two is named."""
    body, lost = body_of(OLLAMA, Message.user([TextBlock(text="A"), TextBlock(text="B")]))
    assert (body["messages"][0]["content"], lost) == ("A\nB", [LossKind.FLATTENED])


def test_neighbours_without_text_become_one_empty_text() -> None:
    """If the roles must alternate, two messages without text become one without text."""
    body, _ = body_of("perplexity:sonar", Message.user(""), Message.user([]))
    assert body["messages"][0]["content"] in ("", [{"type": "text", "text": ""}])


def test_no_output_at_all_may_be_asked_for() -> None:
    """A limit of 0 fills Anthropic's prompt cache without a reply; it is not the absence of a limit."""
    adapter, options = get_adapter(ANTHROPIC), AdapterOptions(max_output_tokens=0)
    assert json.loads(adapter.to_wire([Message.user("Hi")], [], options).body)["max_tokens"] == 0
    assert adapter.output_limit(options) == 0


@pytest.mark.parametrize("model", [ANTHROPIC, "bedrock:global.anthropic.claude-opus-5-5-v1:0", CHAT, RESPONSES])
def test_an_image_that_a_model_made_is_shown_by_the_user(model: str) -> None:
    """These APIs refuse images in messages of the assistant."""
    picture = ImageBlock(source=MediaSource(kind="base64", data="iVBORw0KGgo="), media_type="image/png")
    body, lost = body_of(model, Message.user("Draw."), foreign_reply(TextBlock(text="Here."), picture))
    turns = body.get("messages") or body["input"]
    holders = {turn["role"] for turn in turns if "iVBORw0KGgo=" in json.dumps(turn)}
    assert holders == {"user"}
    assert lost == [LossKind.FLATTENED]
