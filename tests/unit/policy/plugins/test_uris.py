"""Allowing and denying by URI: tools and prompts before they are used, resources wherever they appear."""

from typing import Any

import pytest

from dragoman.canonical.blocks import ContentBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message
from dragoman.policy import Hook, Plugin
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.pipeline import Pipeline
from dragoman.policy.plugins import AllowUris, DenyUris
from dragoman.policy.views import CalledTool
from tests.unit.canonical.message_view.test_view import block

SQL = ToolUseBlock(id="tu_1", name="execute_sql", input={"query": "secret"})
CALLS = {"tu_1": CalledTool("execute_sql", "db-server")}
PRE_HOOKS = [
    (Hook.TOOL_PRE_INVOKE, SQL, "tool://db-server/execute_sql"),
    (Hook.PROMPT_PRE_FETCH, block("prompt_request"), "prompt://s/greet"),
    (Hook.RESOURCE_PRE_FETCH, block("resource_ref"), "file:///a"),
]


def passes(plugin: Plugin, hook: Hook, *parts: ContentBlock, **more: Any) -> bool:
    message = Message.assistant(list(parts), session_id="s")
    try:
        Pipeline([plugin]).run(hook, message, calls=CALLS, **more)
    except PolicyDeniedError as error:
        denied = error
    else:
        return True
    assert denied.code == "uri_denied"
    assert "secret" not in str(denied)
    return False


@pytest.mark.parametrize(("hook", "part", "uri"), PRE_HOOKS)
def test_calls_are_judged_by_their_uri_beforehand(hook: Hook, part: ContentBlock, uri: str) -> None:
    """The allow list and the deny list decide in opposite ways."""
    scheme = uri.partition("//")[0]
    for pattern in (uri, f"{scheme}//**", "**"):
        assert not passes(DenyUris(pattern), hook, part)
        assert passes(AllowUris(pattern), hook, part)
    for pattern in (uri[:-1], f"{uri}/*", "other://**", "*"):
        assert passes(DenyUris("other://**", pattern), hook, part)
        assert not passes(AllowUris("other://**", pattern), hook, part)
    assert passes(DenyUris(), hook, part)
    assert not passes(AllowUris(), hook, part)


def test_one_denied_call_denies_the_message() -> None:
    mail = ToolUseBlock(id="tu_2", name="send_email")
    assert not passes(DenyUris("tool://**/send_email"), Hook.TOOL_PRE_INVOKE, SQL, mail)
    assert not passes(AllowUris("tool://db-server/*"), Hook.TOOL_PRE_INVOKE, SQL, mail)
    assert passes(AllowUris("tool://db-server/*", "tool://_/*"), Hook.TOOL_PRE_INVOKE, SQL, mail)


@pytest.mark.parametrize("hook", [Hook.LLM_INPUT, Hook.TOOL_POST_INVOKE, Hook.RESOURCE_POST_FETCH])
def test_resources_are_judged_wherever_they_appear(hook: Hook) -> None:
    """In what the user sends, in what a tool or a server returns, and inside results and prompts."""
    resource = block("resource", uri="file:///etc/passwd")
    inside = ToolResultBlock(tool_use_id="tu_1", content=(resource,))
    nested = Message.user([resource], session_id="s").model_dump(mode="json")
    for part in (resource, inside, block("prompt_result", messages=[nested])):
        assert not passes(DenyUris("file:///etc/**"), hook, part)
        assert not passes(AllowUris("file:///home/**"), hook, part)
        assert passes(DenyUris("file:///home/**"), hook, part)
        assert passes(AllowUris("file:///etc/*"), hook, part)


def test_a_denied_call_in_the_history_is_not_judged_again() -> None:
    """Later requests go on."""
    for hook in (Hook.LLM_INPUT, Hook.LLM_OUTPUT):
        assert passes(DenyUris("**"), hook, SQL, block("text"))
        assert passes(AllowUris(), hook, SQL, block("text"))


def test_a_missing_uri_does_not_pass() -> None:
    """An empty one matches no pattern, so neither plugin can decide."""
    nameless = block("resource_ref", uri="")
    assert not passes(DenyUris("other://**"), Hook.RESOURCE_PRE_FETCH, nameless)
    assert not passes(AllowUris("**"), Hook.RESOURCE_PRE_FETCH, nameless)


def test_a_name_is_shown_on_one_line() -> None:
    """A model chooses the names that it calls."""
    call = ToolUseBlock(id="tu_2", name="a\nb" * 100)
    with pytest.raises(PolicyDeniedError) as raised:
        Pipeline([AllowUris()]).run(Hook.TOOL_PRE_INVOKE, Message.assistant([call], session_id="s"))
    assert "\n" not in str(raised.value)
    assert len(raised.value.reason) < 200
