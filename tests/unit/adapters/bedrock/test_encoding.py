"""Canonical to wire: the encoding of foreign conversations."""

import base64
import json

import pytest

from dragoman import AdapterOptions, Message
from dragoman.adapter.contract import NamedTool
from dragoman.adapter.losses import LossKind
from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
    VideoBlock,
)
from tests.unit.adapters.bedrock.wire import (
    AS_MESSAGES,
    CLAUDE,
    NOVA,
    VERSION,
    WEATHER,
    Native,
    body_of,
    call,
    foreign,
    read,
    reply,
)

HI = Message.user("Hi")
CALL = "tu_01M7YJFK7P2ZFT4X2CGGZPP6M5"
BYTES = MediaSource(kind="base64", data="YQ==")
USER: Native = {"role": "user", "content": [{"text": "Hi"}]}
CALLED = foreign(ToolUseBlock(id=CALL, name="weather", input={"city": "Paris"}))


def test_instructions_have_a_field_of_their_own() -> None:
    """Those at the start; later ones become the user's, unless the model accepts a later system message."""
    history = [Message.system("Be brief."), Message.developer("Be kind."), HI, Message.system("In French.")]
    body, losses = body_of(history)
    assert body["system"] == [{"text": "Be brief."}, {"text": "Be kind."}]
    assert body["messages"] == [{"role": "user", "content": [{"text": "Hi"}, {"text": "In French."}]}]
    assert set(losses) == {LossKind.ROLE}
    body, _ = body_of(history, model="us.anthropic.claude-opus-4-8")
    assert body["messages"][1] == {"role": "system", "content": [{"text": "In French."}]}


def test_roles_alternate() -> None:
    """Neighbours of one role share a message, and the user's is the first."""
    body, losses = body_of([foreign(TextBlock(text="Welcome")), HI, HI, foreign(TextBlock(text="A")), HI])
    assert [(each["role"], len(each["content"])) for each in body["messages"]] == [
        ("user", 1),
        ("assistant", 1),
        ("user", 2),
        ("assistant", 1),
        ("user", 1),
    ]
    assert losses == (LossKind.ROLE,)


def test_instructions_alone_are_followed_by_a_user_turn() -> None:
    """A conversation begins with one."""
    body, losses = body_of([Message.system("Be brief.")])
    assert (body["system"], body["messages"]) == (
        [{"text": "Be brief."}],
        [{"role": "user", "content": [{"text": "Continue."}]}],
    )
    assert losses == (LossKind.EMPTY_MESSAGE,)


def test_a_document_gets_its_text_in_place() -> None:
    """A document gets its text in place so that the document stays unchanged when the user continues."""
    pdf = Message.user((DocumentBlock(source=BYTES),))
    body, _ = body_of([pdf])
    longer, _ = body_of([pdf, HI])
    assert longer["messages"][0]["content"] == [*body["messages"][0]["content"], {"text": "Hi"}]
    second_body, _ = body_of([HI, pdf])
    assert [list(block) for block in second_body["messages"][0]["content"]] == [["text"], ["document"]]


def test_texts_in_answers_lose_their_citations() -> None:
    """There is no place for them in an answer."""
    cited = TextBlock(text="Sunny", citations=(Citation(kind="web", data={"a": 1}),))
    body, _ = body_of([HI, CALLED, Message.tool(CALL, (cited,))], [WEATHER])
    assert body["messages"][2]["content"][0]["toolResult"]["content"] == [{"text": "Sunny"}]


def test_calls_and_results_are_encoded() -> None:
    """With ids that Bedrock accepts; the user's text follows the results, and a failure is a status."""
    history = [HI, CALLED, Message.tool(CALL, "No such city", is_error=True), Message.user("So?")]
    body, losses = body_of(history, [WEATHER])
    _, called, answered = body["messages"]
    use = called["content"][0]["toolUse"]
    assert use["toolUseId"].startswith("tooluse_")
    assert (use["name"], use["input"]) == ("weather", {"city": "Paris"})
    result = {"toolUseId": use["toolUseId"], "content": [{"text": "No such city"}], "status": "error"}
    assert answered["content"] == [{"toolResult": result}, {"text": "So?"}]
    spec = {"name": "weather", "description": "Tells the weather.", "inputSchema": {"json": WEATHER.input_schema}}
    assert body["toolConfig"] == {"tools": [{"toolSpec": spec}]}
    assert losses == ()


def test_a_history_of_calls_declares_their_tools() -> None:
    """A request without them would be refused."""
    body, losses = body_of([HI, CALLED, Message.tool(CALL, "")])
    (tool,) = body["toolConfig"]["tools"]
    assert tool["toolSpec"]["name"] == "weather"
    assert body["messages"][2]["content"][0]["toolResult"]["content"] == [{"text": "(empty)"}]
    assert losses == (LossKind.EMPTY_TEXT, LossKind.TOOLS)


