"""MessageView: its values for every kind of part, role and extension. Source: docs/reference/cmf.md#views."""

import json
import logging
from typing import Any

import pytest

from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    MediaSource,
    PromptRequestBlock,
    PromptResultBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.extensions.slots import MCPExtension, ToolMetadata
from dragoman.canonical.message import Message, Role
from dragoman.canonical.message_view.kinds import ACTIONS_BY_ROLE, KIND_BY_BLOCK, ViewAction, ViewKind
from dragoman.canonical.message_view.parts import CalledTool, UnknownPartError, called_tools, content_of
from dragoman.canonical.message_view.view import MessageView, iter_views
from tests.tables import each_row
from tests.unit.canonical.extensions.samples import full
from tests.unit.canonical.samples import BLOCKS
from tests.unit.canonical.test_blocks import any_block

VIEW_KINDS = {
    "text": "text", "thinking": "thinking", "redacted_thinking": "thinking", "tool_use": "tool_call",
    "tool_result": "tool_result", "image": "image", "audio": "audio", "video": "video", "document": "document",
    "resource": "resource", "resource_ref": "resource_ref", "prompt_request": "prompt_request",
    "prompt_result": "prompt_result",
}  # fmt: skip

SQL = CalledTool("execute_sql", "db-server")


def block(kind: str, **changed: Any) -> ContentBlock:
    made: ContentBlock = any_block.validate_python({"type": kind, **BLOCKS[kind], **changed})
    return made


def view_of(part: ContentBlock, role: Role = Role.ASSISTANT, **more: Any) -> MessageView:
    return MessageView(part, role, **more)


def test_views_have_twelve_kinds_and_seven_actions() -> None:
    """Each block has a kind, except a provider's own."""
    assert [str(kind) for kind in ViewKind] == [
        "text", "thinking", "tool_call", "tool_result", "resource", "resource_ref", "prompt_request", "prompt_result",
        "image", "video", "audio", "document",
    ]  # fmt: skip
    assert [str(action) for action in ViewAction] == [
        "read", "write", "execute", "invoke", "send", "receive", "generate",
    ]  # fmt: skip
    assert {kind.model_fields["type"].default: str(shown) for kind, shown in KIND_BY_BLOCK.items()} == VIEW_KINDS
    assert set(BLOCKS) - set(VIEW_KINDS) == {"provider"}
    assert set(ACTIONS_BY_ROLE) == set(Role)


class TestTheFixture:
    """The specification's example: reasoning, text and two calls give four views."""

    message = Message.assistant(
        [
            ThinkingBlock(text="The user wants admins."),
            TextBlock(text="Let me look that up."),
            ToolUseBlock(id="tu_1", name="execute_sql", input={"query": "SELECT 1"}),
            ToolUseBlock(id="tu_2", name="send_email", input={"to": "a@example.org"}),
        ],
        session_id="s",
    )
    calls = called_tools([message], {"execute_sql": "db-server", "send_email": "email-server"})

    def test_the_example_gives_four_views_in_order(self) -> None:
        """Kind, name, action, direction, URI and content, row by row."""
        views = list(self.message.iter_views(hook="llm_output", calls=self.calls))
        seen = [(view.kind, view.name, view.action, view.is_pre, view.uri, view.content) for view in views]
        assert seen == [
            ("thinking", None, "generate", False, None, "The user wants admins."),
            ("text", None, "generate", False, None, "Let me look that up."),
            ("tool_call", "execute_sql", "execute", True, "tool://db-server/execute_sql", '{"query": "SELECT 1"}'),
            ("tool_call", "send_email", "execute", True, "tool://email-server/send_email", '{"to": "a@example.org"}'),
        ]
        assert {view.hook for view in views} == {"llm_output"}
        assert [view.matches_uri_pattern("tool://db-server/*") for view in views] == [False, False, True, False]

    def test_the_method_equals_the_function(self) -> None:
        """An empty message has no views."""
        by_method = [view.to_dict() for view in self.message.iter_views("llm_output", full(), calls=self.calls)]
        assert by_method == [v.to_dict() for v in iter_views(self.message, "llm_output", full(), calls=self.calls)]
        assert list(Message.user([], session_id="s").iter_views()) == []


