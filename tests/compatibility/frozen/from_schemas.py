"""Names in models of data: fields in JSON and in TOML, and the words that they are limited to."""

import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import BaseModel, TypeAdapter

from dragoman import Message, ToolDefinition
from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.adapter.losses import LossKind, Severity
from dragoman.batch import BatchHandle
from dragoman.bundled import bundled_path
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.events import CATALOGUE
from dragoman.events.event import Actor, Sensitivity
from dragoman.formats import InternalMessage, InternalTool, MessageBodyPart, MessageBodySchemaPart
from dragoman.formats.body.acp import AcpMessage
from dragoman.formats.cmf.convert import Slots
from dragoman.formats.cmf.models import CmfMessage
from dragoman.formats.umf.events import Envelope, MessageEvent, ToolCallEvent, ToolResultEvent
from dragoman.policy import Declassification
from dragoman.pricing.quote import _MODEL_KEYS, _PROVIDER_KEYS
from dragoman.pricing.rows import _KEYS, DAYS
from dragoman.routing.configuration import RouterConfiguration
from dragoman.store.records import SessionRecord
from dragoman_adapters.compatible.endpoint_row import EndpointRow
from tests.compatibility.frozen.from_source import folders
from tests.compatibility.frozen.key_paths import of_schema, of_value

DOCUMENTS: Mapping[str, type[BaseModel]] = {
    "message": Message,
    "tool": ToolDefinition,
    "extensions": Extensions,
    "declassification": Declassification,
    "session of a store": SessionRecord,
    "batch handle": BatchHandle,
}
FORMATS: Mapping[str, type[BaseModel]] = {
    "cmf": CmfMessage,
    "cmf slots": Slots,
    "umf": InternalMessage,
    "umf tool": InternalTool,
    "umf envelope": Envelope,
    "umf message": MessageEvent,
    "umf tool call": ToolCallEvent,
    "umf tool result": ToolResultEvent,
    "acp": AcpMessage,
    "message body": MessageBodyPart,
    "message body schema": MessageBodySchemaPart,
}
TABLES: Mapping[str, type[BaseModel]] = {
    "models.toml: default": AdapterCapabilities,
    "endpoints.toml: *": EndpointRow,
    "routing": RouterConfiguration,
}

_FOREIGN = frozenset({
    "foreign_names.toml", "words.toml", "marks.toml", "formats.toml", "a2a.toml", "errors.toml", "known_names.toml",
    "media_types.toml",
})  # fmt: skip
"""Files whose keys are names of other libraries and of their formats, of wires, or of nobody outside of an adapter."""
_NAMED_BY_DATA = frozenset({"endpoints.toml", "overlay.toml", "token_weights.toml"})
"""Files whose tables have names that are data: of endpoints, of providers, of tokenizers."""
_OF_DATA = frozenset({"evidence", "factors", "unpriced", "same_prices"})
"""Tables whose keys are data."""
_KEPT_NAMES = {
    "cassettes/secrets.toml": "cassette_secrets.toml",
    "cassettes/wires.toml": "cassette_wires.toml",
    "google_interactions/models.toml": "interactions.toml",
}
"""Files that have moved, with their names in the kept lists."""


def documents() -> Iterator[str]:
    """Fields of stored and exported documents."""
    yield from _models(DOCUMENTS)
    yield from (f"loss kind = {kind.value}" for kind in LossKind)
    yield from (f"loss severity = {severity.value}" for severity in Severity)


def formats() -> Iterator[str]:
    """Fields of read documents of other formats."""
    return _models(FORMATS)


def events() -> Iterator[str]:
    """Types of events and the fields of their payloads."""
    for kind, payload in CATALOGUE.items():
        yield kind
        yield from (f"{kind}: {path}" for path in of_schema(payload.model_json_schema()))
        yield f"{kind}: floor = {payload.floor.value}"
        yield f"{kind}: actor = {payload.actor.value}"
    yield from (f"actor = {actor.value}" for actor in Actor)
    yield from (f"sensitivity = {level.value}" for level in Sensitivity)


def toml() -> Iterator[str]:
    """Keys of users' files, and of our own."""
    yield from _models(TABLES)
    yield from (f"price table: {key}" for key in _PROVIDER_KEYS)
    yield from (f"price table: model[].{key}" for key in _MODEL_KEYS)
    yield from (f"price table: model[].prices[].{key}" for key in _KEYS)
    yield from (f"price table: model[].prices[].window.days[] = {day}" for day in DAYS)
    for file in (each for folder in folders() for each in folder.rglob("*.toml") if each.name not in _FOREIGN):
        yield from _file(file, _KEPT_NAMES.get(f"{file.parent.name}/{file.name}", file.name))
    for file in bundled_path("pricing").glob("*.toml"):
        yield from _file(file, file.name if file.name in ("index.toml", "overlay.toml") else "price table")


def _file(file: Path, name: str) -> Iterator[str]:
    data = tomllib.loads(file.read_text(encoding="utf-8"))
    tables = [("*", table) for table in data.values()] if name in _NAMED_BY_DATA else [("", data)]
    return (f"{name}: {path}" for place, table in tables for path in of_value(_without_data(table), place))


def _without_data(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_data(each) for each in value]
    if not isinstance(value, dict):
        return value
    return {key: None if key in _OF_DATA else _without_data(inner) for key, inner in value.items()}


def _models(models: Mapping[str, Any]) -> Iterator[str]:
    for name, model in models.items():
        yield from (f"{name}: {path}" for path in of_schema(TypeAdapter(model).json_schema(mode="validation")))