def test_calls_can_be_forbidden_only_without_earlier_ones() -> None:
    options = AdapterOptions(tool_choice="none")
    body, losses = body_of([HI], [WEATHER], options)
    assert ("toolConfig" in body, losses) == (False, ())
    body, losses = body_of([HI, CALLED, Message.tool(CALL, "x")], [WEATHER], options)
    assert (list(body["toolConfig"]), losses) == (["tools"], (LossKind.OPTION,))


def test_foreign_thinking_citations_and_native_blocks_are_losses() -> None:
    """So are arguments that are not an object."""
    cited_text = TextBlock(text="Hello", citations=(Citation(kind="web", data={"a": 1}),))
    native = ProviderBlock(provider="openai", kind="x", data={})
    half = ToolUseBlock(id=CALL, name="weather", raw_input="{half")
    history = [HI, foreign(ThinkingBlock(text="Hm.", signature="s"), native, cited_text, half), Message.tool(CALL, "x")]
    body, losses = body_of(history, [WEATHER])
    assert [list(block) for block in body["messages"][1]["content"]] == [["text"], ["toolUse"]]
    assert set(losses) == {LossKind.THINKING, LossKind.NATIVE_BLOCK, LossKind.CITATIONS, LossKind.INVALID_INPUT}


TEXT = DocumentBlock(source=MediaSource(kind="text", data="é"), title="my file_1.txt", context="Old")
MEDIA: list[tuple[ContentBlock, str, Native]] = [
    (ImageBlock(source=BYTES), CLAUDE, {"image": {"format": "png", "source": {"bytes": "YQ=="}}}),
    (
        ImageBlock(source=BYTES, media_type="image/jpeg"),
        NOVA,
        {"image": {"format": "jpeg", "source": {"bytes": "YQ=="}}},
    ),
    (
        ImageBlock(source=MediaSource(kind="file_id", data="s3://b/k", provider="bedrock")),
        NOVA,
        {"image": {"format": "png", "source": {"s3Location": {"uri": "s3://b/k"}}}},
    ),
    (
        VideoBlock(source=BYTES, media_type="video/quicktime"),
        NOVA,
        {"video": {"format": "mov", "source": {"bytes": "YQ=="}}},
    ),
    (
        TEXT,
        CLAUDE,
        {"document": {"format": "txt", "source": {"text": "é"}, "name": "my file 1 txt", "context": "Old"}},
    ),
    (
        TEXT.model_copy(update={"context": None, "media_type": "text/csv"}),
        NOVA,
        {
            "document": {
                "format": "csv",
                "source": {"bytes": base64.b64encode("é".encode()).decode()},
                "name": "my file 1 txt",
            }
        },
    ),
    (
        DocumentBlock(source=BYTES),
        CLAUDE,
        {"document": {"format": "pdf", "source": {"bytes": "YQ=="}, "name": "document"}},
    ),
]


@pytest.mark.parametrize(("block", "model", "native"), MEDIA)
def test_media_have_formats_and_documents_names(block: ImageBlock | DocumentBlock, model: str, native: Native) -> None:
    """Text documents are sent as text if the model accepts that, otherwise as bytes."""
    body, losses = body_of([Message.user((TextBlock(text="Look"), block))], model=model)
    assert body["messages"][0]["content"] == [{"text": "Look"}, native]
    named = getattr(block, "title", "") == native.get("document", {}).get("name", "")
    guessed = block.media_type is None
    assert losses.count(LossKind.MEDIA) == guessed + (not named)


def test_a_shortened_document_name_has_no_two_blanks_in_a_row() -> None:
    """The count of a second document stands behind one blank, wherever its title is cut."""
    document = DocumentBlock(source=BYTES, title="a" * 191 + " and more")
    body, _ = body_of([Message.user((TextBlock(text="Look"), document, document))])
    assert body["messages"][0]["content"][2]["document"]["name"] == "a" * 191 + " (2)"


def test_document_names_are_unique_and_accompanied_by_text() -> None:
    """Otherwise the request is refused."""
    twice = Message.user((DocumentBlock(source=BYTES, title="???"), DocumentBlock(source=BYTES)))
    body, _ = body_of([twice, foreign(TextBlock(text="Yes")), twice])
    first, _, second = body["messages"]
    assert [list(block) for block in first["content"]] == [["text"], ["document"], ["document"]]
    names = [block["document"]["name"] for message in (first, second) for block in message["content"][1:]]
    assert names == ["document", "document (2)", "document (3)", "document (4)"]


def test_media_by_url_and_of_unknown_types_are_left_out() -> None:
    """Converse fetches nothing."""
    linked = ImageBlock(source=MediaSource(kind="url", data="https://x.test/a.png"))
    odd = ImageBlock(source=BYTES, media_type="image/tiff")
    body, losses = body_of([Message.user((linked, odd))])
    assert losses == (LossKind.MEDIA, LossKind.MEDIA)
    assert all("left out" in block["text"] for block in body["messages"][0]["content"])


