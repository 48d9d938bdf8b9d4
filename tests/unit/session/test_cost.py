"""The usage and the cost of a session: exact, or marked as unknown."""

from datetime import UTC, datetime
from decimal import Decimal

import pytest

from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.session.cost import Cost, average_output, cost_on, total_cost, total_usage
from dragoman.session.history import Attempts
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, Driver, Wire
from tests.unit.session.handwritten_replies import handwritten_anthropic, handwritten_ollama

NOW = datetime(2026, 11, 21, tzinfo=UTC)
PRICED, FREE, PARTIAL, UNPRICED = CostStatus.PRICED, CostStatus.FREE, CostStatus.PARTIAL, CostStatus.UNPRICED


def reply(usd: str | None, status: CostStatus, model: str = "a:x", **counts: int) -> Message:
    cost = None if usd is None else Decimal(usd)
    usage = Usage(cost_usd=cost, cost_status=status, **counts)
    return Message.assistant("Yes.", metadata=MessageMetadata(model=model, provider=model[0], usage=usage))


WITHOUT_USAGE = Message.assistant("Yes.", metadata=MessageMetadata(model="u:x", provider="u"))
QUESTION = Message.user("?")
SUMMARY = Message(role=Role.USER, metadata=MessageMetadata(model="a:x", provider="a", usage=Usage(output_tokens=99)))


@pytest.mark.parametrize(
    ("history", "usd", "status", "replies"),
    [
        ([], None, FREE, 0),
        ([QUESTION], None, FREE, 0),
        ([reply("0.5", PRICED), reply("0.25", PRICED)], "0.75", PRICED, 2),
        ([reply("0.5", PRICED), reply("0", FREE)], "0.5", PRICED, 2),
        ([reply("0", FREE)], "0", FREE, 1),
        ([reply("0.5", PRICED), reply(None, UNPRICED)], "0.5", PARTIAL, 2),
        ([reply("0.5", PARTIAL)], "0.5", PARTIAL, 1),
        ([reply(None, UNPRICED)], None, UNPRICED, 1),
        ([reply("0.5", PRICED), WITHOUT_USAGE], "0.5", PARTIAL, 2),
        ([WITHOUT_USAGE], None, UNPRICED, 1),
    ],
)
def test_costs_add_up_and_say_what_they_are(
    history: list[Message], usd: str | None, status: CostStatus, replies: int
) -> None:
    """None and never 0 if nothing is known; a sum with a gap is a lower bound."""
    cost = total_cost(history)
    assert (cost.usd, cost.status, cost.replies) == (None if usd is None else Decimal(usd), status, replies)


def test_costs_are_listed_by_model() -> None:
    """Each model's own sum; None if all of its replies are unknown."""
    history = [reply("0.5", PRICED), reply("0.1", PRICED, "b:y"), reply(None, UNPRICED), reply(None, UNPRICED, "c:z")]
    assert total_cost(history).by_model == {"a:x": Decimal("0.5"), "b:y": Decimal("0.1"), "c:z": None}


def test_a_reply_without_a_model_is_listed_under_an_empty_name() -> None:
    """Its cost counts like any other."""
    usage = Usage(cost_usd=Decimal("0.5"), cost_status=PRICED)
    nameless = Message.assistant("Yes.", metadata=MessageMetadata(provider="p", usage=usage))
    assert total_cost([nameless]).by_model == {"": Decimal("0.5")}


@pytest.mark.parametrize(
    ("history", "average"),
    [
        ([], None),
        ([QUESTION, WITHOUT_USAGE], None),
        ([QUESTION, reply("0", FREE, output_tokens=10)], 10),
        ([reply("0", FREE, output_tokens=10), WITHOUT_USAGE, reply("0", FREE, output_tokens=1)], 6),
        ([reply("0", FREE, output_tokens=10), SUMMARY], 10),
        ([SUMMARY], None),
    ],
)
def test_the_average_output_is_that_of_replies_with_counts(history: list[Message], average: int | None) -> None:
    """A summary is billed, but is not a reply; None and never 0 if nothing is known."""
    assert average_output(history) == average


@pytest.mark.parametrize(
    ("partial", "recorded"),
    [
        (None, False),
        (Message.assistant("Yes.", metadata=MessageMetadata(model="a:x", provider="a")), True),
        (Message.assistant([], metadata=MessageMetadata(model="a:x", provider="a")), False),
        (Message.assistant([], metadata=MessageMetadata(model="a:x", provider="a", usage=Usage(input_tokens=9))), True),
        (reply("0.5", PRICED), True),
    ],
)
def test_an_attempt_is_recorded_if_it_was_billed(partial: Message | None, recorded: bool) -> None:
    """It reported counts or sent content; the content itself is not kept."""
    attempts = Attempts()
    attempts.record(partial)
    assert attempts.all == ([partial.model_copy(update={"content": ()})] if partial and recorded else [])


def test_a_summary_is_an_attempt_if_the_history_lacks_it() -> None:
    """Otherwise its cost would count twice, or never."""
    summary, other = reply("0.5", PRICED), reply("0.25", PRICED)
    for given, history, recorded in [
        (None, [other], []),
        (summary, [other, summary], []),
        (summary, [other], [summary]),
        (summary, [], [summary]),
    ]:
        attempts = Attempts()
        attempts.record_unused(given, history)
        assert attempts.all == [message.model_copy(update={"content": ()}) for message in recorded]


