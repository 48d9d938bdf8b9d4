"""Why a reply ended, in Google's words and in ours (wire reference 8.5)."""

from collections.abc import Mapping
from typing import Any

from dragoman.canonical.message import MessageStatus, StopReason

STOP_REASONS = {
    "STOP": StopReason.END_TURN,
    "MAX_TOKENS": StopReason.MAX_TOKENS,
    "CONTINUATION": StopReason.PAUSE,
    "SAFETY": StopReason.REFUSAL,
    "RECITATION": StopReason.REFUSAL,
    "BLOCKLIST": StopReason.REFUSAL,
    "PROHIBITED_CONTENT": StopReason.REFUSAL,
    "SPII": StopReason.REFUSAL,
    "MODEL_ARMOR": StopReason.REFUSAL,
    "IMAGE_SAFETY": StopReason.REFUSAL,
    "IMAGE_PROHIBITED_CONTENT": StopReason.REFUSAL,
    "IMAGE_RECITATION": StopReason.REFUSAL,
    "ESCALATION": StopReason.REFUSAL,
    "PUP_LIMITED_DISABLED": StopReason.REFUSAL,
}
"""All others say that something went wrong: a malformed call, a missing signature, what is still unknown."""

_UNSPECIFIED = ("", "FINISH_REASON_UNSPECIFIED")


def finish_reason_name(native: Any, facts: Mapping[str, Any]) -> str | None:
    """A finish reason as its word, whether it came as that or as a number; None where none was given."""
    if isinstance(native, int) and not isinstance(native, bool):
        words = facts["finish_reasons"]
        native = words[native] if 0 <= native < len(words) else f"reason {native}"
    return None if native is None or native in _UNSPECIFIED else str(native)


def stop_reason(reason: str | None, status: MessageStatus, *, has_calls: bool, is_blocked: bool) -> StopReason | None:
    """Calls finish with STOP as anything else does, so they are seen by looking. A blocked prompt has no reason."""
    if status is MessageStatus.CANCELLED:
        return StopReason.CANCELLED
    if status is MessageStatus.ERROR:
        return StopReason.ERROR
    if is_blocked:
        return StopReason.REFUSAL
    if reason is None:
        return StopReason.TOOL_USE if has_calls else StopReason.END_TURN
    found = STOP_REASONS.get(reason, StopReason.ERROR)
    return StopReason.TOOL_USE if has_calls and found is StopReason.END_TURN else found
