"""Recorded conversations, and those of other libraries' files, through every format and back:
`python -m tests.conformance.formats.round_trips`.

A row is a format: how many conversations passed through it, in how many something changed that no loss names, how many
documents were not rewritten unchanged, and the losses by kind. The last row is about cassettes: every recording as one
of vcrpy's, and whether each exchange in it is recognised and read.
"""

import argparse
import json
import logging
import sys
import tempfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

from dragoman import Adapter, DragomanError, Message, RequestContext, WireResponse
from dragoman.adapter.errors import ProviderError
from dragoman.adapter.registry import adapter_class
from dragoman.canonical.blocks import ContentBlock, TextBlock
from dragoman.canonical.events import MessageComplete
from dragoman.formats import (
    Conversion,
    FormatError,
    from_acp,
    from_cassette,
    from_chatml,
    from_cmf,
    from_hugging_face,
    from_langchain,
    from_litellm,
    from_llm_logs,
    from_message_body,
    from_messages,
    from_native,
    from_pydantic_ai,
    from_umf,
    to_acp,
    to_chatml,
    to_cmf,
    to_hugging_face,
    to_langchain,
    to_litellm,
    to_llm_log,
    to_message_body,
    to_messages,
    to_native,
    to_pydantic_ai,
    to_umf,
)
from dragoman.formats.importers.cassette import wire_at
from dragoman.formats.reading.blocks import read_citation
from dragoman.formats.registry import identify_format, read_file
from dragoman.testing.conformance.laws.swaps import RoundTrip, iterate_blocks
from tests.conformance.adapters import create_adapter, create_context
from tests.conformance.formats.library_files import conversations_folder, library_files
from tests.conformance.scope import adapter_name, model_name, skip_reason
from tests.conformance.swaps.histories import TARGETS, target_adapter
from tests.exchanges import RecordedExchange, exchanges_folder, load

Writer = Callable[[list[Message]], Conversion[Any]]
Reader = Callable[[Any, list[Message]], list[Message]]
"""From the document, and from the history that it was written from, for what a format leaves to its users."""

NATIVE = ("openai-chat", "openai", "anthropic", "ollama", "google", "mistral", "cohere", "bedrock")
WHOLE = ("messages", "cmf")
"""Formats whose result equals the original, with all metadata."""
LIBRARIES = ("pydantic-ai", "langchain", "langchain-dumpd", "litellm", "hf", "llm")
FORMATS = ("messages", "cmf", "umf", "umf-openai", "chatml", "acp", "message-body", *LIBRARIES, *NATIVE)
NEW_IDS = LIBRARIES
"""Formats whose documents are not rewritten unchanged: their ids, or what a reader joins, are of each writing."""
LIBRARY_FILES = "library-files"
_OWN = "http://127.0.0.1:8080"
SOURCES = tuple(source for source in TARGETS if source != "local")
ALL_SOURCES = (*SOURCES, LIBRARY_FILES)


def writer_for(name: str) -> Writer:
    shapes: dict[str, Writer] = {
        "messages": to_messages, "cmf": to_cmf, "umf": to_umf, "chatml": to_chatml, "acp": to_acp,
        "message-body": _bodies, "umf-openai": lambda history: to_umf(history, openai_calls=True),
        "pydantic-ai": to_pydantic_ai, "langchain": to_langchain, "litellm": to_litellm, "hf": to_hugging_face,
        "llm": to_llm_log, "langchain-dumpd": lambda history: to_langchain(history, form="dumpd"),
    }  # fmt: skip
    return shapes.get(name) or (lambda history: to_native(name, history, model=_model(name)))


def reader_for(name: str) -> Reader:
    shapes: dict[str, Callable[[Any], list[Message]]] = {
        "messages": from_messages, "cmf": from_cmf, "umf": from_umf, "chatml": from_chatml, "acp": from_acp,
        "umf-openai": from_umf, "pydantic-ai": from_pydantic_ai, "langchain": from_langchain, "litellm": from_litellm,
        "langchain-dumpd": from_langchain,
        "hf": lambda data: from_hugging_face(data)[0].messages, "llm": _read_log,
    }  # fmt: skip
    if name in shapes:
        return lambda data, _: shapes[name](data)
    if name == "message-body":
        return lambda data, history: [
            from_message_body(body, role=message.role)
            for body, message in zip(json.loads(data), history, strict=True)
        ]  # fmt: skip
    return lambda data, _: from_native(name, data, model=_model(name))


