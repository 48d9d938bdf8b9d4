"""UMF as JSON: a list of messages. Source: docs/reference/umf.md#conversion.

Content without a UMF form is a loss. What fits into the texts of its metadata is stored there under our own keys, which
start with ``dragoman_``: ids, time, channel, the role developer, and the metadata of the message as JSON.

UMF's formatter of ChatML: a list of turns with a limit, a check and a count.

Source: docs/reference/umf.md#chatml.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from itertools import islice
from typing import Any, Self

from pydantic_core import from_json, to_json

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.blocks import ContentBlock, TextBlock, ToolResultBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role, read_message
from dragoman.formats import verbatim
from dragoman.formats.chatml import MARKER, write_turn
from dragoman.formats.document import copy_json_at, dig, kind_of, validating
from dragoman.formats.errors import FormatError
from dragoman.formats.reading.blocks import tool_call
from dragoman.formats.reading.fields import source_losses
from dragoman.formats.reading.tool_calls import ToolIdReader, split_results, tool_names_by_id
from dragoman.formats.results import Conversion, LossCollector, Pieces, as_history, describe_unknown_role, finish
from dragoman.formats.umf import models as umf
from dragoman.formats.umf.models import block_of, result_text, write_block

FORMAT = "umf"
_PREFIX = "dragoman_"
_PIECE_ENTRIES = 1024

Fields = dict[str, Any]


def to_umf(messages: Sequence[Message], *, openai_calls: bool = False) -> Conversion[list[Fields]]:
    """Write a history as UMF. A result has the message-level encoding; among other blocks, the block-level one.

    ``openai_calls``: a reply has its calls as ``tool_calls`` next to its content, in OpenAI's form, and not as blocks.

    Raises CriticalLossError if a block marked critical would be lost.
    """
    history = as_history(messages)
    losses = LossCollector(FORMAT)
    written = list(_iter_entries(history, losses, openai_calls=openai_calls))
    return finish(written, losses, history)


def to_umf_pieces(messages: Sequence[Message]) -> Conversion[Pieces]:
    """As `to_umf`, with the list in pieces. They are made twice: the losses come first, and the list of a long history
    takes more memory than its messages.
    """
    history = as_history(messages)
    losses = LossCollector(FORMAT)
    for _ in _iter_entries(history, losses):
        pass
    entries = _iter_entries(history, LossCollector(FORMAT))
    return finish(Pieces(iter(lambda: list(islice(entries, _PIECE_ENTRIES)), [])), losses, history)


def _iter_entries(history: list[Message], losses: LossCollector, *, openai_calls: bool = False) -> Iterator[Fields]:
    writer = _Writer(history, losses, openai_calls=openai_calls)
    for index, _, native in verbatim.iter_entries(history, FORMAT):
        yield from writer.message(history[index]) if native is None else [native]


def from_umf(document: Any) -> list[Message]:
    """Read the messages of a document, from its JSON text or from Python lists and dicts; both encodings of results.

    A message with results among other blocks becomes several. Raises FormatError, with a path.
    """
    read = verbatim.read_entries(
        document, FORMAT, "UMF", read_entry, lambda history, _: _Writer(history, LossCollector(FORMAT)).message
    )
    return [message for messages, _ in read for message in messages]


def read_entry(native: Fields, path: str, ids: ToolIdReader) -> tuple[list[Message], dict[str, str]]:
    """Return the messages of an entry, and the document's own tool ids by ours. Raises FormatError."""
    _report_unknown(native, path)
    with validating(native, path):
        given = {name: value for name, value in native.items() if value is not None}
        if given.get("tool_calls"):  # a message with calls in OpenAI's form may lack a content
            given.setdefault("content", "")
        message = umf.InternalMessage.model_validate(given)
        fields, role, failed = _read_notes(message, path)
        has_results = role is Role.TOOL or any(isinstance(block, umf.ToolResult) for block in message.blocks())
        ids.start_turn(role, has_results=has_results)
        if role is Role.TOOL and isinstance(message.content, str):
            answer: list[ContentBlock] = [
                ToolResultBlock(
                    tool_use_id=ids.result_id(message.tool_call_id or ""),
                    content=(TextBlock(text=message.content),) if message.content else (),
                    is_error=failed,
                )
            ]
            return split_results(role, answer, fields), ids.pop_native_ids()
        texts = [] if message.tool_calls and message.content == "" else message.blocks()
        blocks = [block_of(block, ids) for block in texts]
        blocks += [tool_call(ids, call.id, call.function.name, call.function.arguments) for call in message.tool_calls]
        return split_results(role, blocks, fields), ids.pop_native_ids()


