"""Detects the format of a document by features that only one format has, in the first entries.

A format that has a feature must also meet no objection in any entry: a document that no format fits whole is unknown,
and the answer says what is closest and why it is not that.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dragoman.formats.chatml import START
from dragoman.formats.document import parse_json_or_lines
from dragoman.formats.errors import FormatError
from dragoman.formats.importers.agent_protocols import is_task
from dragoman.formats.importers.langchain_runs import is_checkpoint
from dragoman.formats.importers.llm_documents import is_report
from dragoman.formats.importers.templates import START as HARMONY_START
from dragoman.formats.importers.templates import template_of
from dragoman.formats.reading.entry_marks import Entry, Rule, marks_of, named, rules_of

SESSION = "dragoman_session"
"""The key that identifies a dumped session."""
SQLITE = b"SQLite format 3\0"
PARQUET = b"PAR1"
_SQLITE_TABLES = ((b"CREATE TABLE checkpoints", "langgraph"), (b"CREATE TABLE app_states", "google-adk"))
"""A table that only one kind of SQLite file has. Any other file counts as a log of llm."""
_HEAD = 8192
_MAX_ENTRIES = 50
"""Entries of a list in which a feature is searched."""


@dataclass(frozen=True, slots=True)
class Detection:
    """The format that a document seems to be in. ``format`` is the name of the format, or None. Without one,
    ``closest`` is the nearest format, if there is one, and ``reason`` says why it is not that.
    """

    format: str | None
    closest: str | None = None
    reason: str = ""


Recogniser = Callable[[Any], bool]


def detect(data: Any) -> str | None:
    """Return the name of the format, as for `get_format`, or None.

    A list with nothing but roles and texts fits many formats. It counts as Chat Completions, whose reader reads all of
    them.
    """
    return identify(data).format


def identify(data: Any, others: Mapping[str, Recogniser] | None = None) -> Detection:
    """Return the format of a document, or what is closest and why it is not that.

    ``others`` are the recognisers of formats from other packages. If several of them accept the document, or one of
    them and one of ours, the format is unknown.
    """
    known = _identify_binary(data) if isinstance(data, (bytes, bytearray)) else None
    if known is None and isinstance(data, (str, bytes, bytearray)):
        known = _identify_text(data[:_HEAD])
    if known is not None:
        return Detection(known)
    try:
        document = parse_json_or_lines(data, format_name="JSON")
    except FormatError as error:
        if isinstance(data, (bytes, bytearray)) and is_task(bytes(data)):
            return Detection("a2a")
        return Detection(None, None, f"this is neither JSON nor JSON lines: {error.reason}")
    if isinstance(document, Mapping):
        found = _identify_object(document)
    elif isinstance(document, (list, tuple)):
        found = _identify_list(document)
    else:
        found = Detection(None, None, "the document is neither an object nor a list")
    named = [name for name, recognises in (others or {}).items() if recognises(document)]
    if len(named) == 1 and found.format in (None, *named):
        return Detection(named[0])
    if named:
        fits = [*named, *([found.format] if found.format else [])]
        return Detection(None, fits[0], f"it fits several formats: {', '.join(fits)}")
    return found


def _identify_binary(data: bytes | bytearray) -> str | None:
    if data.startswith(SQLITE):
        return next((name for table, name in _SQLITE_TABLES if table in data), "llm")
    if is_checkpoint(bytes(data[:_HEAD])):
        return "langgraph"
    return "hf" if data.startswith(PARQUET) else None


def _identify_text(head: str | bytes | bytearray) -> str | None:
    """Return the format of a text that is not JSON, by its beginning."""
    text = head if isinstance(head, str) else bytes(head).decode(errors="replace")
    text = text.removeprefix("---").lstrip()
    marks: tuple[tuple[str, bool], ...] = (
        ("chatml", text.startswith(START)),
        ("harmony", text.startswith(HARMONY_START)),
        ("llm-json", is_report(text)),
        ("chat-template", template_of(text) is not None),
        ("vcr", text.startswith(("interactions:", "http_interactions:"))),
    )
    return next((name for name, is_marked in marks if is_marked), None)


def is_conversation(document: Any) -> bool:
    """Whether a JSON value alone is a whole conversation, and not one of its messages or a step of a program."""
    if isinstance(document, (list, tuple)):
        return any(isinstance(each, Mapping) for each in document)
    if not isinstance(document, Mapping):
        return False
    if any(each.fits(document) for each in marks_of("objects") if not each.is_step):
        return True
    is_row = named("row")(document) or named("finetuning_row")(document)
    return (is_row or isinstance(document.get("messages"), list)) and "role" not in document


def _identify_object(document: Entry) -> Detection:
    for each in marks_of("objects"):
        if each.fits(document):
            return Detection(each.format)
    entries = document.get("messages")
    if not isinstance(entries, list):
        return _identify_list([document])
    if "model" not in document and named("finetuning_row")(document):
        return Detection("openai-finetuning")
    found = _identify_list(entries)
    if found.format == "openai-chat" and "system" in document:
        first = document["system"]
        is_bedrock = isinstance(first, list) and any(isinstance(each, Mapping) and "type" not in each for each in first)
        return Detection("bedrock" if is_bedrock else "anthropic")
    if "model" in document or found.format not in ("openai-chat", "ollama"):
        return found
    # A request has a model. Without one, calls with objects are those of chat templates.
    is_row = "tools" in document or any("reasoning_content" in entry for entry in entries if isinstance(entry, Mapping))
    return Detection("hf") if found.format == "ollama" or is_row else found


def _identify_list(document: Sequence[Any]) -> Detection:
    entries = [entry for entry in document if isinstance(entry, Mapping)]
    if not entries:
        return Detection(None, None, "there is no entry")
    first = entries[:_MAX_ENTRIES]
    closest: Detection | None = None
    for mark in marks_of("entries"):
        if not any(map(mark.fits, first)):
            continue
        objection = _first_objection(entries, mark.rules)
        if objection is None and mark.format == "hf":
            objection = _row_objection(first)
        if objection is None:
            has_tool_role = any(entry.get("role") == "tool" for entry in entries)
            # Anthropic's lists do not have this role.
            return Detection("umf" if mark.format == "anthropic" and has_tool_role else mark.format)
        closest = closest or Detection(None, mark.format, objection)
    objection = _first_objection(entries, rules_of("chat"))
    if objection is None:
        return Detection("hf" if any(map(named("without_ids"), entries)) else "openai-chat")
    has_roles = any("role" in entry for entry in entries)
    return closest or Detection(None, "openai-chat" if has_roles else None, objection)


def _row_objection(rows: Sequence[Entry]) -> str | None:
    """Return why the rows are not a data set: their messages are those of another format."""
    for index, row in enumerate(rows):
        entries = row.get("messages")
        name = _identify_list(entries).format if isinstance(entries, list) else None
        if name not in (None, "hf", "openai-chat", "ollama", "litellm", "umf", "cohere", "mistral"):
            return f"a row has messages of the format {name} ($[{index}])"
    return None


def _first_objection(entries: Sequence[Entry], rules: Sequence[Rule]) -> str | None:
    """Return why the first entry that does not fit is not of the format, with its path; None if all fit."""
    for index, entry in enumerate(entries):
        for rule in rules:
            if (reason := rule.objection(entry)) is not None:
                return f"{reason} ($[{index}])"
    return None
