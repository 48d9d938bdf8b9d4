"""Options that a model may refuse, for all wires alike: what is left of them to send, with the rest named as lost."""

from typing import Any

from dragoman.adapter.contract import NamedTool, ToolChoice
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.outgoing import Outgoing


def tool_choice(request: Outgoing, *, tools: bool, reasons: bool) -> ToolChoice | None:
    """The choice that may be asked for; None leaves it to the model. Without tools every wire refuses a choice."""
    choice, rule = request.options.tool_choice, request.adapter.capabilities.forced_tool_choice
    forced = choice == "required" or isinstance(choice, NamedTool)
    if not tools:
        if forced:
            request.lose_option("tool_choice", "the request offers no tools")
        return None
    if forced and (rule == "never" or (rule == "without_reasoning" and reasons)):
        request.lose_option("tool_choice", f"{request.adapter.model} cannot be forced to call a tool; it may choose")
        return None
    return choice


def sampled(request: Outgoing, name: str, *, reasons: bool) -> Any:
    """The value of a sampling parameter; None where none is asked for, or the model takes none."""
    value, rule = getattr(request.options, name), request.adapter.capabilities.sampling
    if value is None or rule == "allowed" or (rule == "without_reasoning" and not reasons):
        return value
    least, most = request.adapter.capabilities.wire.get("sampling_beside_reasoning", {}).get(name, (1, 0))
    if rule == "without_reasoning" and least <= value <= most:
        return value
    when = "" if rule == "never" else " when it reasons"
    request.lose_option(name, f"{request.adapter.model} takes no sampling parameters{when}")
    return None


def stop_sequences(request: Outgoing) -> list[str]:
    """As many stop sequences as the model takes, the first ones."""
    asked, limit = request.options.stop_sequences, request.adapter.capabilities.max_stop_sequences
    if asked and limit == 0:
        request.lose_option("stop_sequences", f"{request.adapter.model} takes none")
    elif limit is not None and len(asked) > limit:
        reason = f"{request.adapter.model} takes {limit}: the last {len(asked) - limit} are left out"
        request.lose_option("stop_sequences", reason)
    return list(asked if limit is None else asked[:limit])


def lose_cache_hint(request: Outgoing) -> None:
    """Names a wish for prompt caching that has no place on this wire. Nothing of what is said depends on it."""
    if request.options.prompt_cache is None:
        return
    known = bool(request.adapter.capabilities.supports_prompt_caching)
    how = "caches by itself, for as long as it sees fit" if known else "is not known to cache at request"
    request.lose(LossKind.OPTION, f"prompt_cache: {request.adapter.model} {how}", Severity.INFO)
