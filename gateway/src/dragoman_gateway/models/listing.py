"""The list of models, in the shape of each wire."""

from collections.abc import Mapping
from typing import Any

from starlette.requests import Request

from dragoman import AdapterCapabilities, get_adapter
from dragoman.errors import DragomanError, NotFoundError
from dragoman_gateway.access import Caller
from dragoman_gateway.models.names import Models
from dragoman_gateway.wires import MESSAGES, Wire

_CREATED = "2026-01-01T00:00:00Z"
_CREATED_SECONDS = 1767225600
"""A fixed time: the names are the gateway's own, and clients require one."""
_MAX_PAGE = 1000


def list_models(models: Models, caller: Caller, wire: Wire, request: Request) -> Mapping[str, Any]:
    """Return the models that the caller may use: the names of the settings and the aliases."""
    entries = [_entry(name, models.target(name), wire) for name in models.names(caller)]
    if wire is not MESSAGES:
        return {"object": "list", "data": entries}
    return _page(entries, request.query_params)


def find_model(models: Models, caller: Caller, wire: Wire, request: Request) -> Mapping[str, Any]:
    """Return one model. Raises NotFoundError and PermissionDeniedError."""
    name = request.path_params["model"]
    return _entry(name, models.resolve(name, caller).model, wire)


def _page(entries: list[dict[str, Any]], query: Mapping[str, str]) -> dict[str, Any]:
    """Return the part of the list that the client asks for."""
    ids = [entry["id"] for entry in entries]
    start, end = 0, len(entries)
    if (after := query.get("after_id")) is not None:
        start = _place(ids, after) + 1
    if (before := query.get("before_id")) is not None:
        end = _place(ids, before)
    limit = query.get("limit", "20")
    size = min(max(int(limit), 1), _MAX_PAGE) if limit.isdigit() and len(limit) < 6 else 20
    if "before_id" in query:
        start = max(end - size, start)
    shown = entries[start : min(start + size, end)]
    return {
        "data": shown,
        "has_more": start + len(shown) < end or ("before_id" in query and start > 0),
        "first_id": shown[0]["id"] if shown else None,
        "last_id": shown[-1]["id"] if shown else None,
    }


def _place(ids: list[str], name: str) -> int:
    if name not in ids:
        raise NotFoundError(f"there is no model {name!r:.120} in the list")
    return ids.index(name)


def _entry(name: str, target: str, wire: Wire) -> dict[str, Any]:
    if wire is not MESSAGES:
        return {"id": name, "object": "model", "created": _CREATED_SECONDS, "owned_by": target.partition(":")[0]}
    facts = _facts(target)
    return {
        "type": "model",
        "id": name,
        "display_name": name,
        "created_at": _CREATED,
        "max_input_tokens": None if facts is None else facts.max_context_tokens,
        "max_tokens": None if facts is None else facts.max_output_tokens,
    }


def _facts(target: str) -> AdapterCapabilities | None:
    try:
        return get_adapter(target).capabilities
    except DragomanError:
        return None
