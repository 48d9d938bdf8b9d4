"""What an attempt counts as, by how it ended, and what it could use at most before it is sent."""

from typing import Any

import pytest

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import BudgetExceededError, MalformedReplyError, RateLimitError
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.message import Message
from dragoman.canonical.usage import TokenUsage
from dragoman.effects import Abandoned, Broken, Failed, Replied
from dragoman.limits import Limit, Limits
from dragoman.limits.bounds import max_usage
from dragoman.limits.reservation import MaxUsage, is_billed

UNREADABLE = MalformedReplyError("not JSON", provider="anthropic")
REFUSED = RateLimitError("later", provider="anthropic")
PART = Message.assistant("In Swi")


@pytest.mark.parametrize(
    ("outcome", "billed"),
    [
        (Replied(PART), True),
        (Broken(UNREADABLE, None, False), True),
        (Broken(REFUSED, None, False), False),
        (Broken(REFUSED, PART, True), True),
        (Abandoned(PART), True),
        (Abandoned(), True),
        (Abandoned(sent=False), False),
        (Broken(BudgetExceededError("session", "usd", 1, 1, 1), None, False), True),
        (Failed(UNREADABLE), False),
    ],
)
def test_a_reply_that_was_seen_or_cannot_be_read_is_billed(outcome: Any, billed: bool) -> None:
    assert is_billed(outcome) is billed


def test_alternatives_count_in_the_expected_output() -> None:
    adapter, limits = get_adapter("openai-chat:gpt-5.5"), Limits([Limit(tokens=10_000)], reply_tokens=50)
    asked = [Message.user("Hi")]
    assert limits.expected_output(max_usage(adapter, asked, (), AdapterOptions(n=3))) == 150
    assert limits.expected_output(max_usage(adapter, asked, (), AdapterOptions())) == 50
    assert limits.expected_output(max_usage(adapter, asked, (), AdapterOptions(max_output_tokens=7))) == 7


def test_vectors_have_no_output() -> None:
    assert MaxUsage("voyage:voyage-3", TokenUsage(input_tokens=3)).output_tokens == 0
