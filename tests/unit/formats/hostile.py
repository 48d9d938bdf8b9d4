"""Hostile documents: some by hand, and more than five hundred made from good ones by one change each."""

import copy
import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

from dragoman.formats import to_acp, to_cmf, to_message_body, to_umf
from tests.unit.formats.body.strategies import HANDWRITTEN_ACP, HANDWRITTEN_BODY
from tests.unit.formats.documents import HANDWRITTEN_CMF, HANDWRITTEN_UMF, everything
from tests.unit.formats.dump_files import dump
from tests.unit.formats.importers.samples import SAMPLES

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
"""Values that no message may hold, in any place."""

WRONG: dict[str, Any] = {
    "number": 5,
    "boolean": True,
    "list": [[]],
    "object": {"type": "no such", "content_type": "no"},
}
"""Valid JSON of a type that is wrong in most places."""

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


IMPORTED = {
    "pydantic-ai": ("pydantic_ai_every_part.json", "pydantic_ai_anthropic.json"),
    "langchain": ("langchain_every_block_dicts.json", "langchain_chat_dumpd.json"),
    "litellm": ("litellm_anthropic_messages.json", "litellm_openai_response.json"),
    "vcr": ("vcr_responses.json",),
}
"""Files of other libraries to break, by format; only at every few places, since they are many."""

_PLACES_OF_A_FILE = 40


@dataclass(frozen=True, slots=True)
class Hostile:
    """``shape`` says how it is read. ``path`` is the place of the fault, None if the document is not JSON at all.

    ``refused``: whether it must be refused, or may be read but never fails otherwise.
    """

    name: str
    shape: str
    document: Any
    path: str | None
    refused: bool = True


def documents() -> Iterator[Hostile]:
    """All hostile documents."""
    good: dict[str, list[Any]] = {
        "cmf": HANDWRITTEN_CMF,
        "cmf of ours": to_cmf(everything()).data,
        "umf": HANDWRITTEN_UMF,
        "umf of ours": to_umf(everything()).data,
        "acp": HANDWRITTEN_ACP,
        "acp of ours": to_acp(everything()).data,
        "message_body": HANDWRITTEN_BODY,
        "message_body of ours": to_message_body(everything()[1]).data.as_json(),
        **HANDWRITTEN_NATIVE,
    }
    yield from _bodies()
    for name, document in good.items():
        shape = name.partition(" ")[0]
        places = list(places_of(document, "$"))
        for kind, value in VALUES.items():
            for path, put in places[:: max(1, len(places) // 4)]:
                yield Hostile(f"{name}: {kind} at {path}", shape, put(value), path)
        for kind, value in WRONG.items():
            for path, put in places:
                yield Hostile(f"{name}: {kind} at {path}", shape, put(copy.deepcopy(value)), path, refused=False)
        yield from _texts(name, shape, document)
    for shape, files in IMPORTED.items():
        for file in files:
            yield from _of_a_file(file, shape, json.loads(dump(file)))
    for name, (shape, document) in SAMPLES.items():
        for broken in _of_a_file(name, shape, document):
            yield replace(broken, refused=broken.path is None)  # what is around the messages may be skipped


def _of_a_file(name: str, shape: str, document: Any) -> Iterator[Hostile]:
    """Importers skip what they do not read: only some places have to be refused."""
    places = list(places_of(document, "$"))
    few = places[:: max(1, len(places) // _PLACES_OF_A_FILE)]
    for kind, value in {**VALUES, **WRONG}.items():
        # A cassette's headers are skipped, and so is everything next to an exchange.
        for path, put in few[:: 1 if kind in WRONG else 8]:
            refused = kind in VALUES and shape != "vcr"
            yield Hostile(f"{name}: {kind} at {path}", shape, put(copy.deepcopy(value)), path, refused=refused)
    yield from _texts(name, shape, document)


def _bodies() -> Iterator[Hostile]:
    """Faults of bodies only: repeated or relative names, parts with two contents or none, invalid base64."""
    part = {"name": "/a", "contentType": "text/plain", "content": "a"}
    faults: dict[str, tuple[Any, str]] = {
        "a name twice": ([part, {"contentType": "a/b", "content": ""}, part], "$[2].name"),
        "a name 1,000 times": ([part] * 1_000, "$[1].name"),
        "a long name": ([{**part, "name": "/a" * 100_000 + "/"}], "$[0].name"),
        "a long type": ([{**part, "contentType": "text/" + "a " * 100_000}], "$[0].contentType"),
        "two contents": ([{**part, "contentUrl": "https://example.org"}], "$[0]"),
        "no content": ([{"name": "/a", "contentType": "text/plain"}], "$[0]"),
        "no base64": ([{**part, "content": "=" * 100_000, "contentEncoding": "base64"}], "$[0]"),
        "a key of a class": ([{**part, "__class__": "MessageBodyPart"}], "$[0].__class__"),
        "something beside the parts": ({"parts": [], "role": "user"}, "$.role"),
        "parts that are an object": ({"parts": {}}, "$.parts"),
        "a fault below parts": ({"parts": [{**part, "name": ".."}]}, "$.parts[0].name"),
    }
    names = (
        "a",
        "/..",
        "/a/../b",
        "/./a",
        "//",
        "/a/",
        "/a\x00",
        "/a\n",
        "/a b",
        "/ä",
        "/%2e%2e",
        "\\a",
        "~/a",
        "C:/a",
    )
    faults |= {f"the name {name!r}": ([part, {**part, "name": name}], "$[1].name") for name in names}
    urls = ("", "a", "//a", "https:", "https://a b", "https://a\n", "/etc/passwd")
    for url in urls:
        faults[f"the URL {url!r}"] = ([{"contentType": "text/plain", "contentUrl": url}], "$[0].contentUrl")
    for name, (document, path) in faults.items():
        yield Hostile(f"message_body: {name}", "message_body", document, path)


def places_of(node: Any, path: str) -> Iterator[tuple[str, Callable[[Any], Any]]]:
    """Each place in a document, with a function that returns the document with another value there."""
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, inner in items:
        at = f"{path}[{key}]" if isinstance(key, int) else f"{path}.{key}"

        def put(value: Any, key: Any = key) -> Any:
            changed = list(node) if isinstance(node, list) else dict(node)
            changed[key] = value
            return changed

        yield at, put
        for deeper, change in places_of(inner, at):
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
        "lone surrogate": '[{"role": "\ud800"}]',
    }.items():
        yield Hostile(f"{name}: text {kind}", shape, broken, None)
    others: dict[str, Any] = {"null": None, "text": '"Hi."', "number": 5, "list in a list": [[]], "nulls": [None]}
    for kind, other in others.items():
        yield Hostile(f"{name}: a document that is {kind}", shape, other, None)
