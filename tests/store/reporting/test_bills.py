"""The costs in a store: every reply once, with its figures, and no content."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal

import anyio

from dragoman.canonical.message import Message, MessageMetadata
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.pricing import price_table
from dragoman.store import AsyncStore, Store

AT = datetime(2026, 11, 21, 8, tzinfo=UTC)
SONNET = "anthropic:claude-sonnet-4-6"


def reply(at: datetime = AT, *, model: str = SONNET, user: str | None = "usr_1", tokens: int = 1000) -> Message:
    usage = price_table().price(model, TokenUsage(input_tokens=tokens, output_tokens=50), at)
    metadata = MessageMetadata(
        model=model, provider=model.partition(":")[0], user_id=user, team_id="team_1", usage=usage
    )  # fmt: skip
    return Message.assistant("a secret", metadata=metadata, created_at=at)


def test_every_reply_is_billed_once(store: Store) -> None:
    """Attempts too, and not the copies of a fork; content is not read."""
    first, second = reply(), reply()
    store.create(SONNET, [Message.user("Hi"), first], session_id="sess_1", attempts=[second])
    store.append("sess_1", [Message.user("Hi"), third := reply()], expected_version=1)
    store.fork("sess_1", new_session_id="sess_2")
    billed = list(store.billed_replies())
    assert [message.id for message in billed] == [first.id, third.id, second.id]
    assert [message.usage for message in billed] == [first.usage, third.usage, second.usage]
    assert {(message.content, message.session_id) for message in billed} == {((), "sess_1")}


def test_bills_can_be_selected_by_user_team_and_time(store: Store) -> None:
    late = AT + timedelta(days=1)
    store.create(SONNET, [reply(), reply(late, user="usr_2"), reply(late, user=None)], session_id="sess_1")
    store.create(SONNET, [reply(late)], session_id="sess_2")

    def count(**wanted: object) -> int:
        return len(list(store.billed_replies(**wanted)))  # type: ignore[arg-type]

    assert [count(), count(user_id="usr_1"), count(user_id="usr_2"), count(team_id="team_1")] == [4, 2, 1, 4]
    assert [count(session_id="sess_2"), count(since=late), count(until=late)] == [1, 3, 1]
    assert count(user_id="' OR 1=1 --") == 0


def test_pages_miss_and_repeat_nothing(store: Store) -> None:
    """Pages miss and repeat nothing with more sessions and replies than are read at once."""
    sent = []
    for number in range(3):
        replies = [reply(tokens=number * 1000 + place) for place in range(700)]
        sent += replies
        store.create(SONNET, replies, session_id=f"sess_{number}")
    billed = list(store.billed_replies())
    assert sorted(message.id for message in billed) == sorted(message.id for message in sent)

    async def await_all() -> list[Message]:
        return [message async for message in AsyncStore(store).billed_replies()]

    assert anyio.run(await_all) == billed


def test_a_sum_is_exact_and_names_unknown_parts(store: Store) -> None:
    unpriced = Message.assistant(
        "Hi", metadata=MessageMetadata(model="nobody:x", provider="nobody", usage=Usage(input_tokens=5))
    )
    store.create(SONNET, [reply(), reply(), unpriced])
    spent = store.total_spend()
    assert (spent.replies, spent.prompt_tokens, spent.output_tokens) == (3, 2005, 100)
    assert (spent.cost_usd, spent.status) == (Decimal("0.0075"), CostStatus.PARTIAL)
    assert store.total_spend(user_id="usr_1").status is CostStatus.PRICED
    assert store.total_spend(user_id="nobody").cost_usd is None
    assert anyio.run(AsyncStore(store).total_spend) == spent
