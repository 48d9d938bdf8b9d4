"""Messages as message bodies and as ACP's, and back: each block has its place or is a named loss."""

import json
import logging
from typing import Any

import pytest
from hypothesis import HealthCheck, given

from dragoman import Message, Role
from dragoman.adapter.errors import CriticalLossError
from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    ProviderBlock,
    RedactedThinkingBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import MessageMetadata
from dragoman.formats import FormatError, MessageBody, from_acp, from_message_body, to_acp, to_message_body
from dragoman.testing.conformance.laws.swaps import RoundTrip, iterate_blocks
from dragoman.testing.strategies import messages
from tests.sampling import examples
from tests.unit.formats.body.strategies import HANDWRITTEN_ACP, HANDWRITTEN_BODY, SCENARIOS, bodies
from tests.unit.formats.documents import everything

PIXEL = MediaSource(kind="base64", data="iVBORw0KGgo=")
URL = MediaSource(kind="url", data="https://example.org/a.png")

CALL = '{"id":"c","name":"f","input":{"a":1}}'

few = examples(60, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(autouse=True)
def _quiet(caplog: pytest.LogCaptureFixture) -> None:
    """Turns off the log of losses, which are expected here."""
    caplog.set_level(logging.CRITICAL, "dragoman")


@pytest.mark.parametrize(
    ("block", "body", "acp"),
    [
        (
            TextBlock(text="a"),
            {"contentType": "text/plain", "content": "a"},
            {"content_type": "text/plain", "content": "a"},
        ),
        (
            ImageBlock(source=PIXEL, media_type="image/png"),
            {"contentType": "image/png", "content": PIXEL.data, "contentEncoding": "base64"},
            {"content_type": "image/png", "content": PIXEL.data, "content_encoding": "base64"},
        ),
        (
            ImageBlock(source=URL, media_type="image/png"),
            {"contentType": "image/png", "contentUrl": URL.data},
            {"content_type": "image/png", "content_url": URL.data},
        ),
        (
            DocumentBlock(source=MediaSource(kind="text", data="x"), title="/files/a.py", media_type="text/x-python"),
            {"name": "/files/a.py", "contentType": "text/x-python", "content": "x"},
            {"name": "/files/a.py", "content_type": "text/x-python", "content": "x"},
        ),
        (
            ToolUseBlock(id="c", name="f", input={"a": 1}),
            {"name": "/tool_calls/1", "contentType": "application/json", "content": CALL},
            {"name": "/tool_calls/1", "content_type": "application/json", "content": CALL},
        ),
        (ThinkingBlock(text="Hm."), None, {
            "content_type": "text/plain", "content": "", "metadata": {"kind": "trajectory", "message": "Hm."}}),
        (RedactedThinkingBlock(data="d"), None, None),
        (ProviderBlock(provider="anthropic", kind="k", data={}), None, None),
        (ImageBlock(source=MediaSource(kind="file_ref", data="a.png")), None, None),
    ],
)  # fmt: skip
def test_the_mapping_table_of_part_e(block: ContentBlock, body: Any, acp: Any) -> None:
    """Each block has its part, or is left out with a loss."""
    message = Message.assistant([TextBlock(text="first"), block])
    written = to_message_body(message)
    assert written.data.as_json()[1:] == ([body] if body else [])
    assert [loss.block_index for loss in written.losses] == ([] if body else [1])
    converted = to_acp([message])
    assert converted.data[0]["parts"][1:] == ([acp] if acp else [])
    assert [loss.block_index for loss in converted.losses] == ([] if acp else [1])
    if body:
        assert from_message_body(written.data).content == message.content


def test_a_result_is_json_and_comes_back_whole() -> None:
    """A result is JSON and comes back whole with its error, its image and its call."""
    message = Message.tool(
        "tu_1", [TextBlock(text="1"), ImageBlock(source=PIXEL, media_type="image/png")], is_error=True
    )
    written = to_message_body(message)
    assert written.losses == ()
    (part,) = written.data.parts
    assert (part.name, part.content_type) == ("/tool_results/1", "application/json")
    back = from_message_body(written.data, role=Role.TOOL)
    assert (back.content, back.metadata.parent_tool_use_id) == (message.content, "tu_1")


@pytest.mark.parametrize(
    ("block", "kind", "severity", "part"),
    [
        (TextBlock(text="a", citations=(Citation(kind="url", url="u"),)), LossKind.CITATIONS, "warning", "text/plain"),
        (ImageBlock(source=URL, media_type="image/png", detail="high"), LossKind.MEDIA, "info", "image/png"),
        (ImageBlock(source=URL), LossKind.MEDIA, "warning", "application/octet-stream"),
        (DocumentBlock(source=PIXEL, title="a.pdf", media_type="application/pdf"), LossKind.MEDIA, "info", "/a.pdf"),
        (DocumentBlock(source=MediaSource(kind="text", data="a"), media_type="text/plain"), LossKind.MEDIA, "info",
         "/documents/1"),
        (ResourceBlock(resource_request_id="r", uri="u", resource_type="file", name="b", content="c"),
         LossKind.FLATTENED, "warning", "/b"),
        (ResourceBlock(resource_request_id="r", uri="https://e.org", resource_type="uri"), LossKind.FLATTENED,
         "warning", "application/octet-stream"),
        (ResourceBlock(resource_request_id="r", uri="u", resource_type="uri"), LossKind.FLATTENED, "warning",
         "text/plain"),
        (ToolUseBlock(id="c", name="f", input={"a": 1}, raw_input="x"), None, None, "/tool_calls/1"),
        (ResourceRefBlock(resource_request_id="r", uri="u", resource_type="uri", selector="s"), None, None,
         "/resources/1"),
    ],
)  # fmt: skip
def test_what_a_body_cannot_hold_is_a_loss(
    block: ContentBlock, kind: LossKind | None, severity: str | None, part: str
) -> None:
    """It names what is missing; a block that comes back whole has none."""
    written = to_message_body(Message.user([block]))
    assert [(loss.kind, loss.severity.value) for loss in written.losses] == ([(kind, severity)] if kind else [])
    (only,) = written.data.parts
    assert part in (only.name, only.content_type)


def test_a_document_is_not_taken_for_a_call() -> None:
    """One with the name and the content of a call gets another name."""
    looks = DocumentBlock(
        source=MediaSource(kind="text", data='{"id": "c", "name": "f", "input": {}}'),
        title="/tool_calls/1",
        media_type="application/json",
    )
    message = Message.user([looks, ToolUseBlock(id="d", name="g")])
    back = from_message_body(to_message_body(message).data)
    assert [block.type for block in back.content] == ["document", "tool_use"]


def test_equal_titles_get_different_names() -> None:
    """Names are unique in a body."""
    document = DocumentBlock(source=MediaSource(kind="text", data="a"), title="/a", media_type="a/b")
    body = to_message_body(Message.user([document, document, document])).data
    assert [part.name for part in body.parts] == ["/a", None, None]


@few
@given(message=messages)
def test_a_message_comes_back_except_for_its_losses(message: Message) -> None:
    """Each block that no loss names is read as it was, in its order."""
    written = to_message_body(message)
    back = from_message_body(json.dumps(written.data.as_json()), role=message.role)
    lost = {loss.block_index for loss in written.losses}
    rest = iter(back.content)
    missing = [block for index, block in enumerate(message.content) if index not in lost and block not in rest]
    assert missing == []
    assert (message.channel is None) == (-1 not in lost)


@few
@given(message=messages)
def test_our_body_is_rewritten_unchanged(message: Message) -> None:
    """Losses happen once."""
    body = to_message_body(message).data
    assert to_message_body(from_message_body(body, role=message.role)).data.as_json() == body.as_json()


@given(body=bodies)
def test_any_body_is_rewritten_unchanged(body: MessageBody) -> None:
    """Any body is rewritten unchanged, as long as the message does not change."""
    message = from_message_body(body)
    assert to_message_body(message).data.as_json() == body.as_json()
    assert to_message_body(message.model_copy(update={"session_id": "other"})).data.as_json() == body.as_json()


@pytest.mark.parametrize("name", list(SCENARIOS))
def test_the_scenarios_are_messages(name: str) -> None:
    """Models read the text, pictures and sources; the body comes back."""
    scenario = SCENARIOS[name][1]
    message = from_message_body(scenario, role=Role.ASSISTANT)
    assert len(message.content) == len(scenario)
    assert to_message_body(message).data.as_json() == scenario
    assert message.text == MessageBody.from_json(scenario).text()


def test_a_changed_message_is_written_from_its_content() -> None:
    """A changed message is written from its content: the stored original belonged to the old content."""
    message = from_message_body(HANDWRITTEN_BODY)
    assert to_message_body(message).data.as_json() == HANDWRITTEN_BODY
    changed = message.model_copy(update={"content": message.content[:1]})
    assert to_message_body(changed).data.as_json() == [{"contentType": "text/plain", "content": "Look."}]


def test_critical_blocks_are_not_lost() -> None:
    message = Message.user([RedactedThinkingBlock(data="d")], metadata=MessageMetadata(critical=True))
    for write in (lambda: to_message_body(message), lambda: to_acp([message])):
        with pytest.raises(CriticalLossError):
            write()


def test_an_acp_document_is_rewritten_unchanged() -> None:
    """Nulls, times, steps, sources and unknown keys; the call and its result become canonical."""
    history = from_acp(json.dumps(HANDWRITTEN_ACP))
    assert to_acp(history).data == HANDWRITTEN_ACP
    assert [str(message.role) for message in history] == ["user", "assistant", "tool", "assistant"]
    question, answer, result, _ = history
    assert [block.type for block in question.content] == ["text", "image"]
    thought, step, text, report, call = answer.content
    assert isinstance(thought, ThinkingBlock)
    assert step == TextBlock(text="")
    assert isinstance(text, TextBlock)
    assert text.citations[0].title == "Dots"
    assert isinstance(report, DocumentBlock)
    assert report.title == "report.pdf"
    assert isinstance(call, ToolUseBlock)
    assert isinstance(result.content[0], ToolResultBlock)
    assert result.content[0].tool_use_id == call.id
    assert call.id.startswith("tu_")
    assert question.created_at.isoformat() == "2026-11-01T12:00:00+00:00"


def test_roles_of_acp() -> None:
    """Two: instructions become the user's, which is a loss, and results the agent's, which is none."""
    history = [
        Message.system("a"),
        Message.developer("b"),
        Message.user("c"),
        Message.assistant("d"),
        Message.tool("tu_1", "e"),
    ]
    written = to_acp(history)
    assert [entry["role"] for entry in written.data] == ["user", "user", "user", "agent", "agent"]
    assert [(loss.kind, loss.message_id) for loss in written.losses] == [
        (LossKind.ROLE, each.id) for each in history[:2]
    ]
    assert [str(message.role) for message in from_acp(written.data)] == ["user", "user", "user", "assistant", "tool"]


def test_an_acp_source_is_a_citation() -> None:
    """An ACP source is a citation of one text, without the span, which counts the whole message in ACP."""
    cited = Citation(kind="citation", url="https://example.org", title="t", cited_text="c")
    message = Message.assistant([TextBlock(text="a", citations=(cited,))])
    written = to_acp([message])
    assert written.losses == ()
    assert from_acp(written.data)[0].content == message.content
    spanned = Message.assistant([TextBlock(text="a", citations=(cited.model_copy(update={"start": 0, "end": 1}),))])
    assert [loss.severity for loss in to_acp([spanned]).losses] == [Severity.WARNING]


@pytest.mark.parametrize(
    ("entry", "path"),
    [
        ({"role": "king", "parts": []}, "$[0].role"), ({"role": "agent/", "parts": []}, "$[0].role"),
        ({"role": "user\n", "parts": []}, "$[0].role"), ({"role": "user"}, "$[0].parts"),
        ({"role": "user", "parts": [5]}, "$[0].parts[0]"),
        ({"role": "user", "parts": [{"content_type": "x"}]}, "$[0].parts[0].content_type"),
        ({"role": "user", "parts": [{"content": "a", "content_url": "https://e.org"}]}, "$[0].parts[0]"),
        ({"role": "user", "parts": [{"content": "?", "content_encoding": "base64"}]}, "$[0].parts[0]"),
        ({"role": "user", "parts": [{"metadata": {"kind": "song"}}]}, "$[0].parts[0].metadata"),
        ({"role": "user", "parts": [{"metadata": {"kind": "citation", "start_index": "0"}}]},
         "$[0].parts[0].metadata.start_index"),
        ({"role": "user", "parts": [], "created_at": "yesterday"}, "$[0].created_at"),
    ],
)  # fmt: skip
def test_acp_errors_have_the_path_of_the_field(entry: Any, path: str) -> None:
    with pytest.raises(FormatError) as caught:
        from_acp([entry])
    assert caught.value.path.startswith(path)


def test_every_kind_of_block_passes_through_acp() -> None:
    """What does not come back is a named loss."""
    written = to_acp(everything())
    back = from_acp(json.dumps(written.data))
    assert (
        RoundTrip(
            list(iterate_blocks(everything())), [block for _, block in iterate_blocks(back)], written.losses
        ).unreported
        == []
    )
    assert to_acp(back).data == written.data
