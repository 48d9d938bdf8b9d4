"""Projection by example: the replacement of each kind of content that a model does not accept."""

from typing import Any

import pytest

from dragoman.adapter.errors import CriticalLossError, ProjectionError
from dragoman.adapter.facts.capabilities import AdapterCapabilities, ThinkingPolicy
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.requests.projection import Projection, project
from dragoman.adapter.requests.request_builder import Target
from dragoman.canonical.blocks import (
    AudioBlock,
    ContentBlock,
    DocumentBlock,
    ImageBlock,
    MediaSource,
    PromptRequestBlock,
    ProviderBlock,
    RedactedThinkingBlock,
    ResourceBlock,
    TextBlock,
    ThinkingBlock,
    ToolResultBlock,
    ToolUseBlock,
    UnknownBlock,
)
from dragoman.canonical.message import Message, MessageMetadata, Role, read_message

BY_ANTHROPIC = MessageMetadata(model="anthropic:claude-opus-5-5", provider="anthropic")


def to(*history: Message, provider: str = "p", **abilities: Any) -> Projection:
    capabilities = AdapterCapabilities.model_validate({"supports_prefill": "native", **abilities})
    return project(history, Target(provider, "m", capabilities))


def roles(projection: Projection) -> list[str]:
    return [str(turn.role) for turn in projection.turns]


def kinds(projection: Projection) -> list[str]:
    return [str(loss.kind) for loss in projection.losses]


def texts(projection: Projection) -> list[str]:
    return [block.text for turn in projection.turns for block in turn.blocks if isinstance(block, TextBlock)]


def picture(kind: Any = "base64", **fields: Any) -> ImageBlock:
    provider = fields.pop("provider", None)
    return ImageBlock(source=MediaSource(kind=kind, data="x", provider=provider), media_type="image/png", **fields)


def test_a_fitting_history_passes_unchanged() -> None:
    """The very blocks of the message, with their places, and no losses."""
    history = [Message.system("Be brief."), Message.user("Hi"), Message.assistant("Hello")]
    projection = to(*history)
    assert projection.losses == ()
    for turn, message in zip(projection.turns, history, strict=True):
        assert turn.message is message
        assert turn.blocks is message.content
        assert turn.origins == (0,)


class TestThinking:
    def test_own_thinking_that_a_wire_never_takes_is_no_loss(self) -> None:
        """Its own thinking is not a loss on a wire without thinking; another model's is one."""
        mine = Message.assistant([ThinkingBlock(text="Hm.")], metadata=MessageMetadata(model="p:m", provider="p"))
        assert [loss.severity for loss in to(Message.user("Hi"), mine).losses if loss.kind is LossKind.THINKING] == [
            Severity.INFO
        ]
        assert Severity.WARNING in [loss.severity for loss in to(self.reply).losses]

    signed = ThinkingBlock(text="Hm.", signature="c2ln")
    reply = Message.assistant([signed, RedactedThinkingBlock(data="x"), TextBlock(text="4")], metadata=BY_ANTHROPIC)

    def test_its_issuer_gets_thinking_back(self) -> None:
        assert to(self.reply, thinking_policy=ThinkingPolicy(reads_from=("anthropic:claude-*",))).losses == ()

    def test_other_models_do_not_get_thinking(self) -> None:
        """It is left out, or becomes text if the model's policy says so; redacted thinking has no text."""
        assert texts(to(self.reply)) == ["4"]
        assert kinds(to(self.reply)) == ["thinking", "thinking"]
        assert texts(to(self.reply, thinking_policy=ThinkingPolicy(foreign="text"))) == ["Hm.", "4"]

    def test_a_model_may_refuse_foreign_thinking(self) -> None:
        """Then nothing is sent at all."""
        with pytest.raises(ProjectionError, match="m cannot read thinking of anthropic:claude-opus-5-5, and refuses"):
            to(self.reply, thinking_policy=ThinkingPolicy(foreign="refuse"))

    @pytest.mark.parametrize(("accepts", "lost"), [(True, []), (False, ["thinking"])])
    def test_unsigned_thinking_is_sent_if_no_signature_is_required(self, accepts: bool, lost: list[str]) -> None:
        unsigned = Message.assistant([ThinkingBlock(text="Hm."), TextBlock(text="4")])
        assert kinds(to(unsigned, thinking_policy=ThinkingPolicy(accepts_unsigned=accepts))) == lost

    def test_thinking_of_unknown_origin_is_dropped(self) -> None:
        """A signature without its issuer cannot be checked."""
        policy = ThinkingPolicy(reads_from=("*",))
        assert kinds(to(Message.assistant([self.signed, TextBlock(text="4")]), thinking_policy=policy)) == ["thinking"]