def test_media_in_answers_stay_or_follow() -> None:
    """It depends on what the model accepts."""
    history = [HI, CALLED, Message.tool(CALL, (ImageBlock(source=BYTES, media_type="image/png"),))]
    body, losses = body_of(history, [WEATHER])
    assert list(body["messages"][2]["content"][0]["toolResult"]["content"][0]) == ["image"]
    assert losses == ()
    body, losses = body_of(history, [WEATHER], model="mistral.pixtral-large-2502-v1:0")
    assert [list(block) for block in body["messages"][2]["content"]] == [["toolResult"], ["image"]]
    assert losses == (LossKind.FLATTENED,)


def test_a_model_without_tools_or_instructions_gets_text() -> None:
    """Titan supports neither."""
    history = [Message.system("Be brief."), HI, CALLED, Message.tool(CALL, "Sunny")]
    body, losses = body_of(history, [WEATHER], model="amazon.titan-text-express-v1")
    assert body.keys() == {"messages"}
    assert "weather" in json.dumps(body["messages"][1])
    assert {LossKind.TOOLS, LossKind.ROLE} <= set(losses)


def test_cache_points_are_placed() -> None:
    """Cache points are placed after the instructions and the last message, but never directly after a document."""
    pdf = DocumentBlock(source=BYTES)
    history = [Message.system("Be brief."), Message.user((TextBlock(text="Look"), pdf))]
    body, _ = body_of(history, options=AdapterOptions(prompt_cache="1h"))
    marker = {"cachePoint": {"type": "default", "ttl": "1h"}}
    assert body["system"] == [{"text": "Be brief."}, marker]
    assert [list(block) for block in body["messages"][0]["content"]] == [["text"], ["cachePoint"], ["document"]]
    body, _ = body_of([HI], options=AdapterOptions(prompt_cache="5m"))
    assert body["messages"][0]["content"] == [{"text": "Hi"}, {"cachePoint": {"type": "default"}}]
    body, losses = body_of([HI], options=AdapterOptions(prompt_cache="5m"), model="meta.llama4-scout-17b-instruct-v1:0")
    assert (body["messages"], losses) == ([USER], (LossKind.OPTION,))
    body, _ = body_of([HI], options=AdapterOptions(prompt_cache="5m", extra={"bedrock": VERSION}))
    assert body["messages"][0]["content"][0]["cache_control"] == {"type": "ephemeral", "ttl": "5m"}


def test_native_data_of_another_body_form_is_dropped() -> None:
    """Native blocks and sources are left out; calls and signed thinking are sent."""
    searched: Native = {"type": "server_tool_use", "id": "s_1", "name": "web_search", "input": {}}
    cited = {"type": "text", "text": "Matz", "citations": [{"type": "web_search_result_location", "url": "https://x"}]}
    thought = {"type": "thinking", "thinking": "Hm.", "signature": "c2ln"}
    by_invoke = read({"type": "message", "content": [thought, searched, cited], "stop_reason": "end_turn"})
    body, losses = body_of([HI, by_invoke, HI])
    signed = {"reasoningContent": {"reasoningText": {"text": "Hm.", "signature": "c2ln"}}}
    assert body["messages"][1]["content"] == [signed, {"text": "Matz"}]
    assert set(losses) == {LossKind.NATIVE_BLOCK, LossKind.CITATIONS}
    body, losses = body_of([HI, by_invoke, HI], options=AS_MESSAGES)
    assert (body["messages"][1]["content"], losses) == ([thought, searched, cited], ())

    source = {"citations": [{"title": "x"}], "content": [{"text": "Matz"}]}
    ran = call(type="server_tool_use")
    by_converse = read(reply(ran, {"citationsContent": source}))
    body, losses = body_of([HI, by_converse, HI], options=AS_MESSAGES)
    assert body["messages"][1]["content"] == [{"type": "text", "text": "Matz"}]
    assert set(losses) == {LossKind.NATIVE_BLOCK, LossKind.CITATIONS}
    only = read(reply(ran))
    body, _ = body_of([HI, only, HI], options=AS_MESSAGES)
    assert [message["role"] for message in body["messages"]] == ["user", "user"]


def test_tool_choices_are_encoded() -> None:
    """Free, any, or one by name."""
    for choice, written in (
        ("auto", {"auto": {}}),
        ("required", {"any": {}}),
        (NamedTool("weather"), {"tool": {"name": "weather"}}),
    ):
        body, losses = body_of([HI], [WEATHER], AdapterOptions(tool_choice=choice))  # type: ignore[arg-type]
        assert (body["toolConfig"]["toolChoice"], losses) == (written, ())
    body, losses = body_of([HI], [WEATHER], AdapterOptions(tool_choice="required"), model="cohere.command-r-v1:0")
    assert ("toolChoice" in body["toolConfig"], losses) == (False, (LossKind.OPTION,))
    options = AdapterOptions(tool_choice="required", thinking_budget=1024)
    body, losses = body_of([HI], [WEATHER], options)
    assert ("toolChoice" in body["toolConfig"], losses) == (False, (LossKind.OPTION,))
