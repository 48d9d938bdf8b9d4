"""pydantic-ai's histories: every part, older versions, and what is kept or skipped."""

from typing import Any

import pytest

from dragoman.canonical.blocks import AudioBlock, DocumentBlock, ImageBlock, ProviderBlock, TextBlock, VideoBlock
from dragoman.canonical.message import MessageStatus, StopReason
from dragoman.formats import FormatError, from_pydantic_ai, read
from tests.unit.formats.dump_files import dump


def test_every_part_of_a_prompt_has_its_block() -> None:
    """Media by their types, in standard base64; a cache point is not content."""
    _, prompt_message, *_ = from_pydantic_ai(dump("pydantic_ai_every_part.json"))
    kinds = [TextBlock, TextBlock, ImageBlock, AudioBlock, DocumentBlock, ImageBlock, AudioBlock, VideoBlock,
             DocumentBlock, DocumentBlock, TextBlock]  # fmt: skip
    assert [type(block) for block in prompt_message.content] == kinds
    audio, file = prompt_message.content[3], prompt_message.content[9]
    assert isinstance(audio, AudioBlock)
    assert audio.source.data == "+//+"
    assert isinstance(file, DocumentBlock)
    assert (file.source.kind, file.source.data, file.source.provider) == ("file_id", "file-1", "openai")


def test_every_part_of_a_response_has_its_block() -> None:
    """Server tools and summaries are kept but never sent; partial input stays raw."""
    _, _, reply, failed, drawn = from_pydantic_ai(dump("pydantic_ai_every_part.json"))
    kinds = [block.kind if isinstance(block, ProviderBlock) else block.type for block in reply.content]
    assert kinds == ["builtin-tool-call", "builtin-tool-return", "text", "image", "compaction", "tool_use", "tool_use"]
    assert {block.provider for block in reply.content if isinstance(block, ProviderBlock)} == {"pydantic-ai"}
    text = reply.content[2]
    assert isinstance(text, TextBlock)
    (cited,) = text.citations
    assert (cited.url, cited.title, cited.cited_text, cited.start, cited.end) == (
        "https://example.org", "Bern", "It rains.", 0, 5,
    )  # fmt: skip
    broken, empty = reply.tool_uses
    assert (broken.input, broken.raw_input) == ({}, '{"shape": ')
    assert (empty.input, empty.raw_input) == ({}, None)
    assert reply.usage is None
    assert failed.tool_results[0].is_error
    assert [block.type for block in drawn.tool_results[0].content] == ["text", "image"]


def test_a_retried_call_is_answered_with_an_error() -> None:
    """The provider receives it, too."""
    results = [message.tool_results[0] for message in from_pydantic_ai(dump("pydantic_ai_anthropic.json"))
               if message.role == "tool"]  # fmt: skip
    assert [result.is_error for result in results] == [True, False]
    assert results[1].content == (TextBlock(text='{"city":"Ulm","sky":"sun"}'),)


def handwritten(*parts: dict[str, Any], **fields: Any) -> dict[str, Any]:
    kind = fields.pop("kind", "request")
    return {"kind": kind, "parts": list(parts), **fields}


def test_changed_instructions_become_system_messages() -> None:
    """Changed instructions become system messages after the system prompts, and not again for each request."""
    prompt = {"part_kind": "user-prompt", "content": "Hi."}
    system = {"part_kind": "system-prompt", "content": "Be brief."}
    reply = handwritten({"part_kind": "text", "content": "Ho."}, kind="response")
    history = from_pydantic_ai(
        [handwritten(system, prompt, instructions="A"), reply, handwritten(prompt, instructions="A"), reply,
         handwritten(prompt, instructions="B"), reply, handwritten(prompt)]
    )  # fmt: skip
    system_texts = [message.text for message in history if message.role == "system"]
    assert system_texts == ["Be brief.", "A", "B"]
    assert [str(message.role) for message in history[:3]] == ["system", "system", "user"]


def test_older_versions_are_read() -> None:
    """Retries had parts of their own, tokens other names, and times no zone."""
    history = from_pydantic_ai(
        [
            handwritten({"part_kind": "user-prompt", "content": "Go.", "timestamp": "2025-01-01T00:00:00"}),
            handwritten(
                {"part_kind": "tool-call", "tool_name": "f", "args": {"a": 1}, "tool_call_id": "c"},
                kind="response", usage={"request_tokens": 3, "response_tokens": 2, "total_tokens": 5},
            ),
            handwritten({"part_kind": "retry-prompt", "content": "no", "tool_name": "f", "tool_call_id": "c"}),
            handwritten({"part_kind": "retry-prompt", "content": [{"type": "missing", "loc": ["a"]}]}),
        ]
    )  # fmt: skip
    assert [str(message.role) for message in history] == ["user", "assistant", "tool", "user"]
    assert history[0].created_at.isoformat() == "2025-01-01T00:00:00+00:00"
    assert history[2].tool_results[0].is_error
    assert history[1].usage is not None
    assert (history[1].usage.input_tokens, history[1].usage.output_tokens) == (3, 2)


def test_request_settings_are_no_part_of_the_conversation() -> None:
    """Settings and baselines are skipped; an unknown kind is kept."""
    history = from_pydantic_ai(
        [
            handwritten(
                {"part_kind": "model-settings-delta", "settings": {}},
                {"part_kind": "instruction-baseline", "instructions": []},
                {"part_kind": "instruction-delta", "id": "agent", "content": "Be long."},
                {"part_kind": "hologram", "content": 5},
            ),
            handwritten({"part_kind": "text", "content": "a"}, kind="response", state="interrupted"),
            handwritten({"part_kind": "text", "content": "b"}, kind="response", state="suspended"),
        ]
    )
    assert history[0].text == "Be long."
    (kept,) = history[1].content
    assert isinstance(kept, ProviderBlock)
    assert kept.kind == "hologram"
    assert history[2].metadata.status is MessageStatus.PARTIAL
    assert history[3].stop_reason is StopReason.PAUSE


@pytest.mark.parametrize(
    ("document", "path"),
    [
        ([{"kind": "request"}], "$[0].parts"),
        ([{"kind": "question", "parts": []}], "$[0].kind"),
        ([{"kind": "request", "parts": [{"part_kind": "user-prompt"}]}], "$[0].parts[0].content"),
        ([{"kind": "request", "parts": [5]}], "$[0].parts[0]"),
        ([{"kind": "response", "parts": [], "usage": 5}], "$[0].usage"),
    ],
)
def test_errors_have_the_path_of_the_fault(document: Any, path: str) -> None:
    with pytest.raises(FormatError) as caught:
        from_pydantic_ai(document)
    assert caught.value.path == path


@pytest.mark.parametrize("field", [{"usage": {"input_tokens": -1}}, {"timestamp": "tomorrow"}])
def test_a_count_or_a_time_that_is_none_is_left_out_with_a_loss(field: dict[str, Any]) -> None:
    response = {"kind": "response", "parts": [{"part_kind": "text", "content": "Hi."}], **field}
    found = read([response], "pydantic-ai")
    assert found.messages[0].text == "Hi."
    assert [loss.path.split(".")[1] for loss in found.losses] == list(field)


def test_a_history_without_parts_is_empty() -> None:
    """No empty messages are made."""
    assert from_pydantic_ai([handwritten(), handwritten(kind="response")]) == []