class TestMedia:
    @pytest.mark.parametrize(
        ("block", "abilities", "note"),
        [
            (picture(), {}, "[image left out: m takes no image]"),
            (picture("url"), {"supports_images": "native", "supports_media_urls": "absent"},
             "[image left out: m takes no media by URL]"),
            (picture("file_id", provider="openai"), {"supports_images": "native"},
             "[image left out: the file is kept by openai]"),
            (picture("file_ref"), {"supports_images": "native"},
             "[image left out: the file was not read before the request was made]"),
            (picture(), {"supports_images": "native", "accepted_image_media_types": ["image/jpeg"]},
             "[image left out: m takes no image/png]"),
            (picture("url"), {"supports_images": "native", "media_sources": {"image": ["base64"]}},
             "[image left out: m takes no image by url]"),
            (AudioBlock(source=MediaSource(kind="base64", data="x")), {}, "[audio left out: m takes no audio]"),
            (AudioBlock(source=MediaSource(kind="base64", data="x"), transcript="Hello."), {}, "Hello."),
        ],
    )  # fmt: skip
    def test_omitted_media_leave_a_note(self, block: Any, abilities: Any, note: str) -> None:
        """A note says what the model does not see; an audio's transcript replaces the audio."""
        projection = to(Message.user([block, TextBlock(text="What is it?")]), **abilities)
        assert texts(projection) == [note, "What is it?"]
        assert kinds(projection) == ["media"]
        assert projection.losses[0].severity is Severity.WARNING

    @pytest.mark.parametrize("block", [picture(), picture("url"), picture("file_id"), picture("file_id", provider="p")])
    def test_supported_media_pass(self, block: ContentBlock) -> None:
        """By data, by URL, or as a file that the provider keeps."""
        assert to(Message.user([block]), supports_images="native").losses == ()

    def test_media_are_allowed_by_role(self) -> None:
        """A model that reads images of the user reads none of the assistant: those follow in a message of the user."""
        drawn = [Message.assistant([TextBlock(text="Here."), picture()]), Message.user("Bluer.")]
        projection = to(*drawn, supports_images="native", media_roles=["user"])
        assert texts(projection) == ["Here.", "[image follows]", "Bluer."]
        assert [turn.role for turn in projection.turns if picture() in turn.blocks] == [Role.USER]
        assert [(loss.kind, loss.severity) for loss in projection.losses] == [(LossKind.FLATTENED, Severity.INFO)]
        assert kinds(to(Message.assistant([picture()]), supports_images="native", media_roles=[])) == ["media"]

    def test_media_of_the_assistant_follow_the_results_of_its_calls(self) -> None:
        """Nothing stands between a call and its result."""
        calls = [picture(), ToolUseBlock(id="tu_1", name="f", input={})]
        history = [Message.assistant(calls), Message.tool("tu_1", "Done."), Message.assistant("Done.")]
        projection = to(*history, supports_images="native", supports_tools="native", media_roles=["user"])
        roles = [turn.role for turn in projection.turns]
        assert roles[-4:] == [Role.ASSISTANT, Role.TOOL, Role.USER, Role.ASSISTANT]

    @pytest.mark.parametrize(("neighbours", "assistants"), [("native", 2), ("absent", 1)])
    def test_media_of_the_assistant_follow_all_of_its_turn(self, neighbours: str, assistants: int) -> None:
        """Results may follow the last of neighbouring messages, and nothing stands before them."""
        call = ToolUseBlock(id="tu_1", name="f", input={})
        history = [
            Message.assistant([picture(), call]), Message.assistant("Wait."), Message.tool("tu_1", "Done."),
            Message.assistant("There."),
        ]  # fmt: skip
        able = {"supports_images": "native", "supports_tools": "native", "supports_neighbours": neighbours}
        roles = [turn.role for turn in to(*history, media_roles=["user"], **able).turns]
        assert roles == [*[Role.ASSISTANT] * assistants, Role.TOOL, Role.USER, Role.ASSISTANT]

    @pytest.mark.parametrize(
        "abilities", [{}, {"supports_documents": "native", "accepted_media_types": {"document": ()}}]
    )
    def test_a_text_document_becomes_text_for_every_model(self, abilities: dict[str, Any]) -> None:
        """The text is sent under its title and with its note."""
        source = MediaSource(kind="text", data="Terms")
        document = DocumentBlock(source=source, media_type="text/markdown", title="Deal", context="A draft.")
        projection = to(Message.user([document]), **abilities, media_sources={"document": ["base64"]})
        assert texts(projection) == ["[document Deal]\nA draft.\nTerms"]
        assert [(loss.kind, loss.severity) for loss in projection.losses] == [(LossKind.FLATTENED, Severity.INFO)]


