"""What adapters make of decoded replies, whole or streamed: the token counts, and the canonical message."""

from collections.abc import Hashable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal, InvalidOperation
from typing import Any, NamedTuple, Self

from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import MalformedReplyError
from dragoman.adapter.replies.drift import DRIFT_NOTE, DriftKind, KnownNames, add_drift
from dragoman.adapter.requests.encode_cache import PREFIX_NOTE
from dragoman.adapter.wirejson import lookup_path, split_path
from dragoman.canonical.blocks import ContentBlock, ProviderBlock, TextBlock, ToolUseBlock, assemble, replace_fields
from dragoman.canonical.guard import copy_json, is_plain
from dragoman.canonical.log import get_logger, one_line
from dragoman.canonical.message import (
    Alternative,
    Channel,
    InputTransformation,
    Message,
    MessageMetadata,
    MessageStatus,
    Role,
    StopReason,
    assemble_message,
)
from dragoman.canonical.usage import NO_COST, TokenUsage, Usage

MAX_CALLS = 1_000
"""The most tool calls of one reply."""
MAX_NAME = 4_096
"""The most characters of the name of a tool or a model."""
MAX_ID = 64 * 1024
"""The most characters of the provider's id of a call: gateways put signatures into it."""

MAX_COUNT = 10**12
"""No count of one reply is larger than this."""
_MAX_DOLLARS = Decimal(10**9)
_MAX_PATH_LENGTH = 80

_TEXTS_ALONE = {TextBlock}
_BROKEN = {MessageStatus.CANCELLED: StopReason.CANCELLED, MessageStatus.ERROR: StopReason.ERROR}
"""The stop reasons of replies that are not complete; the provider's own does not count."""

logger = get_logger("dragoman.adapter")


@dataclass(slots=True, eq=False)
class UsageReader:
    """Reads the token counts of one usage object, ``native``, by dotted paths (docs/reference/pricing.md#buckets).

    An invalid usage does not fail the reply: values that are not counts are left out and named in ``unread``, and the
    cost of the reply is then a lower bound.
    """

    native: Mapping[str, Any]
    _unread: dict[str, None] = field(default_factory=dict, init=False)

    @classmethod
    def of(cls, native: Any) -> Self | None:
        """Return None if there is no usage object, with a warning if another value is in its place."""
        if native and not isinstance(native, dict):
            logger.warning("a usage that is not an object is ignored: %s", type(native).__name__)
        return cls(native) if native and isinstance(native, dict) else None

    def __call__(self, *paths: str) -> int:
        """Return the count at the first path that has one; 0 if none has."""
        return self.optional(*paths) or 0

    def required(self, path: str) -> int:
        """Return a count that the format requires; a missing one is added to ``unread``."""
        count = self.optional(path)
        if count is None:
            self._mark_unread(path)
        return count or 0

    def optional(self, *paths: str) -> int | None:
        """Return the count at the first path that has one; None if none has."""
        for path in paths:
            value = self.native.get(path) if "." not in path else lookup_path(self.native, path)
            if type(value) is int and 0 <= value <= MAX_COUNT:  # nearly every count
                return value
            if value is not None:
                return self._count(path, value)
        return None

    def counts(self, paths: Mapping[str, str], required: str = "") -> dict[str, int | None]:
        """Return the counts at these paths of one or two names, by the names that the caller gives them; None for each
        that is missing. The format requires the one of the name ``required``: if it is missing, it is added to
        ``unread``."""
        found: dict[str, int | None] = {}
        for name, path in paths.items():
            if "." in path:
                outer, inner = split_path(path)
                details = self.native.get(outer)
                value = details.get(inner) if isinstance(details, dict) else None
            else:
                value = self.native.get(path)
            if type(value) is not int or not 0 <= value <= MAX_COUNT:
                if value is not None:
                    value = self._count(path, value)
                elif name == required:
                    self._mark_unread(path)
            found[name] = value
        return found

    def text(self, path: str) -> str | None:
        """Return a text, such as the service tier."""
        text = self.native.get(path) if "." not in path else lookup_path(self.native, path)
        if text is None or isinstance(text, str):
            return text or None
        self._mark_unread(path)
        return None

    def objects(self, path: str) -> list[dict[str, Any]]:
        """Return the objects of a list; empty if there is none."""
        values: list[Any] = self._value(path, list) or []
        if all(isinstance(each, dict) for each in values):
            return values
        self._mark_unread(path)
        return []

    def count_at(self, path: str, native: Any) -> int:
        """Return a count that the caller has read at that path, or 0 if it is None."""
        return 0 if native is None else self._count(path, native) or 0

    def counts_by_name(self, path: str) -> dict[str, int]:
        """Return counts by name, without those that are zero."""
        values: dict[str, Any] = self._value(path, dict) or {}
        return {name: count for name, each in values.items() if (count := self.count_at(f"{path}.{name}", each))}

    def dollars(self, path: str, unit: Decimal = Decimal(1)) -> Decimal | None:
        """Return the provider's own figure of the cost; ``unit`` is the worth of one in US dollars."""
        value = lookup_path(self.native, path)
        if value is None:
            return None
        try:
            amount = Decimal(str(value)) * unit
            if not isinstance(value, bool) and 0 <= amount < _MAX_DOLLARS:
                return amount
        except (InvalidOperation, ValueError):  # NaN cannot be compared
            pass
        self._mark_unread(path)
        return None

    def uncached(self, prompt: int, *cached: int) -> int:
        """Subtract cached tokens from the prompt, for providers that count them inside it."""
        rest = prompt - sum(cached)
        if rest < 0:
            self._mark_unread("more cached tokens than the prompt has")
        return max(0, rest)

    def usage(self, **fields: Any) -> TokenUsage:
        """Return the usage with these fields, with what is `unread`, and with the object as ``raw``.

        Counts and amounts must come from a reader, which has checked them: a usage without other values is not
        validated again, which would take longer than its reading. Raises pydantic.ValidationError.
        """
        unread = fields.setdefault("unread", tuple(self._unread))
        checked = is_plain(fields.get("service_tier")) and is_plain(fields.get("speed"))
        if unread or fields.get("server_tools") or not checked:
            return TokenUsage(**fields, raw=self.native)
        try:
            fields["raw"] = copy_json(self.native)
        except ValueError:  # the validation names the field as well
            return TokenUsage(**{**fields, "raw": self.native})
        return assemble(TokenUsage, {**_NO_COUNTS, "server_tools": {}, **fields}, set(fields))

    @property
    def unread(self) -> tuple[str, ...]:
        return tuple(self._unread)

    def _value(self, path: str, kind: type) -> Any:
        """Return the value at a path; None if there is none, or if it is of another kind."""
        value = lookup_path(self.native, path)
        if value is None or isinstance(value, kind):
            return value
        self._mark_unread(path)
        return None

    def _count(self, path: str, value: Any) -> int | None:
        """Return a count: a whole number that is not negative, which some providers write as 12.0. None for other
        values."""
        if isinstance(value, float) and value.is_integer():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_COUNT:
            return value
        self._mark_unread(path)
        return None

    def _mark_unread(self, path: str) -> None:
        self._unread[path[:_MAX_PATH_LENGTH]] = None


