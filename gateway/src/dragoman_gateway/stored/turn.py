"""One turn of stored responses: the history before it, and what the client receives of it."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from uuid import uuid4

from dragoman.errors import InvalidRequestError
from dragoman_gateway.database import DatabaseUnavailableError
from dragoman_gateway.errors import overloaded
from dragoman_gateway.stored.records import CONTINUABLE, BrokenChainError, StoredResponse, is_id
from dragoman_gateway.stored.response_store import ExpansionLimit, ResponseStore

PROVIDER = "openai"
"""The provider of the wire: its errors keep their code."""

_NOT_KEPT = "It is kept only if it was stored (store is not false), for the key that made it, and for a time."

REPEATED: Mapping[str, Any] = {
    "instructions": None,
    "max_output_tokens": None,
    "metadata": {},
    "parallel_tool_calls": True,
    "reasoning": {"effort": None, "summary": None},
    "temperature": None,
    "text": {"format": {"type": "text"}},
    "tool_choice": "auto",
    "tools": [],
    "top_p": None,
    "truncation": "disabled",
    "user": None,
}
"""The fields of a response that repeat the request, and their values if the request has none."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTurn:
    """``fields`` is the request with its whole history, as the model gets it. ``input`` has the items of this turn.
    ``is_changed``: the model gets another body than the client sent.
    """

    owner: str
    fields: dict[str, Any] = field(repr=False)
    input: Sequence[Any] = field(repr=False)
    previous_id: str | None = None
    store: bool = True
    background: bool = False
    is_changed: bool = False

    @property
    def echo(self) -> dict[str, Any]:
        """The fields of the request that the response repeats, and that concern the gateway alone."""
        return {"previous_response_id": self.previous_id, "store": self.store, "background": self.background}

    @property
    def streamed(self) -> bool:
        return self.fields.get("stream") is True

    def new_response(self, created_at: int) -> dict[str, Any]:
        """Return the object of a background response that waits to run."""
        fields = self.fields
        return {
            "id": f"resp_{uuid4().hex}",
            "object": "response",
            "created_at": created_at,
            "status": "queued",
            "error": None,
            "incomplete_details": None,
            "model": fields.get("model"),
            "output": [],
            "usage": None,
            **{name: value if fields.get(name) is None else fields[name] for name, value in REPEATED.items()},
            **self.echo,
        }

    def to_stored(self, response: dict[str, Any]) -> StoredResponse:
        return StoredResponse(
            id=str(response["id"]),
            owner=self.owner,
            previous_id=self.previous_id,
            input=self.input,
            response=response,
            background=self.background,
            streamed=self.background and self.streamed,
        )


async def read_turn(
    fields: dict[str, Any], owner: str, store: ResponseStore, *, keeps: bool = True, room: ExpansionLimit | None = None
) -> StoredTurn:
    """Return the turn of a request to `/v1/responses`. ``keeps`` is false in a gateway that stores no responses;
    ``room`` is what references may add to the request.

    Raises InvalidRequestError for a previous response or an item that is not stored for that owner, BodyTooLargeError,
    and OverloadedError if the database does not answer.
    """
    room = room or ExpansionLimit()
    previous_id, background = fields.get("previous_response_id"), fields.get("background") is True
    stored = keeps and fields.get("store") is not False
    if previous_id is not None and not isinstance(previous_id, str):
        raise invalid("previous_response_id must be the id of a response")
    if background and not stored:
        raise invalid("a background response is always stored, which this request or this gateway does not allow")
    sent, items = dict(fields), _input_items(fields.get("input"))
    references = [item["id"] for item in items if is_reference(item)]
    try:
        if references:
            sent["input"] = items = await _resolve(items, references, owner, store, room)
        if previous_id is not None:
            sent["input"] = [*await _history(previous_id, owner, store, room), *items]
            del sent["previous_response_id"]
    except DatabaseUnavailableError:
        raise overloaded("stored responses cannot be read at the moment") from None
    sent.pop("background", None)
    return StoredTurn(
        owner=owner,
        fields=sent,
        input=items,
        previous_id=previous_id,
        store=stored,
        background=background,
        is_changed=bool(references) or previous_id is not None or background,
    )


def _input_items(value: Any) -> list[Any]:
    """Return the input of a request as items."""
    if isinstance(value, str):
        return [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": value}]}]
    return list(value) if isinstance(value, list) else []


async def _history(previous_id: str, owner: str, store: ResponseStore, room: ExpansionLimit) -> list[Any]:
    not_found = f"Previous response with id '{previous_id:.80}' not found. {_NOT_KEPT}"
    if not is_id(previous_id):
        raise _not_found(not_found)
    try:
        chain = await store.history(previous_id, owner, room)
    except BrokenChainError as error:
        raise _not_found(f"{not_found} The response {error.response_id} before it is missing.") from None
    if chain is None:
        raise _not_found(not_found)
    if chain[-1].status not in CONTINUABLE:
        raise invalid(f"previous_response_id: the response is {chain[-1].status}, and only a complete one continues")
    return [item for each in chain for item in (*each.input, *each.output)]


async def _resolve(
    items: list[Any], references: list[str], owner: str, store: ResponseStore, room: ExpansionLimit
) -> list[Any]:
    """Replace references to items by the items. As at the wire's provider, each is named once: so a request grows to no
    more than what is stored."""
    if repeated := [each for each, times in Counter(references).items() if times > 1]:
        raise invalid(f"Duplicate item found with id '{repeated[0]:.80}'. Name each item once.")
    found = await store.find_items([each for each in references if is_id(each)], owner, room)
    for each in references:
        if each not in found:
            raise invalid(f"Item with id '{each:.80}' not found. {_NOT_KEPT}")
    return [found[item["id"]] if is_reference(item) else item for item in items]


def is_reference(item: Any) -> bool:
    """Whether an item refers to a stored one. It may leave out its type."""
    if not isinstance(item, dict) or not isinstance(item.get("id"), str):
        return False
    kind = item.get("type")
    return kind == "item_reference" or (kind is None and item.keys() <= {"id", "type"})


def unresolved_items(fields: Mapping[str, Any]) -> list[Any]:
    """Return the items of a request that go to the provider as they are."""
    items = fields.get("input")
    return [item for item in items if not is_reference(item)] if isinstance(items, list) else []


def _not_found(message: str) -> InvalidRequestError:
    return InvalidRequestError(message, provider=PROVIDER, status=400, code="previous_response_not_found")


def invalid(message: str) -> InvalidRequestError:
    """Return a refusal as the provider of the wire words it."""
    return InvalidRequestError(message, provider=PROVIDER, status=400)