class TestAnswers:
    def history(self, *content: ContentBlock) -> list[Message]:
        asking = Message.assistant([ToolUseBlock(id="a", name="f"), ToolUseBlock(id="b", name="f")])
        return [asking, Message.tool("a", content), Message.tool("b", "ok"), Message.user("And?")]

    def test_media_in_an_answer_stay_if_the_wire_allows(self) -> None:
        assert to(*self.history(picture()), supports_images="native", supports_tool_result_media="native").losses == ()

    def test_media_in_an_answer_follow_after_all_answers(self) -> None:
        """In one user turn, so that the answers stay together; a note takes their place."""
        projection = to(
            *self.history(TextBlock(text="Look:"), picture()),
            supports_images="native",
            supports_tool_result_media="emulated",
        )
        assert roles(projection) == ["assistant", "tool", "tool", "user", "user"]
        answer = projection.turns[1].blocks[0]
        assert isinstance(answer, ToolResultBlock)
        assert answer.content == (TextBlock(text="Look:"), TextBlock(text="[image follows]"))
        assert projection.turns[3].blocks == (picture(),)
        assert kinds(projection) == ["flattened"]

    def test_media_at_the_end_follow_too(self) -> None:
        """Media at the end follow too, also if the history ends with the answer."""
        history = [Message.assistant([ToolUseBlock(id="a", name="f")]), Message.tool("a", [picture()])]
        projection = to(*history, supports_images="native", supports_tool_result_media="emulated")
        assert roles(projection) == ["assistant", "tool", "user"]

    def test_unsupported_media_in_an_answer_are_left_out(self) -> None:
        """Unsupported media in an answer are left out with a note, and as a loss of content."""
        projection = to(*self.history(picture()), supports_images="native")
        assert kinds(projection) == ["media"]
        assert projection.losses[0].block_type == "tool_result"

    @pytest.mark.parametrize(
        ("part", "left", "kind"),
        [
            (ResourceBlock(resource_request_id="r", uri="u", resource_type="file", content="x"),
             (TextBlock(text="[resource u]\nx"),), "flattened"),
            (ProviderBlock(provider="other", kind="tool_reference", data={}), (), "native_block"),
            (UnknownBlock(type="hologram"), (), "unknown_block"),
            (ToolUseBlock(id="c", name="f"), (), "misplaced_block"),
            (ThinkingBlock(text="Hm."), (), "misplaced_block"),
            (ToolResultBlock(tool_use_id="c"), (), "misplaced_block"),
        ],
    )  # fmt: skip
    def test_other_blocks_in_an_answer_are_treated_as_outside_it(
        self, part: ContentBlock, left: tuple[ContentBlock, ...], kind: str
    ) -> None:
        projection = to(*self.history(part))
        answer = projection.turns[1].blocks[0]
        assert isinstance(answer, ToolResultBlock)
        assert answer.content == left
        assert kinds(projection) == [kind]

    def test_native_blocks_in_an_answer_go_back_to_their_issuer(self) -> None:
        assert to(*self.history(ProviderBlock(provider="p", kind="tool_reference", data={}))).losses == ()


