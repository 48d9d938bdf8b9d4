"""Message lists as users of the providers' own clients store them, read and written by the adapters."""

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.errors import MALFORMED_ERRORS, DragomanError, RequestError
from dragoman.adapter.losses import LossKind
from dragoman.adapter.notes import native_tool_ids
from dragoman.adapter.registry import adapter_class, get_adapter
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.blocks import RedactedThinkingBlock, ThinkingBlock
from dragoman.canonical.ids import ModelId
from dragoman.canonical.message import Message, Role
from dragoman.canonical.message_fields import share_field_names
from dragoman.formats.document import copy_json_at, dig, kind_of, parse, text_in
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.fields import is_empty, moved_losses, source_losses
from dragoman.formats.reading.tool_calls import native_paths, pair_repeated
from dragoman.formats.results import Conversion, Pieces, as_history, report_labels

Native = list[Any] | dict[str, Any]
"""The list of messages; or an object with the list and the instructions, if that wire has a separate field for them."""

_UNNAMED = "unnamed"
_TRAILING_TEXT = "dragoman: this turn stands behind the history and is no part of it"


def from_native(provider: str, data: Any, *, model: str | None = None) -> list[Message]:
    """Read a list in the provider's format, an object (such as a request) that holds the list, or one reply.

    ``model`` is the model of the assistant's messages, if the data does not name it; the default is a model
    ``unnamed``. Raises FormatError, with a path, and UnknownProviderError.
    """
    kind = adapter_class(provider)
    is_text = isinstance(data, (str, bytes, bytearray))
    data = parse(data, format_name=provider)
    if (  # a reply alone: each wire has a field of its own for it
        isinstance(data, Mapping)
        and kind.history_field not in data
        and (data.get("type") == "message" or any(isinstance(data.get(name), list) for name in _REPLY_FIELDS))
    ):
        return [read_reply(provider, data, model=model)]
    body = _body(data, kind, provider, owned=is_text)
    _report_unread(body, kind)
    named = model or text_in(body.get("model"))
    adapter = _adapter(provider, named)

    def read(part: Mapping[str, Any]) -> list[Message]:
        return adapter.from_wire_request(part, RequestContext(model=str(adapter.model_id)))[0]

    try:
        messages = read(body)
        noted = (native_tool_ids(message) for message in messages if message.tool_uses)
        native_ids = {ours: theirs for ids in noted for ours, theirs in ids.items()}
        paths = native_paths(messages, body.get(kind.history_field), f"$.{kind.history_field}")
        messages = pair_repeated(messages, paths, native_ids)
        return messages if named else _relabel_model(messages, str(adapter.model_id), f"{provider}:{_UNNAMED}")
    except RequestError as error:
        raise FormatError(str(error)[:300], path=_find_fault(body, kind, read)) from error


def read_reply(provider: str, body: Any, path: str = "$", *, model: str | None = None) -> Message:
    """Read one reply of a provider. Raises FormatError, with the path in the document."""
    native = copy_json_at(body, path)
    adapter = _named_adapter(provider, model or text_in(dig(native, "model")) or _UNNAMED, path)
    context = RequestContext(model=str(adapter.model_id), session_id="")
    try:
        return adapter.from_wire_response(WireResponse(200, wirejson.dumps(native), {}), context)
    except (DragomanError, *MALFORMED_ERRORS) as error:
        raise FormatError(str(error)[:300], path=path) from None


def read_request(provider: str, body: Any, path: str, entry_paths: Sequence[str] = ()) -> list[Message]:
    """Return the messages of a request. Raises FormatError, with the path in the document.

    ``entry_paths`` are those of the entries of its list, if the request itself is not in the document.
    """

    def move(inner: str) -> str:
        entry = _ENTRY.match(inner)
        if entry is not None and int(entry[1]) < len(entry_paths):
            return entry_paths[int(entry[1])] + inner[entry.end() :]
        return path + inner.removeprefix("$")

    try:
        with moved_losses(move):
            return from_native(provider, body)
    except FormatError as error:
        raise FormatError(error.reason, path=move(error.path)) from None


_ENTRY = re.compile(r"\$\.\w+\[(\d+)\]")
_REPLY_FIELDS = ("choices", "candidates", "output")