_BLOCK_FIELDS = {
    kind.model_fields["type"].default: frozenset(kind.model_fields)
    for kind in (umf.Text, umf.Image, umf.ToolUse, umf.ToolResult)
}
_SOURCE_FIELDS = frozenset({*umf.Base64Source.model_fields, *umf.UrlSource.model_fields})
_CHAT_FIELDS = ("function_call", "refusal")
"""What messages of Chat Completions say outside their content: as UMF they would say less."""


def _report_unknown(native: Fields, path: str) -> None:
    """Report the fields that only `to_umf` writes again: those that UMF does not have, and a program's metadata."""
    metadata = native.get("metadata")
    content = native.get("content")
    unknown = [(path, name) for name in native.keys() - umf.InternalMessage.model_fields.keys()]
    noted = metadata if isinstance(metadata, dict) else ()
    unknown += [(f"{path}.metadata", name) for name in noted if not name.startswith(_PREFIX)]
    for index, block in enumerate(content if isinstance(content, list) else ()):
        at, known = f"{path}.content[{index}]", _BLOCK_FIELDS.get(str(dig(block, "type")))
        if known is not None:
            unknown += [(at, name) for name in block.keys() - known]
            source = block.get("source") if "source" in known else None
            names = source.keys() - _SOURCE_FIELDS if isinstance(source, dict) else ()
            unknown += [(f"{at}.source", name) for name in names]
    if native.get("role") != "tool" or not isinstance(content, str):
        # Fields of a result that stand in another message, and the name of a speaker.
        unknown += [(path, name) for name in ("tool_call_id", "name") if native.get(name) is not None]
    calls = native.get("tool_calls")
    for index, call in enumerate(calls if isinstance(calls, list) else ()):
        if isinstance(call, dict):
            at, function = f"{path}.tool_calls[{index}]", call.get("function")
            unknown += [(at, name) for name in call.keys() - umf.ToolCall.model_fields.keys()]
            names = function.keys() - umf.CalledFunction.model_fields.keys() if isinstance(function, dict) else ()
            unknown += [(f"{at}.function", name) for name in names]
    for at, name in sorted(unknown):
        reason = f"the field {name[:80]!r} stays with the message for UMF alone"
        is_content = at == path and name in _CHAT_FIELDS
        source_losses().add(f"{at}.{name}", reason, severity=Severity.WARNING if is_content else Severity.INFO)


_ROLES = {role: "system" if role is Role.DEVELOPER else str(role) for role in Role}
"""The words of UMF. Any other role is written as the user's."""


class _Writer:
    def __init__(self, history: Sequence[Message], losses: LossCollector, *, openai_calls: bool = False) -> None:
        self._openai_calls = openai_calls
        self._names = tool_names_by_id(history)
        self._ids = verbatim.tool_ids(history, FORMAT)
        self._losses = losses

    def message(self, message: Message) -> list[Fields]:
        """One message, or one for each of its results."""
        content = message.content
        if message.role is Role.TOOL and content and all(isinstance(block, ToolResultBlock) for block in content):
            if len(content) > 1:
                self._losses.add_info(message, -1, "each result is written as a separate message", LossKind.FLATTENED)
            return [self._write_result(message, index, block) for index, block in enumerate(message.tool_results)]
        return [self._write_message(message)]

    def _write_result(self, message: Message, index: int, block: ToolResultBlock) -> Fields:
        notes = _write_notes(message, None, first=index == 0)
        if block.is_error:
            notes[_PREFIX + "is_error"] = "true"
        return umf.InternalMessage(
            role="tool",
            content=result_text(message, index, block, self._losses),
            metadata=notes,
            tool_call_id=self._ids.get(block.tool_use_id, block.tool_use_id),
            name=self._names.get(block.tool_use_id),
        ).as_dict()

    def _write_message(self, message: Message) -> Fields:
        if message.role is Role.DEVELOPER:
            self._losses.add_info(message, -1, "UMF has no developer: written as the system's", LossKind.ROLE)
        if not message.role.is_known:
            self._losses.add_info(message, -1, describe_unknown_role(message), LossKind.ROLE)
        blocks: list[umf.Block] = []
        origins: list[int] = []
        calls: list[umf.ToolCall] = []
        for index, block in enumerate(message.content):
            # Results become tool messages when they are read, and other blocks in those the user's.
            if isinstance(block, ToolResultBlock) != (message.role is Role.TOOL):
                reason = f"the {block.type} block in a message of the role {message.role} is read as another speaker's"
                self._losses.add_info(message, index, reason, LossKind.MISPLACED_BLOCK)
            if self._openai_calls and isinstance(block, ToolUseBlock):
                if not bool(calls) and any(not isinstance(each, ToolUseBlock) for each in message.content[index:]):
                    reason = "calls in OpenAI's form stand behind the content: their place among the blocks is lost"
                    self._losses.add_info(message, index, reason, LossKind.FLATTENED)
                if block.raw_input == "":
                    reason = "the arguments of the call are an empty text: they are read again as none"
                    self._losses.add_info(message, index, reason)
                text = block.raw_input if block.raw_input is not None else to_json(block.input).decode()
                function = umf.CalledFunction(name=block.name, arguments=text)
                calls.append(umf.ToolCall(id=self._ids.get(block.id, block.id), function=function))
                continue
            written = write_block(message, index, block, self._ids, self._losses)
            if written is not None:
                blocks.append(written)
                origins.append(index)
        role: Any = _ROLES.get(message.role, "user")
        content: Any = "" if calls and not blocks else blocks
        if len(blocks) == 1 and isinstance(blocks[0], umf.Text) and message.role is not Role.TOOL:
            content = blocks[0].text
        notes = _write_notes(message, origins)
        return umf.InternalMessage(role=role, content=content, metadata=notes, tool_calls=calls).as_dict()