def _read_log(data: bytes) -> list[Message]:
    """The conversation of a log of llm, which is read from a file."""
    with tempfile.NamedTemporaryFile(suffix=".db") as file:
        file.write(data)
        file.flush()
        return from_llm_logs(file.name)[0].messages


def _bodies(history: list[Message]) -> Conversion[Any]:
    """Each message as a body."""
    written = [to_message_body(message) for message in history]
    return Conversion(
        [body.data.as_json() for body in written], tuple(loss for body in written for loss in body.losses)
    )


@dataclass(slots=True)
class FormatRow:
    """The result of conversations in one format."""

    name: str
    tried: int = 0
    unnamed: int = 0
    rewritten: int = 0
    losses: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)


def check_conversation(row: FormatRow, name: str, history: list[Message]) -> None:
    """One conversation, through the format, back and through it again."""
    to, of = writer_for(row.name), reader_for(row.name)
    row.tried += 1
    written = to(history)
    row.losses.update(f"{loss.kind} ({loss.severity})" for loss in written.losses)
    is_text = isinstance(written.data, (str, bytes))
    back = of(written.data if is_text else json.dumps(written.data), history)
    before, after = (list(iterate_blocks(_with_plain_citations(each))) for each in (history, back))
    unreported = RoundTrip(before, [block for _, block in after], written.losses).unreported
    if unreported or (row.name in WHOLE and back != history):
        row.unnamed += 1
        row.faults.append(f"{row.name} {name}: changed in the round trip, {str(unreported)[:300]}")
    if row.name not in NEW_IDS and to(back).data != written.data:
        row.rewritten += 1
        row.faults.append(f"{row.name} {name}: was not written again as it was")


def _with_plain_citations(history: list[Message]) -> list[Message]:
    """The history without the provider's own object of a citation where that repeats the citation's fields."""
    return [
        message.model_copy(update={"content": tuple(map(_with_plain_fields, message.content))}) for message in history
    ]


def _with_plain_fields(block: ContentBlock) -> ContentBlock:
    if not isinstance(block, TextBlock) or not block.citations:
        return block
    plain = (read_citation({**each.data, "type": each.kind}) if each.data else each for each in block.citations)
    return block.model_copy(update={"citations": tuple(plain)})


def conversations(source: str, most: int | None) -> Iterator[tuple[str, list[Message]]]:
    """All recorded conversations with a provider, each with the reply, or those of other libraries' files; none if they
    are absent.
    """
    if source == LIBRARY_FILES:
        yield from islice(_library_conversations(), most)
        return
    if (exchanges_folder() / f"{source.removesuffix('-interactions')}.jsonl.gz").is_file():
        yield from islice(_read(load(source)), most)


def _library_conversations() -> Iterator[tuple[str, list[Message]]]:
    if not conversations_folder().is_dir():
        return
    for file in library_files():
        name = identify_format(file.path.read_bytes()).format
        for conversation in read_file(file.path, name).conversations if name is not None else ():
            if conversation.messages:
                yield f"{file.name} {conversation.name}", conversation.messages


def _read(exchanges: Iterable[RecordedExchange]) -> Iterator[tuple[str, list[Message]]]:
    for exchange in exchanges:
        if not _is_conversation(exchange):
            continue
        adapter, context = create_adapter(model_name(exchange)), create_context(model_name(exchange))
        messages, _, _ = adapter.from_wire_request(exchange.request, context)
        reply = _reply(exchange, adapter, context)
        yield exchange.id, [*messages, *([reply] if reply and reply.content else [])]


def _reply(exchange: RecordedExchange, adapter: Adapter, context: RequestContext) -> Message | None:
    """None if the provider refused, also in a success, or if the recording breaks off."""
    if exchange.streamed:
        *_, last = adapter.iter_stream([exchange.body], context)
        return last.message if isinstance(last, MessageComplete) else None
    try:
        response = WireResponse(exchange.status, exchange.body, exchange.headers)
        return adapter.from_wire_response(response, context) if exchange.response else None
    except ProviderError:
        return None


def _is_conversation(exchange: RecordedExchange) -> bool:
    return exchange.request is not None and exchange.status < 400 and skip_reason(exchange) is None


@dataclass(slots=True)
class CassetteRow:
    """The result of recordings as cassettes."""

    read: int = 0
    exchanges: int = 0
    conversations: int = 0
    faults: list[str] = field(default_factory=list)