class TestTools:
    history = (
        Message.assistant([TextBlock(text="I look."), ToolUseBlock(id="a", name="read", input={"path": "x"})]),
        Message.tool("a", "ok"),
        Message.assistant([ToolUseBlock(id="b", name="read", raw_input='{"pa')]),
        Message.user("Go on."),
    )

    def test_a_model_without_tools_reads_calls_as_text(self) -> None:
        """Calls and results become text, in messages of the same roles."""
        projection = to(*self.history, supports_tools="absent")
        assert roles(projection) == ["assistant", "user", "assistant", "user", "user"]
        assert texts(projection) == [
            "I look.", '[call of the tool read with {"path":"x"}]', "[result of an earlier tool call]", "ok",
            '[call of the tool read with {"pa]', "[error of an earlier tool call]",
            "The call was interrupted: no result is known.", "Go on.",
        ]  # fmt: skip
        assert set(kinds(projection)) == {"tools", "interrupted_call"}

    def test_emulated_tools_are_left_to_the_adapter(self) -> None:
        """Projection leaves them alone."""
        assert kinds(to(*self.history[:2], supports_tools="emulated")) == []


class TestNative:
    block = ProviderBlock(provider="openai", kind="web_search", data={"id": 1})
    reply = Message.assistant([block, TextBlock(text="4")])

    def test_native_blocks_go_to_their_issuer_and_its_kin(self) -> None:
        """Nobody else can read them."""
        assert to(self.reply, provider="openai").losses == ()
        assert to(self.reply, provider="azure-openai", native_from=["openai"]).losses == ()
        (loss,) = to(self.reply, provider="mistral").losses
        assert (loss.kind, loss.block_index, loss.block_type) == (LossKind.NATIVE_BLOCK, 0, "provider")
        assert loss.reason == "the web_search of openai means nothing elsewhere"

    def test_unknown_blocks_are_dropped(self) -> None:
        """This version cannot write what it cannot read."""
        assert kinds(to(Message.user([UnknownBlock(type="hologram"), TextBlock(text="?")]))) == ["unknown_block"]

    def test_unknown_words_are_losses(self) -> None:
        """A message of an unknown role is left out; media from an unknown kind of source leave a note."""
        read = read_message({"role": "reviewer", "content": "Look!"})
        projection = to(Message.user("Hi"), read)
        assert texts(projection) == ["Hi"]
        (loss,) = projection.losses
        assert (loss.kind, loss.message_id, loss.severity) == (LossKind.ROLE, read.id, Severity.WARNING)
        assert loss.reason == "the role reviewer is unknown to this version: left out"
        image = {"type": "image", "source": {"kind": "bucket", "data": "x"}}
        projection = to(read_message({"role": "user", "content": [image]}), supports_images="native")
        assert kinds(projection) == ["media"]
        why = "the kind of source 'bucket' is unknown to this version"
        assert texts(projection) == [f"[image left out: {why}]"]

    @pytest.mark.parametrize("raw", [
        {"role": "reviewer", "content": "Look!"},
        {"role": "user", "content": [{"type": "image", "source": {"kind": "bucket", "data": "x"}}]},
    ])  # fmt: skip
    def test_a_critical_message_with_unknown_words_is_not_sent(self, raw: dict[str, Any]) -> None:
        with pytest.raises(CriticalLossError, match="unknown to this version"):
            to(read_message({**raw, "metadata": {"critical": True}}), supports_images="native")

    def test_resources_and_prompts_become_text(self) -> None:
        """Form changes, content stays."""
        projection = to(Message.user([PromptRequestBlock(prompt_request_id="p", name="greet", arguments={"a": 1})]))
        assert texts(projection) == ['[prompt greet {"a":1}]']
        assert [(loss.kind, loss.severity) for loss in projection.losses] == [(LossKind.FLATTENED, Severity.INFO)]


