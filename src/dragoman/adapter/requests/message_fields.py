"""Fields of a provider's message without a canonical field, such as the lifetime of the message.

Adapters keep them in ``provider_raw`` and send them back to the same provider. Elsewhere, they are a loss.
"""

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from dragoman.adapter.losses import Loss, LossKind
from dragoman.adapter.requests.turns import SYNTHETIC
from dragoman.canonical.message import Message

MESSAGE_FIELDS = "message_fields"
"""The key of ``provider_raw`` that holds them."""


def unread_fields(native: Mapping[str, Any], read: Collection[str]) -> dict[str, Any]:
    """Return the note of the fields of a native message that are not ``read``; empty if there are none."""
    if len(native) == len(read):
        return {}
    fields = {name: value for name, value in native.items() if name not in read}
    return {MESSAGE_FIELDS: fields} if fields else {}


def without_fields(note: Mapping[str, Any]) -> dict[str, Any]:
    """Return the note for the other messages that one native message became: the first one has its fields."""
    return {name: value for name, value in note.items() if name != MESSAGE_FIELDS}


def find_lost_fields(messages: Iterable[Message], provider: str) -> list[Loss]:
    """Return the fields of other providers' messages as losses."""
    losses: list[Loss] = []
    for message in messages:  # a plain loop, because it reads the whole history
        raw = message.metadata.provider_raw
        if raw and MESSAGE_FIELDS in raw and raw.get("by") != provider:
            losses += field_losses(message, raw["by"])
    return losses


def field_losses(message: Message, home: str) -> list[Loss]:
    """Return the fields of one message as a loss. ``home`` is where they mean something."""
    fields = (message.metadata.provider_raw or {}).get(MESSAGE_FIELDS, {})
    names = ", ".join(name for name, value in fields.items() if value is not None)
    if not names:
        return []
    reason = f"{names:.200} of a message means nothing outside of {home}: left out"
    return [Loss(LossKind.FIELD, message.id, SYNTHETIC, reason)]