def check_cassettes(source: str, most: int | None, row: CassetteRow) -> None:
    """Every recording of a provider as a cassette of vcrpy, with the host that the provider's adapter names."""
    if not (exchanges_folder() / f"{source.removesuffix('-interactions')}.jsonl.gz").is_file():
        return
    recordings: dict[str, list[RecordedExchange]] = defaultdict(list)
    for exchange in load(source):
        recordings[exchange.source].append(exchange)
    conversations_by_source = {
        name: list(filter(_is_conversation, exchanges)) for name, exchanges in recordings.items()
    }
    for name, known in islice(((name, known) for name, known in conversations_by_source.items() if known), most):
        row.faults += [f"cassette {name}: {fault}" for fault in filter(None, map(_is_misidentified, known))]
        row.read += 1
        row.exchanges += len(known)
        try:
            found = from_cassette({"version": 1, "interactions": list(map(_interaction, known))})
        except (FormatError, DragomanError) as error:
            row.faults.append(f"cassette {name}: {error}")
            continue
        row.conversations += len(found)
        if not found:
            row.faults.append(f"cassette {name}: it has no conversation")


def _is_misidentified(exchange: RecordedExchange) -> str | None:
    """A wrongly recognised address. At a custom address, any provider may answer."""
    wire = wire_at(_url(exchange))
    if wire is None:
        return f"nobody is recognised at {exchange.url_path}"
    if wire.provider != adapter_name(exchange) and not _url(exchange).startswith((_OWN, "http://localhost")):
        return f"{adapter_name(exchange)} at {exchange.url_path} is taken for {wire.provider}"
    return None


def _interaction(exchange: RecordedExchange) -> dict[str, Any]:
    return {
        "request": {
            "method": exchange.method, "uri": _url(exchange), "body": json.dumps(exchange.request), "headers": {},
        },
        "response": {
            "status": {"code": exchange.status, "message": ""},
            "headers": {name: [value] for name, value in exchange.headers.items()},
            "body": {"string": exchange.body},
        },
    }  # fmt: skip


def _url(exchange: RecordedExchange) -> str:
    base = urlsplit(adapter_class(adapter_name(exchange)).endpoint.base_url)
    host = f"{base.scheme}://{base.netloc}" if base.scheme and "{" not in base.netloc else _OWN
    return host + exchange.url_path


def check_all(sources: Iterable[str], most: int | None, formats: Iterable[str] = FORMATS) -> list[FormatRow]:
    rows = [FormatRow(name) for name in formats]
    for source in sources:
        for name, history in conversations(source, most):
            for row in rows:
                check_conversation(row, f"{source} {name}", history)
    return rows


def _model(provider: str) -> str:
    by_adapter = {target_adapter(target): model for target, model in TARGETS.items()}
    return by_adapter[provider].partition(":")[2]


def main() -> int:
    """The exit status: 1 if something changed that no loss names, or a document was not rewritten unchanged."""
    parser = argparse.ArgumentParser(prog="python -m tests.conformance.formats.round_trips", description=__doc__)
    parser.add_argument("--most", type=int, help="of each source (default: all)")
    parser.add_argument("--show", type=int, default=20, help="how many faults to show")
    parser.add_argument("sources", nargs="*", metavar="source", help=f"only these of {', '.join(ALL_SOURCES)}")
    chosen = parser.parse_args()
    logging.getLogger("dragoman").setLevel(logging.CRITICAL)  # losses are expected here
    sources = chosen.sources or ALL_SOURCES
    rows = check_all(sources, chosen.most)
    for row in rows:
        sys.stdout.write(f"{row.name:<14}{row.tried:>6} tried{row.unnamed:>6} unnamed{row.rewritten:>6} rewritten\n")
        for kind, times in row.losses.most_common():
            sys.stdout.write(f"{'':<14}{times:>6} {kind}\n")
    cassettes = CassetteRow()
    for source in (each for each in sources if each != LIBRARY_FILES):
        check_cassettes(source, chosen.most, cassettes)
    sys.stdout.write(
        f"{'cassettes':<14}{cassettes.read:>6} read{cassettes.exchanges:>6} exchanges"
        f"{cassettes.conversations:>6} conversations{len(cassettes.faults):>6} faults\n"
    )
    faults = [*(fault for row in rows for fault in row.faults), *cassettes.faults]
    for fault in faults[: chosen.show]:
        sys.stdout.write(fault + "\n")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
