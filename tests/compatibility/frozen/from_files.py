"""Names in files and on wires: cassettes, bulk runs, pages, other formats, policy agents, headers, shared limits."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import date
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, get_args
from unittest.mock import patch

import redis
import yaml
from sqlalchemy import create_engine, text

from dragoman import AdapterOptions, Message, get_adapter, limits
from dragoman.adapter.contract import NamedTool
from dragoman.adapter.registry import GROUP
from dragoman.bulk import bulk
from dragoman.bulk.config import RunConfig
from dragoman.bulk.manifest.records import LossReason, State
from dragoman.bundled import bundled_path
from dragoman.canonical.blocks import ProviderBlock, UnknownBlock
from dragoman.canonical.message import read_message
from dragoman.credentials.target import TargetFinder
from dragoman.formats.umf.events import history_to_umf
from dragoman.limits import Limit, Limits
from dragoman.policy import Hook
from dragoman.testing.cassettes.body import encode_body
from dragoman.testing.cassettes.exchange import request_target
from dragoman.testing.cassettes.file import REQUEST_HEADERS, RESPONSE_HEADERS, dump_exchanges, load_exchanges
from dragoman.transport.call import http_headers
from dragoman.view import page
from tests.bulk.provider import HAIKU, Provider
from tests.compatibility.frozen.from_source import entries
from tests.compatibility.frozen.key_paths import of_value
from tests.conformance.formats.round_trips import FORMATS, NATIVE, writer_for
from tests.conformance.recordings.oracle.frames import handwritten_exception
from tests.unit.canonical.extensions.samples import full
from tests.unit.view.handwritten_conversation import conversation

_MESSAGES = Path(__file__).resolve().parent.parent / "messages" / "v1"
_BODIES = (
    b'{"a": 1}', b"event: a\ndata: 1\n\n", b"event: a\r\ndata: 1\r\n\r\n", b'{"a": 1}\n{"a": 2}\n',
    b"data: 1\r\rdata: 2", b"a", b"\xff", handwritten_exception("throttlingException", b"{}"),
)  # fmt: skip


def messages() -> list[Message]:
    """Messages with every kind of block and every field; they need not be accepted."""
    found = [read_message(file.read_bytes()) for file in sorted(_MESSAGES.glob("*.json"))]
    changed = [each.metadata.model_copy(update={"critical": False}) for each in found]
    return [each.model_copy(update={"metadata": new}) for each, new in zip(found, changed, strict=True)]


def cassettes() -> Iterator[str]:
    """Fields of the file, the forms of bodies, and the headers that a file may hold."""
    for file in bundled_path("cassettes").rglob("*.yaml"):
        exchanges = load_exchanges(file.read_text(encoding="utf-8"))[1]
        named = [
            replace(each, request=replace(each.request, provider=request_target(each.request).reader))
            for each in exchanges
        ]
        yield from _fields(dump_exchanges(named, server="unreal.invalid", recorded=date(2026, 11, 21)))
    for body in _BODIES:
        yield from (
            f"body: {name}" + (f" = {value}" if name == "line_end" else "") for name, value in encode_body(body).items()
        )
    yield from (f"request header {name}" for name in REQUEST_HEADERS)
    yield from (f"response header {name}" for name in RESPONSE_HEADERS)


def _fields(text: str) -> Iterator[str]:
    data = yaml.safe_load(text)
    yield f"format = {data['format']}"
    sides = [side for exchange in data["exchanges"] for side in exchange.values()]
    for side in sides:
        side.update(dict.fromkeys(side.keys() & encode_body(b"{}").keys()))  # a provider's own JSON
    yield from of_value(data)


def bulk_runs() -> Iterator[str]:
    """Columns of the answers, what a manifest records about a run, and the states of rows.

    A run resumes only with equal options, compared by a digest: their names are part of it.
    """
    with TemporaryDirectory() as folder:
        answers, manifest = Path(folder) / "answers.jsonl", Path(folder) / "manifest.db"
        with bulk(["Hi"], HAIKU, manifest=manifest, to=answers, providers=Provider().settings):
            pass
        yield from (f"answers: {path}" for path in of_value(json.loads(answers.read_text(encoding="utf-8"))))
        engine = create_engine(f"sqlite:///{manifest}")
        with engine.connect() as connection:
            (settings,) = connection.execute(text("SELECT asked FROM bulk_runs")).one()
            yield from (f"asked: {path}" for path in of_value(json.loads(settings)))
        engine.dispose()
    yield from (f"state = {state.value}" for state in State)
    yield from (f"why = {why}" for why in get_args(LossReason))
    forced = AdapterOptions(tool_choice=NamedTool("look"), stop_sequences=("end",), temperature=0.5)
    for name, options in (("none", AdapterOptions()), ("some", forced)):
        yield f"options: {name} = {RunConfig(source=None, models=(), options=options).fingerprint()['options']}"  # type: ignore[arg-type]


class _Names(HTMLParser):
    """Names that scripts, styles and links of a page use; numbers in them are ``#``."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            words = (value or "").split() if name == "class" else [value or ""]
            if name.startswith("data-"):
                self.found.append(name)
            elif name in ("id", "class") or (name == "href" and (value or "").startswith("#")):
                self.found += [f"{name} {re.sub('[0-9]+', '#', word)}" for word in words]


def page_names() -> Iterator[str]:
    """Ids, classes, anchors and data of the page of a conversation."""
    reader = _Names()
    reader.feed(page(conversation(), next_model=HAIKU))
    return iter(reader.found)


def written_formats() -> Iterator[str]:
    """Fields of written documents of other formats."""
    for shape in FORMATS:
        if shape not in NATIVE and shape != "chatml":  # which is a text
            data = writer_for(shape)(messages()).data
            yield from (f"{shape}: {path}" for path in of_value(data))
    yield from (f"umf envelopes: {path}" for path in of_value(list(history_to_umf(messages()))))


def policy_agent() -> Iterator[str]:
    """The input of an Open Policy Agent."""
    for message in messages():
        shown = [block for block in message.content if not isinstance(block, ProviderBlock | UnknownBlock)]
        for hook in Hook:
            for view in message.model_copy(update={"content": shown}).iter_views(hook, full()):
                yield from of_value(view.to_opa_input())
                yield f"input.kind = {view.kind.value}"
                yield f"input.action = {view.action.value}"


def headers() -> Iterator[str]:
    """The request headers for each provider."""
    for entry in entries(GROUP):
        adapter = get_adapter(f"{entry.name}:any")
        for stream in (False, True):
            wire = adapter.to_wire([Message.user("Hi")], [], AdapterOptions(stream=stream))
            sent = http_headers(wire, TargetFinder("key", "https://unreal.invalid").target(adapter))
            yield from (f"{entry.name}: {name}" for name in sent)


def shared_limits() -> Iterator[str]:
    """Keys and fields of limits in Redis."""
    keys_used: list[str] = []

    def script(client: object, source: str) -> Any:
        def run(keys: list[str], args: list[Any]) -> list[int]:
            keys_used.extend(keys)
            return [1, 0, 0, 0]

        return run

    with patch.object(redis.Redis, "register_script", script):
        for shared in (False, True):
            Limits(Limit("a:*", requests=1, tokens=9, shared=shared), url="redis://unreal.invalid").reserve("a:b", 1, 1)
    yield from (f"key {key}" for key in keys_used)
    for file in files(limits).iterdir():
        if file.name.endswith(".lua"):
            source = file.read_text(encoding="utf-8")
            yield from (f"field {name}" for name in re.findall(r"'([a-z]+)'", source))
