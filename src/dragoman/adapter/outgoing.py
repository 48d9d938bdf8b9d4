"""A request while it is written: projected turns, the ids to use, and the losses so far. Every adapter starts here."""

from collections.abc import Callable, Collection, Hashable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from itertools import takewhile
from typing import Any

from dragoman.adapter import details, prefix_ledger, wirejson
from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.details import Detail
from dragoman.adapter.errors import ProjectionError
from dragoman.adapter.losses import Loss, LossKind, Severity, log_losses
from dragoman.adapter.pairing import CallKeys
from dragoman.adapter.projection import Target, project, refuse_critical
from dragoman.adapter.settled import INSTRUCTING, NOTHING, History, Settled, boundary, first_turn_of, run_of
from dragoman.adapter.turns import MADE, Turn
from dragoman.adapter.wire import WireRequest
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ToolDefinition


@dataclass(slots=True)
class Outgoing:
    """``turns`` are those of the leading instructions and of everything that is not settled yet (see `settled`)."""

    adapter: Adapter
    options: AdapterOptions
    context: RequestContext
    turns: tuple[Turn, ...]
    losses: list[Loss]
    settled: Settled = NOTHING
    leading: int = 0
    """How many of the turns are those of leading instructions."""
    unsettled: tuple[Message, ...] = ()
    """What may be settled by this request."""
    opens: bool = True
    """Whether what is encoded right now begins the list."""
    memory: dict[str, Any] = field(default_factory=dict)
    """What one stretch of turns leaves for the encoding of the next; kept with what is settled."""
    _voids: bool | None = field(default=None, init=False)

    @classmethod
    def begin(
        cls,
        adapter: Adapter,
        messages: Sequence[Message],
        options: AdapterOptions,
        *,
        server_state: bool = False,
        whole: bool = False,
    ) -> "Outgoing":
        """Projects the history. Raises CriticalLossError where a critical block would be lost.

        ``whole``: the turns of everything are wanted, because the wire has rules that look at all of them.
        """
        context = options.context or RequestContext(model=str(adapter.model_id))
        lead = tuple(takewhile(lambda message: message.role in INSTRUCTING, messages))
        # Instructions that are sent as the user's may become one with what the user says next.
        whole = whole or server_state or (bool(lead) and not adapter.capabilities.supports_system_prompt)
        asked, said = replace(options, context=None, stream=False), messages[len(lead) :]
        settled = Settled(context.tool_ids, asked)
        if not whole:
            settled = context.encodings.find(_target(adapter), settled, said)
        unsettled = tuple(said[len(settled.messages) :])
        _learn_ids((*lead, *unsettled), adapter.provider, context, settled.keys)
        target = Target(adapter.provider, adapter.model, adapter.capabilities, server_state)
        projection = project((*lead, *unsettled), target, keys=settled.keys)
        return cls(
            adapter,
            options,
            context,
            turns=projection.turns,
            losses=[*settled.losses, *projection.losses],
            settled=settled,
            leading=0 if whole else _count(lead, projection.turns),
            unsettled=() if whole else unsettled,
            memory=deepcopy(dict(settled.memory)),
        )

    def history(self, turns: Sequence[Turn], encode: Callable[[Sequence[Turn]], list[Any]]) -> History:
        """The list of the body: what is settled already, and the items of ``turns``, the last ones of this request.

        ``encode`` is called for one stretch after the other, with ``opens`` set where a stretch begins the list.
        """
        listed = self.leading - (len(self.turns) - len(turns))  # the wire may have hoisted leading turns
        if listed < 0:
            return History((), encode(turns))
        before = run_of(encode(turns[:listed])) if listed else ()
        rest = turns[listed:]
        self.opens = not (listed or self.settled.messages)
        if border := self._settle(rest, encode):
            self.opens = False
        return History((*before, *self.settled.runs), encode(rest[border:]))

    def _settle(self, turns: Sequence[Turn], encode: Callable[[Sequence[Turn]], list[Any]]) -> int:
        """Settles what can be; the first turn that is not."""
        count = boundary(self.unsettled)
        border = first_turn_of(self.unsettled[count], turns) if count else 0
        if border:
            messages = self.unsettled[:count]
            lost = self.losses[len(self.settled.losses) :]
            if lost:
                ids = {message.id for message in messages}
                lost = [loss for loss in lost if loss.message_id in ids]
            mark = len(self.losses)
            items = encode(turns[:border])
            self.settled = self.settled.extended(messages, items, [*lost, *self.losses[mark:]], self.memory)
            self.context.encodings.keep(_target(self.adapter), self.settled)
        return border

    @property
    def provider(self) -> str:
        return self.adapter.provider

    def tool_id(self, key: str) -> str:
        """The provider's id for a call."""
        return self.context.tool_ids.send(key, self.provider, self.adapter.capabilities.tool_id_rule)

    def restored(self, turn: Turn, index: int, encoded: Mapping[str, Any]) -> dict[str, Any]:
        """A block's encoding with what the provider's own block held beyond it."""
        return turn.restored(index, encoded, self.provider)

    def usable(self, tools: Sequence[ToolDefinition]) -> list[ToolDefinition]:
        """The tools that this provider can be told of: tools that only another provider runs are losses."""
        kept: list[ToolDefinition] = []
        for tool in tools:
            raw = tool.provider_raw or {}
            if "native" in raw and raw.get("by") != self.provider:
                self.lose(LossKind.TOOLS, f"the tool {tool.name} runs at {raw.get('by')} only")
            elif not self.adapter.capabilities.supports_tools:
                self.lose(LossKind.TOOLS, f"{self.adapter.model} calls no tools: {tool.name} left out")
            else:
                kept.append(tool)
        return kept

    def lose_block(
        self, turn: Turn, index: int, kind: LossKind, reason: str, severity: Severity = Severity.WARNING
    ) -> None:
        """Notes a block that the wire cannot carry after all. Raises CriticalLossError where it is marked critical."""
        loss = Loss(kind, turn.message.id, turn.origins[index], reason, severity, turn.blocks[index].type)
        refuse_critical([turn.message], [loss])
        self.losses.append(loss)

    def lose_message(self, turn: Turn, kind: LossKind, reason: str) -> None:
        """Notes a message that reaches the wire in another form."""
        self.losses.append(Loss(kind, turn.message.id, MADE, reason, Severity.INFO))

    def lose_details(self, turn: Turn, index: int, *lacking: Detail) -> None:
        """Notes what a block says besides its content, where the wire lacks a place for it."""
        made, own = turn.origins[index] == MADE, bool(turn.raw(self.provider))
        for kind, reason, severity in details.lost(turn.blocks[index], lacking, made=made, own=own):
            self.lose_block(turn, index, kind, reason, severity)

    def lose(self, kind: LossKind, reason: str, severity: Severity = Severity.WARNING) -> None:
        """Notes a loss of the request as a whole."""
        self.losses.append(Loss(kind, "", -1, reason, severity))

    def lose_option(self, name: str, reason: str) -> None:
        """Notes an option that this model does not take."""
        self.lose(LossKind.OPTION, f"{name}: {reason}")

    def voids_thinking(self, body: Mapping[str, Any]) -> bool:
        """Whether signed thinking in the history is void, because something else stood before it when it was signed.

        Each such block is a loss. Raises ProjectionError where the caller asked for that.
        """
        if self._voids is None:
            told = next((value for value in body.values() if isinstance(value, History)), None)
            if told is None or not self.adapter.capabilities.thinking_policy.prefix_bound:
                return False
            items = b",".join(told.runs())
            self.context.seal = prefix_ledger.seal(body, items)
            self._voids = self._lose_void(body, items)
        return self._voids

    def _lose_void(self, body: Mapping[str, Any], items: bytes) -> bool:
        policy = self.adapter.capabilities.thinking_policy
        candidates = (*self.settled.sealed, *filter(prefix_ledger.is_sealed, self.unsettled))
        sealed = [
            message
            for message in {id(message): message for message in candidates}.values()
            if (message.metadata.provider_raw or {})["by"] == self.provider and policy.reads(message.metadata.model)
        ]
        void = prefix_ledger.broken(sealed, body, items) if sealed else []
        reason = f"what stood before it has changed since {self.adapter.model} signed it: the signature is void"
        if void and self.options.strict_prefix:
            raise ProjectionError(f"message {void[0].id}: {reason}; without strict_prefix it would be a loss")
        for message in void:
            for index, block in enumerate(message.content):
                if prefix_ledger.is_signed(block):
                    loss = Loss(LossKind.THINKING, message.id, index, reason, Severity.WARNING, block.type)
                    refuse_critical([message], [loss])
                    self.losses.append(loss)
        return bool(void)

    def listed_header(self, name: str, value: str) -> dict[str, str]:
        """A header whose values are a list: ours behind the caller's own."""
        own = {key: said for key, said in self.options.headers.items() if key.lower() == name}
        others = {key: said for key, said in self.options.headers.items() if key not in own}
        self.options = replace(self.options, headers=others)
        return {name: ",".join((*own.values(), value))}

    def overrule(self, *names: str) -> None:
        """Leaves out fields of the caller's own that would now hide what the conversation or an option says."""
        own = self.options.extra.get(self.provider, {})
        kept = {name: value for name, value in own.items() if name not in names}
        self.options = replace(self.options, extra={**self.options.extra, self.provider: kept})

    def wire(
        self,
        path: str,
        body: Mapping[str, Any],
        headers: Mapping[str, str] | None = None,
        *,
        merged: Collection[str] = (),
    ) -> WireRequest:
        """The finished request: the caller's own fields for this provider are laid over the body.

        ``merged`` names fields whose objects are laid over ours field by field, at any depth; a null of the caller's
        yields to what stands there.
        """
        laid_over = _laid_over(body, self.options.extra.get(self.provider, {}), merged)
        self.voids_thinking(laid_over)
        losses = tuple(self.losses)
        log_losses(losses, session_id=self.context.session_id, adapter=self.provider)
        return WireRequest(
            method="POST",
            path=path,
            body=_written(laid_over),
            headers={"content-type": "application/json", **(headers or {}), **self.options.headers},
            stream=self.options.stream,
            losses=losses,
        )