def _report_unread(body: Mapping[str, Any], kind: type[Adapter]) -> None:
    """Report the options and tools of a request, and the fields that the adapter does not keep."""
    losses, known = source_losses(), kind.history_entry_fields
    for name, value in body.items():
        if name not in (kind.history_field, "model", *kind.instruction_fields) and not is_empty(value):
            if name in ("tools", "functions"):
                losses.add(f"$.{name}", "a history holds no definitions of tools: left out", kind=LossKind.TOOLS)
            else:
                reason = f"a history has no options of a request: {name[:80]!r} is left out"
                losses.add_info(f"$.{name}", reason, LossKind.OPTION)
    entries = body.get(kind.history_field)
    for index, entry in enumerate(entries if known is not None and isinstance(entries, list) else ()):
        for name in sorted(entry.keys() - (known or frozenset())):
            if not is_empty(entry[name]):
                losses.add_field(f"$.{kind.history_field}[{index}]", name, "the list")


def to_native(provider: str, messages: Sequence[Message], *, model: str | None = None) -> Conversion[Native]:
    """Write a history as the provider's users store it: the list of messages, or an object with list and instructions.

    It is the content of a request to ``model``, without what a request must end with. By default that is the model of
    the provider that spoke last in the history; in a history that names none, the first model of the adapter that can
    read its thinking. The losses are those of the request. Raises CriticalLossError, ProjectionError and
    UnknownProviderError.
    """
    written = to_native_pieces(provider, messages, model=model)
    document = written.data
    entries = [entry for piece in document.pieces for entry in piece]
    data: Native = {**document.fields, document.name: entries} if document.fields else entries
    return Conversion(data, written.losses, written.labels)


def to_native_pieces(provider: str, messages: Sequence[Message], *, model: str | None = None) -> Conversion[Pieces]:
    """As `to_native`, with the list in pieces: that of a long history takes much more memory than its JSON."""
    history = as_history(messages)
    return report_labels(_write(provider, history, model), history, provider)


def _write(provider: str, messages: list[Message], model: str | None) -> Conversion[Pieces]:
    kind = adapter_class(provider)
    adapter = _adapter(provider, model or _speaker(provider, messages))
    history = _relabel_model(messages, f"{provider}:{_UNNAMED}", str(adapter.model_id))
    if not history:
        return Conversion(Pieces([]))
    trailing = _trailing_turn(history)
    context = RequestContext(model=str(adapter.model_id))
    wire = adapter.to_wire([*history, *trailing], [], AdapterOptions(context=context))
    last = [loss for loss in wire.losses if loss.message_id == history[-1].id]
    if trailing and any(loss.kind is LossKind.EMPTY_MESSAGE for loss in last):
        # The last message lost all its content, so the appended turn was merged into the turn before, if there is one.
        earlier = _write(provider, history[:-1], model)
        return Conversion(earlier.data, (*earlier.losses, *last))
    body, chunks = _cut_out(wire.body, context.encode_cache.latest_chunks())
    found = body.get(kind.history_field)
    if isinstance(found, str):  # the only turn that a request of Responses may have as a plain text
        found = [{"role": "user", "content": found}]
    entries = list(found or ())
    while trailing and entries and _TRAILING_TEXT.encode() in wirejson.dumps(entries[-1]):
        entries.pop()
    trailing_ids = {message.id for message in trailing}
    losses = tuple(loss for loss in wire.losses if loss.message_id not in trailing_ids)
    instructions = {name: body[name] for name in kind.instruction_fields if body.get(name)}
    return Conversion(Pieces(_iter_pieces(entries, chunks), instructions, kind.history_field), losses)


def _cut_out(body: bytes, chunks: Sequence[bytes]) -> tuple[dict[str, Any], Sequence[bytes]]:
    """Return the body with None for the entries in these chunks, and the chunks. They are in the body as they are; if
    not, it is returned whole, without chunks.
    """
    start = end = body.find(chunks[0]) if chunks else -1
    for number, chunk in enumerate(chunks):
        at = end + bool(number)  # behind the comma
        if start < 0 or not body.startswith(chunk, at):
            return wirejson.loads_object(body), ()
        end = at + len(chunk)
    return wirejson.loads_object(body[:start] + b"null" + body[end:] if chunks else body), chunks


def _iter_pieces(entries: list[Any], chunks: Sequence[bytes]) -> Iterator[list[Any]]:
    """Yield the entries, with those of the chunks in their place."""
    cut = entries.index(None) if chunks else 0
    yield entries[:cut]
    for chunk in chunks:
        yield wirejson.loads(b"[" + chunk + b"]")
    yield entries[cut + bool(chunks) :]