@pytest.mark.parametrize(
    ("cost", "text"),
    [
        (Cost(None, FREE, {}, 0), "$0 (nothing asked yet)"),
        (Cost(None, UNPRICED, {"a": None}, 2), "unknown (2 replies without a price)"),
        (Cost(Decimal("0.25"), PRICED, {}, 1), "$0.250000"),
        (Cost(Decimal("0.25"), PARTIAL, {}, 2), "$0.250000 at least: some of it is unpriced"),
    ],
)
def test_costs_are_readable_as_a_line(cost: Cost, text: str) -> None:
    """The line says if the cost is unknown or a lower bound."""
    assert str(cost) == text


def test_usage_adds_up_bucket_by_bucket() -> None:
    """Subsets are summed if they are reported, and stay None if they are not; tool calls add up by name."""
    history = [
        reply("0", FREE, input_tokens=1, output_tokens=20, reasoning_tokens=5, audio_input_tokens=1),
        QUESTION,
        reply("0", FREE, input_tokens=2, output_tokens=30, cached_input_tokens=4, cache_creation_input_tokens=8),
        Message.assistant("!", metadata=MessageMetadata(usage=Usage(server_tools={"web_search": 2}))),
        Message.assistant("!", metadata=MessageMetadata(usage=Usage(server_tools={"web_search": 1, "run": 1}))),
    ]
    assert total_usage(history) == TokenUsage(
        input_tokens=3, output_tokens=50, cached_input_tokens=4, cache_creation_input_tokens=8, reasoning_tokens=5,
        audio_input_tokens=1, server_tools={"web_search": 3, "run": 1},
    )  # fmt: skip


class PerToken:
    """A table with one model and one price."""

    def price(self, model_id: str, usage: TokenUsage, at: datetime) -> Usage:
        known = model_id == "known:x"
        cost = {"cost_usd": Decimal(usage.total_tokens), "cost_status": PRICED}
        return Usage(**dict(usage) | (cost if known else {"cost_usd": None, "cost_status": UNPRICED}))


@pytest.mark.parametrize(
    ("model", "history", "usd", "status"),
    [
        ("known:x", [], None, FREE),
        ("known:x", [TokenUsage(input_tokens=2), TokenUsage(output_tokens=3)], 5, PRICED),
        ("unknown:x", [TokenUsage(input_tokens=2)], None, UNPRICED),
        ("known:x", [TokenUsage(input_tokens=2), None], 2, PARTIAL),
    ],
)
def test_replies_are_repriced_for_another_model(
    model: str, history: list[TokenUsage | None], usd: int | None, status: CostStatus
) -> None:
    """Token for token, at that model's prices; a reply without counts stays unknown."""
    history = [
        Message.assistant(
            "!", metadata=MessageMetadata(provider="p", usage=None if usage is None else Usage(**dict(usage)))
        )
        for usage in history
    ]
    cost = cost_on(history, model, PerToken(), NOW)
    assert (cost.usd, cost.status) == (None if usd is None else Decimal(usd), status)
    assert set(cost.by_model) <= {model}


def test_a_session_counts_across_models(driver: Driver) -> None:
    """Two models, one sum, by the bundled prices of the day; cost_on is the price of everything on one model."""
    wires = {
        "anthropic": Wire([handwritten_anthropic("One.", usage=(1000, 100))]),
        "ollama": Wire([handwritten_ollama("Two.", usage=(500, 50))]),
    }
    session = driver.session(wires)
    assert str(session.cost) == "$0 (nothing asked yet)"
    driver.ask(session, "1")
    session.swap(OLLAMA)
    driver.ask(session, "2")
    assert session.usage == TokenUsage(input_tokens=1500, output_tokens=150)
    assert session.cost.status is PRICED
    assert session.cost.by_model[OLLAMA] == 0
    first = session.messages[1].usage
    assert first is not None
    assert session.cost.usd == first.cost_usd
    assert session.cost_on(OLLAMA).status is FREE
    elsewhere = session.cost_on(ANTHROPIC)
    assert elsewhere.usd == session.prices.price(ANTHROPIC, session.usage, NOW).cost_usd


def test_all_four_buckets_add_up() -> None:
    """Three of them make up the prompt."""
    usage = TokenUsage(input_tokens=1, cached_input_tokens=20, cache_creation_input_tokens=300, output_tokens=4000)
    assert (usage.prompt_tokens, usage.total_tokens) == (321, 4321)


def test_a_usage_without_a_price_says_so() -> None:
    """Its cost is None, and a cost below 0 is refused."""
    assert (Usage().cost_usd, Usage().cost_status) == (None, UNPRICED)
    with pytest.raises(ValueError, match="cost_usd"):
        Usage(cost_usd=Decimal("-0.01"))


def test_the_words_of_the_statuses_are_those_that_are_stored() -> None:
    """Stored sessions and columns hold them."""
    assert [status.value for status in CostStatus] == ["priced", "free", "partial", "unpriced"]