def _write_notes(message: Message, origins: Sequence[int] | None, *, first: bool = True) -> dict[str, str]:
    """Return the fields of a message other than its content, as texts."""
    metadata = message.metadata.model_dump(
        mode="json", exclude={"provider_raw"}, exclude_defaults=True, exclude_none=True
    )
    if message.alternatives:  # a block is known by its type, which is a default
        metadata["alternatives"] = [each.model_dump(mode="json") for each in message.alternatives]
    if origins is not None and isinstance(message.metadata.critical, tuple) and message.metadata.critical:
        metadata["critical"] = [new for new, old in enumerate(origins) if old in message.metadata.critical]
    notes = {
        "id": message.id if first else "",
        "session_id": message.session_id,
        "created_at": message.created_at.isoformat(),
        "role": str(message.role) if _ROLES.get(message.role) != message.role else "",
        "channel": str(message.channel) if message.channel else "",
        "metadata": to_json(metadata).decode() if metadata else "",
    }
    return {_PREFIX + name: text for name, text in notes.items() if text}


def _read_notes(message: umf.InternalMessage, path: str) -> tuple[Fields, Role, bool]:
    """Return the message fields in the notes, the role, and whether the result is an error."""
    notes: dict[str, str] = {}
    for key, text in message.metadata.items():
        if key.startswith(_PREFIX):
            if not isinstance(text, str):
                raise FormatError(f"must be a text, not {kind_of(text)}", path=f"{path}.metadata.{key}")
            notes[key.removeprefix(_PREFIX)] = text
    raw: Fields = {name: notes[name] for name in ("id", "session_id", "created_at", "channel") if name in notes}
    raw["role"] = notes.get("role", message.role) if message.role == "system" else message.role
    if message.role == "user" and notes.get("role", "user") not in list(Role):
        raw["role"] = notes["role"]
    at = f"{path}.metadata.{_PREFIX}metadata"
    if "metadata" in notes:
        try:
            raw["metadata"] = copy_json_at(from_json(notes["metadata"], allow_inf_nan=False), at)
        except ValueError:
            raise FormatError("this is not valid JSON", path=at) from None
        if isinstance(raw["metadata"], dict):
            raw["metadata"].pop("provider_raw", None)  # belongs to adapters; a document must not set it
    try:
        with validating(raw, f"{path}.metadata"):
            read = read_message(raw)
    except FormatError as error:
        raise FormatError(error.reason, path=error.path.replace(".metadata.", f".metadata.{_PREFIX}", 1)) from None
    fields = {name: getattr(read, name) for name in ("id", "session_id", "created_at", "channel", "metadata")}
    return fields, read.role, notes.get("is_error") == "true"


_COMBINED_ID, _COMBINED_NAME = "combined_tool_results", "tool_results"
_ENCODING = "cl100k_base"

Call = dict[str, Any]


@dataclass(frozen=True, slots=True)
class ChatMLMessage:
    """One turn. ``tool_calls`` are in OpenAI's form."""

    role: str
    """Who speaks: system, user, assistant or tool."""
    content: str
    """The text of the turn; it may be empty beside calls."""
    name: str | None = None
    """Who speaks among several of one role; of a result, the name of the tool."""
    tool_call_id: str | None = None
    """The id of the call that a result answers."""
    tool_calls: tuple[Call, ...] = ()


