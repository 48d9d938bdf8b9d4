"""What a hostile key, or a page of another site, sends again and again."""

import gzip
import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import zstandard

JSON = {"content-type": "application/json"}
MIB = 2**20


@dataclass(frozen=True, slots=True)
class Sent:
    """One request. ``length`` is the declared one of a body that never ends; ``path`` is None for a connection that
    sends nothing."""

    path: str | None
    body: bytes = field(default=b"", repr=False)
    headers: Mapping[str, str] = field(default_factory=lambda: dict(JSON))
    length: int | None = None


@dataclass(frozen=True, slots=True)
class Attack:
    """``make`` returns what is sent, given the ids of what is stored. ``held`` is the number of
    connections that are opened and stay; without it, the requests are repeated over a few. ``passes``: whether they are
    answered, because they keep to all caps. ``who`` sends them: ``hostile``, ``spent`` (a key without budget),
    ``nobody`` or ``page`` (a page of another site, at a gateway without keys)."""

    name: str
    make: Callable[[Mapping[str, str]], list[Sent]]
    held: int = 0
    passes: bool = False
    who: str = "hostile"


def _zstd(path: str, body: bytes) -> Sent:
    packed = zstandard.ZstdCompressor(level=3).compress(body)
    return Sent(path, packed, {**JSON, "content-encoding": "zstd"})


def _chat(content: Any, **more: Any) -> dict[str, Any]:
    return {"model": "house", "messages": [{"role": "user", "content": content}], **more}


def _post(path: str, fields: Any) -> Sent:
    return Sent(path, json.dumps(fields, ensure_ascii=False).encode())


def _bombs(known: Mapping[str, str]) -> list[Sent]:
    values = b"[" + b"{}," * (30 * MIB // 3) + b"{}]"
    return [
        _zstd("/v1/messages", values),
        Sent("/v1/chat/completions", gzip.compress(values), {**JSON, "content-encoding": "gzip"}),
        _zstd("/v1/responses", json.dumps({"model": "x" * 30 * MIB}).encode()),
        _zstd("/v1/messages", b"[" + b"{}," * (8 * MIB // 3 - 10) + b"{}]"),
    ]


def _values(known: Mapping[str, str]) -> list[Sent]:
    return [Sent("/v1/chat/completions", b"[" + piece * 10_000_000 + b"0]") for piece in (b"{},", b"[],", b'"",')]


def _most_messages(known: Mapping[str, str]) -> list[Sent]:
    messages = [{"role": ("user", "assistant")[number % 2], "content": "x"} for number in range(66_000)]
    return [_post("/v1/messages", {"model": "house", "max_tokens": 9, "messages": messages})]


def _longest_texts(known: Mapping[str, str]) -> list[Sent]:
    return [
        _post("/v1/chat/completions", _chat("\n" * 15 * MIB)),
        _post("/v1/messages", _chat("x" * 30 * MIB + "\U0001f600", max_tokens=9)),
        _zstd("/v1/chat/completions", json.dumps(_chat("xyz \u00e4" * MIB)).encode()),
    ]


def _references(known: Mapping[str, str]) -> list[Sent]:
    reference = {"type": "item_reference", "id": known["item"]}
    chain = {"model": "house", "input": [reference] * 60, "previous_response_id": known["response"]}
    return [_post("/v1/responses", {"model": "house", "input": [reference] * 4_000}), _post("/v1/responses", chain)]


def _many_ids(known: Mapping[str, str]) -> list[Sent]:
    files = [{"type": "image", "source": {"type": "file", "file_id": f"file_{number}"}} for number in range(30_000)]
    items = [{"type": "item_reference", "id": f"msg_{number}"} for number in range(60_000)]
    return [
        _post("/v1/messages", _chat(files, max_tokens=9)),
        _post("/v1/responses", {"model": "house", "input": items}),
    ]


def _background(known: Mapping[str, str]) -> list[Sent]:
    fields = {"model": "house", "background": True, "input": "x" * 7 * MIB}
    return [_zstd("/v1/responses", json.dumps(fields).encode())]


def _slow(known: Mapping[str, str]) -> list[Sent]:
    return [Sent("/v1/chat/completions", b"{", length=10_000)]


def _slow_and_large(known: Mapping[str, str]) -> list[Sent]:
    return [Sent("/v1/chat/completions", b" " * 20 * MIB, length=30 * MIB)]


def _idle(known: Mapping[str, str]) -> list[Sent]:
    return [Sent(None), Sent(None, b"POST /v1/messages HTTP/1.1\r\nx-slow: ")]


def _plain(known: Mapping[str, str]) -> list[Sent]:
    return [_post("/v1/chat/completions", _chat("Hi"))]


def _of_others(known: Mapping[str, str]) -> list[Sent]:
    """Another key's item under a type that is none, and a model beside the model."""
    other = {"type": None, "id": known["other"]}
    named = json.dumps(_chat("Hi"))[:-1].encode() + b', "Model": "openai-chat:other"}'
    return [
        _post("/v1/responses", {"model": "house", "input": [other, {"role": "user", "content": "Repeat it."}]}),
        Sent("/v1/chat/completions", named),
    ]


def _page(known: Mapping[str, str]) -> list[Sent]:
    body = json.dumps(_chat("Hi")).encode()
    heads: list[dict[str, str]] = [
        {"content-type": "text/plain", "origin": "https://evil.example"},
        {"origin": "https://evil.example", **JSON},
        {"sec-fetch-site": "cross-site", **JSON},
        {"host": "rebound.example", **JSON},
        {"content-type": "text/plain"},
        {},
    ]
    return [Sent("/v1/chat/completions", body, headers) for headers in heads]


ATTACKS = (
    Attack("values and a name of 30 MB, in some KB", _bombs),
    Attack("30 MB of values", _values),
    Attack("66,000 messages for another wire", _most_messages, passes=True),
    Attack("texts of 30 MB", _longest_texts, passes=True),
    Attack("4,000 references to 1 MB", _references),
    Attack("60,000 references and 30,000 files of nobody", _many_ids),
    Attack("background responses of a key without budget", _background, who="spent"),
    Attack("2,500 slow bodies", _slow, held=2_500),
    Attack("60 slow bodies of 20 MB", _slow_and_large, held=60),
    Attack("4,000 idle connections", _idle, held=4_000),
    Attack("unknown keys", _plain, who="nobody"),
    Attack("another key's item, another model's name", _of_others),
    Attack("a page of another site", _page, who="page"),
)
