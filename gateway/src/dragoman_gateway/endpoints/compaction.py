"""Items of Responses that stand for a conversation: a summary that only this gateway can read."""

import base64
import binascii
from dataclasses import replace
from typing import Any

from dragoman.answers import StateSealer
from dragoman.errors import InvalidRequestError
from dragoman_gateway.json import dumps
from dragoman_gateway.turn.request import ClientRequest

_MARK = "dragoman."
_BINDING = b"compaction/"
_PREFIX = "Summary of the conversation so far:\n\n"


def expand_compactions(request: ClientRequest, sealer: StateSealer | None) -> ClientRequest:
    """Return the request with the summaries in place of its items.

    Raises InvalidRequestError for an item of another key, or one that was changed.
    """
    items = request.fields.get("input")
    if not isinstance(items, list) or sealer is None or not any(map(_is_ours, items)):
        return request
    expanded = []
    for item in items:
        if _is_ours(item):
            try:
                sealed = base64.urlsafe_b64decode(item["encrypted_content"].removeprefix(_MARK))
                summary = sealer.open(sealed, _BINDING + _owner(request).encode()).decode()
            except (ValueError, binascii.Error) as error:
                raise InvalidRequestError(f"a compaction item cannot be read: {error!s:.200}", status=400) from None
            item = user_message(expanded_summary(summary))
        expanded.append(item)
    fields = {**request.fields, "input": expanded}
    return replace(request, fields=fields, body=dumps(fields))


def compaction_item(name: str, summary: str, request: ClientRequest, sealer: StateSealer | None) -> dict[str, Any]:
    """Return the item that represents a summary."""
    plain = summary.encode()
    sealed = plain if sealer is None else sealer.seal(plain, _BINDING + _owner(request).encode())
    return {
        "type": "compaction",
        "id": f"cmp_{name}",
        "encrypted_content": _MARK + base64.urlsafe_b64encode(sealed).decode(),
    }


def expanded_summary(summary: str) -> str:
    """Return the user's text in which a summary comes back."""
    return _PREFIX + summary


def user_message(text: str) -> dict[str, Any]:
    return {"type": "message", "role": "user", "content": [{"type": "input_text", "text": text}]}


def _is_ours(item: Any) -> bool:
    if not isinstance(item, dict) or item.get("type") not in ("compaction", "compaction_summary"):
        return False
    return str(item.get("encrypted_content", "")).startswith(_MARK)


def _owner(request: ClientRequest) -> str:
    caller = request.caller
    return caller.team or caller.user or caller.key_id or ""
