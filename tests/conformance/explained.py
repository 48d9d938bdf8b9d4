"""Differences that stand, each explained by a rule that says why. Nothing here names a single recording."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dragoman import get_adapter
from tests.conformance import oracle
from tests.conformance.oracle.expected import Expected
from tests.conformance.outcomes import Difference, Outcome, Respect
from tests.conformance.scope import ADAPTERS, adapter_of, model_of, wire_of
from tests.conformance.validators import VALIDATORS
from tests.exchanges import Exchange


def _always(exchange: Exchange) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Rule:
    """Explains the differences of one respect whose ``what`` matches, in exchanges for which ``when`` holds."""

    respect: Respect
    providers: frozenset[str]
    what: re.Pattern[str]
    why: str
    when: Callable[[Exchange], bool] = _always


def _unpaired(exchange: Exchange) -> bool:
    """Whether the recorded body itself leaves a call without its result, or a result without its call."""
    faults = VALIDATORS[adapter_of(exchange)](exchange.request, foreign=False)
    return any("answer" in fault for fault in faults)


def _rejected(exchange: Exchange) -> bool:
    return exchange.status in (400, 422)


def _unsendable_reasoning(exchange: Exchange) -> bool:
    """Whether a reply holds reasoning that may not be sent again: without encrypted content, or with no item behind."""
    expected = oracle.read(exchange)
    items = expected.native if isinstance(expected, Expected) else []
    empty = any(item["type"] == "reasoning" and not item.get("encrypted_content") for item in items)
    return empty or bool(items and items[-1]["type"] == "reasoning")


def _speaks(exchange: Exchange) -> bool:
    """Whether the model turns text into speech, and hears nothing itself."""
    return "-tts" in (exchange.model or "")


_EVERY = frozenset(ADAPTERS)


def _called_with_nothing(exchange: Exchange) -> bool:
    return any(not (call.get("function") or {}).get("arguments") for call in _calls(exchange))


def _called_without_id(exchange: Exchange) -> bool:
    return any(not call.get("id") for call in _calls(exchange))


def _calls(exchange: Exchange) -> list[dict[str, Any]]:
    expected = oracle.read(exchange)
    native = expected.native if isinstance(expected, Expected) else {}
    return list(native.get("tool_calls") or ())


def _takes_no_media(exchange: Exchange) -> bool:
    """Whether the model that was asked does not read what the body shows it; some servers pass over it in silence."""
    abilities = get_adapter(model_of(exchange)).capabilities
    return not (abilities.supports_images and abilities.supports_documents and abilities.supports_audio)


RULES: tuple[Rule, ...] = (
    Rule(
        Respect.REQUEST,
        _EVERY,
        re.compile(r"\$\.(messages|input|contents|tools|system)\b.*|raised RequestError"),
        "the provider rejected this body: it is repaired, or refused with a typed error",
        _rejected,
    ),
    Rule(
        Respect.REQUEST,
        _EVERY,
        re.compile(r"\$\.messages\[\]\.content\[\]\.(type changed|text added|image_url left out|file left out)"),
        "the model reads no such media: a note stands for what it would not see",
        _takes_no_media,
    ),
    Rule(
        Respect.REQUEST,
        _EVERY,
        re.compile(r"\$\.(messages|input|contents)\b.*"),
        "calls and results do not pair in this body: the projection pairs them, as every provider demands",
        _unpaired,
    ),
    Rule(
        Respect.ECHO,
        frozenset({"openai-chat"}),
        re.compile(r"\$\.calls\[\]\.called\.arguments (changed|added)"),
        "a call without arguments goes back with an empty object",
        _called_with_nothing,
    ),
    Rule(
        Respect.ECHO,
        frozenset({"openai-chat"}),
        re.compile(r"\$\.calls\[\]\.id changed"),
        "a call without an id goes back under one of ours, as its result has to name it",
        _called_without_id,
    ),
    Rule(
        Respect.ECHO,
        frozenset({"openai-responses"}),
        re.compile(r"\$\[\] items (left out|changed)|\$\[\]\.id left out"),
        "reasoning that no one could read again stays behind, and with it the ids of the items that depend on it",
        _unsendable_reasoning,
    ),
    Rule(
        Respect.ECHO,
        frozenset({"google", "google-vertex"}),
        re.compile(r"\$\[\]\.inlineData left out|\$\[\]\.text added"),
        "a model that only speaks takes no sound: a note stands for what it said",
        _speaks,
    ),
)


def explanation(outcome: Outcome, difference: Difference) -> str | None:
    """Why a difference stands, or None where no rule says so."""
    for rule in RULES:
        if (
            rule.respect is outcome.respect
            and {outcome.exchange.provider, wire_of(outcome.exchange)} & rule.providers
            and rule.what.fullmatch(difference.what)
            and rule.when(outcome.exchange)
        ):
            return rule.why
    return None


def unexplained(outcome: Outcome) -> tuple[Difference, ...]:
    return tuple(difference for difference in outcome.differences if explanation(outcome, difference) is None)