class ChatMLFormatter:
    """Collects turns. Methods that add one return the formatter."""

    def __init__(self, messages: Sequence[ChatMLMessage] = ()) -> None:
        self.messages = list(messages)
        """The turns so far, in order."""

    @classmethod
    def of(cls, history: Sequence[Message]) -> Self:
        """Return a formatter with the turns of a history, as `to_umf` writes them with calls in OpenAI's form."""
        written = to_umf(history, openai_calls=True).data
        turns = [(umf.InternalMessage.model_validate(turn), tuple(turn.get("tool_calls", ()))) for turn in written]
        return cls(
            [ChatMLMessage(turn.role, turn.text(), turn.name, turn.tool_call_id, calls) for turn, calls in turns]
        )

    def add_system(self, content: str, name: str | None = None) -> Self:
        """Add instructions."""
        return self._add(ChatMLMessage("system", content, name))

    def add_user(self, content: str, name: str | None = None) -> Self:
        """Add what the user says."""
        return self._add(ChatMLMessage("user", content, name))

    def add_assistant(self, content: str, name: str | None = None) -> Self:
        """Add a reply without calls."""
        return self._add(ChatMLMessage("assistant", content, name))

    def add_assistant_with_tool_calls(self, content: str, tool_calls: Sequence[Call]) -> Self:
        """Add a reply with calls. Its text may be empty."""
        return self._add(ChatMLMessage("assistant", content, tool_calls=tuple(tool_calls)))

    def add_tool(self, content: str, tool_call_id: str, name: str) -> Self:
        """Add the result of one call."""
        return self._add(ChatMLMessage("tool", content, name, tool_call_id))

    def add_combined_tool_results(self, content: str, name: str = _COMBINED_NAME) -> Self:
        """Add the results of several calls as one turn, for formats that cannot tell them apart."""
        return self._add(ChatMLMessage("tool", content, name, _COMBINED_ID))

    def _add(self, message: ChatMLMessage) -> Self:
        self.messages.append(message)
        return self

    def limit_history(self, count: int) -> Self:
        """Keep the first turn and the latest ones, at most ``count`` together. Raises ConfigurationError below 1."""
        if count < 1:
            raise ConfigurationError(f"a history keeps at least its first message: the limit is {count}")
        if len(self.messages) > count:
            self.messages = [self.messages[0], *self.messages[len(self.messages) - count + 1 :]]
        return self

    def faults(self) -> list[str]:
        """Return why the turns do not fit UMF's rules, one reason for each; an empty list if they do."""
        found: list[str] = []
        for index, message in enumerate(self.messages):
            role, has_calls = message.role, bool(message.tool_calls)
            checks = (
                (not message.content and not has_calls, "a message without calls must have a content"),
                (role == "system" and not message.name, "a system message must have a name"),
                (role == "assistant" and not message.name and not has_calls,
                 "an assistant message without calls must have a name"),
                (role == "tool" and not (message.tool_call_id and message.name),
                 "a tool message must have the id of its call and a name"),
            )  # fmt: skip
            found += [f"$[{index}]: {reason}" for is_faulty, reason in checks if is_faulty]
        return found

    def validate_messages(self) -> bool:
        """Whether every turn fits UMF's rules."""
        return not self.faults()

    def count_tokens(self) -> int | None:
        """Return the tokens of the text in the encoding cl100k_base; None if tiktoken or the encoding is not there."""
        if find_spec("tiktoken") is None:
            return None
        import tiktoken

        try:
            encoding = tiktoken.get_encoding(_ENCODING)
        except Exception:  # tiktoken fetches an encoding, and fails in the ways of its client
            return None
        return len(encoding.encode(self.to_chatml_string(), allowed_special="all"))

    def to_chatml_string(self) -> str:
        """Return the text. Calls are not in it, and a marker inside a text is split."""
        return "\n".join(
            write_turn(message.role, message.name, MARKER.sub(r"<| \1|>", message.content)) for message in self.messages
        )

    def to_openai_format(self) -> list[dict[str, Any]]:
        """Return the turns as messages of Chat Completions."""
        written = []
        for message in self.messages:
            fields = {name: getattr(message, name) for name in ("role", "content", "name", "tool_call_id")}
            entry = {name: value for name, value in fields.items() if value is not None}
            written.append(entry | ({"tool_calls": list(message.tool_calls)} if message.tool_calls else {}))
        return written