@each_row("role", Role)
@each_row("kind", VIEW_KINDS)
def test_action_and_direction(kind: str, role: Role) -> None:
    """Calls and results by kind, the rest by role; the text of a tool is output."""
    view = view_of(block(kind), role)
    fixed = {
        "tool_use": ("execute", True), "tool_result": ("receive", False), "resource": ("read", False),
        "resource_ref": ("read", True), "prompt_request": ("invoke", True), "prompt_result": ("receive", False),
    }  # fmt: skip
    by_role = {
        "user": ("send", True), "system": ("send", True), "developer": ("send", True), "assistant": ("generate", False),
        "tool": ("receive", False),
    }  # fmt: skip
    assert (view.action, view.is_pre) == fixed.get(kind, by_role[role])
    assert view.is_post is not view.is_pre
    assert (view.kind, view.role) == (VIEW_KINDS[kind], role)


IMAGE = MediaSource(kind="url", data="https://example.org/a")
TEXT_SOURCE = MediaSource(kind="text", data="Dear reader")

PARTS: list[tuple[ContentBlock, str | None, str | None, str | None, str | None, int | None]] = [
    (TextBlock(text="äb"), "äb", None, None, None, 3),
    (TextBlock(text=""), "", None, None, None, 0),
    (ThinkingBlock(text="Hm."), "Hm.", None, None, None, 3),
    (RedactedThinkingBlock(data="b3BhcXVl"), None, None, None, None, None),
    (ToolUseBlock(id="i", name="f", input={"a": "ü"}), '{"a": "ü"}', "tool://_/f", "f", None, 11),
    (ToolUseBlock(id="i", name="f"), "{}", "tool://_/f", "f", None, 2),
    (ToolUseBlock(id="i", name="f", raw_input='{"a": rm -rf'), '{"a": rm -rf', "tool://_/f", "f", None, 12),
    (ToolResultBlock(tool_use_id="i"), None, "tool_result://_", None, None, None),
    (ToolResultBlock(tool_use_id="i", content=(TextBlock(text="ok"),)), "ok", "tool_result://_", None, None, 2),
    (
        ToolResultBlock(tool_use_id="i", content=(TextBlock(text="a"), TextBlock(text="ß"))),
        '[{"type": "text", "text": "a", "citations": []}, {"type": "text", "text": "ß", "citations": []}]',
        "tool_result://_", None, None, 97,
    ),
    (block("prompt_request"), '{"who": "you"}', "prompt://s/greet", "greet", None, 14),
    (PromptRequestBlock(prompt_request_id="p", name="g"), "{}", "prompt://_/g", "g", None, 2),
    (block("prompt_result"), "Hello.", "prompt_result://greet", "greet", None, 6),
    (PromptResultBlock(prompt_request_id="p", prompt_name="g"), None, "prompt_result://g", "g", None, None),
    (block("resource", size_bytes=999), "Hello.", "file:///a", "a", "text/plain", 999),
    (block("resource", size_bytes=None, content="äb", name=None), "äb", "file:///a", None, "text/plain", 3),
    (block("resource", size_bytes=None, content=None), None, "file:///a", "a", "text/plain", None),
    (block("resource", size_bytes=None, content=None, blob="aGVsbG8="), None, "file:///a", "a", "text/plain", 5),
    (block("resource", size_bytes=None, content=None, blob="aGVsbA=="), None, "file:///a", "a", "text/plain", 4),
    (block("resource_ref"), None, "file:///a", "a", None, None),
    (block("image"), None, None, None, "image/png", None),
    (block("video"), None, None, None, "video/mp4", None),
    (block("audio", transcript=None), None, None, None, "audio/wav", None),
    (block("document", context=None), None, None, None, "application/pdf", None),
    # Media that a model reads are seen too.
    (AudioBlock(source=IMAGE, transcript="Hello."), "Hello.", "https://example.org/a", None, None, 6),
    (DocumentBlock(source=TEXT_SOURCE), "Dear reader", None, None, None, 11),
    (DocumentBlock(source=TEXT_SOURCE, context="A letter"), "A letter\nDear reader", None, None, None, 20),
    (DocumentBlock(source=IMAGE, context="A letter"), "A letter", "https://example.org/a", None, None, 8),
]  # fmt: skip


@each_row(("part", "content", "uri", "name", "mime_type", "size"), PARTS)
def test_content_identity_and_size_of_each_kind(
    part: ContentBlock, content: str | None, uri: str | None, name: str | None, mime_type: str | None, size: int | None
) -> None:
    view = view_of(part)
    assert (view.content, view.uri, view.name, view.mime_type, view.size_bytes) == (content, uri, name, mime_type, size)
    assert view.text == view.content
    assert view.has_content() is (content is not None)
    assert view.raw == part


