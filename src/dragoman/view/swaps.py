"""Finds what a swap loses by projecting the history onto the next model."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import DragomanError
from dragoman.adapter.losses import Loss, Severity
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.requests.encode_cache import EncodeCache
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.adapter.wire import WireRequest
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.session.compaction import apply_summaries


@dataclass(frozen=True, slots=True)
class Swap:
    """``refused`` is the reason if the model cannot take the history at all. ``is_upcoming``: the new model has not
    replied yet.
    """

    before: str
    after: str
    losses: tuple[Loss, ...] = ()
    refused: str | None = None
    is_upcoming: bool = False

    @property
    def lost(self) -> list[Loss]:
        """Content that is removed or reduced."""
        return [loss for loss in self.losses if loss.severity is Severity.WARNING]

    @property
    def changed(self) -> list[Loss]:
        """Content that only changes its form."""
        return [loss for loss in self.losses if loss.severity is not Severity.WARNING]

    @property
    def rows(self) -> list[tuple[Loss, tuple[str, ...]]]:
        """Equal losses as one row, each with its messages; removed content comes first."""
        found: dict[tuple[str, str], list[Loss]] = {}
        for loss in (*self.lost, *self.changed):
            found.setdefault((loss.kind, loss.reason), []).append(loss)
        return [(same[0], tuple(dict.fromkeys(loss.message_id for loss in same))) for same in found.values()]


@dataclass(slots=True)
class Projections:
    """Requests as they would be built today. ``tool_ids`` should be a copy: ids may be added to it.

    Each request offers ``tools``; a history contains neither their definitions nor the options of its turns.
    """

    tool_ids: ToolIdMap
    tools: Sequence[ToolDefinition] = ()
    encode_cache: EncodeCache = field(default_factory=EncodeCache)

    def request(self, history: Sequence[Message], model: str) -> WireRequest | str:
        """Return the request of this history for the model, or the reason why there is none."""
        try:
            adapter = get_adapter(model)
            context = RequestContext(
                model=str(adapter.model_id), session_id="", tool_ids=self.tool_ids, encode_cache=self.encode_cache
            )
            return adapter.to_wire(apply_summaries(history), self.tools, AdapterOptions(context=context))
        except DragomanError as error:
            return str(error)


def describe_swap(request: WireRequest | str, before: str, after: str, *, is_upcoming: bool = False) -> Swap:
    """Return the swap of a request, or the reason why there is none."""
    if isinstance(request, str):
        return Swap(before, after, refused=request, is_upcoming=is_upcoming)
    return Swap(before, after, request.losses, is_upcoming=is_upcoming)
