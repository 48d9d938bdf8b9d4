"""Profiles of objects are evaluated before a tool, a prompt or a resource is used, by pipelines and by a plugin."""

from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import (
    ContentBlock,
    PromptRequestBlock,
    ResourceBlock,
    ResourceRefBlock,
    ToolResultBlock,
    ToolUseBlock,
)
from dragoman.canonical.message import Message
from dragoman.policy import Extensions, Pipeline, PolicyDeniedError
from dragoman.policy.labels import labels_of
from dragoman.policy.plugins import ObjectAccess
from dragoman.policy.views import CalledTool

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
    """The code of the denial; empty if it passes."""
    try:
        Pipeline(plugins).run(hook, Message.assistant([part]), extensions, calls={"tu_1": CalledTool("pay", None)})
    except PolicyDeniedError as error:
        denied = error
    else:
        return ""
    assert "money" not in str(denied)
    return denied.code


@pytest.mark.parametrize(("hook", "part"), ASKED)
def test_requests_need_the_permissions_of_the_profile(hook: str, part: ContentBlock) -> None:
    """All of them, for any caller; permissions that the tool itself enforces are left to the tool."""
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


def test_results_and_texts_need_no_permission() -> None:
    """Profiles are evaluated before use; what has come back was allowed, or was not requested here."""
    whole = world(permissions=["money.read"])
    result = ToolResultBlock(tool_use_id="tu_1", content=())
    assert code(whole, hook="cmf.tool_post_invoke", part=result) == ""
    assert code(whole, hook="cmf.llm_output", part=CALL) == ""


def test_the_plugin_checks_the_rest_of_a_profile() -> None:
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


def test_an_invalid_setting_is_named() -> None:
    """Words that are not domains, and one word instead of several."""
    wrong: dict[str, Any]
    for wrong in ({"trust_domains": ["inside"]}, {"trust_domains": "internal"}, {"unlisted": "no"}):
        with pytest.raises(ConfigurationError):
            ObjectAccess(**wrong)


@pytest.mark.parametrize("plugins", [(), (ObjectAccess(),)])
@pytest.mark.parametrize(
    ("hook", "part", "uri"),
    [
        ("resource_pre_fetch", ResourceRefBlock(
            resource_request_id="r", uri="https://a.example/x", resource_type="uri", name="harmless"
        ), "https://a.example/x"),
        ("tool_pre_invoke", ToolUseBlock(id="tu_1", name="harmless", input={}), "tool://_/harmless"),
        ("prompt_pre_fetch", PromptRequestBlock(prompt_request_id="p", name="harmless"), "prompt://_/harmless"),
    ],
)  # fmt: skip
def test_a_name_adds_rules_and_replaces_none(hook: str, part: ContentBlock, uri: str, plugins: Any) -> None:
    """Whoever names a thing could otherwise choose the name of a profile that asks for nothing."""
    profiles = {uri: {"permissions": ["money.read"]}, "harmless": {"permissions": []}}
    for granted, expected in (((), "object_permissions"), (("money.read",), "")):
        caller = {"id": "u1", "type": "user", "permissions": list(granted)}
        extensions = Extensions.model_validate({"security": {"subject": caller, "objects": profiles}})
        assert code(extensions, *plugins, hook=hook, part=part) == expected


def test_data_has_the_labels_of_its_name_and_of_its_uri() -> None:
    resource = ResourceBlock(
        resource_request_id="r", uri="https://a.example/./x", resource_type="uri", name="harmless", content="A"
    )
    rules = {"https://a.example/x": {"apply_labels": ["PHI"]}, "harmless": {"apply_labels": ["named"]}}
    extensions = Extensions.model_validate({"security": {"data": rules}})
    found = Pipeline().run("resource_post_fetch", Message.user([resource]), extensions).extensions
    assert labels_of(found) == {"PHI", "named"}
