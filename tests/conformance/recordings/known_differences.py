"""Accepted differences, each explained by a rule with a reason. No rule names a single recording."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from dragoman import get_adapter
from tests.conformance.outcomes import Aspect, Difference, Outcome
from tests.conformance.recordings import oracle
from tests.conformance.recordings.oracle.expected import Expected
from tests.conformance.scope import ADAPTERS, adapter_name, model_name, wire_name
from tests.conformance.validators.requests import VALIDATORS
from tests.exchanges import RecordedExchange


def _always(exchange: RecordedExchange) -> bool:
    return True


@dataclass(frozen=True, slots=True)
class Rule:
    """Explains the differences of one aspect whose ``what`` matches, in exchanges for which ``when`` holds."""

    aspect: Aspect
    providers: frozenset[str]
    what: re.Pattern[str]
    why: str
    when: Callable[[RecordedExchange], bool] = _always


def _has_unpaired_call(exchange: RecordedExchange) -> bool:
    """Whether the recorded body itself has a call without its result, or a result without its call."""
    faults = VALIDATORS[adapter_name(exchange)](exchange.request, foreign=False)
    return any("answer" in fault for fault in faults)


def _was_rejected(exchange: RecordedExchange) -> bool:
    return exchange.status in (400, 422)


def _unsendable_reasoning(exchange: RecordedExchange) -> bool:
    """Whether a reply has reasoning that may not be sent again: without encrypted content, or with no item after it."""
    expected = oracle.read(exchange)
    items = expected.native if isinstance(expected, Expected) else []
    empty = any(item["type"] == "reasoning" and not item.get("encrypted_content") for item in items)
    return empty or bool(items and items[-1]["type"] == "reasoning")


def _has_open_server_call(exchange: RecordedExchange) -> bool:
    """Whether a reply calls a tool of the provider's own whose result it does not have."""
    expected = oracle.read(exchange)
    blocks = expected.native if isinstance(expected, Expected) else []
    kinds = [block.get("type", "") for block in blocks]
    return "server_tool_use" in kinds and not any(kind.endswith("_tool_result") for kind in kinds)


def _is_speech_model(exchange: RecordedExchange) -> bool:
    """Whether the model turns text into speech, and does not take audio itself."""
    return "-tts" in (exchange.model or "")


_EVERY = frozenset(ADAPTERS)


def _called_with_nothing(exchange: RecordedExchange) -> bool:
    return any(not (call.get("function") or {}).get("arguments") for call in _calls(exchange))


def _called_without_id(exchange: RecordedExchange) -> bool:
    return any(not call.get("id") for call in _calls(exchange))


def _calls(exchange: RecordedExchange) -> list[dict[str, Any]]:
    expected = oracle.read(exchange)
    native = expected.native if isinstance(expected, Expected) else {}
    return list(native.get("tool_calls") or ())


def _takes_no_media(exchange: RecordedExchange) -> bool:
    """Whether the requested model does not read the media in the body; some servers silently skip them."""
    abilities = get_adapter(model_name(exchange)).capabilities
    return not (abilities.supports_images and abilities.supports_documents and abilities.supports_audio)


RULES: tuple[Rule, ...] = (
    Rule(
        Aspect.REQUEST,
        _EVERY,
        re.compile(r"\$\.(messages|input|contents|tools|system)\b.*|raised RequestError"),
        "the provider rejected this body: it is repaired, or refused with a typed error",
        _was_rejected,
    ),
    Rule(
        Aspect.REQUEST,
        _EVERY,
        re.compile(r"\$\.messages\[\]\.content\[\]\.(type changed|text added|image_url left out|file left out)"),
        "the model reads no such media: a note stands for what it would not see",
        _takes_no_media,
    ),
    Rule(
        Aspect.REQUEST,
        _EVERY,
        re.compile(r"\$\.(messages|input|contents)\b.*"),
        "calls and results do not pair in this body: the projection pairs them, as every provider demands",
        _has_unpaired_call,
    ),
    Rule(
        Aspect.RESEND,
        frozenset({"openai-chat"}),
        re.compile(r"\$\.calls\[\]\.called\.arguments (changed|added)"),
        "a call without arguments goes back with an empty object",
        _called_with_nothing,
    ),
    Rule(
        Aspect.RESEND,
        frozenset({"openai-chat"}),
        re.compile(r"\$\.calls\[\]\.id changed"),
        "a call without an id goes back under one of ours, as its result has to name it",
        _called_without_id,
    ),
    Rule(
        Aspect.RESEND,
        frozenset({"openai-responses"}),
        re.compile(r"\$\[\] items (left out|changed)|\$\[\]\.id left out"),
        "reasoning that no one could read again stays behind, and with it the ids of the items that depend on it",
        _unsendable_reasoning,
    ),
    Rule(
        Aspect.RESEND,
        frozenset({"anthropic"}),
        re.compile(r"\$\[\] items left out"),
        "a call of the provider's own tool without a result is refused when the user goes on: it is left out",
        _has_open_server_call,
    ),
    Rule(
        Aspect.RESEND,
        frozenset({"google", "google-vertex"}),
        re.compile(r"\$\[\]\.inlineData left out|\$\[\]\.text added"),
        "a text-to-speech model accepts no audio: a note replaces its own audio",
        _is_speech_model,
    ),
)


def explanation(outcome: Outcome, difference: Difference) -> str | None:
    """Return why a difference is accepted, or None if no rule explains it."""
    for rule in RULES:
        if (
            rule.aspect is outcome.aspect
            and {outcome.exchange.provider, wire_name(outcome.exchange)} & rule.providers
            and rule.what.fullmatch(difference.what)
            and rule.when(outcome.exchange)
        ):
            return rule.why
    return None


def unexplained_differences(outcome: Outcome) -> tuple[Difference, ...]:
    return tuple(difference for difference in outcome.differences if explanation(outcome, difference) is None)