class TestRoles:
    history = (Message.system("S"), Message.developer("D"), Message.user("Hi"), Message.system("Late"))

    @pytest.mark.parametrize(
        ("abilities", "expected", "changes"),
        [
            ({"supports_developer_role": "native"}, ["system", "developer", "user", "system"], 0),
            ({}, ["system", "system", "user", "system"], 1),
            ({"supports_mid_conversation_system": "absent"}, ["system", "system", "user", "user"], 2),
            ({"supports_system_prompt": "absent"}, ["user", "user", "user", "user"], 4),
        ],
    )
    def test_a_missing_role_becomes_a_similar_one(
        self, abilities: dict[str, str], expected: list[str], changes: int
    ) -> None:
        """Developer becomes system; a system message becomes the user's if the model allows none there."""
        projection = to(*self.history, **abilities)
        assert roles(projection) == expected
        assert kinds(projection) == ["role"] * changes
        assert texts(projection) == ["S", "D", "Hi", "Late"]

    def test_a_block_that_a_role_may_not_hold_is_left_out(self) -> None:
        projection = to(Message.user([ToolUseBlock(id="a", name="f"), TextBlock(text="Hi")]))
        assert [(loss.kind, loss.reason) for loss in projection.losses] == [
            (LossKind.MISPLACED_BLOCK, "a user message holds no tool_use")
        ]


class TestEmptiness:
    @pytest.mark.parametrize("text", ["", " ", "\n\t"])
    def test_blank_texts_are_dropped_if_refused(self, text: str) -> None:
        """And the message with them, if nothing else is in it."""
        some, none = Message.user([TextBlock(text=text), TextBlock(text="Hi")]), Message.user(text)
        assert kinds(to(some, supports_empty_text="absent")) == ["empty_text"]
        assert kinds(to(some, none, supports_empty_text="absent")) == ["empty_text", "empty_text", "empty_message"]
        assert to(some, none).losses == ()

    def test_a_provider_gets_its_own_blank_text_back(self) -> None:
        """A change would invalidate the signed thinking after it. Other providers do not get it."""
        reply = Message.assistant(
            [TextBlock(text="\n\n"), TextBlock(text="")], metadata=MessageMetadata(provider_raw={"by": "p"})
        )
        assert texts(to(reply, supports_empty_text="absent")) == ["\n\n"]
        assert texts(to(reply, Message.user("Hi"), provider="q", supports_empty_text="absent")) == ["Hi"]

    @pytest.mark.parametrize(
        ("role", "takes_empty", "turns", "lost"),
        [
            (Role.USER, "native", 1, []),
            (Role.USER, "absent", 0, ["empty_message"]),
            (Role.TOOL, "native", 0, ["empty_message"]),
            (Role.SYSTEM, "absent", 0, []),
            (Role.SYSTEM, "native", 1, []),
        ],
    )
    def test_an_empty_message_is_dropped(self, role: Role, takes_empty: str, turns: int, lost: list[str]) -> None:
        """A system prompt may be a placeholder: without text nothing is lost."""
        projection = to(Message(role=role), Message.user("Hi"), supports_empty_text=takes_empty)
        assert len(projection.turns) == turns + 1
        assert kinds(projection) == lost

    def test_a_message_that_lost_all_its_blocks_is_not_sent(self) -> None:
        """A message that lost all its blocks is not sent, even if empty messages are accepted."""
        projection = to(Message.assistant([TestThinking.signed]), Message.user("Hi"))
        assert roles(projection) == ["user"]
        assert kinds(projection) == ["thinking", "empty_message"]

    def test_an_emptied_history_gets_a_user_message(self) -> None:
        """No wire accepts a request without messages; an empty history stays empty."""
        projection = to(Message.assistant([TestThinking.signed]))
        assert [(turn.role, turn.blocks) for turn in projection.turns] == [(Role.USER, (TextBlock(text="Continue."),))]
        assert kinds(projection) == ["thinking", "empty_message", "empty_message"]
        assert to().turns == ()


