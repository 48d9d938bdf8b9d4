"""Matches requests by their canonical form, as the provider's adapter reads it, and lists how two of them differ.

Requests that match get the same reply. The following differences are ignored: the order of keys, white space, a text
as a string or as a list with one part, generated ids (the calls that they link do count), the boundary of a multipart
body, prompt-cache hints, null instead of an absent field, and the labels of clients. Everything else counts, down to
the character.

A body that no adapter reads is compared as JSON, as multipart parts, or as bytes, with the same rules. Differences
are lines of ``path: recorded -> actual``, in which secrets are masked.
"""

import hashlib
import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import fields
from functools import cache, partial
from typing import Any

from dragoman.adapter.contract import AdapterOptions, NamedTool, RequestContext
from dragoman.adapter.errors import DragomanError
from dragoman.testing.cassettes.exchange import (
    RecordedRequest,
    cached_adapter,
    ignored_names,
    parse_json,
    request_target,
)
from dragoman.testing.cassettes.labels import Labels
from dragoman.testing.cassettes.secrets import Scanner

_UNNAMED = "any"
_LONGEST = 120
_BEFORE = 40
_BOUNDARY = re.compile(rb"--([^\r\n]{1,70})\r?\n(?=[Cc]ontent-)")
_PART_NAME = re.compile(r'(?i)(?<![\w*])(name|filename)="((?:[^"\\]|\\.)*)"')
_TYPE = re.compile(r"(?im)^content-type:\s*([^;\r\n]+)")

_FORM_NOTES = frozenset(
    {"by", "tool_ids", "drop", "list", "string", "joined", "in_list", "instructions", "form", "api", "single", "field",
     "inside", "spelling", "apart", "steps"}
)  # fmt: skip
"""Notes of adapters on the form of a message, not on its content."""
_REDUNDANT_FIELDS = frozenset({"index", "arguments"})
"""Fields of a native object that repeat its canonical block."""
_TAGS = {
    "type": ("function", "message"),
    "role": ("user", "model", "assistant", "system", "tool", "function"),
    "status": ("completed", "success", "in_progress"),
}
"""Optional fields, with the values that equal their absence."""


def match_key(request: RecordedRequest, reader: str | None = None, labels: Labels | None = None) -> str:
    """Return a key that is equal for two requests if and only if they match.

    ``reader`` is the provider whose adapter reads the body. It overrides the one that the URL implies. ``labels`` do
    not count; the default are those of known clients.
    """
    wire, body = request_target(request), (labels or _known_labels()).remove(parse_json(request.body))
    content = None
    if (name := reader or wire.reader) and isinstance(body, dict):
        with suppress(DragomanError):
            content = _canonical_content(body, name, wire.model)
    if content is None:
        # A list with one text part is the text.
        comparable = comparable_body(request) if body is None else _Normalizer(joined=True).normalize(body)
        content = {"model": wire.model, "body": comparable}
    return json.dumps([request.method, wire.operation, wire.query, content], sort_keys=True, separators=(",", ":"))


def comparable_body(request: RecordedRequest, labels: Labels | None = None) -> Any:
    """Return the body as JSON without ignored parts, for showing differences."""
    body = parse_json(request.body)
    if body is None:
        return _multipart_parts(request.body) or _decode_or_digest(request.body)
    return _Normalizer().normalize((labels or _known_labels()).remove(body))


@cache
def _known_labels() -> Labels:
    return Labels.known()


def _canonical_content(body: dict[str, Any], provider: str, addressed: str | None) -> dict[str, Any]:
    model = body.get("model")
    named = addressed or (model if isinstance(model, str) and model else _UNNAMED)
    adapter = cached_adapter(provider, named)
    number = itertools.count()
    context = RequestContext(model=str(adapter.model_id), new_id=lambda: f"m{next(number)}")
    messages, tools, options = adapter.from_wire_request(_tidy_body(body), context)
    names = _Normalizer()
    written: list[dict[str, Any]] = []
    for message in messages:
        blocks = [_block(block.model_dump(mode="json", exclude_none=True), names) for block in message.content]
        written.append({"role": str(message.role), "content": blocks})
        if message.channel is not None:
            written[-1]["channel"] = str(message.channel)
        if notes := _native_notes(message.metadata.provider_raw or {}, names):
            written[-1]["noted"] = notes
    return {
        "model": [addressed, model],
        "messages": written,
        "tools": [
            {
                "name": tool.name,
                "description": tool.description,
                "input_schema": _normalize_numbers(tool.input_schema),
                **({"noted": notes} if (notes := _native_notes(tool.provider_raw or {}, names)) else {}),
            }
            for tool in tools
        ],
        "options": _options(options, names),
    }


def _block(block: dict[str, Any], names: "_Normalizer") -> dict[str, Any]:
    match block["type"]:
        case "tool_use":
            return {**_normalize_numbers(block), "id": names.name(block["id"])}
        case "tool_result":
            inner = [_block(each, names) for each in block.get("content", ())]
            return {**_normalize_numbers(block), "content": inner, "tool_use_id": names.name(block["tool_use_id"])}
        case "provider":
            return {**block, "data": names.normalize(block["data"])}
    normalized: dict[str, Any] = _normalize_numbers(block)
    return normalized


