"""Pairing by example: calls and results in every kind of disorder."""

from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.requests.pairing import INTERRUPTED_RESULT, CallKeys, pair_calls
from dragoman.adapter.requests.turns import SYNTHETIC, Turn
from dragoman.canonical.blocks import ContentBlock, ProviderBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role
from tests.tables import each_row


def call(tool_use_id: str) -> ToolUseBlock:
    return ToolUseBlock(id=tool_use_id, name="f")


def result(tool_use_id: str, text: str = "ok") -> ToolResultBlock:
    return ToolResultBlock(tool_use_id=tool_use_id, content=(TextBlock(text=text),))


def asks(*tool_use_ids: str) -> Message:
    return Message.assistant(map(call, tool_use_ids))


def answers(*tool_use_ids: str) -> Message:
    return Message(role=Role.TOOL, content=tuple(map(result, tool_use_ids)))


def pair_history(*history: Message, keep_orphans: bool = False) -> tuple[list[str], list[Loss]]:
    """Each turn as ``role: content``, and the losses."""
    losses: list[Loss] = []
    turns = pair_calls([Turn.of(message) for message in history], losses, keep_orphans=keep_orphans)
    return [f"{turn.role}: {' '.join(map(render, turn.blocks))}" for turn in turns], losses


def render(block: ContentBlock) -> str:
    match block:
        case ToolUseBlock():
            return f"call {block.id}"
        case ToolResultBlock():
            text = "".join(part.text for part in block.content if isinstance(part, TextBlock))
            return f"answer {block.tool_use_id}" + (
                " interrupted" if text == INTERRUPTED_RESULT and block.is_error else ""
            )
        case TextBlock():
            return block.text
        case _:
            return block.type


LATE = "user: [result of an earlier tool call] ok"


@each_row(
    ("history", "turns", "kinds"),
    [
        ([asks("a", "b"), answers("a"), answers("b")],
         ["assistant: call a call b", "tool: answer a", "tool: answer b"], []),
        ([asks("a", "b"), answers("b", "a"), Message.user("hi")],
         ["assistant: call a call b", "tool: answer b answer a", "user: hi"], []),
        ([asks("a")],
         ["assistant: call a", "tool: answer a interrupted"], ["interrupted_call"]),
        ([asks("a", "b"), answers("b"), Message.user("hi")],
         ["assistant: call a call b", "tool: answer b", "tool: answer a interrupted", "user: hi"],
         ["interrupted_call"]),
        ([answers("a")], [LATE], ["orphan_result"]),
        ([asks("a"), Message.user("hi"), answers("a")],
         ["assistant: call a", "tool: answer a interrupted", "user: hi", LATE], ["interrupted_call", "orphan_result"]),
        ([asks("a"), answers("a"), answers("a")],
         ["assistant: call a", "tool: answer a", LATE], ["orphan_result"]),
        ([asks("a", "b"), answers("x"), answers("b"), answers("a")],
         ["assistant: call a call b", "tool: answer b", "tool: answer a", LATE], ["orphan_result"]),
        ([asks("a", "b"), answers("x", "a")],
         ["assistant: call a call b", "tool: answer a", "tool: answer b interrupted", LATE],
         ["orphan_result", "interrupted_call"]),
        ([asks("a", "a"), answers("a", "a")],
         ["assistant: call a call a~2", "tool: answer a answer a~2"], ["duplicate_tool_id"]),
        ([asks("a"), answers("a"), asks("a"), answers("a")],
         ["assistant: call a", "tool: answer a", "assistant: call a~2", "tool: answer a~2"], ["duplicate_tool_id"]),
        ([asks("a", "a", "a~2"), answers("a~2")],
         ["assistant: call a call a~2 call a~2~2", "tool: answer a~2~2", "tool: answer a interrupted",
          "tool: answer a~2 interrupted"],
         ["duplicate_tool_id"] * 2 + ["interrupted_call"] * 2),
        ([asks("", ""), answers("", "")],
         ["assistant: call  call ~2", "tool: answer  answer ~2"], ["duplicate_tool_id"]),
        ([asks("a"), Message.user([TextBlock(text="and"), result("a")])],
         ["assistant: call a", "tool: answer a", "user: and"], ["role"]),
        ([asks("a"), Message(role=Role.TOOL, content=(TextBlock(text="so"), result("a")))],
         ["assistant: call a", "tool: answer a", "user: so"], ["role"]),
        ([Message(role=Role.TOOL, content=())], ["tool: "], []),
        ([asks("a"), asks("b"), answers("b"), answers("a")],
         ["assistant: call a", "assistant: call b", "tool: answer b", "tool: answer a"], []),
        ([asks("a"), asks("b"), answers("b")],
         ["assistant: call a", "assistant: call b", "tool: answer b", "tool: answer a interrupted"],
         ["interrupted_call"]),
        ([asks("a"), answers("a"), Message.assistant("so"), asks("b"), answers("a")],
         ["assistant: call a", "tool: answer a", "assistant: so", "assistant: call b", "tool: answer b interrupted",
          LATE], ["orphan_result", "interrupted_call"]),
        ([asks("a"), answers("x", "a"), Message.user("hi"), Message.user("ho")],
         ["assistant: call a", "tool: answer a", LATE, "user: hi", "user: ho"], ["orphan_result"]),
        ([asks("a"), answers("x", "a"), asks("b"), answers("b")],
         ["assistant: call a", "tool: answer a", LATE, "assistant: call b", "tool: answer b"], ["orphan_result"]),
        ([asks("a", "b"), answers("a"), asks("c"), answers("c")],
         ["assistant: call a call b", "tool: answer a", "tool: answer b interrupted", "assistant: call c",
          "tool: answer c"], ["interrupted_call"]),
        ([asks("a"), answers("x"), asks("b"), answers("b", "a")],
         ["assistant: call a", "tool: answer a interrupted", LATE, "assistant: call b", "tool: answer b", LATE],
         ["orphan_result", "interrupted_call", "orphan_result"]),
    ],
)  # fmt: skip
def test_disorder_is_repaired(history: list[Message], turns: list[str], kinds: list[str]) -> None:
    """Results follow directly after their calls; orphans become the user's text; every change has its loss."""
    found, losses = pair_history(*history)
    assert found == turns
    assert [str(loss.kind) for loss in losses] == kinds
    assert {loss.severity for loss in losses} <= {Severity.INFO}, "the content is all there"