class TestNeighbours:
    signed = ThinkingBlock(text="Hm.", signature="c2ln")
    history = (
        Message.assistant([ToolUseBlock(id="a", name="f")], metadata=BY_ANTHROPIC),
        Message.assistant([signed, ToolUseBlock(id="b", name="f")], metadata=MessageMetadata(model="openai:gpt-6")),
        Message.tool("b", "ok"),
        Message.tool("a", "ok"),
    )

    def test_neighbours_that_share_a_turn_stay_separate(self) -> None:
        """Results of both follow the second."""
        projection = to(*self.history, supports_neighbours="native", thinking_policy=ThinkingPolicy(reads_from=("*",)))
        assert roles(projection) == ["assistant", "assistant", "tool", "tool"]
        assert projection.losses == ()

    def test_neighbours_are_merged_if_results_must_follow_directly(self) -> None:
        """Thinking is filtered before the merge, by the model of each message."""
        projection = to(*self.history, thinking_policy=ThinkingPolicy(reads_from=("anthropic:*",)))
        assert roles(projection) == ["assistant", "tool", "tool"]
        assert [block.type for block in projection.turns[0].blocks] == ["tool_use", "tool_use"]
        assert kinds(projection) == ["thinking", "flattened"]

    def test_neighbours_without_calls_stay_separate(self) -> None:
        """No result has to follow them."""
        assert to(Message.assistant("a"), Message.assistant("b")).losses == ()


def test_a_user_message_comes_last_if_required() -> None:
    """A model that cannot continue its own message gets a request to continue."""
    history = [Message.user("Hi"), Message.assistant("Hel")]
    assert roles(to(*history)) == ["user", "assistant"]
    projection = to(*history, supports_prefill="absent")
    assert roles(projection) == ["user", "assistant", "user"]
    assert texts(projection)[-1] == "Continue."
    assert kinds(projection) == ["prefill"]
    assert to(supports_prefill="absent").turns == ()


class TestCritical:
    content = (picture(), TestThinking.signed, TextBlock(text="Hi"))

    def critical_message(self, critical: bool | tuple[int, ...]) -> Message:
        return Message.assistant(self.content, metadata=MessageMetadata(critical=critical))

    @pytest.mark.parametrize("critical", [True, (0,), (1,), (2, 1)])
    def test_a_critical_block_is_sent_or_nothing_is(self, critical: bool | tuple[int, ...]) -> None:
        """All blocks, or those that are named."""
        with pytest.raises(CriticalLossError, match="is marked critical and would be lost: m "):
            to(self.critical_message(critical))

    @pytest.mark.parametrize("critical", [False, (), (2,)])
    def test_other_blocks_may_be_lost(self, critical: bool | tuple[int, ...]) -> None:
        """Their losses are named, as always."""
        assert kinds(to(self.critical_message(critical))) == ["thinking", "media"]

    def test_a_change_of_form_is_no_loss(self) -> None:
        """The critical content is sent in another form."""
        resource = ResourceBlock(resource_request_id="r", uri="u", resource_type="file", content="x")
        assert kinds(to(Message.user([resource], metadata=MessageMetadata(critical=True)))) == ["flattened"]

    def test_a_critical_block_lost_after_a_change_counts(self) -> None:
        """A resource in a system message is text first, and lost after that: still the marked one."""
        history = Message(
            role=Role.ASSISTANT,
            content=(ToolResultBlock(tool_use_id="a", content=(UnknownBlock(type="hologram"),)), TextBlock(text="Hi")),
            metadata=MessageMetadata(critical=(0,)),
        )
        with pytest.raises(CriticalLossError):
            to(history)