_NO_COUNTS = TokenUsage().__dict__


class ReplyCounts(NamedTuple):
    """What is counted of a whole reply, without its content. ``transformations`` are the changes that the provider
    reports to have made to the request."""

    model: str | None
    """The provider's name of the model that answered."""
    usage: TokenUsage | None
    status: MessageStatus = MessageStatus.COMPLETE
    transformations: Any = None


class ReplyBuilder:
    """Builds one reply of a ``provider``: its ``message_id``, and the canonical id of each of its calls. ``context`` is
    the caller's.

    A stream needs a call's id when the call starts and again when the message is built; both get it here.
    """

    def __init__(self, context: RequestContext, provider: str, message_id: str | None = None) -> None:
        """``message_id`` is that of the reply; None for a new one."""
        self.context = context
        self.provider = provider
        self.message_id = context.new_id() if message_id is None else message_id
        self._calls: dict[Hashable, str] = {}
        self._drift: dict[str, list[str]] | None = None

    def call_id(self, position: Hashable, native: str | None) -> str:
        """Return the canonical id of the call at a position of this reply. Raises MalformedReplyError if the
        provider's own id is too long."""
        if position not in self._calls:
            if isinstance(native, str) and len(native) > MAX_ID:
                raise self._too_long("an id of a call", MAX_ID)
            self._calls[position] = self.context.tool_ids.receive(self.provider, native)
        return self._calls[position]

    def note_drift(self, kind: DriftKind, names: Iterable[object]) -> None:
        """Note names that the reply uses and this version does not know."""
        self._drift = {} if self._drift is None else self._drift
        add_drift(self._drift, kind, names)

    def note_unknown(self, kind: DriftKind, names: Set[str], known: Set[str], prefix: str = "") -> None:
        """Note those of the names that are not known, with what leads to them."""
        if not names <= known:
            self.note_drift(kind, [f"{prefix}{name}" for name in names - known])

    def build(
        self,
        content: Iterable[ContentBlock],
        *,
        model: str | None,
        stop_reason: StopReason | None,
        usage: TokenUsage | None,
        raw: dict[str, Any],
        status: MessageStatus = MessageStatus.COMPLETE,
        channel: Channel | None = None,
        alternatives: Iterable[Alternative] = (),
        known: KnownNames | None = None,
    ) -> Message:
        """Return the assistant's message with its cost. ``model`` is the provider's name of the model that answered.
        Names that are not ``known`` are noted. A reply that was cancelled or broke off has its ``status`` as its stop
        reason.

        Raises MalformedReplyError if a name is too long.
        """
        context = self.context
        now = context.clock()
        served_model = self._served_model(model)
        blocks = content = tuple(content)
        kinds = set(map(type, content))
        has_texts_alone = kinds <= _TEXTS_ALONE  # as most replies have: there is nothing to translate or to note
        if not has_texts_alone:
            blocks = self._check_calls(content)
        if known is not None:
            counts = usage.raw if usage is not None and usage.raw else {}
            has_rest = "blocks" in raw or not known.places.keys().isdisjoint(raw) or ProviderBlock in kinds
            if has_rest or not known.usage.issuperset(counts):
                for kind, unknown in known.find_unknown(content, raw, counts):
                    self.note_drift(kind, unknown)
        stop_reason = _BROKEN.get(status, stop_reason)
        if context.answer_tool is not None and not has_texts_alone:
            named, blocks = blocks, tuple(map(context.answer_tool.translate_block, blocks))
            if blocks != named:
                # The provider's notes on the call do not apply to the text.
                raw = {name: raw[name] for name in ("id",) if name in raw}
                stop_reason = StopReason.END_TURN if stop_reason is StopReason.TOOL_USE else stop_reason
        if context.ends_turn and stop_reason is StopReason.PAUSE:
            stop_reason = StopReason.END_TURN
        notes = {"by": self.provider, **raw}
        if not has_texts_alone or context.reply_note is not None or self._drift is not None:
            self._add_own_notes(notes, content, blocks)
        changes = raw.get("input_transformations")
        metadata = _build_metadata(
            model=served_model,
            provider=self.provider,
            routing=context.routing,
            usage=self._build_usage(usage, served_model, now, status) if usage is not None else None,
            status=status,
            stop_reason=stop_reason,
            alternatives=self._build_alternatives(alternatives, status) if alternatives else None,
            input_transformations=None if changes is None else self._read_transformations(changes),
            provider_raw=notes,
            user_id=context.user_id,
            team_id=context.team_id,
        )
        build = Message if metadata.alternatives else assemble_message  # the size of alternatives is validated
        return build(
            id=self.message_id,
            session_id=context.session_id,
            role=Role.ASSISTANT,
            content=blocks,
            channel=channel,
            metadata=metadata,
            created_at=now,
        )

    def _add_own_notes(
        self, notes: dict[str, Any], content: Sequence[ContentBlock], blocks: Sequence[ContentBlock]
    ) -> None:
        """Add what the library keeps beside the adapter's notes. ``content`` is what the provider sent, and ``blocks``
        are those of the message."""
        context = self.context
        find = context.tool_ids.native_id
        calls = (block for block in blocks if isinstance(block, ToolUseBlock))
        if tool_ids := {call.id: native for call in calls if (native := find(call.id, self.provider))}:
            notes["tool_ids"] = tool_ids
        if context.action_calls is not None:
            notes |= context.action_calls.note(content)
        if context.reply_note is not None:
            notes |= context.reply_note
        if self._drift is not None:
            notes[DRIFT_NOTE] = self._drift
        if context.prefix_note is not None:
            from dragoman.adapter.requests.prefix_ledger import is_signed  # imported late: few models bind signatures

            if any(map(is_signed, blocks)):
                notes[PREFIX_NOTE] = dict(context.prefix_note)

    def build_usage(self, counts: ReplyCounts) -> Usage | None:
        """Return the usage of a reply that is not built, with its cost. Raises as `build`."""
        served_model = self._served_model(counts.model)
        if counts.transformations:
            self._read_transformations(counts.transformations)
        if counts.usage is None:
            return None
        return self._build_usage(counts.usage, served_model, self.context.clock(), counts.status)

    def _served_model(self, model: str | None) -> str:
        if isinstance(model, str) and len(model) > MAX_NAME:
            raise self._too_long("the name of the model", MAX_NAME)
        return f"{self.provider}:{model}" if model else self.context.model

    def _check_calls(self, content: tuple[ContentBlock, ...]) -> tuple[ContentBlock, ...]:
        """Return the content with the program's own names of tools. Raises MalformedReplyError if a limit is passed."""
        calls = [block for block in content if isinstance(block, ToolUseBlock)]
        if len(calls) > MAX_CALLS:
            raise MalformedReplyError(f"the reply calls tools over {MAX_CALLS} times", provider=self.provider)
        if any(len(call.name) > MAX_NAME for call in calls):
            raise self._too_long("the name of a tool", MAX_NAME)
        if (actions := self.context.action_calls) is not None:
            content = tuple(map(actions.translate_block, content))
        names = self.context.tool_names
        return content if names is None else tuple(map(names.translate_block, content))

    def _too_long(self, what: str, limit: int) -> MalformedReplyError:
        return MalformedReplyError(f"{what} is over {limit} characters", provider=self.provider)

    def _build_alternatives(
        self, alternatives: Iterable[Alternative], status: MessageStatus
    ) -> tuple[Alternative, ...] | None:
        """Return the other answers as the program reads them: its own names of tools, and text for the answer tool."""
        tool = self.context.answer_tool
        built: list[Alternative] = []
        for each in alternatives:
            named = self._check_calls(each.content)
            blocks = named if tool is None else tuple(map(tool.translate_block, named))
            stop = _BROKEN.get(status, each.stop_reason)
            if blocks != named and stop is StopReason.TOOL_USE:
                stop = StopReason.END_TURN
            built.append(Alternative(content=blocks, stop_reason=stop))
        return tuple(built) or None

    def _build_usage(self, usage: TokenUsage, served_model: str, now: datetime, status: MessageStatus) -> Usage:
        """Return the usage with its cost. Problems are logged once for each reply; the usage of a broken reply is
        incomplete."""
        if usage.unread:
            logger.warning(
                "%s: the usage holds no count at %s: the cost is a lower bound", served_model, ", ".join(usage.unread)
            )
        context = self.context
        if context.terms:
            usage = usage.model_copy(update={"terms": dict(context.terms)})
        priced = usage if context.prices is None else context.prices.price(served_model, usage, now)
        if isinstance(priced, Usage):
            built = priced
        else:
            built = assemble(Usage, {**priced.__dict__, **NO_COST}, priced.__pydantic_fields_set__)
        if context.started_at is not None:
            latency = (now - context.started_at).total_seconds()
            built = replace_fields(built, {"latency_ms": max(0, round(latency * 1000))})
        if status in (MessageStatus.ERROR, MessageStatus.CANCELLED):
            return built.as_lower_bound()
        if usage.reported_total is not None and usage.discrepancy:
            logger.warning(
                "%s: the provider reports %d tokens in total, but its parts add up to %d",
                served_model, usage.reported_total, usage.total_tokens,
            )  # fmt: skip
        return built

    def _read_transformations(self, native: Any) -> tuple[InputTransformation, ...] | None:
        """Return the changes that the provider reports to have made to the request, and log a warning for each.

        Anthropic reports type, reason and path; OpenAI reports type, action, reason and the item's id.
        """
        if not isinstance(native, list):
            return None
        changes: list[InputTransformation] = []
        for each in native:
            if not isinstance(each, dict):
                continue
            texts = {name: text for name, text in each.items() if isinstance(text, str)}
            kind = "_".join(texts[name] for name in ("type", "action") if name in texts)
            change = InputTransformation(
                kind=kind, reason=texts.get("reason"), where=texts.get("path", texts.get("id"))
            )
            changes.append(change)
            logger.warning(
                "%s changed the request: %s of %s, because of %s",
                *map(one_line, (self.provider, change.kind, change.where or "?", change.reason or "?")),
                extra={"session_id": one_line(self.context.session_id), "adapter": self.provider},
            )
        return tuple(changes) or None


def _build_metadata(**fields: Any) -> MessageMetadata:
    """Return the metadata. Only texts and notes that may be invalid are validated: all else was made here."""
    texts = fields["model"], fields["provider"], fields["user_id"], fields["team_id"]
    if not all(map(is_plain, texts)):
        return MessageMetadata(**fields)
    try:
        notes = copy_json(fields["provider_raw"])
    except ValueError:  # the validation names the field as well
        return MessageMetadata(**fields)
    return assemble(MessageMetadata, {**_UNSET, **fields, "provider_raw": notes}, _GIVEN)


_UNSET = MessageMetadata().__dict__
_GIVEN = {
    "model", "provider", "routing", "usage", "status", "stop_reason", "alternatives", "input_transformations",
    "provider_raw", "user_id", "team_id",
}  # fmt: skip
"""The fields of the metadata of each reply."""
