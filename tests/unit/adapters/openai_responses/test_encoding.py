"""Canonical to wire: the encoding of foreign conversations."""

from itertools import pairwise

import pytest

from dragoman import Message, ToolDefinition
from dragoman.adapter.errors import CriticalLossError
from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import (
    AudioBlock,
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Channel, MessageMetadata
from tests.unit.adapters.openai_responses.wire import (
    Item,
    body_of,
    context,
    foreign,
    input_of,
    read,
    response,
    text_item,
)

HI = Message.user("Hi")
CALL = "tu_01M7YJFK7P2ZFT4X2CGGZPP6M5"
SYSTEM: Item = {"role": "system", "content": "Be brief."}
USER: Item = {"role": "user", "content": "Hi"}


def base64(data: str = "YQ==") -> MediaSource:
    return MediaSource(kind="base64", data=data)


SYSTEMS: list[tuple[list[Message], str | None, list[Item]]] = [
    ([Message.system("Be brief."), HI], "Be brief.", [USER]),
    ([Message.system("Be brief."), Message.system("Be brief."), HI], "Be brief.", [SYSTEM, USER]),
    ([HI, Message.system("Be brief.")], None, [USER, SYSTEM]),
    ([Message.developer("Be brief."), HI], None, [{**SYSTEM, "role": "developer"}, USER]),
    (
        [Message.system([TextBlock(text="Be"), TextBlock(text="brief")]), HI],
        None,
        [
            {
                "role": "system",
                "content": [{"type": "input_text", "text": "Be"}, {"type": "input_text", "text": "brief"}],
            },
            USER,
        ],
    ),
]


@pytest.mark.parametrize(("messages", "instructions", "items"), SYSTEMS)
def test_the_first_system_message_becomes_instructions(
    messages: list[Message], instructions: str | None, items: list[Item]
) -> None:
    """If it is one text and other messages follow; every other system message is an item in its place."""
    body, losses = body_of(messages)
    assert (body.get("instructions"), body["input"], losses) == (instructions, items, ())


PARTS: list[tuple[ContentBlock, Item]] = [
    (
        ImageBlock(source=base64(), media_type="image/jpeg", detail="low"),
        {"type": "input_image", "image_url": "data:image/jpeg;base64,YQ==", "detail": "low"},
    ),
    (
        ImageBlock(source=base64()),
        {"type": "input_image", "image_url": "data:image/png;base64,YQ==", "detail": "auto"},
    ),
    (
        ImageBlock(source=MediaSource(kind="url", data="https://a.test/a.png")),
        {"type": "input_image", "image_url": "https://a.test/a.png", "detail": "auto"},
    ),
    (
        ImageBlock(source=MediaSource(kind="file_id", data="file_1", provider="openai")),
        {"type": "input_image", "file_id": "file_1", "detail": "auto"},
    ),
    (
        DocumentBlock(source=base64(), media_type="application/pdf", title="a.pdf"),
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,YQ=="},
    ),
    (
        DocumentBlock(source=base64(), media_type="text/csv"),
        {"type": "input_file", "filename": "document.csv", "file_data": "data:text/csv;base64,YQ=="},
    ),
    (
        DocumentBlock(source=MediaSource(kind="url", data="https://a.test/a.pdf")),
        {"type": "input_file", "file_url": "https://a.test/a.pdf"},
    ),
    (
        DocumentBlock(source=MediaSource(kind="text", data="Once."), title="Tale"),
        {"type": "input_text", "text": "Tale\n\nOnce."},
    ),
]


@pytest.mark.parametrize(("block", "part"), PARTS)
def test_media_become_parts(block: ImageBlock | DocumentBlock, part: Item) -> None:
    """Media become parts in a user's message and in a tool's answer alike."""
    call = ToolUseBlock(id=CALL, name="look", input={})
    messages = [Message.user([block]), foreign(call), Message.tool(CALL, [block]), HI]
    body, losses = body_of(messages)
    plain = part["text"] if part["type"] == "input_text" else [part]
    assert body["input"][0]["content"] == plain
    assert body["input"][2]["output"] == plain
    flat = part["type"] == "input_text"
    guessed = not flat and block.source.kind == "base64" and block.media_type is None
    named = "file_data" in part and isinstance(block, DocumentBlock) and block.title is None
    assert losses == ((LossKind.MEDIA,) * named + (LossKind.MEDIA,) * guessed + (LossKind.FLATTENED,) * flat) * 2


def test_the_note_on_a_document_comes_before_it() -> None:
    """The wire has no field for it."""
    document = DocumentBlock(source=MediaSource(kind="url", data="https://a.test"), context="A draft.")
    (item,) = input_of([Message.user([document])])
    assert [part["type"] for part in item["content"]] == ["input_text", "input_file"]


def test_unsupported_media_are_losses() -> None:
    """Audio is left out; an image of the assistant follows in a message of the user."""
    picture = ImageBlock(source=base64(), media_type="image/png")
    messages = [Message.user([AudioBlock(source=base64())]), foreign(picture), HI]
    body, losses = body_of(messages)
    assert [item["role"] for item in body["input"]] == ["user", "assistant", "user", "user"]
    assert body["input"][2]["content"][0]["type"] == "input_image"
    assert losses == (LossKind.MEDIA, LossKind.FLATTENED)


def test_an_assistants_texts_are_messages_before_its_calls() -> None:
    """Foreign ids become legal ones, the same for call and result; foreign thinking is left out."""
    messages = [
        HI,
        foreign(
            ThinkingBlock(text="hm", signature="sig"),
            TextBlock(text="Let me"),
            TextBlock(text="look."),
            ToolUseBlock(id=CALL, name="look", input={"at": "é", "n": 1}),
        ),
        Message.tool(CALL, [TextBlock(text="a"), TextBlock(text="b")]),
        Message.assistant("Done.", channel=Channel.FINAL),
    ]
    body, losses = body_of(messages)
    *texts, call, output, done = body["input"][1:]
    assert texts == [{"type": "message", "role": "assistant", "content": text} for text in ("Let me", "look.")]
    assert call["arguments"] == '{"at":"é","n":1}'
    assert call["call_id"].startswith("call_")
    assert output == {
        "type": "function_call_output",
        "call_id": call["call_id"],
        "output": [{"type": "input_text", "text": "a"}, {"type": "input_text", "text": "b"}],
    }
    assert done["phase"] == "final_answer"
    assert losses == (LossKind.THINKING,)


def test_citations_return_to_their_issuer_only() -> None:
    """Only output parts hold annotations, and they need an item id: foreign text is a string."""
    own = Citation(kind="url_citation", url="https://a.test", data={"type": "url_citation", "url": "https://a.test"})
    other = Citation(kind="char_location", data={"type": "char_location"})
    body, losses = body_of([HI, foreign(TextBlock(text="A", citations=(own, other)))])
    assert body["input"][1]["content"] == "A"
    assert losses == (LossKind.CITATIONS,)


def test_malformed_arguments_are_a_loss() -> None:
    """An incomplete call of another provider is sent without arguments; a critical one is not sent at all."""
    call = ToolUseBlock(id=CALL, name="look", raw_input='{"at":')
    body, losses = body_of([HI, foreign(call), Message.tool(CALL, "no")])
    assert body["input"][1]["arguments"] == "{}"
    assert losses == (LossKind.INVALID_INPUT,)
    critical = foreign(call).model_copy(update={"metadata": MessageMetadata(critical=True)})
    with pytest.raises(CriticalLossError):
        body_of([HI, critical, Message.tool(CALL, "no")])


def test_a_tool_failure_is_a_loss() -> None:
    """The wire has no flag for it. The text of an interrupted result says that it was interrupted."""
    failed = Message.tool(CALL, "no such file", is_error=True)
    body, losses = body_of([HI, foreign(ToolUseBlock(id=CALL, name="look")), failed])
    assert body["input"][2]["output"] == "no such file"
    assert losses == (LossKind.FLATTENED,)
    body, losses = body_of([HI, foreign(ToolUseBlock(id=CALL, name="look")), HI])
    assert "interrupted" in body["input"][2]["output"]
    assert losses == (LossKind.INTERRUPTED_CALL,)


TOOLS: list[tuple[ToolDefinition, Item]] = [
    (
        ToolDefinition(name="look", description="Looks.", input_schema={"type": "object", "properties": {}}),
        {
            "type": "function",
            "name": "look",
            "description": "Looks.",
            "parameters": {"type": "object", "properties": {}},
            "strict": False,
        },
    ),
    (
        ToolDefinition(name="web", provider_raw={"by": "openai", "native": {"type": "web_search"}}),
        {"type": "web_search"},
    ),
]


@pytest.mark.parametrize(("definition", "native"), TOOLS)
def test_tools_are_flat_and_not_strict(definition: ToolDefinition, native: Item) -> None:
    """Without the field, the provider would try strict mode, and optional arguments would become required."""
    body, _ = body_of([HI], [definition])
    assert body["tools"] == [native]


def test_a_native_tool_of_another_provider_is_a_loss() -> None:
    """The field is left out."""
    body, losses = body_of([HI], [ToolDefinition(name="web", provider_raw={"by": "anthropic", "native": {}})])
    assert "tools" not in body
    assert losses == (LossKind.TOOLS,)


def histories() -> list[list[Message]]:
    given = context()
    reply = read(response([text_item("Hi", phase="final_answer"), text_item("Ho", id="msg_2")]), given)
    call = ToolUseBlock(id=CALL, name="look", input={})
    return [
        [Message.system("Be brief."), HI, reply, HI, foreign(TextBlock(text="a"), call), Message.tool(CALL, "b"), HI],
        [HI, reply, Message.developer("Be brief."), HI, foreign(call, call), Message.tool(CALL, "b"), HI],
        [Message.tool(CALL, "orphan"), HI, foreign(ThinkingBlock(text="x", signature="y")), HI, reply],
    ]


@pytest.mark.parametrize("history", histories())
def test_a_longer_history_only_adds_items(history: list[Message]) -> None:
    """The prefix law: later messages do not change the items that were sent, wherever a turn ends."""
    ends = [end for end, message in enumerate(history, 1) if message.role in ("user", "tool")]
    bodies = [body_of(history[:end])[0] for end in ends]
    assert len(bodies) >= 2
    for shorter, longer in pairwise(bodies):
        assert shorter.get("instructions") == longer.get("instructions")
        assert longer["input"][: len(shorter["input"])] == shorter["input"]


def test_a_message_without_content_stays_a_message() -> None:
    """The provider counts the turns: a message of the assistant that says nothing is one of them."""
    items = input_of([HI, Message.assistant([]), Message.user("And then?")])
    assert [(item["role"], item["content"]) for item in items] == [
        ("user", "Hi"), ("assistant", ""), ("user", "And then?"),
    ]  # fmt: skip
