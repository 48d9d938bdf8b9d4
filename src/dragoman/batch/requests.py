"""What is asked for, encoded as a batch."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from dragoman.adapter.batch import BatchWire
from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.errors import ConfigurationError, InvalidRequestError
from dragoman.adapter.losses import Loss
from dragoman.batch.handle import BatchEntry
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """One request: a text, or a history that ends with what is to be answered. ``options`` None: those of the batch."""

    custom_id: str
    messages: str | Sequence[Message]
    tools: Sequence[ToolDefinition] = ()
    options: AdapterOptions | None = None


Requests = Mapping[str, str | Sequence[Message]] | Iterable[BatchRequest]
"""The prompts by their ids, or whole requests."""


@dataclass(frozen=True, slots=True)
class Encoded:
    """A batch that can be handed in. ``losses`` are by the request's id."""

    entries: tuple[BatchEntry, ...]
    lines: list[bytes]
    headers: Mapping[str, str]
    losses: Mapping[str, tuple[Loss, ...]]


def wire_of(adapter: Adapter) -> BatchWire:
    wire = adapter.batches
    if wire is None:
        raise ConfigurationError(f"no batch API is spoken for {adapter.model_id}: send its requests one by one")
    return wire


def encode(adapter: Adapter, requests: Requests, options: AdapterOptions) -> Encoded:
    """Raises InvalidRequestError for an empty batch, one over the provider's limits, or an id that stands in it twice,
    and what the adapter raises of a request that it cannot write."""
    wire = wire_of(adapter)
    asked = _listed(requests)
    _check(wire, [each.custom_id for each in asked])
    wire_ids = _wire_ids(wire, [each.custom_id for each in asked])
    entries, written, lines, losses = [], [], [], {}
    for each, wire_id in zip(asked, wire_ids, strict=True):
        messages = [Message.user(each.messages)] if isinstance(each.messages, str) else list(each.messages)
        context = RequestContext.for_model(str(adapter.model_id), prices=None)
        if messages and (known := messages[-1].session_id):
            context.session_id = known
        request = adapter.to_wire(messages, each.tools, replace(each.options or options, stream=False, context=context))
        names = context.tool_names
        entries.append(
            BatchEntry(
                custom_id=each.custom_id,
                wire_id=wire_id,
                session_id=context.session_id,
                tool_names=dict(names.own) if names is not None else {},
                answers_by_tool=context.answer_tool is not None,
            )
        )
        written.append(request)
        lines.append(wire.line(wire_id, request))
        losses[each.custom_id] = request.losses
    size = sum(map(len, lines)) + 3 * len(lines)
    if size > wire.most_bytes:
        raise _invalid(wire, f"the batch has {size:,} bytes, and {wire.most_bytes:,} are the most: make two of it")
    return Encoded(tuple(entries), lines, wire.headers(written), losses)


def _listed(requests: Requests) -> list[BatchRequest]:
    if isinstance(requests, Mapping):
        return [BatchRequest(custom_id=name, messages=said) for name, said in requests.items()]
    return list(requests)


def _check(wire: BatchWire, ids: list[str]) -> None:
    if not ids:
        raise _invalid(wire, "a batch without a request cannot be handed in")
    if len(ids) > wire.most_requests:
        raise _invalid(wire, f"{len(ids):,} requests, and {wire.most_requests:,} are the most: make several batches")
    if twice := sorted({name for name in ids if ids.count(name) > 1} if len(set(ids)) < len(ids) else ()):
        raise _invalid(wire, f"the id {twice[0]!r:.80} stands in the batch twice: answers are told apart by it")


def _wire_ids(wire: BatchWire, ids: list[str]) -> list[str]:
    """The ids as they are where the provider takes all of them, else the requests' numbers."""
    return ids if all(map(wire.accepts, ids)) else [f"request-{number}" for number in range(1, len(ids) + 1)]


def _invalid(wire: BatchWire, problem: str) -> InvalidRequestError:
    return InvalidRequestError(problem, provider=wire.provider, model=wire.model)