def test_a_result_with_more_than_text_is_json() -> None:
    """Nothing of a tool's answer is left out: images, nested results, kinds of a newer version."""
    inner = (TextBlock(text="a"), block("image"), UnknownBlock.model_validate({"type": "hologram", "beam": "blue"}))
    result = ToolResultBlock(tool_use_id="i", content=(*inner, ToolResultBlock(tool_use_id="j", content=inner[:1])))
    read = json.loads(view_of(result).content or "")
    assert [each["type"] for each in read] == ["text", "image", "hologram", "tool_result"]
    assert read[2]["beam"] == "blue"
    cited = view_of(ToolResultBlock(tool_use_id="i", content=(block("text"),))).content
    assert "https://example.org" in (cited or "")


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("resource", {"resource_type": "file", "version": "2", "annotations": {"a": 1}}),
        ("tool_use", {"namespace": "db-server", "tool_id": "tu_1"}),
        ("tool_result", {"is_error": True, "tool_name": "execute_sql"}),
        ("prompt_request", {"server_id": "s"}),
        ("prompt_result", {"is_error": True, "message_count": 1}),
        *((kind, {}) for kind in ("text", "thinking", "image", "audio", "video", "document", "resource_ref")),
    ],
)
def test_properties_of_each_kind(kind: str, expected: dict[str, Any]) -> None:
    """One property alone gives the same value, or the default."""
    view = view_of(block(kind), tool=SQL)
    assert view.properties == expected
    assert {name: view.get_property(name) for name in expected} == expected
    assert view.get_property("nothing") is None
    assert view.get_property("nothing", 7) == 7


@pytest.mark.parametrize("kind", VIEW_KINDS)
def test_predicates_divide_the_kinds(kind: str) -> None:
    """Each kind belongs to exactly one group."""
    view = view_of(block(kind))
    groups = {
        "is_tool": {"tool_use", "tool_result"}, "is_prompt": {"prompt_request", "prompt_result"},
        "is_resource": {"resource", "resource_ref"}, "is_text": {"text", "thinking", "redacted_thinking"},
        "is_media": {"image", "video", "audio", "document"},
    }  # fmt: skip
    assert {name for name in groups if getattr(view, name)} == {name for name, kinds in groups.items() if kind in kinds}


def test_arguments_of_each_kind() -> None:
    """Tool calls and prompt requests have some; nothing else has."""
    view = view_of(ToolUseBlock(id="i", name="f", input={"a": 1, "none": None}))
    assert view.args == {"a": 1, "none": None}
    assert (view.get_arg("a"), view.get_arg("none", 7), view.get_arg("z"), view.get_arg("z", 7)) == (1, None, None, 7)
    assert (view.has_arg("none"), view.has_arg("z")) == (True, False)
    assert view_of(block("prompt_request")).args == {"who": "you"}
    for kind in set(VIEW_KINDS) - {"tool_use", "prompt_request"}:
        view = view_of(block(kind))
        assert (view.args, view.get_arg("a", 7), view.has_arg("a")) == (None, 7, False)


CONTEXT = {
    "environment": "request.environment", "request_id": "request.request_id",
    "roles": frozenset({"security.subject.roles"}), "permissions": frozenset({"security.subject.permissions"}),
    "teams": frozenset({"security.subject.teams"}),
    "labels": frozenset({"security.labels.one", "security.labels.two"}), "agent_input": "agent.input",
    "session_id": "agent.session_id", "conversation_id": "agent.conversation_id", "turn": 3,
    "agent_id": "agent.agent_id", "parent_agent_id": "agent.parent_agent_id",
    "headers": {"X-Trace": "http.headers.trace", "Authorization": "http.headers.authorization"},
}  # fmt: skip


def test_context_accessors() -> None:
    """Each reads its source; None or an empty value if there is none."""
    view = view_of(block("tool_use", name="execute_sql"), extensions=full())
    bare = [view_of(block("text")), view_of(block("text"), extensions=Extensions())]
    for name, value in CONTEXT.items():
        assert getattr(view, name) == value
        absent = type(value)() if isinstance(value, (frozenset, dict)) else None
        assert [getattr(each, name) for each in bare] == [absent, absent]
    security = full().security
    assert security is not None
    assert view.subject == security.subject
    assert view.object == security.objects["execute_sql"]
    assert view.data_policy == security.data["execute_sql"]
    assert [(each.subject, each.object, each.data_policy) for each in bare] == [(None, None, None)] * 2


