"""Profiles of objects are evaluated before a tool, a prompt or a resource is used, by pipelines and by a plugin."""

from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ContentBlock, PromptRequestBlock, ResourceRefBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message
from dragoman.policy import CalledTool, Extensions, Pipeline, PolicyDeniedError
from dragoman.policy.plugins import ObjectAccess

CALL = ToolUseBlock(id="tu_1", name="pay", input={})
PROMPT = PromptRequestBlock(prompt_request_id="p", name="pay")
RESOURCE = ResourceRefBlock(resource_request_id="r", uri="pay", resource_type="uri")
ASKED: list[tuple[str, ContentBlock]] = [
    ("cmf.tool_pre_invoke", CALL), ("cmf.prompt_pre_fetch", PROMPT), ("cmf.resource_pre_fetch", RESOURCE),
]  # fmt: skip


def world(granted: tuple[str, ...] = (), *, subject: bool = True, **profile: Any) -> Extensions:
    """A profile of ``pay``, and a caller with these permissions."""
    caller = {"id": "u1", "type": "user", "permissions": list(granted)} if subject else None
    return Extensions.model_validate({"security": {"subject": caller, "objects": {"pay": profile}}})


def code(extensions: Extensions | None, *plugins: Any, hook: str = "cmf.tool_pre_invoke", part: Any = CALL) -> str:
    """Why it is denied; empty where it passes."""
    try:
        Pipeline(plugins).run(hook, Message.assistant([part]), extensions, calls={"tu_1": CalledTool("pay", None)})
    except PolicyDeniedError as error:
        denied = error
    else:
        return ""
    assert "money" not in str(denied)
    return denied.code


@pytest.mark.parametrize(("hook", "part"), ASKED)
def test_what_is_asked_for_takes_its_permissions(hook: str, part: ContentBlock) -> None:
    """All of them, whoever asks; where the tool itself enforces them, that is the tool's business."""
    needed: dict[str, Any] = {"permissions": ["money.read", "money.write"]}
    for managed_by, granted, expected in (
        ("host", ("money.read", "money.write", "x"), ""),
        ("host", ("money.read",), "object_permissions"),
        ("both", (), "object_permissions"),
        ("tool", (), ""),
    ):
        whole = world(granted, managed_by=managed_by, **needed)
        assert code(whole, hook=hook, part=part) == expected
    assert code(world(subject=False, **needed), hook=hook, part=part) == "object_permissions"
    assert code(world(), hook=hook, part=part) == code(None, hook=hook, part=part) == ""


def test_answers_and_words_take_none() -> None:
    """Profiles are evaluated before use; what has come back was allowed, or was not asked for here."""
    whole = world(permissions=["money.read"])
    result = ToolResultBlock(tool_use_id="tu_1", content=())
    assert code(whole, hook="cmf.tool_post_invoke", part=result) == ""
    assert code(whole, hook="cmf.llm_output", part=CALL) == ""


def test_the_plugin_heeds_what_is_left() -> None:
    """Trust domains, fields, entities of which nobody says anything, and permissions that tools check themselves."""
    internal = ObjectAccess(trust_domains=["internal", "privileged"])
    assert code(world(trust_domain="internal"), internal) == ""
    assert code(world(trust_domain="external"), internal) == code(world(), internal) == "object_trust_domain"
    fields = ObjectAccess(data_scope=["name"])
    assert code(world(data_scope=["name"]), fields) == code(world(), fields) == ""
    assert code(world(data_scope=["name", "salary"]), fields) == "object_data_scope"
    strict = ObjectAccess(unlisted="deny")
    assert code(world(), strict) == ""
    assert code(None, strict) == "object_unlisted"
    own = world(managed_by="tool", permissions=["money.read"])
    assert code(own, ObjectAccess()) == ""
    assert code(own, ObjectAccess(self_managed=True)) == "object_permissions"
    tool_managed = world(("money.read",), managed_by="tool", permissions=["money.read"])
    assert code(tool_managed, ObjectAccess(self_managed=True)) == ""
    assert code(None, ObjectAccess(unlisted="deny"), hook="evaluate") == "object_unlisted"


def test_a_setting_that_means_nothing_is_named() -> None:
    """Words that are no domains, and one word in the place of several."""
    wrong: dict[str, Any]
    for wrong in ({"trust_domains": ["inside"]}, {"trust_domains": "internal"}, {"unlisted": "no"}):
        with pytest.raises(ConfigurationError):
            ObjectAccess(**wrong)
