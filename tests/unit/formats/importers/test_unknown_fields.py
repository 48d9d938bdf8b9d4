"""A field that a reader does not know is kept, or named as a loss with its path, or refused: at every level."""

import copy
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from dragoman.adapter.losses import LossKind
from dragoman.formats import FormatError, to_acp, to_cmf, to_message_body, to_messages, to_umf
from dragoman.formats.registry import FORMATS, read
from dragoman.formats.umf.events import history_to_umf
from tests.tables import each_row
from tests.unit.formats.documents import everything
from tests.unit.formats.dump_files import dumps
from tests.unit.formats.hostile import HANDWRITTEN_NATIVE
from tests.unit.formats.importers.framework_samples import FRAMEWORK_SAMPLES
from tests.unit.formats.importers.samples import SAMPLES

_FIELD, _VALUE = "field_that_nobody_knows", "value of the unknown field"


def _documents() -> Iterator[tuple[str, str, Any]]:
    for name, (format_name, document) in {**SAMPLES, **FRAMEWORK_SAMPLES}.items():
        yield name, format_name, document
    for name, document in HANDWRITTEN_NATIVE.items():
        yield name, name, document
    yield "cmf", "cmf", to_cmf(everything()).data
    yield "umf", "umf", to_umf(everything()).data
    yield "acp", "acp", to_acp(everything()).data
    yield "messages", "messages", to_messages(everything()).data
    yield "message-body", "message-body", to_message_body(everything()[0]).data.as_json()
    yield "umf-events", "umf-events", [dict(envelope) for envelope in history_to_umf(everything())]
    for prefix, format_name in (("pydantic_ai", "pydantic-ai"), ("langchain", "langchain"), ("litellm", "litellm")):
        for path in dumps(f"{prefix}_*.json"):
            yield path.stem, format_name, _json(path)


def _json(path: Path) -> Any:
    return json.loads(path.read_text(encoding="utf-8"))


def _objects(value: Any, path: str = "$") -> Iterator[tuple[str, dict[str, Any]]]:
    if isinstance(value, dict):
        yield path, value
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, item in pairs:
        yield from _objects(item, f"{path}.{key}" if isinstance(value, dict) else f"{path}[{key}]")


@each_row(("name", "format_name", "document"), list(_documents()), ids=lambda name: str(name)[:40])
def test_no_field_is_lost_unnamed(name: str, format_name: str, document: Any) -> None:
    """No field is lost unnamed: one unknown field in one object of the document at a time."""
    lost = []
    for number, (path, _) in enumerate(_objects(document)):
        changed = copy.deepcopy(document)
        _, found = list(_objects(changed))[number]
        found[_FIELD] = _VALUE
        if not _is_named(changed, format_name, path):
            lost.append(path)
    assert lost == []


def test_every_reader_is_fed() -> None:
    """Of the formats that are read from JSON; the others are texts, or files of databases."""
    fed = {format_name for _, format_name, _ in _documents()}
    texts = {"chatml", "chat-template", "vcr", "llm"}
    same_reader = {"session": "messages", "langchain-dumpd": "langchain"}
    assert {name for name in FORMATS if same_reader.get(name, name) not in fed} == texts
    assert set(same_reader.values()) | set(HANDWRITTEN_NATIVE) <= fed


_WHOLE = (LossKind.TOOLS, LossKind.OPTION, LossKind.FIELD)
"""Losses that leave out all that is at their path."""


def _is_named(document: Any, format_name: str, path: str) -> bool:
    try:
        result = read(document, format_name)
    except FormatError as error:
        return _FIELD in str(error)
    stored = [message.model_dump(mode="json") for each in result.conversations for message in each.messages]
    return _VALUE in json.dumps(stored) or any(
        loss.path.endswith(f".{_FIELD}")
        or (loss.kind in _WHOLE and f"{path}.".startswith((f"{loss.path}.", f"{loss.path}[")))
        for loss in result.losses
    )


def test_umf_names_what_only_umf_holds() -> None:
    """Fields of messages and blocks that it does not have, and a program's metadata."""
    document = [{"role": "user", "mood": "good", "metadata": {"topic": "rain"}, "content": [
        {"type": "text", "text": "Hi.", "tone": "warm"}]}]  # fmt: skip
    result = read(document, "umf")
    assert [loss.path for loss in result.losses] == ["$[0].mood", "$[0].content[0].tone", "$[0].metadata.topic"]
    assert to_umf(result.messages).data == document
