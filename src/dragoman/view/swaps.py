"""What a history loses on its way to a model: found by projecting it, as it was, onto the one that answered next."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from dragoman.adapter.contract import AdapterOptions, RequestContext
from dragoman.adapter.errors import DragomanError
from dragoman.adapter.losses import Loss, Severity
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.requests.encode_cache import EncodeCache
from dragoman.adapter.requests.tool_ids import ToolIdMap
from dragoman.adapter.wire import WireRequest
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.session.compaction import apply_summaries


@dataclass(frozen=True, slots=True)
class Swap:
    """``refused`` is why the model cannot be given the history at all, where that is so. ``behind``: no reply of the
    new model is there yet."""

    before: str
    after: str
    losses: tuple[Loss, ...] = ()
    refused: str | None = None
    is_upcoming: bool = False

    @property
    def lost(self) -> list[Loss]:
        """Content that is gone or reduced."""
        return [loss for loss in self.losses if loss.severity is Severity.WARNING]

    @property
    def changed(self) -> list[Loss]:
        """What only has another form."""
        return [loss for loss in self.losses if loss.severity is not Severity.WARNING]

    @property
    def rows(self) -> list[tuple[Loss, tuple[str, ...]]]:
        """Those that say the same as one, each with the messages that it is of; what is gone comes first."""
        found: dict[tuple[str, str], list[Loss]] = {}
        for loss in (*self.lost, *self.changed):
            found.setdefault((loss.kind, loss.reason), []).append(loss)
        return [(same[0], tuple(dict.fromkeys(loss.message_id for loss in same))) for same in found.values()]


@dataclass(slots=True)
class Projections:
    """Requests as they would be made today. ``tool_ids`` should be a copy: ids may be made in it.

    ``tools`` are offered in each request; a history does not hold their definitions, nor the options of its turns.
    """

    tool_ids: ToolIdMap
    tools: Sequence[ToolDefinition] = ()
    encode_cache: EncodeCache = field(default_factory=EncodeCache)

    def request(self, history: Sequence[Message], model: str) -> WireRequest | str:
        """The request that this history makes for the model, or why there is none."""
        try:
            adapter = get_adapter(model)
            context = RequestContext(
                model=str(adapter.model_id), session_id="", tool_ids=self.tool_ids, encode_cache=self.encode_cache
            )
            return adapter.to_wire(apply_summaries(history), self.tools, AdapterOptions(context=context))
        except DragomanError as error:
            return str(error)


def describe_swap(request: WireRequest | str, before: str, after: str, *, is_upcoming: bool = False) -> Swap:
    """The swap that a request, or the lack of one, stands for."""
    if isinstance(request, str):
        return Swap(before, after, refused=request, is_upcoming=is_upcoming)
    return Swap(before, after, request.losses, is_upcoming=is_upcoming)