def _speaker(provider: str, messages: Sequence[Message]) -> str | None:
    """Return the model of the provider that spoke last, or one that can read the thinking of an unnamed one. None: any
    model will do.
    """
    prefix = f"{provider}:"
    named = (message.metadata.model or "" for message in reversed(messages) if message.role is Role.ASSISTANT)
    found = next((name for name in named if name.startswith(prefix) and name != prefix + _UNNAMED), None)
    if found is not None:
        return found.removeprefix(prefix)
    if not any(isinstance(block, _THINKING) for message in messages for block in message.content):
        return None
    for name in get_adapter(prefix + _UNNAMED).listed_models:
        model = f"{prefix}{name}"
        if get_adapter(model).capabilities.thinking_policy.can_read(model):
            return name
    return None


_THINKING = (ThinkingBlock, RedactedThinkingBlock)


def _adapter(provider: str, model: str | None) -> Adapter:
    named = _named_adapter(provider, model or _UNNAMED, "$")
    return named if model or not named.listed_models else get_adapter(f"{provider}:{named.listed_models[0]}")


def _named_adapter(provider: str, model: str, path: str) -> Adapter:
    """Return the adapter of a model that a document names. Raises FormatError if no model can have that name."""
    adapter = adapter_class(provider)
    try:
        return adapter(ModelId.parse(f"{provider}:{model}")[1])
    except ValueError as error:
        raise FormatError(str(error)[:300], path=f"{path}.model") from None


def _relabel_model(messages: list[Message], model: str, other: str) -> list[Message]:
    """Replace one model by another in a list, and return the list. A history in a provider's format does not name its
    model, and each model can read what it gets back.
    """
    given = renamed = None
    for index, message in enumerate(messages):
        if message.metadata.model != model or model == other:
            continue
        if message.metadata is not given:  # the messages of a long history share their metadata
            given = message.metadata
            renamed = given.model_copy(update={"model": other})
        messages[index] = BaseModel.model_copy(message, update={"metadata": renamed})  # nothing else is to be validated
        share_field_names(messages[index])
    return messages


def _body(data: Any, kind: type[Adapter], provider: str, *, owned: bool) -> dict[str, Any]:
    """Return the data as a request, with each entry of its list checked, so that a fault has a path.

    ``owned``: nothing else uses the data, so its list may change.
    """
    if isinstance(data, (list, tuple)):
        return {kind.history_field: _copy_entries(data, "$", owned=owned)}
    if not isinstance(data, Mapping):
        raise FormatError(f"a history of {provider} must be a list of messages, not {kind_of(data)}")
    if kind.history_field not in data:
        raise FormatError(f"{kind.history_field} is missing in a history of {provider}")
    path = f"$.{kind.history_field}"
    entries = data[kind.history_field]
    rest = copy_json_at({name: value for name, value in data.items() if name != kind.history_field})
    if isinstance(entries, str) and kind.history_field == "input":
        return {**rest, kind.history_field: copy_json_at(entries, path)}
    if not isinstance(entries, (list, tuple)):
        raise FormatError(f"a history of {provider} must be a list of messages, not {kind_of(entries)}", path=path)
    return {**rest, kind.history_field: _copy_entries(entries, path, owned=owned)}


def _copy_entries(items: Sequence[Any], path: str, *, owned: bool) -> list[Any]:
    entries = items if owned and isinstance(items, list) else list(items)
    for index, item in enumerate(entries):
        entries[index] = copy_json_at(item, f"{path}[{index}]")
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise FormatError(f"a message must be an object, not {kind_of(entry)}", path=f"{path}[{index}]")
    return entries


def _find_fault(body: dict[str, Any], kind: type[Adapter], read: Callable[[Mapping[str, Any]], object]) -> str:
    """Return the path to the first entry that cannot be read: every longer prefix of the list contains it too."""
    entries = body[kind.history_field]

    def is_read(count: int) -> bool:
        try:
            read({**body, kind.history_field: entries[:count]})
        except RequestError:
            return False
        return True

    if not isinstance(entries, list) or not is_read(0):
        return "$"
    good, bad = 0, len(entries)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if is_read(middle) else (good, middle)
    return f"$.{kind.history_field}[{good}]"


def _trailing_turn(history: Sequence[Message]) -> list[Message]:
    """Return a turn after the assistant's last message. Some wires require a request to end with one, a history does
    not.
    """
    last = history[-1]
    if last.role is not Role.ASSISTANT:
        return []
    message_fields: dict[str, Any] = {"session_id": last.session_id, "created_at": last.created_at}
    answers = [Message.tool(call.id, _TRAILING_TEXT, **message_fields) for call in last.tool_uses]
    return answers or [Message.user(_TRAILING_TEXT, **message_fields)]
