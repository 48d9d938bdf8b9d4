"""All formats by name: reader, writer, and a description for people."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from typing import Any

from pydantic_core import to_json

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.registry import providers
from dragoman.canonical import rules
from dragoman.canonical.extensions.message_labels import label_messages
from dragoman.canonical.message import Message, read_message
from dragoman.formats.body.convert import from_acp, from_message_body, to_acp, to_message_body
from dragoman.formats.chatml import from_chatml, to_chatml
from dragoman.formats.cmf.convert import from_cmf, to_cmf
from dragoman.formats.detect import PARQUET, SESSION, SQLITE, Detection, Recogniser, identify
from dragoman.formats.document import decode_text, iter_entries, parse_json_or_lines, read_document, validating
from dragoman.formats.errors import FormatError
from dragoman.formats.exporters.datasets import to_hugging_face, to_openai_finetuning
from dragoman.formats.exporters.langchain import to_langchain
from dragoman.formats.exporters.litellm import to_litellm
from dragoman.formats.exporters.llm_log import to_llm_log
from dragoman.formats.exporters.pydantic_ai import to_pydantic_ai
from dragoman.formats.exporters.vercel_ui import to_vercel_ui
from dragoman.formats.importers.agent_frameworks import from_autogen, from_google_adk, from_google_adk_file
from dragoman.formats.importers.agent_protocols import from_a2a, from_mcp
from dragoman.formats.importers.applications import from_chatgpt, from_claude_code, from_codex
from dragoman.formats.importers.cassette import from_cassette
from dragoman.formats.importers.haystack import from_haystack
from dragoman.formats.importers.hugging_face import from_hugging_face, from_hugging_face_file
from dragoman.formats.importers.langchain import from_langchain
from dragoman.formats.importers.langchain_runs import from_langgraph, from_langgraph_file, from_langsmith
from dragoman.formats.importers.litellm import from_litellm
from dragoman.formats.importers.llama_index import from_llama_index
from dragoman.formats.importers.llm_documents import from_llm_json
from dragoman.formats.importers.llm_logs import from_llm_logs
from dragoman.formats.importers.provider_files import from_anthropic_batch, from_openai_batch, from_openai_finetuning
from dragoman.formats.importers.pydantic_ai import from_pydantic_ai
from dragoman.formats.importers.templates import from_chat_template, from_harmony
from dragoman.formats.importers.traces import from_openinference, from_otel
from dragoman.formats.importers.vercel import from_vercel_model, from_vercel_ui
from dragoman.formats.native import from_native, to_native, to_native_pieces
from dragoman.formats.reading.fields import collect_losses
from dragoman.formats.results import Conversation, Conversion, Pieces, ReadResult, as_history, read_sidecar
from dragoman.formats.umf.convert import from_umf, to_umf, to_umf_pieces
from dragoman.formats.umf.events import from_umf_events


def to_messages(messages: Sequence[Message]) -> Conversion[list[dict[str, Any]]]:
    """Write messages with all their fields; nothing is lost."""
    return Conversion([message.model_dump(mode="json", exclude_none=True) for message in as_history(messages)])


def from_messages(document: Any) -> list[Message]:
    """Read messages of any version, with the labels that a session stores for them. Raises FormatError, with a path."""
    entries = parse_json_or_lines(document, format_name="messages")
    at, extensions = "$", None
    if isinstance(entries, dict) and SESSION in entries:
        extensions = entries.get("extensions")
        entries, at = entries.get("messages"), "$.messages"
        if not isinstance(entries, list):
            raise FormatError("a session must have a list of messages", path=at)
        if extensions is not None and not isinstance(extensions, dict):
            raise FormatError("the extensions of a session must be an object", path="$.extensions")
    read: list[Message] = []
    for path, native in iter_entries(entries, format_name="messages"):
        entry_path = at + path.removeprefix("$")
        with validating(native, entry_path):
            try:
                read.append(read_message(native))
            except ValueError as error:
                if hasattr(error, "errors"):
                    raise
                raise FormatError(str(error)[:200], path=entry_path) from None
    kept = {name: each for name, each in extensions.items() if isinstance(each, dict)} if extensions else {}
    return [*label_messages(read, kept)]


_PIECE_ENTRIES = 1024

Reader = Callable[[Any, str | None], list[Message]]
Writer = Callable[[Sequence[Message], str | None], Conversion[Any]]


@dataclass(frozen=True, slots=True)
class Format:
    """A format that conversations can be read from or written to. ``read`` and ``write`` take the model of a provider's
    list. None: the format can only be read, or only be written.

    ``read_many`` reads a source with several conversations from the path of its file, ``read_all`` from its text.
    With both, ``file_mark`` has the first bytes of the files that ``read_many`` reads.
    ``recognises`` says of parsed JSON whether it is in the format; formats of other packages are detected by it.
    """

    name: str
    """The word that `to_format` and the command line take."""
    description: str
    """What the format is, in a few words for lists."""
    read: Reader | None = None
    write: Writer | None = None
    read_many: Callable[[Path], list[Conversation]] | None = None
    read_all: Callable[[Any], list[Conversation]] | None = None
    suffix: str = ".json"
    """The usual ending of a file, with its dot."""
    recognises: Recogniser | None = None
    file_mark: bytes | None = None


def _write_body(history: Sequence[Message], model: str | None) -> Conversion[Any]:
    if len(history) != 1:
        raise ConfigurationError(f"a message body holds one message, not {len(history)}: use acp")
    written = to_message_body(history[0])
    return Conversion(written.data.as_json(), written.losses, written.labels)


def _reads(read: Callable[[Any], list[Message]]) -> Reader:
    return lambda data, _: read(data)


def _writes(write: Callable[[Sequence[Message]], Conversion[Any]]) -> Writer:
    return lambda history, _: write(history)


FORMATS: dict[str, Format] = {entry.name: entry for entry in (
    Format("messages", "Dragoman's own messages", _reads(from_messages), _writes(to_messages)),
    Format("session", "a session of Dragoman, as Session.dump writes it", _reads(from_messages)),
    Format("cmf", "CMF 2.0, with its extensions", _reads(from_cmf), _writes(to_cmf)),
    Format("umf", "UMF", _reads(from_umf), _writes(to_umf)),
    Format("umf-events", "UMF's event log", _reads(from_umf_events), suffix=".jsonl"),
    Format("chatml", "ChatML as one text",
           lambda data, _: from_chatml(decode_text(data)), _writes(to_chatml), suffix=".chatml"),
    Format("acp", "messages of ACP, in its final version", _reads(from_acp), _writes(to_acp)),
    Format("message-body", "ACP's message body: one message", lambda data, _: [from_message_body(data)], _write_body),
    Format("pydantic-ai", "pydantic-ai's message history", _reads(from_pydantic_ai), _writes(to_pydantic_ai)),
    Format("langchain", "dumps of LangChain's messages", _reads(from_langchain), _writes(to_langchain)),
    Format("langchain-dumpd", "LangChain's messages as its dumpd writes them",
           _reads(from_langchain), lambda history, _: to_langchain(history, form="dumpd")),
    Format("litellm", "LiteLLM's message lists and replies",
           lambda data, model: from_litellm(data, model=model), _writes(to_litellm)),
    Format("llm", "the log of simonw/llm, a SQLite file",
           read_many=from_llm_logs, write=_writes(to_llm_log), suffix=".db"),
    Format("llm-json", "responses and logs of simonw/llm as JSON", read_all=from_llm_json),
    Format("vercel-ui", "UIMessage of the Vercel AI SDK", _reads(from_vercel_ui), _writes(to_vercel_ui)),
    Format("vercel-model", "ModelMessage of the Vercel AI SDK", _reads(from_vercel_model)),
    Format("openai-finetuning", "OpenAI's rows for fine-tuning",
           read_all=from_openai_finetuning, write=_writes(to_openai_finetuning), suffix=".jsonl"),
    Format("openai-batch", "OpenAI's batches: requests and replies", read_all=from_openai_batch, suffix=".jsonl"),
    Format("anthropic-batch", "Anthropic's batches: requests and replies",
           read_all=from_anthropic_batch, suffix=".jsonl"),
    Format("hf", "chat data sets of Hugging Face: a conversation a row",
           read_all=from_hugging_face, read_many=from_hugging_face_file, file_mark=PARQUET,
           write=_writes(to_hugging_face), suffix=".jsonl"),
    Format("claude-code", "logs of Claude Code", read_all=from_claude_code, suffix=".jsonl"),
    Format("codex", "logs of the Codex CLI", _reads(from_codex), suffix=".jsonl"),
    Format("chatgpt", "the export of ChatGPT", read_all=from_chatgpt),
    Format("otel", "traces with OpenTelemetry's gen_ai messages", read_all=from_otel),
    Format("a2a", "messages and tasks of A2A", _reads(from_a2a)),
    Format("openinference", "spans with OpenInference's conventions", read_all=from_openinference),
    Format("langgraph", "checkpoints of LangGraph",
           read_all=from_langgraph, read_many=from_langgraph_file, file_mark=SQLITE),
    Format("langsmith", "runs of LangSmith", read_all=from_langsmith, suffix=".jsonl"),
    Format("llama-index", "messages, stores and memories of LlamaIndex", read_all=from_llama_index),
    Format("haystack", "Haystack's messages", _reads(from_haystack)),
    Format("autogen", "AutoGen's messages and states", read_all=from_autogen),
    Format("google-adk", "sessions and events of Google's ADK",
           read_all=from_google_adk, read_many=from_google_adk_file, file_mark=SQLITE),
    Format("mcp", "messages and results of MCP", _reads(from_mcp)),
    Format("harmony", "OpenAI's Harmony, as JSON or as text", _reads(from_harmony)),
    Format("chat-template", "texts of chat templates other than ChatML and Harmony",
           _reads(from_chat_template), suffix=".txt"),
    Format("vcr", "vcrpy's cassettes", read_many=lambda path: from_cassette(read_document(path))),
)}  # fmt: skip
"""Formats with a name of their own. The lists of a provider's clients have the provider's name: see `get_format`."""


GROUP = "dragoman.formats"
"""The entry-point group of formats from other packages: each entry is a `Format` of its name."""


@cache
def _entries() -> dict[str, EntryPoint]:
    return {entry.name: entry for entry in entry_points(group=GROUP)}


@cache
def _load(name: str) -> Format:
    """Return the format of another package. Raises ConfigurationError if it cannot be loaded, or is not a format."""
    entry = _entries()[name]
    try:
        loaded = entry.load()
    except Exception as error:
        raise ConfigurationError(f"the format {entry.name!r} ({entry.value}) cannot be loaded: {error}") from error
    if not isinstance(loaded, Format) or loaded.name != entry.name:
        raise ConfigurationError(f"{entry.value}, installed as the format {entry.name!r}, is not a Format of that name")
    return loaded


def get_format(name: str) -> Format:
    """Return the format of that name, or the list format of the provider of that name. Raises ConfigurationError.

    A package's format takes the place of one of ours with the same name.
    """
    if name in _entries():
        return _load(name)
    if name in FORMATS:
        return FORMATS[name]
    if name not in providers():
        known = ", ".join([*FORMATS, *_entries()])
        raise ConfigurationError(f"there is no format {name!r:.80}: there are {known}, and the names of providers")
    return Format(
        name,
        f"the message list of a client of {name}",
        lambda data, model: from_native(name, data, model=model),
        lambda history, model: to_native(name, history, model=model),
    )


def read(document: Any, format_name: str | None = None, *, model: str | None = None) -> ReadResult:
    """Read the conversations of a document: a path, a text, or Python lists and dicts.

    ``format_name`` is a name as for `get_format`; without one, the document must show it. ``model`` is the model of a
    provider's list. Raises FormatError, with a path, and ConfigurationError if the format is unknown; OSError for
    files.
    """
    if not isinstance(document, Path):
        name = format_name or _named(identify_format(document), "the document")
        return _collect(name, lambda: _read_data(document, name, model))
    return read_file(document, format_name or _named(identify_file(document), str(document)), model)


def read_file(path: Path, name: str, model: str | None = None) -> ReadResult:
    """Read the conversations of a file in a format, with the labels of the file beside it. Raises FormatError and
    ConfigurationError, and OSError.
    """
    known = get_format(name)
    read_many = known.read_many
    mark = known.file_mark
    if read_many is not None and (mark is None or _read_head(path, len(mark)) == mark):
        return _collect(name, lambda: read_many(path))

    def read_labelled() -> list[Conversation]:
        found = _read_data(read_document(path), name, model, path.stem)
        return [Conversation(each.name, read_sidecar(path, each.messages)) for each in found]

    return _collect(name, read_labelled)


def _read_head(path: Path, length: int) -> bytes:
    with path.open("rb") as file:
        return file.read(length)


def identify_format(document: Any) -> Detection:
    """As `identify`, with the formats of other packages."""
    others = {name: _load(name).recognises for name in _entries()}
    return identify(document, {name: recognises for name, recognises in others.items() if recognises is not None})


def identify_file(path: Path) -> Detection:
    """As `identify_format`; of a database, which may be longer than any document, it reads the beginning only. Raises
    FormatError if a document is too long, and OSError.
    """
    head = _read_head(path, _HEAD)
    return identify_format(head if head.startswith((SQLITE, PARQUET)) else read_document(path))


_HEAD = 4 * 1024 * 1024
"""A database has the names of its tables in its first pages."""


def _named(found: Detection, place: str) -> str:
    if found.format is not None:
        return found.format
    closest = f"; the closest is {found.closest}" if found.closest else ""
    raise ConfigurationError(
        f"the format of {place} is unknown{closest}: {found.reason}. Name the format to read it anyway"
    )


def _collect(name: str, read_all: Callable[[], list[Conversation]]) -> ReadResult:
    with collect_losses() as losses:
        conversations = read_all()
    for each in conversations:
        rules.warn(each.messages, f"the conversation {each.name!r:.60} in the format {name}")
    return ReadResult(name, conversations, losses.report(name))


def _read_data(data: Any, name: str, model: str | None, title: str = "1") -> list[Conversation]:
    known = get_format(name)
    if known.read_all is not None:
        return known.read_all(data)
    if known.read is None:
        raise FormatError(f"{name} is read from a file" if known.read_many else f"{name} can be written but not read")
    return [Conversation(title, known.read(data, model))]


def write_pieces(name: str, history: Sequence[Message], model: str | None) -> Conversion[Any] | None:
    """Write a history as `iter_text` takes it, in pieces; None if the format has a writer of its own only."""
    if name in _entries():
        return None
    if name in providers() and name not in FORMATS:
        return to_native_pieces(name, history, model=model)
    return to_umf_pieces(history) if name == "umf" else None


def iter_text(data: Any) -> Iterator[str]:
    """Yield the output of a writer, or messages, as the text of a file, in pieces.

    One text of a long list takes twice its memory, and messages as dicts take more than the messages.
    """
    if isinstance(data, str):
        yield data
    elif isinstance(data, Pieces):
        yield from _iter_pieces(data)
    elif isinstance(data, list) and len(data) > _PIECE_ENTRIES:
        starts = range(0, len(data), _PIECE_ENTRIES)
        yield from _iter_pieces(Pieces(data[start : start + _PIECE_ENTRIES] for start in starts))
    else:
        yield _to_text(data) + "\n"


def _iter_pieces(data: Pieces) -> Iterator[str]:
    """Yield the text of a list, or of an object that ends with it."""
    indent, start, end = "", "[", "]"
    if data.fields:
        fields = _to_text(dict(data.fields)).removesuffix("\n}")
        indent, start, end = " ", f"{fields},\n {_to_text(data.name)}: [", "]\n}"
    is_empty = True
    for piece in filter(None, data.pieces):
        entries = _to_text(piece).removeprefix("[").removesuffix("\n]")
        yield ("," if not is_empty else start) + entries.replace("\n", "\n" + indent)
        is_empty = False
    yield (start if is_empty else "\n" + indent) + end + "\n"


def _to_text(data: Any) -> str:
    if isinstance(data, list) and any(isinstance(each, Message) for each in data):
        data = to_messages(data).data
    return to_json(data, indent=1).decode()
