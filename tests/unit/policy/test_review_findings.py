"""The fourteen findings of the specification's review (CMF A8), each with the case that showed it."""

import inspect
from typing import Any

import pytest
from pydantic import ValidationError

from dragoman.canonical import view as view_module
from dragoman.canonical import view_kinds
from dragoman.canonical.blocks import (
    ContentBlock,
    ImageBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ToolUseBlock,
    UnknownBlock,
)
from dragoman.canonical.message import Message, Role
from dragoman.canonical.view_parts import content_of
from dragoman.policy import Extensions, HttpExtension, MessageView, UnknownPartError
from tests.unit.canonical.samples import BLOCKS
from tests.unit.canonical.test_blocks import any_block


def call(name: str = "f", **arguments: Any) -> MessageView:
    return MessageView(ToolUseBlock(id="i", name=name, input=arguments), Role.ASSISTANT)


def test_finding_1_a_glob_is_no_regular_expression() -> None:
    """Its literals are literal, and a newline at the end of a name is no end."""
    assert not call("admin").matches_uri_pattern("tool://_/a.min")
    assert not call("f").matches_uri_pattern("tool://_/(f|g)")
    assert call("(f|g)").matches_uri_pattern("tool://_/(f|g)")
    assert not call("f\n").matches_uri_pattern("tool://_/f")


def test_finding_2_an_unknown_kind_raises() -> None:
    """It is not skipped, and nothing before it is given out."""
    known = Message.assistant("Hi", session_id="s")
    unknown = UnknownBlock.model_validate({"type": "hologram"})
    with pytest.raises(UnknownPartError):
        known.model_copy(update={"content": (*known.content, unknown)}).iter_views()


def test_finding_3_every_kind_has_tests() -> None:
    """The samples cover every kind that has a view, and each can be read in every role."""
    kinds = {kind.model_fields["type"].default for kind in view_kinds.KINDS}
    assert kinds == set(BLOCKS) - {"provider"}
    for kind in kinds:
        for role in Role:
            assert MessageView(any_block.validate_python({"type": kind, **BLOCKS[kind]}), role).to_dict()


def test_finding_4_extensions_are_typed_and_beside_the_message() -> None:
    """A message has no such field, and what is given beside it is the model."""
    assert "extensions" not in Message.model_fields
    with pytest.raises(ValidationError, match="Extra inputs"):
        Message.user("Hi", session_id="s", extensions={})
    assert "Extensions" in str(inspect.signature(Message.iter_views).parameters["extensions"].annotation)
    with pytest.raises(ValidationError):
        Extensions.model_validate({"security": {"labels": "PII"}})


@pytest.mark.parametrize("kind", BLOCKS)
def test_finding_5_a_part_cannot_lie_about_its_kind(kind: str) -> None:
    """Its type is a literal of its class."""
    made = type(any_block.validate_python({"type": kind, **BLOCKS[kind]}))
    other = "image" if kind == "text" else "text"
    with pytest.raises(ValidationError):
        made.model_validate({**BLOCKS[kind], "type": other})


def test_finding_6_a_prompt_result_holds_messages() -> None:
    """They are JSON objects here, counted by the view, and readable as messages."""
    inner = Message.user("Hi", session_id="s").model_dump(mode="json")
    part = any_block.validate_python({"type": "prompt_result", **BLOCKS["prompt_result"], "messages": [inner, inner]})
    assert MessageView(part, Role.USER).get_property("message_count") == 2
    assert Message.model_validate(part.messages[0]).text == "Hi"
    with pytest.raises(ValidationError):
        any_block.validate_python({"type": "prompt_result", **BLOCKS["prompt_result"], "messages": ["Hi"]})


def test_finding_7_the_kind_of_a_source_is_closed() -> None:
    """A free string is refused."""
    with pytest.raises(ValidationError):
        ImageBlock.model_validate({"source": {"kind": "uri", "data": "x"}})


@pytest.mark.parametrize("value", [{"text": "Hi"}, {"type": "unheard_of", "text": "Hi"}, {"type": None, "text": "Hi"}])
def test_finding_8_nothing_falls_back_to_text(value: dict[str, Any]) -> None:
    """A missing or unknown kind is an error, and a ValidationError at that."""
    with pytest.raises(ValidationError):
        any_block.validate_python(value)


def test_finding_9_a_resource_has_one_body() -> None:
    """Content or blob; none is fine."""
    with pytest.raises(ValidationError, match="not both"):
        ResourceBlock(resource_request_id="r", uri="u", resource_type="file", content="a", blob="YQ==")
    bare = ResourceBlock(resource_request_id="r", uri="u", resource_type="file")
    assert not MessageView(bare, Role.USER).has_content()


def test_finding_10_a_range_runs_forwards() -> None:
    """Its end is not before its start."""
    with pytest.raises(ValidationError, match="before range_start"):
        ResourceRefBlock(resource_request_id="r", uri="u", resource_type="file", range_start=2, range_end=1)


def test_finding_11_the_text_of_a_tool_comes_out() -> None:
    """It is received, after the tool ran."""
    view = MessageView(TextBlock(text="42 rows"), Role.TOOL)
    assert (view.is_pre, view.is_post, view.action) == (False, True, "receive")


def test_finding_12_the_table_of_actions_is_made_once() -> None:
    """It belongs to the module; asking for an action makes no dict."""
    assert "ACTIONS" in vars(view_kinds)
    code = inspect.getsource(MessageView.action.fget)  # type: ignore[attr-defined]
    assert "{" not in code


def test_finding_13_content_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """By all attributes together, not only within to_dict."""
    read: list[ContentBlock] = []

    def noting(part: ContentBlock) -> str | None:
        read.append(part)
        return content_of(part)

    monkeypatch.setattr(view_module, "content_of", noting)
    view = call(a=1)
    assert (view.size_bytes, view.content, view.text, view.has_content()) == (8, '{"a": 1}', '{"a": 1}', True)
    assert view.to_dict()["size_bytes"] == view.to_dict()["size_bytes"] == 8
    assert len(read) == 1


def test_finding_14_headers_and_all_else_are_read_only() -> None:
    """Through the view, in the extensions themselves, and in arguments and annotations at every depth."""
    http = HttpExtension(headers={"Authorization": "Bearer x"})
    view = MessageView(TextBlock(text="Hi"), Role.USER, extensions=Extensions(http=http))
    for headers in (view.headers, http.headers):
        with pytest.raises(TypeError, match="read-only"):
            headers["Authorization"] = "Bearer y"
    arguments = call(a={"b": [1]}).args
    assert arguments is not None
    with pytest.raises(TypeError, match="read-only"):
        arguments["a"]["b"].append(2)
    resource = ResourceBlock(resource_request_id="r", uri="u", resource_type="file", annotations={"a": {"b": 1}})
    with pytest.raises(TypeError, match="read-only"):
        MessageView(resource, Role.USER).properties["annotations"]["a"]["b"] = 2
    assert http.headers == {"Authorization": "Bearer x"}