def test_orphans_are_sent_to_a_provider_that_stores_earlier_turns() -> None:
    """If the server stores the state, the call of a result is not missing."""
    assert pair_history(answers("a"), keep_orphans=True) == (["tool: answer a"], [])


def test_native_answers_stay_where_they_are() -> None:
    """Results of a provider's own kind are not paired."""
    native = ProviderBlock(provider="openai", kind="computer_call_output", data={})
    turns, losses = pair_history(asks("a"), Message(role=Role.TOOL, content=(native, result("a"))))
    assert turns == ["assistant: call a", "tool: provider answer a"]
    assert losses == []


def test_an_error_stays_an_error() -> None:
    """A result shows it by its flag, an orphan by the label before its text."""
    failed = Message.tool("a", "broken", is_error=True)
    losses: list[Loss] = []
    turns = pair_calls([Turn.of(asks("a")), Turn.of(failed), Turn.of(failed)], losses)
    assert turns[1].blocks == failed.content
    assert turns[2].blocks == (TextBlock(text="[error of an earlier tool call]"), TextBlock(text="broken"))


def test_losses_name_the_message_and_the_block() -> None:
    """The unanswered call by its message, the renamed call and the orphan by their index."""
    asking, answering = asks("a", "a"), answers("x" * 500)
    losses: list[Loss] = []
    pair_calls([Turn.of(asking), Turn.of(answering)], losses)
    assert [(loss.kind, loss.message_id, loss.block_index, loss.block_type) for loss in losses] == [
        (LossKind.DUPLICATE_TOOL_ID, asking.id, 1, "tool_use"),
        (LossKind.ORPHAN_RESULT, answering.id, 0, "tool_result"),
        (LossKind.INTERRUPTED_CALL, asking.id, -1, "tool_use"),
        (LossKind.INTERRUPTED_CALL, asking.id, -1, "tool_use"),
    ]


def test_a_renamed_call_keeps_its_place_in_the_message() -> None:
    """The issuer's raw fields are found by the place of the block."""
    losses: list[Loss] = []
    (turn, *_) = pair_calls([Turn.of(asks("a", "a"))], losses)
    assert turn.origins == (0, 1)


def test_results_keep_their_places_in_the_message() -> None:
    """Results after an orphan keep theirs too."""
    turns = pair_calls([Turn.of(asks("a", "b")), Turn.of(answers("b", "x", "a"))], [])
    assert [turn.origins for turn in turns] == [(0, 1), (0, 2), (-1, -1)]


def test_a_loss_of_a_block_that_is_in_no_message_names_no_type() -> None:
    """The loss has no block index and no block type."""
    losses: list[Loss] = []
    pair_calls([Turn.synthetic(asks("a"), Role.TOOL, (result("x"),))], losses)
    assert [(loss.block_index, loss.block_type) for loss in losses] == [(-1, "")]


def test_a_renamed_call_is_shown_by_the_start_of_its_id() -> None:
    """At most 80 characters: a provider chooses ids, and a loss is logged."""
    losses: list[Loss] = []
    pair_calls([Turn.of(asks("a" * 200, "a" * 200))], losses)
    assert "a" * 80 in losses[0].reason
    assert "a" * 81 not in losses[0].reason


def test_earlier_calls_keep_their_keys() -> None:
    """A later call of the same id gets the next key, and the earlier keys do not change by it."""
    earlier = CallKeys().with_calls(["a", "b"])
    for _ in range(2):
        turns = pair_calls([Turn.of(asks("a")), Turn.of(answers("a"))], [], keys=earlier)
        assert [render(block) for turn in turns for block in turn.blocks] == ["call a~2", "answer a~2"]
    assert earlier.with_calls(["a"]).next_key("a") == "a~3"
    assert earlier.next_key("a") == "a~2"


def test_results_that_fit_no_call_cost_the_same_whatever_is_open() -> None:
    """A client may repeat one id for thousands of calls: the results of all of them refer to the last call."""

    class Counted(str):
        """An id that counts how often it is compared."""

        __slots__ = ()
        compared = 0
        __hash__ = str.__hash__

        def __eq__(self, other: object) -> bool:
            Counted.compared += 1
            return str.__eq__(self, other)

    for size in (50, 400):
        Counted.compared = 0
        results = [ToolResultBlock.model_construct(tool_use_id=Counted(f"c{size - 1}"), content=())] * size
        told = [Turn(Message(role=Role.TOOL), Role.TOOL, (block,), (SYNTHETIC,)) for block in results]
        paired = pair_calls([Turn.of(asks(*(f"c{number}" for number in range(size)))), *told], [])
        assert [turn.role for turn in paired].count(Role.USER) == size - 1
        assert Counted.compared <= 4 * size
