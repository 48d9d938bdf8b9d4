"""A view as JSON: its keys, their order, and what it never contains. Source: docs/reference/cmf.md#view-as-json."""

import json
from typing import Any

import pytest

from dragoman.canonical.blocks import TextBlock, ToolUseBlock
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.message import Message, Role
from dragoman.canonical.message_view.view import MessageView
from tests.tables import each_row
from tests.unit.canonical.extensions.samples import FULL, full
from tests.unit.canonical.message_view.test_view import SQL, VIEW_KINDS, block

CALL = ToolUseBlock(id="tu_1", name="execute_sql", input={"query": "SELECT 1", "limits": [1, {"n": 2}]})

EXTENSIONS = {
    "subject": {
        "id": "security.subject.id", "type": "service", "roles": ["security.subject.roles"],
        "permissions": ["security.subject.permissions"], "teams": ["security.subject.teams"],
    },
    "environment": "request.environment",
    "labels": ["security.labels.one", "security.labels.two"],
    "headers": {"X-Trace": "http.headers.trace"},
    "object": {
        "managed_by": "both", "permissions": ["security.objects.permissions"], "trust_domain": "privileged",
        "data_scope": ["security.objects.data_scope"],
    },
    "data": {
        "apply_labels": ["security.data.apply_labels"], "denied_actions": ["security.data.denied_actions"],
        "allowed_actions": ["security.data.allowed_actions"],
        "retention": {
            "max_age_seconds": 60, "policy": "session", "delete_after": "security.data.retention.delete_after",
        },
    },
    "agent": {
        "input": "agent.input", "session_id": "agent.session_id", "conversation_id": "agent.conversation_id", "turn": 3,
        "agent_id": "agent.agent_id", "parent_agent_id": "agent.parent_agent_id",
    },
}  # fmt: skip

EVERYTHING = {
    "kind": "tool_call", "role": "assistant", "is_pre": True, "is_post": False, "action": "execute",
    "hook": "tool_pre_invoke", "uri": "tool://db-server/execute_sql", "name": "execute_sql",
    "content": '{"query": "SELECT 1", "limits": [1, {"n": 2}]}', "size_bytes": 46,
    "arguments": {"query": "SELECT 1", "limits": [1, {"n": 2}]},
    "properties": {"namespace": "db-server", "tool_id": "tu_1"}, "extensions": EXTENSIONS,
}  # fmt: skip


def call_view() -> MessageView:
    return MessageView(CALL, Role.ASSISTANT, hook="tool_pre_invoke", extensions=full(), tool=SQL)


def in_order(value: Any) -> str:
    return json.dumps(value)


def test_keys_have_their_order() -> None:
    assert in_order(call_view().to_dict()) == in_order(EVERYTHING)
    assert in_order(call_view().to_opa_input()) == in_order({"input": EVERYTHING})


def test_absent_values_have_no_key() -> None:
    """No nulls, no empty blocks."""
    assert MessageView(TextBlock(text="Hi"), Role.USER).to_dict() == {
        "kind": "text", "role": "user", "is_pre": True, "is_post": False, "action": "send", "content": "Hi",
        "size_bytes": 2,
    }  # fmt: skip
    assert "extensions" not in MessageView(TextBlock(text="Hi"), Role.USER, extensions=Extensions()).to_dict()
    only_secret = Extensions.model_validate({"http": {"headers": {"Cookie": "x"}}})
    assert "extensions" not in MessageView(TextBlock(text="Hi"), Role.USER, extensions=only_secret).to_dict()


@pytest.mark.parametrize(
    ("options", "left_out"),
    [
        ({}, set()),
        ({"include_content": False}, {"content", "size_bytes"}),
        ({"include_context": False}, {"extensions"}),
        ({"include_arguments": False}, {"content", "size_bytes", "arguments"}),
        ({"include_content": False, "include_arguments": False}, {"content", "size_bytes", "arguments"}),
        ({"include_content": False, "include_context": False}, {"content", "size_bytes", "extensions"}),
    ],
)
def test_content_and_arguments_can_be_left_out(options: dict[str, bool], left_out: set[str]) -> None:
    """Without content the arguments stay, as specified; without arguments a call has no content either."""
    written = call_view().to_dict(**options)
    assert written == {key: value for key, value in EVERYTHING.items() if key not in left_out}
    if "include_context" not in options:
        assert call_view().to_opa_input(**options) == {"input": written}
    if options.get("include_arguments") is False:
        assert "SELECT" not in json.dumps(written)


def test_leaving_out_arguments_leaves_other_content() -> None:
    """It concerns calls and prompt requests only."""
    assert MessageView(TextBlock(text="Hi"), Role.USER).to_dict(include_arguments=False)["content"] == "Hi"
    assert "content" not in MessageView(block("prompt_request"), Role.USER).to_dict(include_arguments=False)


def test_the_size_is_that_of_the_text() -> None:
    """The attribute keeps a size that a resource declares; without text, that one is exported."""
    view = MessageView(block("resource", content="abc", size_bytes=999), Role.USER)
    assert (view.size_bytes, view.to_dict()["size_bytes"]) == (999, 3)
    assert MessageView(block("resource", content=None, size_bytes=999), Role.USER).to_dict()["size_bytes"] == 999


def test_turn_zero_is_exported() -> None:
    """Empty texts and empty blocks are left out."""
    agent = {"agent": {"turn": 0, "input": ""}}
    view = MessageView(TextBlock(text="Hi"), Role.USER, extensions=Extensions.model_validate(agent))
    assert view.to_dict()["extensions"] == {"agent": {"turn": 0}}


def test_limits_that_are_not_set_are_left_out() -> None:
    """Allowed actions None means no limit; an empty list is one."""
    for allowed, expected in ((None, {}), ([], {"allowed_actions": []})):
        policy: dict[str, Any] = {"data": {"execute_sql": {"allowed_actions": allowed}}}
        view = MessageView(CALL, Role.ASSISTANT, extensions=Extensions.model_validate({"security": policy}))
        assert view.to_dict()["extensions"] == {"data": {"apply_labels": [], "denied_actions": [], **expected}}


@each_row("kind", VIEW_KINDS)
@each_row("role", Role)
def test_exports_are_json_without_secrets(kind: str, role: Role) -> None:
    """Claims, secret headers and fields outside the specification are in no view of any kind."""
    written = json.dumps(MessageView(block(kind), role, hook="evaluate", extensions=full(), tool=SQL).to_dict())
    for path in ("http.headers.authorization", "security.subject.claims", "request.request_id", "completion.model",
                 "llm.model_id", "framework.node_id", "meta.scope", "custom", "mcp.tool.title", "provenance.source",
                 "delegation.origin_subject_id", "agent.conversation.summary", "security.classification"):  # fmt: skip
        assert path not in written


def test_exports_belong_to_the_caller() -> None:
    """Changes at any depth reach neither the message, the extensions nor the next export."""
    message = Message.assistant([CALL, block("resource")], session_id="s")
    extensions = full()
    for view in message.iter_views(extensions=extensions, calls={"tu_1": SQL}):
        changed = [view.to_dict()]
        before = json.dumps(changed[0])
        while changed:
            node = changed.pop()
            assert type(node) in (dict, list)
            changed += [
                each for each in (node.values() if isinstance(node, dict) else node) if type(each) in (dict, list)
            ]
            node.clear()
        assert json.dumps(view.to_dict()) == before
    assert extensions.model_dump(mode="json")["http"] == FULL["http"]
