"""What no canonical value may hold: lone surrogates, NaN, infinity, endless depth or endless size.

Every JSON library treats these differently (some drop them, some write invalid JSON, some fail much later),
so they are refused once, where a value enters, with the path of the offender.
"""

import math
from typing import Annotated, Any

from pydantic import AfterValidator
from pydantic_core import PydanticCustomError

MAX_DEPTH = 128
MAX_BODY_BYTES = 64 * 1024 * 1024

_TOO_LARGE = "{path} takes the value over {limit} bytes: store the data elsewhere and refer to it by URL"


def check_text(value: str) -> str:
    """Refuses a lone surrogate or an over-long text (lengths in characters, which is at most the bytes)."""
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise PydanticCustomError(
                "surrogate",
                "a lone surrogate at character {position} cannot be encoded: decode the text again, "
                "with errors='replace' if need be",
                {"position": error.start},
            ) from None
    if len(value) > MAX_BODY_BYTES:
        raise PydanticCustomError("too_large", _TOO_LARGE, {"path": "the text", "limit": MAX_BODY_BYTES})
    return value


def json_size(value: Any) -> int:
    """The size of a JSON value, roughly in bytes; raises PydanticCustomError, naming the path, on an unsafe one."""
    total = 0
    stack: list[tuple[Any, str, int]] = [(value, "$", 1)]
    while stack:
        node, path, depth = stack.pop()
        kind = type(node)
        if kind is str:
            _check_string(node, path)
            total += len(node)
        elif kind is dict or kind is list or kind is tuple:
            if depth > MAX_DEPTH:
                raise PydanticCustomError(
                    "too_deep",
                    "{path} is nested over {limit} levels deep",
                    {"path": path, "limit": MAX_DEPTH},
                )
            if kind is dict:
                for key, item in node.items():
                    if not isinstance(key, str):
                        raise PydanticCustomError(
                            "json_key",
                            "{path} has the key {key}, which is not a string",
                            {"path": path, "key": repr(key)},
                        )
                    _check_string(key, path)
                    total += len(key)
                    stack.append((item, f"{path}.{key}", depth + 1))
            else:
                stack.extend((item, f"{path}[{index}]", depth + 1) for index, item in enumerate(node))
        elif kind is float:
            if not math.isfinite(node):
                raise PydanticCustomError(
                    "not_finite",
                    "{path} is {value}, which JSON cannot carry",
                    {"path": path, "value": str(node)},
                )
        elif not (node is None or isinstance(node, (bool, int, str))):
            raise PydanticCustomError(
                "not_json", "{path} is a {kind}, not a JSON value", {"path": path, "kind": kind.__name__}
            )
        total += 8
        if total > MAX_BODY_BYTES:
            raise PydanticCustomError("too_large", _TOO_LARGE, {"path": path, "limit": MAX_BODY_BYTES})
    return total


def _check_string(value: str, path: str) -> None:
    if not value.isascii():
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise PydanticCustomError(
                "surrogate",
                "{path} has a lone surrogate at character {position}",
                {"path": path, "position": error.start},
            ) from None


def _check_json(value: dict[str, Any]) -> dict[str, Any]:
    json_size(value)
    return value


Text = Annotated[str, AfterValidator(check_text)]
"""A string that every encoder can write."""

JsonObject = Annotated[dict[str, Any], AfterValidator(_check_json)]
"""A JSON object without NaN, infinity, lone surrogates or more than 128 levels."""
