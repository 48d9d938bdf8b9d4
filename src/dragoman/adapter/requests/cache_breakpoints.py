"""Positions in a history up to which a provider is asked to cache the prompt: `MessageMetadata.cache_breakpoints`."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

from dragoman.adapter.losses import Loss, LossKind, Severity
from dragoman.adapter.requests.turns import Turn
from dragoman.canonical.message import Message

if TYPE_CHECKING:
    from dragoman.adapter.requests.request_builder import RequestBuilder

HAS_MARKER = ""
"""The problem of a block whose own note already has a marker: it counts, and nothing is lost."""
_MOST = 3
"""Markers of our own in the list of messages. Providers take four in a request; one is for the instructions."""
_STATE = "cache_breakpoints"
"""The key of the encoder's state for the number of markers so far."""


def place_breakpoints(request: "RequestBuilder", turn: Turn, problems: Iterable[str | None]) -> set[int]:
    """Return the indexes of the blocks of a turn that get a marker, and record the others as losses.

    ``problems`` has, for each block, why no marker may follow it, or None.
    """
    wanted = turn.message.metadata.cache_breakpoints
    if not wanted:
        return set()
    is_lead = turn in request.turns[: request.instruction_turns]
    marks = request.lead_marks if is_lead else request.encoder_state
    # The option sets a marker in the instructions and one in the last message.
    most = (0 if is_lead else 1) if request.options.prompt_cache else (1 if is_lead else _MOST)
    placed: set[int] = set()
    lost = set(wanted) - set(turn.origins)
    for index, (origin, problem) in enumerate(zip(turn.origins, problems, strict=True)):
        if origin not in wanted:
            continue
        if problem == HAS_MARKER:
            marks[_STATE] = marks.get(_STATE, 0) + 1
        elif problem is None and marks.get(_STATE, 0) < most:
            marks[_STATE] = marks.get(_STATE, 0) + 1
            placed.add(index)
        else:
            reason = problem or "the request has as many markers as the provider takes"
            request.losses.append(_loss(turn.message, origin, reason))
    request.losses += [_loss(turn.message, origin, "its block is not sent as it is") for origin in sorted(lost)]
    return placed


def _loss(message: Message, index: int, why: str) -> Loss:
    block_type = message.content[index].type if index < len(message.content) else ""
    return Loss(LossKind.OPTION, message.id, index, f"cache_breakpoints: {why}", Severity.INFO, block_type)