def _options(options: AdapterOptions, names: "_Normalizer") -> dict[str, Any]:
    values: dict[str, Any] = {}
    for field in fields(options):
        value = getattr(options, field.name)
        if field.name in ("context", "headers", "prompt_cache") or value is None or value == ():
            continue
        if field.name == "extra":
            bodies = [{key: each for key, each in body.items() if key != "stream"} for body in value.values()]
            value = [normalized for body in bodies if (normalized := names.normalize(body))]
        elif isinstance(value, NamedTool):
            value = {"tool": value.name}
        values[field.name] = _normalize_numbers(value)
    return {key: value for key, value in values.items() if value not in ([], {})}


def _native_notes(value: Any, names: "_Normalizer") -> Any:
    """Return what an adapter keeps of a native object beyond its canonical form, without notes on form."""
    if isinstance(value, Mapping):
        kept: dict[str, Any] = {}
        for key, each in value.items():
            if key in _FORM_NOTES:
                continue
            if key == "set" and isinstance(each, Mapping):
                told = {name: field for name, field in each.items() if name not in _REDUNDANT_FIELDS}
                found = names.normalize(
                    {name: field for name, field in told.items() if field not in _TAGS.get(name, ())}
                )
            elif key == "native":
                found = names.normalize(each)
            else:
                found = _native_notes(each, names)
            if found not in (None, {}, [], ""):
                kept[key] = found
        return kept
    if isinstance(value, list | tuple):
        return [each for item in value if (each := _native_notes(item, names)) not in (None, {}, [], "")]
    return None if isinstance(value, bool) else value


class _Normalizer:
    """Normalizes JSON. Ids are renamed in order of appearance within one request."""

    def __init__(self, *, joined: bool = False) -> None:
        self._joined = joined
        self._names: dict[str, str] = {}

    def name(self, made_up: str) -> str:
        return self._names.setdefault(made_up, f"#{len(self._names) + 1}")

    def normalize(self, value: Any) -> Any:
        if isinstance(value, Mapping):
            rules = ignored_names()
            kept: dict[str, Any] = {}
            for key, each in sorted(value.items()):
                if each is None or each == [] or key in rules["hints"] or (key == "stream" and each is False):
                    continue
                if key in rules["ids"] and isinstance(each, str):
                    kept[key] = self.name(each)
                elif key in rules["own"] and not isinstance(each, list):
                    kept[key] = _parse_arguments(each)
                elif self._joined and key == "content" and (text := _single_text(each)) is not None:
                    kept[key] = text
                elif (inner := self.normalize(each)) != {} or each == {}:
                    kept[key] = inner
            return kept
        if isinstance(value, list | tuple):
            return [inner for each in value if (inner := self.normalize(each)) != {} or each == {}]
        return _normalize_numbers(value)


def _single_text(content: Any) -> str | None:
    """Return the text of a list that contains one plain text part, or None."""
    match content:
        case [{"type": "text" | "input_text" | "output_text", "text": str(text), **others}] if not others:
            return text
    return None


def _tidy_body(value: Any) -> Any:
    """Sort the keys of a body, drop cache hints and parse arguments, before an adapter reads it.

    Some of these become text in the canonical form, where they can no longer be normalized.
    """
    rules = ignored_names()
    if isinstance(value, Mapping):
        kept: dict[str, Any] = {}
        for key, each in sorted(value.items()):
            if key in rules["hints"]:
                continue
            if key == "arguments" and isinstance(each, str):
                parsed = _parse_arguments(each)
                kept[key] = each if parsed is each else json.dumps(_sort_keys(parsed), ensure_ascii=False)
            elif key in rules["own"] and not isinstance(each, list):
                kept[key] = _sort_keys(each)
            else:
                kept[key] = _tidy_body(each)
        return kept
    if isinstance(value, list):
        return [tidy for each in value if (tidy := _tidy_body(each)) != {} or each == {}]
    return value


def _sort_keys(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {key: _sort_keys(each) for key, each in sorted(value.items())}
    return [_sort_keys(each) for each in value] if isinstance(value, list) else value


def _parse_arguments(value: Any) -> Any:
    """Parse a tool's arguments, which some wires write as JSON text."""
    if isinstance(value, str) and value[:1] in ("{", "["):
        parsed = parse_json(value.encode("utf-8", "surrogatepass"))
        return value if parsed is None else _normalize_numbers(parsed)
    return _normalize_numbers(value)


def _normalize_numbers(value: Any) -> Any:
    """Treat 1.0 and 1 as equal, and name values that an adapter omits. Other values stay unchanged."""
    if value is ...:
        return "(absent)"
    if isinstance(value, float) and value.is_integer():
        return int(value)
    if isinstance(value, Mapping):
        return {key: _normalize_numbers(each) for key, each in value.items()}
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_normalize_numbers(each) for each in value]
    return value


