"""The list of models, as Google's clients read it."""

from typing import Any

from dragoman import get_adapter
from dragoman.errors import DragomanError
from dragoman_gateway.errors import ClientError
from dragoman_gateway.vendors.service import Call

_METHODS = ["generateContent", "streamGenerateContent", "countTokens"]
_PAGE, _MAX_PAGE = 50, 1000


async def answer_list(call: Call) -> dict[str, Any]:
    """Return a page of the models that the caller may use. A page's token is the number of its first model."""
    names = call.generation.models.names(call.caller)
    size = min(_read_number(call, "pageSize", _PAGE) or _PAGE, _MAX_PAGE)
    start = _read_number(call, "pageToken", 0)
    page = [_entry(name, call.generation.models.target(name)) for name in names[start : start + size]]
    more = {"nextPageToken": str(start + size)} if start + size < len(names) else {}
    return {"models": page, **more}


async def answer_one(call: Call) -> dict[str, Any]:
    """Return one model. Raises NotFoundError and PermissionDeniedError."""
    name = call.address["model"]
    return _entry(name, call.generation.models.resolve(name, call.caller).model)


def _entry(name: str, target: str) -> dict[str, Any]:
    entry: dict[str, Any] = {
        "name": f"models/{name}",
        "version": "1",
        "displayName": name,
        "description": target,
        "supportedGenerationMethods": _METHODS,
    }
    try:
        facts = get_adapter(target).capabilities
    except DragomanError:
        return entry
    limits = {"inputTokenLimit": facts.max_context_tokens, "outputTokenLimit": facts.max_output_tokens}
    return entry | {field: limit for field, limit in limits.items() if limit is not None}


def _read_number(call: Call, name: str, default: int) -> int:
    text = call.query.get(name, "")
    if not text:
        return default
    if not text.isdecimal() or len(text) > 9:
        raise ClientError(f"{name}: {text!r:.40} is not a whole number of at most 9 digits")
    return int(text)
