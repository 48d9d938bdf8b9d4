"""Views against the specification's reference implementation, the package cpex; skipped where it is not installed.

They differ on purpose in what the last tests name.
"""

import itertools
import json
from typing import Any

import pytest

from dragoman.canonical.blocks import ContentBlock
from dragoman.canonical.extensions import Extensions
from dragoman.canonical.message import Role
from dragoman.canonical.view import MessageView
from dragoman.canonical.view_parts import CalledTool
from tests.unit.canonical.extension_samples import FULL
from tests.unit.canonical.test_view import SQL, block

cmf = pytest.importorskip("cpex.framework.cmf.message", reason="cpex is not installed")
cpex_extensions = pytest.importorskip("cpex.framework.extensions.extensions", reason="cpex is not installed")

RESOURCE = {
    "resource_request_id": "r1", "uri": "file:///a", "resource_type": "file", "name": "execute_sql",
    "mime_type": "text/plain", "annotations": {"a": 1}, "version": "2",
}  # fmt: skip
URL = {"kind": "url", "data": "https://example.org/a"}
CPEX_URL = {"type": "url", "data": "https://example.org/a"}
ARGUMENTS = {"q": "SELECT 1", "n": [1, {"a": None}]}

PAIRS: list[tuple[ContentBlock, dict[str, Any]]] = [
    (block("text", text="Hi", citations=[]), {"content_type": "text", "text": "Hi"}),
    (block("text", text="", citations=[]), {"content_type": "text", "text": ""}),
    (block("thinking", text="äh"), {"content_type": "thinking", "text": "äh"}),
    (
        block("tool_use", id="tu_1", name="execute_sql", input=ARGUMENTS),
        {"content_type": "tool_call", "content": {
            "tool_call_id": "tu_1", "name": "execute_sql", "arguments": ARGUMENTS, "namespace": "db-server"}},
    ),
    (
        block("tool_result", tool_use_id="tu_1", content="42 rows", is_error=True),
        {"content_type": "tool_result", "content": {
            "tool_call_id": "tu_1", "tool_name": "execute_sql", "content": "42 rows", "is_error": True}},
    ),
    (
        block("tool_result", tool_use_id="tu_1", content=[], is_error=False),
        {"content_type": "tool_result", "content": {"tool_call_id": "tu_1", "tool_name": "execute_sql"}},
    ),
    (
        block("prompt_request", name="execute_sql", server_id=None),
        {"content_type": "prompt_request", "content": {
            "prompt_request_id": "p1", "name": "execute_sql", "arguments": {"who": "you"}}},
    ),
    (
        block("prompt_result", messages=[], content="Hello.", is_error=False),
        {"content_type": "prompt_result", "content": {
            "prompt_request_id": "p1", "prompt_name": "greet", "content": "Hello."}},
    ),
    (
        block("resource", **{**RESOURCE, "description": None, "content": "äb", "size_bytes": 999}),
        {"content_type": "resource", "content": {**RESOURCE, "content": "äb", "size_bytes": 999}},
    ),
    (
        block("resource", **{**RESOURCE, "description": None, "content": None, "size_bytes": None, "blob": "aGVsbG8="}),
        {"content_type": "resource", "content": {**RESOURCE, "blob": b"hello"}},
    ),
    (
        block("resource_ref", name=None),
        {"content_type": "resource_ref", "content": {
            "resource_request_id": "r1", "uri": "file:///a", "resource_type": "file"}},
    ),
    *(
        (
            block(kind, **{"source": URL, "media_type": "a/b", **({"transcript": None} if kind == "audio" else {}),
                           **({"context": None} if kind == "document" else {})}),
            {"content_type": kind, "content": {**CPEX_URL, "media_type": "a/b"}},
        )
        for kind in ("image", "video", "audio", "document")
    ),
]  # fmt: skip

SLOTS: list[dict[str, Any]] = [
    {}, {name: slot for name, slot in FULL.items() if name != "agent"} | {"agent": {"turn": 0, "session_id": "s"}},
    {"http": {"headers": {"Cookie": "x"}}}, {"security": {"data": {"execute_sql": {"allowed_actions": []}}}},
]  # fmt: skip

NAMES = (
    "kind", "role", "hook", "content", "uri", "name", "action", "args", "mime_type", "size_bytes", "properties",
    "is_pre", "is_post", "is_tool", "is_prompt", "is_resource", "is_text", "is_media", "environment", "request_id",
    "roles", "permissions", "teams", "headers", "labels", "agent_input", "session_id", "conversation_id", "turn",
    "agent_id", "parent_agent_id",
)  # fmt: skip
PATTERNS = ("**", "*", "tool://*", "tool://**", "tool://db-server/*", "tool://db.server/*", "file:///*", "prompt*://**")


def both(index: int, role: str, slots: dict[str, Any], hook: str | None = None) -> tuple[MessageView, Any]:
    part, theirs = PAIRS[index]
    called: CalledTool = SQL
    message = cmf.Message.model_validate({"role": role, "content": [theirs]})
    (their_view,) = message.iter_views(hook=hook, extensions=cpex_extensions.Extensions.model_validate(slots))
    ours = MessageView(part, Role(role), hook=hook, extensions=Extensions.model_validate(slots), called=called)
    return ours, their_view


@pytest.mark.parametrize("index", range(len(PAIRS)))
def test_every_part_reads_the_same(index: int) -> None:
    """Attributes, globs and JSON, in every role, with and without context and content."""
    for role, slots, hook in itertools.product(Role, SLOTS, (None, "llm_input")):
        ours, theirs = both(index, role, slots, hook)
        for name in NAMES:
            assert getattr(ours, name) == getattr(theirs, name), (name, role)
        for pattern in PATTERNS:
            assert ours.matches_uri_pattern(pattern) == theirs.matches_uri_pattern(pattern)
        for content, context in itertools.product((True, False), repeat=2):
            assert json.dumps(ours.to_dict(content, context)) == json.dumps(theirs.to_dict(content, context))
        assert json.dumps(ours.to_opa_input()) == json.dumps(theirs.to_opa_input())
        assert repr(ours) == repr(theirs)


def test_where_they_differ_on_purpose() -> None:
    """Policies by URI, a newline at the end of a name, more secret headers, and arguments as they are written."""
    by_uri = {"security": {"objects": {"file:///a": {"managed_by": "tool"}}}}
    ours, theirs = both(10, "user", by_uri)
    assert (ours.object is not None, theirs.object) == (True, None)

    slots = {"http": {"headers": {"Proxy-Authorization": "x", "A": "b"}}}
    ours, theirs = both(0, "user", slots)
    assert "Proxy-Authorization" in theirs.to_dict()["extensions"]["headers"]
    assert ours.to_dict()["extensions"]["headers"] == {"A": "b"}

    call = {"content_type": "tool_call", "content": {"tool_call_id": "i", "name": "f\n", "arguments": {"a": "ü"}}}
    (theirs,) = cmf.Message.model_validate({"role": "user", "content": [call]}).iter_views()
    ours = MessageView(block("tool_use", id="i", name="f\n", input={"a": "ü"}), Role.USER)
    assert theirs.matches_uri_pattern("tool://_/f")
    assert not ours.matches_uri_pattern("tool://_/f")
    assert (theirs.content, ours.content) == ('{"a": "\\u00fc"}', '{"a": "ü"}')