def _multipart_parts(body: bytes) -> list[dict[str, Any]] | None:
    """Return the parts of a multipart body with any boundary, or None for other bodies."""
    start = _BOUNDARY.match(body)
    if not start:
        return None
    found = []
    for piece in body.split(b"--" + start[1])[1:]:
        if piece.startswith(b"--"):
            break
        head, _, content = piece.replace(b"\r\n\r\n", b"\n\n", 1).partition(b"\n\n")
        text = head.decode("latin-1")
        part: dict[str, Any] = dict(_PART_NAME.findall(text))
        if kind := _TYPE.search(text):
            part["type"] = kind[1].strip()
        content = content.removesuffix(b"\n").removesuffix(b"\r")
        parsed = parse_json(content) if "filename" not in part else None
        part["content"] = (
            _Normalizer().normalize(parsed) if isinstance(parsed, dict | list) else _decode_or_digest(content)
        )
        found.append(part)
    return found


def _decode_or_digest(body: bytes) -> Any:
    try:
        return body.decode()
    except UnicodeDecodeError:
        return {"bytes": len(body), "sha256": hashlib.sha256(body).hexdigest()}


def differences(recorded: RecordedRequest, request: RecordedRequest, labels: Labels | None = None) -> list[str]:
    """Return the differences between two requests, or an empty list if they match. ``labels`` do not count."""
    read = partial(match_key, labels=labels)
    if requests_match(recorded, request, read):
        return []
    mask = Scanner().mask
    found = []
    if (recorded.method, recorded.path) != (request.method, request.path):
        found.append(mask(f"{recorded.method} {recorded.path} -> {request.method} {request.path}"))
    ours, theirs = request_target(recorded).providers, request_target(request).providers
    if ours and theirs and not set(ours) & set(theirs):
        found.append(f"provider: {' or '.join(ours)} -> {' or '.join(theirs)}")
    bodies = list(_differences(comparable_body(recorded, labels), comparable_body(request, labels), "$"))
    if not found and not bodies:  # only the canonical forms differ, so compare those
        reader = _reader(recorded, request)
        bodies = list(_differences(json.loads(read(recorded, reader))[-1], json.loads(read(request, reader))[-1], "$"))
    return found + [mask(line) for line in bodies]


def requests_match(
    recorded: RecordedRequest, request: RecordedRequest, read: Callable[[RecordedRequest, str | None], str] = match_key
) -> bool:
    """Return whether two requests match. ``read`` is `match_key` or a cached version of it."""
    ours, theirs = request_target(recorded), request_target(request)
    if (recorded.method, ours.operation, ours.model) != (request.method, theirs.operation, theirs.model):
        return False
    if ours.providers and theirs.providers and not set(ours.providers) & set(theirs.providers):
        return False
    reader = _reader(recorded, request)
    return read(recorded, reader) == read(request, reader)


def _reader(recorded: RecordedRequest, request: RecordedRequest) -> str | None:
    """Return the adapter that reads both requests: the one of the request whose provider is known."""
    ours, theirs = request_target(recorded), request_target(request)
    return ours.reader if len(ours.providers) == 1 else theirs.reader


def _differences(recorded: Any, actual: Any, path: str) -> list[str]:
    if isinstance(recorded, dict) and isinstance(actual, dict):
        keys = [*recorded, *(key for key in actual if key not in recorded)]
        return [
            line for key in keys for line in _differences(recorded.get(key, ...), actual.get(key, ...), f"{path}.{key}")
        ]
    if isinstance(recorded, list) and isinstance(actual, list):
        # Skip the common tail, so that one new item does not report all later items as changed.
        tail = 0
        if len(recorded) != len(actual):
            while tail < min(len(recorded), len(actual)) and _equal_values(recorded[-1 - tail], actual[-1 - tail]):
                tail += 1
        pairs = itertools.zip_longest(recorded[: len(recorded) - tail], actual[: len(actual) - tail], fillvalue=...)
        return [line for n, (one, other) in enumerate(pairs) for line in _differences(one, other, f"{path}[{n}]")]
    return (
        []
        if _equal_values(recorded, actual)
        else [f"{path}: {_shorten(recorded, actual)} -> {_shorten(actual, recorded)}"]
    )


def _equal_values(one: Any, other: Any) -> bool:
    return bool(one == other) and isinstance(one, bool) is isinstance(other, bool)


def _shorten(value: Any, beside: Any) -> str:
    """Return the value as text; a long one is cut to the part that differs."""
    if value is ...:
        return "absent"
    text, other = repr(value), repr(beside)
    if len(text) <= _LONGEST:
        return text
    at = next((n for n, (a, b) in enumerate(zip(text, other, strict=False)) if a != b), min(len(text), len(other)))
    start = max(0, at - _BEFORE)
    end = start + _LONGEST
    return ("…" if start else "") + text[start:end] + ("…" if end < len(text) else "")
