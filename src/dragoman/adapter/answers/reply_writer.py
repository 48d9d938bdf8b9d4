"""Writes one reply in a client's wire: its identity, its losses, and the state that travels with it."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from dragoman.adapter.answers import client_ids
from dragoman.adapter.answers.provider_state import StateWriter
from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import ServerError
from dragoman.adapter.losses import Loss, LossKind, Severity, log_losses
from dragoman.adapter.replies.drift import DRIFT_NOTE
from dragoman.canonical.blocks import Citation, ContentBlock, ProviderBlock, ToolUseBlock
from dragoman.canonical.events import MessageStart
from dragoman.canonical.ids import ModelId
from dragoman.canonical.message import Alternative, Message, StopReason
from dragoman.canonical.usage import TokenUsage

TEXT, THINKING, CALL, OPAQUE = "text", "thinking", "tool_use", "opaque"
"""What a part of a reply is for clients; the first three have the names of canonical blocks."""

ItemT = TypeVar("ItemT")


class ReplyWriter:
    """What the encoders of a reply share.

    ``provider`` is that of the client's wire. ``is_own`` tells whether the reply came from that provider: its native
    ids, notes and opaque fields are then written as they came.
    """

    def __init__(self, provider: str, model: str, context: RequestContext, issuer: str, message_id: str) -> None:
        self.provider = provider
        self.model = model
        self.context = context
        self.message_id = message_id
        self.is_own = issuer == provider
        self.losses: list[Loss] = []
        self.state = StateWriter(context, issuer, message_id, self.losses)
        self._left_out = 0

    @classmethod
    def for_message(cls, provider: str, model: str, context: RequestContext, message: Message) -> "ReplyWriter":
        """Return the writer of a whole reply."""
        metadata = message.metadata
        writer = cls(provider, model, context, metadata.provider or _issuer(context), message.id)
        if metadata.model:
            writer.state.model = metadata.model
        if metadata.alternatives:
            writer.count_alternatives(message)
        return writer

    @classmethod
    def for_stream(cls, provider: str, model: str, context: RequestContext) -> "ReplyWriter":
        """Return the writer of a streamed reply of the context's model."""
        return cls(provider, model, context, _issuer(context), "")

    def start(self, event: MessageStart) -> None:
        """Take the identity of a streamed reply."""
        self.message_id = self.state.reply_id = event.message_id
        issuer = _issuer(self.context)
        name = event.model.removeprefix(f"{issuer}:")
        self.state.model = f"{issuer}:{name}"
        if self.is_own:
            self.model = name

    @property
    def client_fields(self) -> Mapping[str, Any]:
        """The fields of the client's request; empty if it was not read."""
        return self.context.client_fields or {}

    def own_raw(self, message: Message) -> Mapping[str, Any]:
        """Return the notes of this wire's adapter on the message; empty if another adapter wrote them."""
        raw = message.metadata.provider_raw
        if raw is None or raw.get("by") != self.provider:
            return {}
        return {name: note for name, note in raw.items() if name != DRIFT_NOTE} if DRIFT_NOTE in raw else raw

    def is_native(self, block: ContentBlock) -> bool:
        """Whether a block may be written as its adapter encodes it: in a reply of this wire's provider, unless it is a
        native block of another one, or a call whose arguments only a text can hold."""
        if isinstance(block, ToolUseBlock) and not is_runnable(block):
            return False
        return self.is_own and not (isinstance(block, ProviderBlock) and block.provider != self.provider)

    def served_model(self, message: Message) -> str:
        """Return the name of the model that answered, or the requested one if another provider's model answered."""
        served = message.metadata.model
        return ModelId.parse(served).name if self.is_own and served else self.model

    def tool_id(self, prefix: str, canonical: str, message: Message | None = None) -> str:
        """Return the id of a call: this provider's own if it issued the call, else one made from the canonical id."""
        native = self.context.tool_ids.native_id(canonical, self.provider)
        if native is None and message is not None:
            native = self.own_raw(message).get("tool_ids", {}).get(canonical)
        return native or client_ids.client_tool_id(prefix, canonical)

    def store_state(self, prefix: str, message: Message) -> None:
        """Keep what only the provider reads, for a wire whose clients return nothing but calls unchanged: by the id of
        the first call, if there is one."""
        if self.state.has_rest(message):
            call = next(iter(message.tool_uses), None)
            self.state.store_rest(message, self.tool_id(prefix, call.id, message) if call else None)

    def new_id(self, prefix: str, part: int | None = None) -> str:
        """Return the id of the reply, or of one of its parts."""
        return client_ids.client_message_id(prefix, self.message_id, part)

    def stop_reason(self, message: Message, *, has_calls: bool) -> StopReason:
        """Return the stop reason for a client. It waits for calls only if it gets some."""
        reason = message.metadata.stop_reason or StopReason.END_TURN
        if reason is not StopReason.END_TURN and not reason.is_known:
            self.record_loss(LossKind.STOP_REASON, f"the stop reason {reason!s:.100} is unknown to this version")
            reason = StopReason.END_TURN
        if reason is StopReason.END_TURN or reason is StopReason.TOOL_USE:
            return StopReason.TOOL_USE if has_calls else StopReason.END_TURN
        return reason

    def record_loss(
        self, kind: LossKind, reason: str, severity: Severity = Severity.WARNING, *, index: int = -1, block: str = ""
    ) -> None:
        self.losses.append(Loss(kind, self.message_id, index, reason, severity, block))

    def record_block_loss(
        self, index: int, block: ContentBlock, reason: str, severity: Severity = Severity.WARNING
    ) -> None:
        """Record that the wire cannot say a block."""
        self.record_loss(LOSS_KINDS.get(block.type, LossKind.UNKNOWN_BLOCK), reason, severity, index=index,
                         block=block.type)  # fmt: skip

    def record_unsupported(self, index: int, block: ContentBlock, where: str) -> None:
        """Record that the client does not get a block. A sealed native block comes back to its provider."""
        if isinstance(block, ProviderBlock):
            reason = f"a native block of {block.provider}, {block.kind}: the client does not get it"
        else:
            reason = f"{where} holds no {block.type}: left out"
        self.record_block_loss(index, block, reason)

    def addressed(self, citations: Sequence[Citation], index: int) -> list[Citation]:
        """Return the sources of a text that have an address, for wires that need one; others are a loss."""
        found = [source for source in citations if source.url]
        if len(found) < len(citations):
            reason = "sources without an address: left out"
            self.record_loss(LossKind.CITATIONS, reason, index=index, block="text")
        return found

    def record_stop_reason_loss(self, stop_reason: StopReason, word: str) -> None:
        reason = f"the wire has no word for the stop reason {stop_reason}: {word!r} is sent"
        is_ordinary = stop_reason is StopReason.STOP_SEQUENCE
        self.record_loss(LossKind.STOP_REASON, reason, Severity.INFO if is_ordinary else Severity.WARNING)

    def record_usage_losses(self, usage: TokenUsage | None, *names: str) -> None:
        """Record the counts that the wire has no field for, if they are not 0. Its own provider has no others."""
        if not self.is_own and usage is not None and any(map(vars(usage).get, names)):
            lost = [name for name in names if getattr(usage, name)]
            reason = f"the wire does not report {', '.join(lost)} separately"
            self.record_loss(LossKind.USAGE, reason, Severity.INFO)

    def alternatives(self, message: Message) -> tuple[Alternative, ...]:
        """Return the other answers of a reply, for a wire that has a place for them."""
        self._left_out = 0
        return message.metadata.alternatives or ()

    def count_alternatives(self, message: Message) -> None:
        """Count the other answers of a reply. They are a loss if the encoder does not take them."""
        self._left_out = len(message.alternatives)

    def find_failure(self, message: Message) -> ServerError | None:
        """Return the error for a reply that its provider ended with an error; None if the client gets the reply. This
        wire's provider has words of its own for it."""
        if message.metadata.stop_reason not in FAILED or self.is_own:
            return None
        return ServerError(
            f"the model ended its reply with the reason {message.stop_reason}: ask again", model=message.metadata.model
        )

    def finish(self) -> tuple[Loss, ...]:
        """Log the losses, add them to the context's, and return them."""
        if self._left_out:
            reason = f"n: the reply has one answer here, the {self._left_out} others are left out"
            self.record_loss(LossKind.OPTION, reason)
        losses = tuple(self.losses)
        if not losses:
            return ()
        self.context.losses.extend(losses)
        log_losses(losses, session_id=self.context.session_id, adapter=self.provider)
        return losses


