"""The fourteen findings of the specification's review, and the faults of its reference implementation, each with its
case.

Source: docs/reference/cmf.md#review-findings and docs/reference/cmf.md#faults-of-the-reference.
"""

import base64
import inspect
import json
from typing import Any

import pytest
from pydantic import ValidationError

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import (
    ContentBlock,
    ImageBlock,
    ProviderBlock,
    ResourceBlock,
    ResourceRefBlock,
    TextBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from dragoman.canonical.message import Message, Role
from dragoman.canonical.message_view import kinds as view_kinds
from dragoman.canonical.message_view import parts
from dragoman.canonical.message_view.parts import content_of
from dragoman.formats import from_cmf, to_cmf
from dragoman.policy import (
    Capability,
    Declassification,
    Extensions,
    HttpExtension,
    MessageView,
    Pipeline,
    PolicyDeniedError,
    SecurityExtension,
    Step,
    Tier,
    TierViolation,
    hook,
)
from dragoman.policy.extensions import AgentExtension, RequestExtension, filter_extensions, merge_extensions
from dragoman.policy.labels import declassify, labels_of, with_labels
from dragoman.policy.slots import SLOTS
from dragoman.policy.views import UnknownPartError
from tests.unit.canonical.extensions.samples import full
from tests.unit.canonical.samples import BLOCKS
from tests.unit.canonical.test_blocks import any_block


def call(name: str = "f", **arguments: Any) -> MessageView:
    return MessageView(ToolUseBlock(id="i", name=name, input=arguments), Role.ASSISTANT)


def test_finding_1_a_glob_is_no_regular_expression() -> None:
    """Its literals are literal, and a trailing newline of a name does not match."""
    assert not call("admin").matches_uri_pattern("tool://_/a.min")
    assert not call("f").matches_uri_pattern("tool://_/(f|g)")
    assert call("(f|g)").matches_uri_pattern("tool://_/(f|g)")
    assert not call("f\n").matches_uri_pattern("tool://_/f")


def test_finding_2_an_unknown_kind_raises() -> None:
    """It is not skipped, and nothing before it is returned."""
    known = Message.assistant("Hi", session_id="s")
    unknown = UnknownBlock.model_validate({"type": "hologram"})
    with pytest.raises(UnknownPartError):
        known.model_copy(update={"content": (*known.content, unknown)}).iter_views()


@pytest.mark.parametrize("mode", ["sequential", "transform", "audit", "concurrent", "fire_and_forget"])
def test_finding_2_an_unknown_kind_passes_no_pipeline(mode: str) -> None:
    """At any depth: the step is denied before a plugin runs."""
    steps: list[Step] = []

    @hook("evaluate", mode=mode)
    def passing(step: Step) -> None:
        steps.append(step)

    unknown = UnknownBlock.model_validate({"type": "hologram"})
    nested = ToolResultBlock.model_construct(type="tool_result", tool_use_id="t", content=(unknown,), is_error=False)
    for part in (unknown, ProviderBlock(provider="p", kind="k", data={}), nested):
        message = Message.assistant("Hi", session_id="s").model_copy(update={"content": (part,)})
        with pytest.raises(PolicyDeniedError, match="unknown_part"):
            Pipeline([passing]).run("evaluate", message)
    assert steps == []


def test_finding_3_every_kind_has_tests() -> None:
    """The samples cover every kind that has a view, and each can be read in every role."""
    kinds = {kind.model_fields["type"].default for kind in view_kinds.KIND_BY_BLOCK}
    assert kinds == set(BLOCKS) - {"provider"}
    for kind in kinds:
        for role in Role:
            assert MessageView(any_block.validate_python({"type": kind, **BLOCKS[kind]}), role).to_dict()


def test_finding_4_extensions_are_typed_and_outside_the_message() -> None:
    """A message has no such field; they are a model of their own."""
    assert "extensions" not in Message.model_fields
    with pytest.raises(ValidationError, match="Extra inputs"):
        Message.user("Hi", session_id="s", extensions={})
    assert "Extensions" in str(inspect.signature(Message.iter_views).parameters["extensions"].annotation)
    with pytest.raises(ValidationError):
        Extensions.model_validate({"security": {"labels": "PII"}})


def test_finding_4_extensions_pass_through_the_pipeline() -> None:
    """Each plugin is shown what it may see of them; its result is checked and merged by tier."""

    @hook("evaluate", capabilities=["append_labels"])
    def labelling(step: Step) -> Extensions:
        assert step.extensions.agent is None
        return with_labels(step.extensions, {"PII"})

    @hook("evaluate", priority=200)
    def forging(step: Step) -> Extensions:
        return step.extensions.model_copy(update={"request": RequestExtension(environment="forged")})

    whole = Extensions(agent=AgentExtension(session_id="s"), request=RequestExtension(environment="production"))
    outcome = Pipeline([labelling]).run("evaluate", Message.user("Hi", session_id="s"), whole)
    assert outcome.extensions == with_labels(whole, {"PII"})
    with pytest.raises(PolicyDeniedError, match="slot request is immutable") as denied:
        Pipeline([labelling, forging]).run("evaluate", Message.user("Hi", session_id="s"), whole)
    assert isinstance(denied.value.__cause__, TierViolation)


@pytest.mark.parametrize("kind", BLOCKS)
def test_finding_5_a_part_cannot_forge_its_kind(kind: str) -> None:
    """Its type is a literal of its class."""
    made = type(any_block.validate_python({"type": kind, **BLOCKS[kind]}))
    other = "image" if kind == "text" else "text"
    with pytest.raises(ValidationError):
        made.model_validate({**BLOCKS[kind], "type": other})


def test_finding_6_a_prompt_result_holds_messages() -> None:
    """Finding 6: a prompt result holds messages, as JSON objects, counted by the view and readable as messages."""
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
    """A missing or unknown kind is a ValidationError."""
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
    with pytest.raises(ValidationError, match="less than range_start"):
        ResourceRefBlock(resource_request_id="r", uri="u", resource_type="file", range_start=2, range_end=1)


def test_finding_11_the_text_of_a_tool_is_output() -> None:
    """It is received, after the tool ran."""
    view = MessageView(TextBlock(text="42 rows"), Role.TOOL)
    assert (view.is_pre, view.is_post, view.action) == (False, True, "receive")


def test_finding_12_the_table_of_actions_is_made_once() -> None:
    """It belongs to the module; reading an action makes no dict."""
    assert "ACTIONS" in vars(view_kinds)
    code = inspect.getsource(MessageView.action.fget)  # type: ignore[attr-defined]
    assert "{" not in code


def test_finding_13_content_is_computed_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Finding 13: content is computed once, for all attributes together, not only within to_dict."""
    read: list[ContentBlock] = []

    def count_content(part: ContentBlock) -> str | None:
        read.append(part)
        return content_of(part)

    monkeypatch.setattr(parts, "content_of", count_content)
    view = call(a=1)
    assert (view.size_bytes, view.content, view.text, view.has_content()) == (8, '{"a": 1}', '{"a": 1}', True)
    assert view.to_dict()["size_bytes"] == view.to_dict()["size_bytes"] == 8
    assert len(read) == 1


def test_finding_14_headers_and_all_else_are_read_only() -> None:
    """Finding 14: headers and all else are read only through the view, in the extensions themselves, and in arguments
    and annotations at every depth.
    """
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


class TestFaultsOfTheReference:
    """Each place where the reference implementation fails the specification, or differs from it."""

    def test_a2_nested_models_refuse_unknown_keys(self) -> None:
        """There only the message does, and a misspelt policy vanishes."""
        with pytest.raises(ValidationError, match="Extra inputs"):
            Extensions.model_validate({"security": {"data": {"t": {"deny_actions": ["export"]}}}})

    def test_a3_a_binary_blob_is_written(self) -> None:
        """There its JSON raises; here it is base64 from the beginning."""
        blob = base64.b64encode(b"\xff\x00\xfe").decode()
        part = ResourceBlock(resource_request_id="r", uri="u", resource_type="blob", blob=blob)
        message = Message.user([part], session_id="s")
        assert Message.model_validate_json(message.model_dump_json()).content == (part,)
        assert from_cmf(json.dumps(to_cmf([message]).data))[0].content == (part,)
        assert MessageView(part, Role.USER).to_dict()["size_bytes"] == 3

    def test_a3_the_flat_form_is_read(self) -> None:
        """There the specification's own example is invalid."""
        flat = {"content_type": "tool_call", "name": "f", "arguments": {"a": 1}}
        (read,) = from_cmf({"schema_version": "2.0", "role": "assistant", "content": [flat]})
        assert [(use.name, use.input) for use in read.tool_uses] == [("f", {"a": 1})]
        (written,) = to_cmf([Message.assistant(read.content, session_id="s")]).data
        assert written["message"]["content"][0]["content"]["name"] == "f"

    def test_a3_a_missing_kind_is_a_validation_error(self) -> None:
        """There it is a plain ValueError."""
        for value in ({"text": "Hi"}, object()):
            with pytest.raises(ValidationError):
                any_block.validate_python(value)

    def test_a4_guarded_is_a_tier_of_its_own(self) -> None:
        """There it is immutable with a capability, and a violation names the wrong tier."""
        assert SLOTS["http"].tier is Tier.GUARDED

    def test_a4_classification_is_protected(self) -> None:
        """The specification's table lacks it, so a change goes unnoticed."""
        original = Extensions(security=SecurityExtension(classification="secret"))
        returned = Extensions(security=SecurityExtension(classification="public"))
        with pytest.raises(TierViolation, match=r"security\.classification is immutable"):
            merge_extensions(original, returned, list(Capability))

    @pytest.mark.parametrize("slot", ["objects", "data"])
    def test_a4_objects_and_data_need_a_capability(self, slot: str) -> None:
        """There everyone sees them: the specification's capabilities do not exist."""
        original = full()
        for capability, seen in ((f"read_{slot}", True), ("read_subject", False)):
            shown = filter_extensions(original, [capability])
            assert shown is not None
            assert bool(getattr(shown.security, slot)) is seen

    @pytest.mark.parametrize(
        "profile", [{"managed_by": "nobody"}, {"trust_domain": "Internal"}, {"managed_by": ""}, {"trust_domain": ""}]
    )
    def test_a4_closed_words_are_closed(self, profile: dict[str, str]) -> None:
        """There any text is accepted for a profile's host and domain, and for a retention."""
        with pytest.raises(ValidationError):
            Extensions.model_validate({"security": {"objects": {"f": profile}}})
        with pytest.raises(ValidationError):
            Extensions.model_validate({"security": {"data": {"f": {"retention": {"policy": "forever"}}}}})

    def test_a4_a_history_holds_messages(self) -> None:
        """There it is a list of anything, to avoid an import."""
        with pytest.raises(ValidationError):
            Extensions.model_validate({"agent": {"conversation": {"history": ["Hi"]}}})

    def test_a4_a_forbidden_change_is_reported(self) -> None:
        """The specification's merging drops it silently, so a plugin's author gets no report."""
        changed = Extensions.model_validate({"http": {"headers": {"A": "b"}}})
        with pytest.raises(TierViolation, match="changing it requires write_headers"):
            merge_extensions(Extensions(), changed, [])

    def test_a4_copies_share_nothing(self) -> None:
        """There nested containers of a copy are the original's own."""
        original = full()
        shown = filter_extensions(original, list(Capability))
        assert shown is not None
        assert shown.custom is not None
        shown.custom["a"]["b"].append("more")
        dict.clear(shown.framework.metadata)  # type: ignore[union-attr]
        assert original == full()

    def test_a5_text_is_another_name_of_content(self) -> None:
        """There the specification's own sample raises AttributeError."""
        assert MessageView(TextBlock(text="Hi"), Role.USER).text == "Hi"

    def test_a5_direction_comes_from_the_kind_not_from_the_hook(self) -> None:
        """In Rust it is read from the hook's name, and both are false without one."""
        for place in (None, "tool_post_invoke", "prepare"):
            view = MessageView(ToolUseBlock(id="i", name="f"), Role.ASSISTANT, hook=place)
            assert (view.is_pre, view.is_post) == (True, False)

    def test_a5_a_nameless_resource_finds_its_policy(self) -> None:
        """By its URI, which is never tried there."""
        part = ResourceBlock(resource_request_id="r", uri="file:///a", resource_type="file")
        security = {"objects": {"file:///a": {}}, "data": {"file:///a": {"denied_actions": ["export"]}}}
        view = MessageView(part, Role.USER, extensions=Extensions.model_validate({"security": security}))
        assert view.object is not None
        assert view.data_policy is not None
        assert not view.data_policy.permits("export")

    def test_a5_a_newline_does_not_end_a_pattern(self) -> None:
        """There a name with a trailing newline still matches."""
        assert not call("f\n").matches_uri_pattern("tool://_/f")
        assert not call("f").matches_uri_pattern("tool://_/f\n")

    def test_a5_arguments_can_be_left_out(self) -> None:
        view = call(password="hunter2")
        assert "hunter2" in json.dumps(view.to_dict(include_content=False))
        left = view.to_dict(include_content=False, include_arguments=False)
        assert "hunter2" not in json.dumps(left)
        assert "hunter2" not in json.dumps(view.to_opa_input(include_content=True, include_arguments=False))

    def test_a5_more_than_three_headers_are_secret(self) -> None:
        """There Set-Cookie and the keys of most providers are written."""
        secret = ("Set-Cookie", "Proxy-Authorization", "api-key", "X-Goog-Api-Key", "X-Amz-Security-Token")
        http = HttpExtension(headers=dict.fromkeys(("X-Trace", "Authorization", "COOKIE", "x-api-key", *secret), "v"))
        view = MessageView(TextBlock(text="Hi"), Role.USER, extensions=Extensions(http=http))
        assert view.to_dict()["extensions"]["headers"] == {"X-Trace": "v"}
        assert set(view.headers) == set(http.headers)

    def test_a5_claims_are_never_written(self) -> None:
        """They are stored as in the reference, and are not printed either."""
        view = MessageView(TextBlock(text="Hi"), Role.USER, extensions=full())
        assert "security.subject.claims" not in json.dumps(view.to_dict()) + repr(full())

    def test_a6_capabilities_are_names_of_the_list(self) -> None:
        """An unknown one is refused, so a typo neither grants nor hides anything."""
        with pytest.raises(ConfigurationError, match="did you mean read_labels"):
            filter_extensions(full(), ["read_label"])

    def test_a7_removing_a_label_is_a_call_of_its_own(self) -> None:
        """The specification names it; the reference has none."""
        records: list[Declassification] = []
        left = declassify(
            full(), ["security.labels.one"], capabilities=["declassify_labels"], actor="a", reason="b",
            audit=records.append,
        )  # fmt: skip
        assert labels_of(left) == {"security.labels.two"}
        assert len(records) == 1


def test_finding_14_nothing_changes_in_place_in_a_pipeline() -> None:
    """Each plugin has its own copies, so no other plugin sees its changes."""
    seen: list[Any] = []

    @hook("evaluate", capabilities=["write_headers"])
    def meddling(step: Step) -> None:
        use = step.message.tool_uses[0]
        use.input["path"] = "/etc/passwd"
        assert step.extensions.custom is not None
        step.extensions.custom["note"] = "mine"
        vars(step.extensions.http)["headers"] = {}

    @hook("evaluate", capabilities=["read_headers"], priority=200)
    def looking(step: Step) -> None:
        seen.append((step.message.tool_uses[0].input, step.extensions.custom, step.extensions.http))

    message = Message.assistant([ToolUseBlock(id="t", name="f", input={"path": "a"})], session_id="s")
    whole = Extensions(http=HttpExtension(headers={"x": "y"}), custom={"note": "theirs"})
    outcome = Pipeline([meddling, looking]).run("evaluate", message, whole)
    assert seen == [({"path": "a"}, {"note": "theirs"}, HttpExtension(headers={"x": "y"}))]
    assert outcome.message is message
    assert outcome.extensions is whole
