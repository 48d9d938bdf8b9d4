"""Namespaces and names of tools in CMF: views of read documents show them, and they are written again."""

from typing import Any

import pytest

from dragoman import Message
from dragoman.canonical.message_view.parts import CalledTool
from dragoman.formats import called_tools_in_cmf, from_cmf, read_cmf_extensions, to_cmf
from dragoman.policy import Extensions, HttpExtension, SecurityExtension


def call(native_id: str, name: str, namespace: str | None) -> dict[str, Any]:
    content = {"tool_call_id": native_id, "name": name, "arguments": {"a": 1}, "namespace": namespace}
    return {"content_type": "tool_call", "content": content}


def result(native_id: str, name: str) -> dict[str, Any]:
    return {"content_type": "tool_result", "content": {"tool_call_id": native_id, "tool_name": name, "content": "ok"}}


THINKING = {"content_type": "thinking", "text": "Look them up, then write."}
TEXT = {"content_type": "text", "text": "One moment."}
FIXTURE = {
    "role": "assistant",
    "content": [
        THINKING, TEXT, call("tc_1", "execute_sql", "db-server"), call("tc_2", "send_email", "email-server"),
    ],
}  # fmt: skip


def test_the_example_of_the_specification_gives_its_views() -> None:
    """Four views, and the calls with the URIs that policies use (docs/reference/cmf.md#views)."""
    history = from_cmf([FIXTURE])
    views = list(history[0].iter_views(calls=called_tools_in_cmf(history)))
    seen = [(view.kind, view.name, view.action, view.is_pre, view.uri) for view in views]
    assert seen == [
        ("thinking", None, "generate", False, None),
        ("text", None, "generate", False, None),
        ("tool_call", "execute_sql", "execute", True, "tool://db-server/execute_sql"),
        ("tool_call", "send_email", "execute", True, "tool://email-server/send_email"),
    ]
    assert views[2].properties["namespace"] == "db-server"
    assert views[3].content == '{"a": 1}'


def test_a_result_has_the_name_of_its_document() -> None:
    """A result has the name of its document, also if the call is in another document."""
    history = from_cmf([{"role": "tool", "content": [result("tc_1", "execute_sql"), result("tc_2", "send_email")]}])
    calls = called_tools_in_cmf(history)
    names = [(view.name, view.uri) for message in history for view in message.iter_views(calls=calls)]
    assert names == [("execute_sql", "tool_result://execute_sql"), ("send_email", "tool_result://send_email")]


def test_a_result_keeps_the_namespace() -> None:
    """It names the tool only; its call has the namespace."""
    apart = from_cmf([FIXTURE, {"role": "tool", "content": [result("tc_1", "execute_sql")]}])
    assert called_tools_in_cmf(apart)[apart[1].tool_results[0].tool_use_id] == CalledTool("execute_sql", "db-server")
    beside = from_cmf([{"role": "assistant", "content": [call("x", "f", "db"), result("x", "f")]}])
    assert list(called_tools_in_cmf(beside).values()) == [CalledTool("f", "db")]


def test_namespaces_are_written() -> None:
    """Those of a document, and those of tools that the caller knows."""
    history = from_cmf([FIXTURE])
    marked = [history[0].model_copy(update={"metadata": history[0].metadata.model_copy(update={"user_id": "usr_1"})})]
    (entry,) = to_cmf(marked).data
    assert [part["content"].get("namespace") for part in entry["message"]["content"][2:]] == [
        "db-server", "email-server",
    ]  # fmt: skip
    bare = [Message.assistant(history[0].tool_uses)]
    calls = {bare[0].tool_uses[0].id: CalledTool("execute_sql", "db-server")}
    (entry,) = to_cmf(bare, calls=calls).data
    assert [part["content"].get("namespace") for part in entry["message"]["content"]] == ["db-server", None]
    read = from_cmf([entry])
    assert read == bare
    assert called_tools_in_cmf(read)[bare[0].tool_uses[0].id].namespace == "db-server"


def test_policy_extensions_are_written_with_messages() -> None:
    """The models of a pipeline; they come back as they were."""
    given = Extensions(
        security=SecurityExtension(labels=frozenset({"PII"})), http=HttpExtension(headers={"a": "b"}), custom={"x": 1}
    )
    document = to_cmf([Message.user("Hi"), Message.user("Ho")], extensions=[given, None]).data
    assert document[0]["extensions"]["security"]["labels"] == ["PII"]
    read = Extensions.model_validate(read_cmf_extensions(document)[0])
    assert (read.security, read.http, read.custom) == (given.security, given.http, given.custom)


def test_invalid_extensions_are_refused() -> None:
    """Before anything is written."""
    with pytest.raises(TypeError, match="for each message, not a str"):
        to_cmf([Message.user("Hi")], extensions=["PII"])  # type: ignore[list-item]
