"""What is reserved for a reply, how it grows while a stream arrives, and what is charged in the end."""

import pytest

from dragoman.canonical.blocks import TextBlock, ToolUseBlock
from dragoman.canonical.events import MessageStart, TextDelta, ThinkingDelta, ToolUseInputDelta
from dragoman.canonical.message import Message, Role
from dragoman.canonical.usage import TokenUsage
from dragoman.effects import Abandoned, Replied
from dragoman.limits import LimitReachedError
from dragoman.limits.reservation import MaxUsage, ReservedOutput, charged_use

MODEL = "openai:gpt"
INPUT = TokenUsage(input_tokens=10, cached_input_tokens=3)


def test_a_prediction_is_part_of_the_expected_output() -> None:
    use = MaxUsage(MODEL, INPUT, 10_000, replies=2, predicted_tokens=7)
    assert use.expected_output(50) == 107
    assert use.expected_output(None) == 10_000
    assert MaxUsage(MODEL, INPUT, 60, replies=2, predicted_tokens=7).expected_output(50) == 60


def test_the_most_that_a_reply_may_report() -> None:
    use = MaxUsage(MODEL, INPUT, 20, more_input=5, tool_calls={"web_search": 2}, unbounded=("fetch",))
    total = use.total
    assert (total.input_tokens, total.cached_input_tokens, total.cache_creation_input_tokens) == (15, 3, 0)
    assert (total.output_tokens, total.server_tools, total.unread) == (20, {"web_search": 2}, ("fetch",))


class TestGrowth:
    def output(self, most: int, cap: int) -> ReservedOutput:
        return ReservedOutput(MaxUsage(MODEL, INPUT, most), cap)

    @pytest.mark.parametrize(("most", "cap", "tokens"), [(10, 4, 4), (4, 10, 4)])
    def test_a_cap_is_the_most_at_first(self, most: int, cap: int, tokens: int) -> None:
        assert self.output(most, cap).tokens == tokens

    def test_without_a_cap_all_that_the_request_allows_is_reserved(self) -> None:
        output = ReservedOutput(MaxUsage(MODEL, INPUT, 10))
        assert (output.tokens, output.may_grow) == (10, False)

    def test_it_doubles_when_the_stream_exceeds_it(self) -> None:
        output = self.output(5, 1)
        assert output.may_grow
        assert not output.count(MessageStart("msg_1", MODEL))
        assert not output.count(TextDelta("msg_1", 0, "four"))
        assert output.count(ThinkingDelta("msg_1", 0, "!"))
        assert output.tokens == 2
        assert output.count(ToolUseInputDelta("msg_1", 0, "tu_1", "1234"))
        assert output.tokens == 4
        assert output.count(TextDelta("msg_1", 0, "12345678"))
        assert (output.tokens, output.may_grow) == (5, False)
        assert not output.count(TextDelta("msg_1", 0, "12345678"))

    def test_nothing_grows_to_one(self) -> None:
        output = self.output(5, 0)
        assert output.count(TextDelta("msg_1", 0, "a"))
        assert output.tokens == 1


def reply(*content: TextBlock | ToolUseBlock) -> Message:
    return Message(role=Role.ASSISTANT, content=content)


@pytest.mark.parametrize(
    ("message", "tokens"),
    [
        (reply(TextBlock(text="a" * 40)), 10),
        (reply(TextBlock(text="é" * 4), TextBlock(text="a" * 8)), 4),
        (reply(ToolUseBlock(id="tu_1", name="look", input={})), 0),
        (reply(ToolUseBlock(id="tu_1", name="look", input={"a": "b" * 30})), len(str({"a": "b" * 30})) // 4),
        (reply(TextBlock(text="abc")), 0),
    ],
)
def test_a_reply_without_a_report_costs_what_arrived(message: Message, tokens: int) -> None:
    used = charged_use(Replied(message), lambda: INPUT)
    assert used is not None
    assert (used.input_tokens, used.output_tokens) == (10, tokens)


def test_what_arrived_and_is_in_no_message_counts() -> None:
    """To the byte: four of them are a token."""
    assert [_output(arrived) for arrived in (0, 3, 4, 8)] == [0, 0, 1, 2]


def _output(arrived: int) -> int:
    used = charged_use(Abandoned(), lambda: INPUT, arrived)
    assert used is not None
    return used.output_tokens


def test_nothing_is_charged_by_default_for_what_did_not_arrive() -> None:
    used = charged_use(Abandoned(), lambda: INPUT)
    assert used is not None
    assert used.output_tokens == 0


def test_a_limit_of_the_program_has_a_class_of_its_own() -> None:
    assert LimitReachedError("later", provider="openai").error_class == "limited"
