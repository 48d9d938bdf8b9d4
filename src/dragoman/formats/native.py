"""Message lists as users of the providers' own clients keep them, read and written by our adapters."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.errors import RequestError
from dragoman.adapter.losses import LossKind
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.blocks import ToolUseBlock
from dragoman.canonical.message import Message, Role
from dragoman.formats.document import kind_of, own, parse
from dragoman.formats.errors import FormatError
from dragoman.formats.histories import as_history
from dragoman.formats.written import Written

Native = list[Any] | dict[str, Any]
"""The list of messages; or, where instructions stand beside it on that wire, an object of both, under their names."""

_UNNAMED = "unnamed"
_BEHIND = "dragoman: this turn stands behind the history and is no part of it"


@dataclass(frozen=True, slots=True)
class _Place:
    """The field of a request that holds the list, and those beside it that hold instructions."""

    messages: str
    beside: tuple[str, ...] = ()


_PLACES = {
    "anthropic": _Place("messages", ("system",)),
    "bedrock": _Place("messages", ("system",)),
    "openai": _Place("input", ("instructions",)),
    "google": _Place("contents", ("systemInstruction", "system_instruction")),
    "google-vertex": _Place("contents", ("systemInstruction", "system_instruction")),
    "google-interactions": _Place("input", ("system_instruction",)),
}
_CHAT = _Place("messages")
"""Where all the others, which speak Chat Completions or something close to it, have it."""


def from_native(provider: str, data: Any, *, model: str | None = None) -> list[Message]:
    """The messages of a list in the provider's format, or of an object (such as a request) that holds the list.

    ``model`` is whose words those of the assistant are, where the data does not say it; without it, they are those of
    a model ``unnamed``. Raises FormatError, with a path, and UnknownProviderError.
    """
    place = _PLACES.get(provider, _CHAT)
    body = _body(parse(data, shape=provider), place, provider)
    named = model or (body["model"] if isinstance(body.get("model"), str) and body["model"] else None)
    adapter = _adapter(provider, named)

    def read(part: Mapping[str, Any]) -> list[Message]:
        return adapter.from_wire_request(part, RequestContext(model=str(adapter.model_id)))[0]

    try:
        messages = read(body)
        return messages if named else _said_by(messages, str(adapter.model_id), f"{provider}:{_UNNAMED}")
    except RequestError as error:
        raise FormatError(str(error)[:300], path=_fault(body, place, read)) from error


def to_native(provider: str, messages: Sequence[Message], *, model: str | None = None) -> Written[Native]:
    """A history as the provider's users keep it: the list of messages, or an object where instructions stand beside it.

    It is what a request to ``model`` (or else to the first that the adapter lists) would carry, without what a request
    must end with. The losses are that request's. Raises CriticalLossError, ProjectionError and UnknownProviderError.
    """
    place = _PLACES.get(provider, _CHAT)
    adapter = _adapter(provider, model)
    history = _said_by(as_history(messages), f"{provider}:{_UNNAMED}", str(adapter.model_id))
    if not history:
        return Written([])
    behind = _behind(history)
    wire = adapter.to_wire([*history, *behind], [], AdapterOptions())
    last = [loss for loss in wire.losses if loss.message_id == history[-1].id]
    if behind and any(loss.kind is LossKind.EMPTY_MESSAGE for loss in last):
        # Nothing of the last word is left: what would stand behind it has joined the turn before, if there is one.
        before = to_native(provider, history[:-1], model=model)
        return Written(before.data, (*before.losses, *last))
    body = wirejson.loads_object(wire.body)
    listed = _without_behind(body.get(place.messages), behind)
    ours = {message.id for message in behind}
    losses = tuple(loss for loss in wire.losses if loss.message_id not in ours)
    told = {name: body[name] for name in place.beside if body.get(name)}
    return Written({**told, place.messages: listed} if told else listed, losses)


def _adapter(provider: str, model: str | None) -> Adapter:
    named = get_adapter(f"{provider}:{model or _UNNAMED}")
    return named if model or not named.listed_models else get_adapter(f"{provider}:{named.listed_models[0]}")


def _said_by(messages: Sequence[Message], model: str, other: str) -> list[Message]:
    """The messages, with those that one model said as another's: a list does not say who spoke, and whoever did can
    read what it is given back."""
    return [
        message.model_copy(update={"metadata": message.metadata.model_copy(update={"model": other})})
        if message.metadata.model == model and model != other
        else message
        for message in messages
    ]


def _body(data: Any, place: _Place, provider: str) -> dict[str, Any]:
    """The data as a request, each entry of its list checked, so that a fault has a path."""
    if isinstance(data, (list, tuple)):
        return {place.messages: _owned(data, "$")}
    if not isinstance(data, Mapping):
        raise FormatError(f"a history of {provider} is a list of messages, not {kind_of(data)}")
    if place.messages not in data:
        raise FormatError(f"there is no {place.messages}, which a history of {provider} holds")
    path = f"$.{place.messages}"
    listed = data[place.messages]
    rest = own({name: value for name, value in data.items() if name != place.messages})
    if not isinstance(listed, (list, tuple)):
        if isinstance(listed, str) and place.messages == "input":
            return {**rest, place.messages: own(listed, path)}
        raise FormatError(f"a history of {provider} is a list of messages, not {kind_of(listed)}", path=path)
    return {**rest, place.messages: _owned(listed, path)}


def _owned(listed: Sequence[Any], path: str) -> list[Any]:
    entries = [own(item, f"{path}[{index}]") for index, item in enumerate(listed)]
    for index, entry in enumerate(entries):
        if not isinstance(entry, dict):
            raise FormatError(f"a message is an object, not {kind_of(entry)}", path=f"{path}[{index}]")
    return entries


def _fault(body: dict[str, Any], place: _Place, read: Callable[[Mapping[str, Any]], object]) -> str:
    """The path to the first entry that cannot be read: every longer beginning of the list holds it too."""
    listed = body[place.messages]
    path = f"$.{place.messages}"

    def is_read(count: int) -> bool:
        try:
            read({**body, place.messages: listed[:count]})
        except RequestError:
            return False
        return True

    if not isinstance(listed, list) or not is_read(0):
        return "$"
    good, bad = 0, len(listed)
    while bad - good > 1:
        middle = (good + bad) // 2
        good, bad = (middle, bad) if is_read(middle) else (good, middle)
    return f"{path}[{good}]"


def _behind(history: Sequence[Message]) -> list[Message]:
    """What answers the assistant's last word. A request must end with it on some wires, a history need not."""
    last = history[-1]
    if last.role is not Role.ASSISTANT:
        return []
    calls = [block for block in last.content if isinstance(block, ToolUseBlock)]
    said: dict[str, Any] = {"session_id": last.session_id, "created_at": last.created_at}
    if calls:
        return [Message.tool(call.id, _BEHIND, **said) for call in calls]
    return [Message.user(_BEHIND, **said)]


def _without_behind(listed: Any, behind: Sequence[Message]) -> list[Any]:
    if isinstance(listed, str):
        return [{"role": "user", "content": listed}]  # the one turn that a request of Responses may write as a text
    entries = list(listed) if isinstance(listed, list) else []
    if behind:
        while entries and _BEHIND.encode() in wirejson.dumps(entries[-1]):
            entries.pop()
    return entries