def test_membership_is_exact_except_for_header_names() -> None:
    """Roles, permissions and labels have case; headers do not."""
    view = view_of(block("text"), extensions=full())
    assert view.has_role("security.subject.roles")
    assert not view.has_role("SECURITY.SUBJECT.ROLES")
    assert view.has_permission("security.subject.permissions")
    assert not view.has_permission("security")
    assert view.has_label("security.labels.one")
    assert not view.has_label("Security.labels.one")
    assert view.has_header("x-TRACE")
    assert view.get_header("x-trace") == "http.headers.trace"
    assert not view.has_header("x-other")
    assert view.get_header("x-other") is None
    assert view.get_header("x-other", "d") == "d"


@pytest.mark.parametrize(
    ("key", "found"),
    [("a", True), ("file:///a", True), ("file:///A", False), ("", False)],
)
def test_policies_are_found_by_name_then_by_uri(key: str, found: bool) -> None:
    """A resource without a name is found by its URI; the reference implementation does not try that."""
    security = {"objects": {key: {"managed_by": "tool"}}, "data": {key: {"denied_actions": ["export"]}}}
    extensions = Extensions.model_validate({"security": security})
    view = view_of(block("resource"), extensions=extensions)
    assert ((view.object is not None), (view.data_policy is not None)) == (found, found)
    nameless = view_of(block("resource", name=None), extensions=extensions)
    assert (nameless.object is not None) is (key == "file:///a")


def test_the_name_outranks_the_uri() -> None:
    """If both have an entry."""
    objects = {"a": {"managed_by": "tool"}, "file:///a": {"managed_by": "both"}}
    view = view_of(block("resource"), extensions=Extensions.model_validate({"security": {"objects": objects}}))
    assert view.object is not None
    assert view.object.managed_by == "tool"


class TestNamingTools:
    """A result holds only the id of its call; the tool is found through the calls, or through MCP's metadata."""

    call = Message.assistant([ToolUseBlock(id="tu_1", name="execute_sql")], session_id="s")
    result = Message.tool("tu_1", "ok", session_id="s")
    mcp = Extensions(mcp=MCPExtension(tool=ToolMetadata(name="execute_sql", server_id="db-server")))

    def test_tools_are_named_by_the_calls_of_the_history(self) -> None:
        """Tools are named by the calls of the history with the namespaces that the caller knows."""
        calls = called_tools([self.call, self.result], {"execute_sql": "db-server"})
        assert calls == {"tu_1": SQL}
        (view,) = self.result.iter_views(calls=calls)
        assert (view.name, view.uri, view.get_property("tool_name")) == (
            "execute_sql", "tool_result://execute_sql", "execute_sql",
        )  # fmt: skip
        (view,) = self.call.iter_views(calls=calls)
        assert (view.uri, view.get_property("namespace")) == ("tool://db-server/execute_sql", "db-server")

    def test_tools_are_named_by_mcp(self) -> None:
        """If the message has one call or one result, because MCP describes one tool."""
        (view,) = self.result.iter_views(extensions=self.mcp)
        assert view.uri == "tool_result://execute_sql"
        (view,) = self.call.iter_views(extensions=self.mcp)
        assert view.uri == "tool://db-server/execute_sql"
        two = self.result.model_copy(update={"content": self.result.content * 2})
        assert [each.name for each in two.iter_views(extensions=self.mcp)] == [None, None]
        (view,) = Message.assistant([ToolUseBlock(id="i", name="other")], session_id="s").iter_views(
            extensions=self.mcp
        )
        assert view.uri == "tool://_/other"

    def test_calls_outrank_mcp(self) -> None:
        """They name each call by its id. A call always keeps its own name."""
        (view,) = self.result.iter_views(extensions=self.mcp, calls={"tu_1": CalledTool("send_email")})
        assert view.name == "send_email"
        (view,) = self.call.iter_views(calls={"tu_1": CalledTool("send_email", "email-server")})
        assert view.uri == "tool://_/execute_sql"