def _laid_over(body: Mapping[str, Any], own: Mapping[str, Any], merged: Collection[str]) -> dict[str, Any]:
    """The body with the caller's own fields; one whose value is ``...`` is left out."""
    laid = dict(body)
    for name, value in own.items():
        standing = laid.get(name)
        if name in merged and isinstance(value, Mapping):
            laid[name] = _laid_over(standing if isinstance(standing, Mapping) else {}, value, merged)
        elif not (name in merged and value is None and standing is not None):
            laid[name] = value
    return {name: value for name, value in laid.items() if value is not ...}


def _count(lead: Sequence[Message], turns: Sequence[Turn]) -> int:
    """How many of the turns in front belong to those messages."""
    return sum(any(turn.message is message for message in lead) for turn in turns[: len(lead)])


def _written(body: Mapping[str, Any]) -> bytes:
    """The body as JSON; of a history, what is settled goes in as it is."""
    written: list[bytes] = []
    for name, value in body.items():
        written += (b"," if written else b"{", wirejson.dumps(name), b":")
        if isinstance(value, History):
            first, *rest = value.runs() or (b"",)
            written += (b"[", first, *(part for run in rest for part in (b",", run)), b"]")
        else:
            written.append(wirejson.dumps(value))
    return b"".join((*written, b"}" if written else b"{}"))


def _learn_ids(said: Sequence[Message], provider: str, context: RequestContext, before: CallKeys) -> None:
    """Takes over the provider's own ids of calls, each under the key of the very call that its message notes it of."""
    noted = {
        message.id: ids for message in said if message.metadata.provider_raw and (ids := _noted_ids(message, provider))
    }
    if not noted:
        return
    keys = before.after(())
    for message in said:
        ids = noted.get(message.id, {})
        made = {call.id: keys.new(call.id) for call in message.tool_uses} if message.role is Role.ASSISTANT else {}
        for canonical, native in ids.items():
            context.tool_ids.remember(made.get(canonical, canonical), provider, native)


def _noted_ids(message: Message, provider: str) -> dict[str, str]:
    raw = message.metadata.provider_raw
    ids: dict[str, str] = raw.get("tool_ids", {}) if raw and raw.get("by") == provider else {}
    return ids


def _target(adapter: "Adapter") -> Hashable:
    return type(adapter), adapter.model
