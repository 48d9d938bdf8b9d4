"""Documents that mean no good: by hand, and five hundred and more by breaking good ones in one place at a time."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from dragoman.formats import to_cmf, to_umf
from tests.unit.formats.documents import HANDWRITTEN_CMF, HANDWRITTEN_UMF, everything

_DEEP: Any = "bottom"
for _ in range(250):
    _DEEP = [_DEEP]

_CYCLE: list[Any] = []
_CYCLE.append(_CYCLE)

VALUES: dict[str, Any] = {
    "nan": float("nan"),
    "infinity": float("-inf"),
    "surrogate": "\ud800",
    "surrogate key": {"\udfff": 1},
    "deep": _DEEP,
    "cycle": _CYCLE,
    "bytes": b"text",
    "object of a class": object(),
    "number as a key": {1: 2},
    "endless integer": 1 << 20_000,
}
"""What no message can hold, wherever it stands."""

WRONG: dict[str, Any] = {
    "number": 5,
    "boolean": True,
    "list": [[]],
    "object": {"type": "no such", "content_type": "no"},
}
"""What is JSON, and of the wrong kind in most places."""

HANDWRITTEN_NATIVE: dict[str, list[dict[str, Any]]] = {
    "openai-chat": [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": None, "tool_calls": [
            {"id": "call_1", "type": "function", "function": {"name": "f", "arguments": "{}"}}]},
        {"role": "tool", "tool_call_id": "call_1", "content": "1"},
    ],
    "openai": [
        {"role": "user", "content": [{"type": "input_text", "text": "Hi."}]},
        {"type": "function_call", "call_id": "call_1", "name": "f", "arguments": "{}"},
        {"type": "function_call_output", "call_id": "call_1", "output": "1"},
    ],
    "anthropic": [
        {"role": "user", "content": "Hi."},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "toolu_1", "name": "f", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "toolu_1", "content": "1"}]},
    ],
    "ollama": [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Ho."}],
    "google": [{"role": "user", "parts": [{"text": "Hi."}]}, {"role": "model", "parts": [{"text": "Ho."}]}],
    "mistral": [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Ho."}],
    "cohere": [{"role": "user", "content": "Hi."}, {"role": "assistant", "content": "Ho."}],
    "bedrock": [{"role": "user", "content": [{"text": "Hi."}]}, {"role": "assistant", "content": [{"text": "Ho."}]}],
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Hostile:
    """``shape`` says how it is read. ``path`` is where the fault was put, None where the document is no JSON at all.

    ``refused``: whether it has to be refused, or may be read, but never breaks.
    """

    name: str
    shape: str
    document: Any
    path: str | None
    refused: bool = True


def documents() -> Iterator[Hostile]:
    """All of them."""
    good: dict[str, list[Any]] = {
        "cmf": HANDWRITTEN_CMF,
        "cmf of ours": to_cmf(everything()).data,
        "umf": HANDWRITTEN_UMF,
        "umf of ours": to_umf(everything()).data,
        **HANDWRITTEN_NATIVE,
    }
    for name, document in good.items():
        shape = name.partition(" ")[0]
        places = list(_places(document, "$"))
        for kind, value in VALUES.items():
            for path, put in places[:: max(1, len(places) // 4)]:
                yield Hostile(f"{name}: {kind} at {path}", shape, put(value), path)
        for kind, value in WRONG.items():
            for path, put in places:
                yield Hostile(f"{name}: {kind} at {path}", shape, put(copy.deepcopy(value)), path, refused=False)
        yield from _texts(name, shape, document)


def _places(node: Any, path: str) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Every place in a document, with a function that gives the document with another value there."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, inner in items:
        at = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}"

        def put(value: Any, key: Any = key) -> Any:
            changed = list(node) if isinstance(node, list) else dict(node)
            changed[key] = value
            return changed

        yield at, put
        for deeper, change in _places(inner, at):
            yield deeper, lambda value, change=change, put=put: put(change(value))  # type: ignore[misc]


def _texts(name: str, shape: str, document: Any) -> Iterator[Hostile]:
    text = json.dumps(document)
    for kind, broken in {
        "cut off": text[:-1],
        "nothing": "",
        "no UTF-8": text.encode() + b"\xff",
        "bare NaN": text.replace('"', "NaN", 1),
        "deep": "[" * 100_000,
        "escaped surrogate": '[{"role": "\\ud800"}]',
    }.items():
        yield Hostile(f"{name}: text {kind}", shape, broken, None)
    others: dict[str, Any] = {"null": None, "text": '"Hi."', "number": 5, "list in a list": [[]], "nulls": [None]}
    for kind, other in others.items():
        yield Hostile(f"{name}: a document that is {kind}", shape, other, None)