class TestUnknownParts:
    unknown = UnknownBlock.model_validate({"type": "holo\ngram", "text": "secret"})

    @pytest.mark.parametrize(
        "part", [unknown, ProviderBlock(provider="anthropic", kind="compaction", data={"text": "secret"})]
    )
    def test_an_unknown_part_raises(self, part: ContentBlock, caplog: pytest.LogCaptureFixture) -> None:
        """Before the first view is returned, with a warning that does not quote it."""
        message = Message.assistant([TextBlock(text="a")], session_id="s")
        message = message.model_copy(update={"content": (*message.content, part)})
        with caplog.at_level(logging.WARNING), pytest.raises(UnknownPartError, match=r"content\[1\]") as raised:
            message.iter_views()
        assert "secret" not in str(raised.value) + caplog.text
        assert "\n" not in str(raised.value)
        assert len(caplog.records) == 1
        with pytest.raises(UnknownPartError):
            MessageView(part, Role.USER)

    def test_a_part_cannot_forge_its_kind(self) -> None:
        """A class of its own that claims to be text is not text."""
        with pytest.raises(UnknownPartError):
            MessageView(UnknownBlock(type="text"), Role.USER)

        class ForgedText(TextBlock):
            pass

        with pytest.raises(UnknownPartError):
            MessageView(ForgedText(text="harmless"), Role.USER)


class TestInside:
    """Nested parts have views of their own."""

    def test_blocks_of_a_result_have_views(self) -> None:
        """Blocks of a result have views in order, with the role, the hook and the extensions of the result."""
        result = ToolResultBlock(tool_use_id="i", content=(TextBlock(text="a"), block("image"), block("resource")))
        inner = list(view_of(result, Role.TOOL, hook="tool_post_invoke", extensions=full()).inner_views())
        assert [(view.kind, view.is_post, view.role) for view in inner] == [
            ("text", True, "tool"), ("image", True, "tool"), ("resource", True, "tool"),
        ]  # fmt: skip
        assert {(view.hook, view.environment) for view in inner} == {("tool_post_invoke", "request.environment")}

    def test_messages_of_a_prompt_have_views(self) -> None:
        """Each in its own role: the content of the prompt result does not show it."""
        messages = [Message.system("Be brief."), Message.user([TextBlock(text="Hi"), block("image")])]
        prompt = block("prompt_result", content=None, messages=[each.model_dump(mode="json") for each in messages])
        view = view_of(prompt)
        assert view.content is None
        assert [(each.role, each.kind, each.content) for each in view.inner_views()] == [
            ("system", "text", "Be brief."), ("user", "text", "Hi"), ("user", "image", None),
        ]  # fmt: skip

    @pytest.mark.parametrize(
        "inner", [{"role": "user", "content": [{"type": "hologram"}]}, {"role": "nobody"}, {"text": "Hi"}]
    )
    def test_an_unknown_nested_part_raises(self, inner: dict[str, Any]) -> None:
        """Nothing nested is skipped either."""
        prompt = block("prompt_result", messages=[Message.user("Hi").model_dump(mode="json"), inner])
        with pytest.raises(UnknownPartError):
            view_of(prompt).inner_views()
        unknown = UnknownBlock.model_validate({"type": "hologram"})
        with pytest.raises(UnknownPartError):
            view_of(ToolResultBlock(tool_use_id="i", content=(unknown,))).inner_views()

    def test_other_kinds_have_no_nested_views(self) -> None:
        """Texts, calls and media."""
        for kind in set(VIEW_KINDS) - {"tool_result", "prompt_result"}:
            assert list(view_of(block(kind)).inner_views()) == []


def test_content_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """However often and under whichever name it is requested."""
    read: list[ContentBlock] = []

    def count_content(part: ContentBlock) -> str | None:
        read.append(part)
        return content_of(part)

    monkeypatch.setattr("dragoman.canonical.message_view.parts.content_of", count_content)
    view = view_of(block("tool_use"), extensions=full())
    assert read == []
    for _ in range(3):
        assert view.content == view.text
        assert (view.size_bytes, view.has_content()) == (13, True)
        view.to_dict()
        view.to_opa_input()
    assert len(read) == 1
    empty = view_of(block("image"))
    assert (empty.content, empty.content, empty.size_bytes) == (None, None, None)
    assert len(read) == 2


def test_repr_shows_the_place_and_no_content() -> None:
    """Repr shows the place and no content: kind, role, direction, URI and hook; no content, no context."""
    view = view_of(block("tool_use", name="f", input={"a": "secret"}), hook="tool_pre_invoke", extensions=full())
    assert repr(view) == "MessageView(kind=tool_call, role=assistant, pre, uri=tool://_/f, hook=tool_pre_invoke)"
    assert repr(view_of(block("text"), Role.ASSISTANT)) == "MessageView(kind=text, role=assistant, post)"


def test_a_missing_uri_matches_no_pattern() -> None:
    assert not view_of(block("text")).matches_uri_pattern("**")
    assert not view_of(block("text")).matches_uri_pattern("")
    assert view_of(block("tool_use", name="f")).matches_uri_pattern("**")
