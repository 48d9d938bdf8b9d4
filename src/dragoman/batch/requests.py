"""Encodes requests as a batch."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.errors import InvalidRequestError
from dragoman.adapter.losses import Loss, log_losses
from dragoman.adapter.operations.batch_api import BatchApi
from dragoman.batch.handle import BatchDenial, BatchEntry
from dragoman.canonical.extensions.message_labels import labels_of_messages
from dragoman.canonical.ids import new_session_id
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.session.judge import Prompt


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchRequest:
    """One request: a text, or a history that ends with the message to answer. ``options`` None: the batch's options.

    ``labels`` are the security labels of its content, for the policy and the router of the client, besides those that
    its messages carry.
    """

    custom_id: str
    """The caller's id of the request, unique in a batch."""
    messages: str | Sequence[Message]
    """The text, or the history whose last message is to be answered."""
    tools: Sequence[ToolDefinition] = ()
    """The definitions that the model is offered. A batch runs no tools."""
    options: AdapterOptions | None = None
    labels: frozenset[str] = frozenset()


Requests = Mapping[str, str | Sequence[Message]] | Iterable[BatchRequest]
"""Prompts by id, or whole requests."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PreparedRequest(Prompt):
    """One request before it is encoded. ``wire_id`` is its id at the provider."""

    custom_id: str
    wire_id: str
    denial: BatchDenial | None = None
    turn_id: str | None = None


def prepare_requests(
    wire: BatchApi, requests: Requests, options: AdapterOptions, schema: Mapping[str, Any] | None
) -> list[PreparedRequest]:
    """Return the requests with their ids. Raises InvalidRequestError for an empty batch, one with more requests than
    the provider accepts, or a repeated id. ``schema`` is that of all answers.
    """
    if isinstance(requests, Mapping):
        requests = [BatchRequest(custom_id=name, messages=messages) for name, messages in requests.items()]
    batch_requests = list(requests)
    ids = [each.custom_id for each in batch_requests]
    if not ids:
        raise _invalid_request(wire, "a batch needs at least one request")
    if len(ids) > wire.max_requests:
        raise _invalid_request(
            wire, f"{len(ids):,} requests are more than the limit of {wire.max_requests:,}: split the batch"
        )
    if len(set(ids)) < len(ids):
        repeated = min(name for name, times in Counter(ids).items() if times > 1)
        raise _invalid_request(
            wire, f"the id {repeated!r:.80} occurs twice in the batch: each request needs its own id"
        )
    # The ids go unchanged if the provider accepts all of them, else the requests are numbered.
    wire_ids = ids if all(map(wire.accepts, ids)) else [f"request-{number}" for number in range(1, len(ids) + 1)]
    prepared = []
    for each, wire_id in zip(batch_requests, wire_ids, strict=True):
        own_options = each.options or options
        messages = (Message.user(each.messages),) if isinstance(each.messages, str) else tuple(each.messages)
        prepared.append(
            PreparedRequest(
                custom_id=each.custom_id,
                wire_id=wire_id,
                session_id=(messages[-1].session_id if messages else "") or new_session_id(),
                messages=messages,
                tools=each.tools,
                options=own_options if schema is None else replace(own_options, output_schema=schema),
                labels=frozenset(each.labels) | labels_of_messages(messages),
            )
        )
    return prepared


def encode_batch(
    adapter: Adapter, wire: BatchApi, requests: Iterable[PreparedRequest]
) -> tuple[tuple[BatchEntry, ...], list[bytes], Mapping[str, str], Mapping[str, tuple[Loss, ...]]]:
    """Encode the requests, except those that are denied. Return the entries of all, the lines and the headers to send,
    and the losses by request id.

    Raises InvalidRequestError if the batch is too large, and what the adapter raises for a request that it cannot
    encode.
    """
    entries, wire_requests, lines, losses = [], [], [], {}
    for each in requests:
        context = RequestContext.for_model(str(adapter.model_id), prices=None, session_id=each.session_id)
        if each.denial is None:
            request = adapter.to_wire(each.messages, each.tools, replace(each.options, stream=False, context=context))
            log_losses(request.losses, session_id=context.session_id, adapter=adapter.provider)
            wire_requests.append(request)
            lines.append(wire.encode_line(each.wire_id, request))
            losses[each.custom_id] = request.losses
        entry = BatchEntry(
            custom_id=each.custom_id,
            wire_id=each.wire_id,
            session_id=each.session_id,
            tool_names={} if context.tool_names is None else dict(context.tool_names.own),
            answers_by_tool=context.answer_tool is not None,
            labels=tuple(sorted(each.labels)),
            denial=each.denial,
            turn_id=each.turn_id,
        )
        entries.append(entry)
    size = sum(map(len, lines)) + 3 * len(lines)
    if size > wire.max_bytes:
        raise _invalid_request(
            wire, f"the batch has {size:,} bytes, more than the limit of {wire.max_bytes:,}: split it"
        )
    return tuple(entries), lines, wire.headers(wire_requests) if lines else {}, losses


def _invalid_request(wire: BatchApi, problem: str) -> InvalidRequestError:
    return InvalidRequestError(problem, provider=wire.provider, model=wire.model)
