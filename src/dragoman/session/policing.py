"""A session's policy: which hook is asked where, with which extensions, and what follows from the answers.

Without I/O, as a turn is: every method that asks plugins is a generator of a pipeline's steps, for the session's driver
to carry out. Nothing of this is loaded in a session without a policy.

A message is changed once, when it comes in; from then on it is what the history holds, so that what was sent stays a
prefix of what is sent. It is judged again for each model that it has not been sent to yet, and what is new in a request
is judged with every try of it.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from operator import is_
from typing import TYPE_CHECKING, Any

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ToolResultBlock, ToolUseBlock
from dragoman.canonical.extensions import Extensions
from dragoman.canonical.message import Message, Role
from dragoman.canonical.security import DataPolicy
from dragoman.canonical.view_parts import CalledTool
from dragoman.policy.changing import unsigned
from dragoman.policy.data import data_policies, refusal, stamped
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.labels import Declassification, declassify, labels_of, with_labels
from dragoman.policy.objects import ASKING
from dragoman.policy.pipeline import AFTER, Pipeline
from dragoman.policy.plugin import Hook, Violation
from dragoman.policy.running import Steps
from dragoman.session.calls import error_result
from dragoman.session.describing import Described, actions_of, completion, provenance
from dragoman.session.heading import Heading
from dragoman.session.labelling import Beside, Ledger
from dragoman.session.toolbox import Toolbox

if TYPE_CHECKING:
    from dragoman.session.gate import Gate
    from dragoman.session.telling import Teller

_CARRIED = ("delegation", "custom")
"""Slots that plugins write, and that later steps see as they left them; labels are carried too, and http is as far as
the request that it is written for."""


class Policing:
    """``host`` are the extensions that the program gave; ``teller`` tells the bus, if there is one."""

    def __init__(
        self,
        pipeline: Pipeline,
        host: Extensions | None,
        session_id: str,
        toolbox: Toolbox,
        beside: Beside,
        teller: "Teller | None",
    ) -> None:
        self.pipeline = pipeline
        self._session_id = session_id
        self._state = host or Extensions()
        self._described = Described(session_id, self._state.agent, toolbox)
        self._ledger = Ledger(beside)
        self._heading = Heading(self._state.http)
        self._teller = teller
        self._calls: dict[str, CalledTool] = {}
        self._askers: dict[str, str | None] = {}
        """The provider that each call came from."""
        self._sources: list[tuple[str | None, DataPolicy]] = []
        """Policies of the data in the history, with the provider that called for it."""
        self._admitted: dict[int, Message] = {}
        """Messages that came in and stay as they are; by identity, and kept, so that no other takes their place."""
        self._seen: dict[str, dict[int, Message]] = {}
        """What each model has been sent, or has said."""
        self._sent_as: dict[int, tuple[Message, Message]] = {}
        """What is sent in place of messages that the history does not hold as such, as those with files read in."""
        self._of_pieces: tuple[tuple[Any, ...], Extensions] = ((None, None, None), self._state)
        """What is shown with the pieces of a stream, and what it was made of: once for all of them."""
        self._just: tuple[str | None, frozenset[int]] = (None, frozenset())
        """What was judged as the input of the next request to that model."""

    @property
    def labels(self) -> frozenset[str]:
        """Of the whole conversation so far."""
        return labels_of(self._state)

    def gate(self, adapter: Adapter, denied: Callable[[Message | None], Any]) -> "Gate":
        """For one streamed reply; ``denied`` is given it where it is denied, None where it was not complete."""
        from dragoman.session.gate import Gate

        return Gate(self, adapter, self._session_id, denied)

    def restore(self, history: Sequence[Message]) -> None:
        """Takes up the labels that a store kept beside these messages, but for those that were taken away since."""
        self._state = self._ledger.replayed(self._state, [message.id for message in history])

    def declassify(
        self,
        labels: Iterable[str],
        *,
        actor: str,
        reason: str,
        audit: Callable[[Declassification], Any] | None,
        keep: Callable[[str, Mapping[str, Any]], None],
        history: Sequence[Message],
        at: datetime,
    ) -> Declassification | None:
        """Takes labels away, and gives the record, which ``audit`` has been given and ``keep`` has written beside the
        newest message; None where none of them was there. Where one of the two raises, the labels stay.
        """
        ids = [message.id for message in history]
        records: list[Declassification] = []

        def recorded(record: Declassification) -> None:
            heard = None if audit is None else audit(record)
            if inspect.isawaitable(heard):
                if inspect.iscoroutine(heard):
                    heard.close()
                raise ConfigurationError("audit is a plain function: the labels go when it returns")
            beside = self._ledger.with_record(record, ids)
            if beside is not None:
                keep(ids[-1], beside)
            self._ledger.take(record, ids, beside)
            records.append(record)

        self._state = declassify(
            self._state,
            labels,
            capabilities=self.pipeline.grants,
            actor=actor,
            reason=reason,
            audit=recorded,
            subject=self._session_id,
            at=at,
        )
        if not records:
            return None
        if self._teller is not None:
            self._teller.declassified(records[0])
        return records[0]

    def admitted(
        self, history: list[Message], said: tuple[Message, ...], adapter: Adapter | None
    ) -> Steps[tuple[Message, ...]]:
        """Lets in what is said, and what of the history never came through here: it is replaced there. ``adapter`` is
        of the model that will read it, None where that is not known yet.

        Where something in the history is changed, thinking that was signed behind it is left out.
        """
        self._state = self._heading.begin(self._state)
        self._admitted = {id(known): known for known in history if id(known) in self._admitted}
        taken_in: list[Message] = []
        void = False
        for place, message in enumerate(history):
            if id(message) in self._admitted:
                continue
            taken = yield from self._admit(message, adapter, old=True)
            history[place] = kept = unsigned(taken) if void else taken
            void = void or kept is not message
            taken_in.append(kept)
            self._note(kept)
        if said and self.pipeline.plugins:
            self._described.next_turn(said[-1].text)
        for message in said:
            taken = yield from self._admit(message, adapter)
            taken_in.append(unsigned(taken) if void else taken)
            self._note(taken_in[-1])
        self._just = (None if adapter is None else str(adapter.model_id), frozenset(map(id, taken_in)))
        return tuple(taken_in[len(taken_in) - len(said) :])

    def input(self, adapter: Adapter, history: Sequence[Message], filled: Sequence[Message]) -> Steps[list[Message]]:
        """The history as it may be sent to that model; ``filled`` is the same with its files read in."""
        self._check_forwarding(adapter.provider)
        model = str(adapter.model_id)
        (of, just), self._just = self._just, (None, frozenset())
        if not self.pipeline.asks(Hook.LLM_INPUT):
            return list(filled)
        judged = just if of == model else frozenset()
        seen, new = self._seen.get(model, {}), _first_new(history)
        sent = []
        for place, (stored, full) in enumerate(zip(history, filled, strict=True)):
            own = stored is full and id(stored) in self._admitted
            known, shown = self._sent_as.get(id(full), (None, full))
            if not (id(full) in judged or (id(full) in seen and place < new)):
                again = own or known is not None
                slots = self._input_slots(shown, adapter)
                shown = yield from self._asked(Hook.LLM_INPUT, shown, again=again, old=True, **slots)
                if not own:
                    self._sent_as[id(full)] = (full, shown)
            sent.append(shown)
        self._seen[model] = {id(full): full for full in filled}
        return sent

    def headed(self, adapter: Adapter, options: AdapterOptions) -> AdapterOptions:
        """The options with the headers that plugins wrote for this request. Raises RequestError."""
        headed, names = self._heading.headed(self._state, adapter, options)
        if names and self._teller is not None:
            self._teller.headed(adapter.provider, names)
        return headed

    def calls(self, asked: Sequence[ToolUseBlock]) -> Steps[tuple[list[ToolUseBlock], dict[str, ToolResultBlock]]]:
        """The calls that may run, with the arguments that they run with; and answers to those that were denied, where
        the pipeline is set to answer them. All are judged before any runs."""
        allowed: list[ToolUseBlock] = []
        refused: dict[str, ToolResultBlock] = {}
        for call in asked:
            try:
                allowed.append((yield from self._call(call)))
            except PolicyDeniedError as error:
                if self.pipeline.denied_calls == "raise":
                    raise
                refused[call.id] = error_result(call.id, f"This call was denied by policy ({error.code:.80}).")
        return allowed, refused

    def answers(self, adapter: Adapter, answers: Sequence[Message]) -> Steps[tuple[Message, ...]]:
        """Results of tools as the history takes them in, labelled as the policies of their data say."""
        taken_in = []
        self._state = self._heading.begin(self._state)
        for message in answers:
            self._stamp(message)
            slots = self._input_slots(message, adapter)
            after = yield from self._asked(Hook.TOOL_POST_INVOKE, message, **slots)
            taken = yield from self._admit(after, adapter)
            if len(taken.tool_results) != 1:
                self._refuse(Hook.TOOL_POST_INVOKE, Violation("a tool's result was left out", code="left_out"))
            self._note(taken)
            taken_in.append(taken)
        self._just = (str(adapter.model_id), frozenset(map(id, taken_in)))
        return tuple(taken_in)

    def reply(
        self, adapter: Adapter, reply: Message, denied: Callable[[Message], Any] = lambda _: None
    ) -> Steps[Message]:
        """A model's reply as the history takes it in; ``denied`` is given one that it does not: it was paid for."""
        asks = self.pipeline.asks(Hook.LLM_OUTPUT)
        slots: dict[str, Any] = {"completion": completion(reply), "provenance": provenance(reply)} if asks else {}
        try:
            taken = yield from self._asked(Hook.LLM_OUTPUT, reply, llm=self._described.model(adapter), **slots)
        except PolicyDeniedError:
            denied(reply)
            raise
        self._note(taken)
        self._seen.setdefault(str(adapter.model_id), {})[id(taken)] = taken
        return taken

    def remains(self, adapter: Adapter, partial: Message | None) -> Steps[Message | None]:
        """As much of a reply as had arrived when it ended early; None where that is denied."""
        if partial is None:
            return None
        try:
            return (yield from self.reply(adapter, partial))
        except PolicyDeniedError:
            return None

    def piece(self, adapter: Adapter, piece: Message) -> Steps[Message]:
        """A part of a reply that still streams."""
        slots = {"agent": self._described.agent, "llm": self._described.model(adapter)}
        made_of = (self._state, *slots.values())
        if not all(map(is_, self._of_pieces[0], made_of)):
            self._of_pieces = (made_of, self._state.model_copy(update=slots))
        return (yield from self._passed(Hook.LLM_OUTPUT, piece, self._of_pieces[1], partial=True))

    def fetching(self, hook: str, message: Message, **slots: Any) -> Steps[Message]:
        """Something on its way past a hook; data that comes in is labelled as its policy says."""
        where = Hook.named(hook)
        if where in AFTER:
            self._stamp(message)
        return (yield from self._asked(where, message, **slots))

    def refuse_fetch(self, hook: str, code: str, reason: str) -> None:
        """Denies what a plugin made of something that was to be fetched. Raises PolicyDeniedError."""
        self._refuse(Hook.named(hook), Violation(reason, code=code, plugin="the session"))

    def _admit(self, message: Message, adapter: Adapter | None, *, old: bool = False) -> Steps[Message]:
        """``old``: it was there before, and what it was labelled with may have been declassified."""
        self._learn(message)
        if message.role is Role.TOOL:
            self._stamp(message, old=old)
        return (yield from self._asked(Hook.LLM_INPUT, message, old=old, **self._input_slots(message, adapter)))

    def _call(self, call: ToolUseBlock) -> Steps[ToolUseBlock]:
        against = refusal(actions_of(self._described.tool(call.name)), (policy for _, policy in self._sources))
        if against is not None:
            self._refuse(Hook.TOOL_PRE_INVOKE, against)
        message = Message(id=call.id, session_id=self._session_id, role=Role.ASSISTANT, content=(call,))
        taken = yield from self._asked(Hook.TOOL_PRE_INVOKE, message, mcp=self._described.mcp(call.name))
        if len(taken.tool_uses) != 1:
            self._refuse(Hook.TOOL_PRE_INVOKE, Violation("the call was left out", code="left_out"))
        return taken.tool_uses[0]

    def _asked(
        self, hook: Hook, message: Message, *, again: bool = False, old: bool = False, **slots: Any
    ) -> Steps[Message]:
        if not self.pipeline.asks(hook) and hook not in ASKING:
            return message
        shown = self._state.model_copy(update={"agent": self._described.agent, **slots})
        return (yield from self._passed(hook, message, shown, old=old, again=again))

    def _passed(
        self, hook: Hook, message: Message, shown: Extensions, *, old: bool = False, **how: bool
    ) -> Steps[Message]:
        try:
            outcome = yield from self.pipeline.steps(hook, message, shown, calls=self._calls, **how)
        except PolicyDeniedError as error:
            self._tell(error)
            raise
        if outcome.extensions is not shown and outcome.extensions is not None and not how.get("partial"):
            carried = (*_CARRIED, "http") if hook is Hook.LLM_INPUT else _CARRIED
            self._carry(shown, outcome.extensions, carried, message.id if old else None)
        return outcome.message

    def _carry(self, before: Extensions, after: Extensions, names: Iterable[str], old: str | None) -> None:
        changes = {name: getattr(after, name) for name in names if getattr(after, name) != getattr(before, name)}
        state = self._state.model_copy(update=changes) if changes else self._state
        self._state = with_labels(state, self._ledger.gained(labels_of(before), labels_of(after), old))

    def _refuse(self, hook: Hook, violation: Violation) -> None:
        error = PolicyDeniedError(hook, violation.plugin or "the pipeline", violation.code, violation.reason)
        self._tell(error)
        raise error

    def _tell(self, error: PolicyDeniedError) -> None:
        if self._teller is not None:
            self._teller.denied(error)

    def _input_slots(self, message: Message, adapter: Adapter | None) -> dict[str, Any]:
        self._state = self._heading.turned_to(self._state, adapter)
        if not self.pipeline.asks(Hook.LLM_INPUT) and not self.pipeline.asks(Hook.TOOL_POST_INVOKE):
            return {}
        called = [self._calls[each.tool_use_id] for each in message.tool_results if each.tool_use_id in self._calls]
        tool = self._described.mcp(called[0].name) if len(called) == 1 else None
        slots: dict[str, Any] = {"provenance": provenance(message, tool), "mcp": tool}
        if adapter is not None:
            slots["llm"] = self._described.model(adapter)
        return slots

    def _learn(self, message: Message) -> None:
        for use in message.tool_uses:
            self._calls[use.id] = self._described.called(use.name)
            self._askers[use.id] = message.metadata.provider

    def _stamp(self, message: Message, *, old: bool = False) -> None:
        """The labels and the limits that go with the data of this message, from here on."""
        labels = labels_of(stamped(message, self._state, self._calls))
        gained = self._ledger.gained(labels_of(self._state), labels, message.id if old else None)
        self._state = with_labels(self._state, gained)
        asker = next((self._askers.get(result.tool_use_id) for result in message.tool_results), None)
        new = [(asker, policy) for policy in data_policies(message, self._state, self._calls)]
        self._sources += [source for source in new if source not in self._sources]

    def _check_forwarding(self, provider: str) -> None:
        """Data that may not be forwarded stays with the provider that called for it."""
        for asker, policy in self._sources:
            against = refusal(("forward",), (policy,)) if asker not in (None, provider) else None
            if against is not None:
                self._refuse(Hook.LLM_INPUT, against)

    def _note(self, message: Message) -> None:
        """A message as it stays."""
        self._learn(message)
        self._admitted[id(message)] = message
        self._ledger.note(message.id, self.labels)


def _first_new(history: Sequence[Message]) -> int:
    """Where what follows the last reply begins; the last message at least."""
    place = len(history)
    while place and history[place - 1].role is not Role.ASSISTANT:
        place -= 1
    return min(place, len(history) - 1)