def place_opaque(items: Sequence[ItemT], added: Sequence[ItemT], kind_of: Callable[[ItemT], str]) -> list[ItemT]:
    """Return the items with ``added``, and with the opaque items at the end, before the calls that end the reply, or
    before its last text: of a text, two calls and an opaque item, the last one goes before the first call.

    Clients take the last block for the answer, and providers refuse histories in which thinking ends a message.
    ``kind_of`` returns TEXT, CALL or OPAQUE. If nothing but opaque items is there, ``added`` follows them.
    """
    end = len(items)
    while end and kind_of(items[end - 1]) == OPAQUE:
        end -= 1
    if end == 0:
        return [*items, *added]
    place = end - 1
    while place and kind_of(items[end - 1]) == kind_of(items[place - 1]) == CALL:
        place -= 1
    return [*items[:place], *items[end:], *added, *items[place:end]]


LOSS_KINDS = {
    "thinking": LossKind.THINKING,
    "redacted_thinking": LossKind.THINKING,
    "image": LossKind.MEDIA,
    "audio": LossKind.MEDIA,
    "video": LossKind.MEDIA,
    "document": LossKind.MEDIA,
    "provider": LossKind.NATIVE_BLOCK,
    "tool_use": LossKind.INVALID_INPUT,
}


FAILED = (StopReason.ERROR, StopReason.CANCELLED)
"""Stop reasons that no client's wire has a word for: a client gets an error, and not a reply that looks complete."""


def _issuer(context: RequestContext) -> str:
    """Return the name of the provider of the context's model."""
    return context.model.partition(":")[0]


def is_runnable(block: ToolUseBlock) -> bool:
    """Whether the arguments of a call are a JSON object."""
    return block.raw_input is None
