"""The state of a session's policy, and how it runs one hook on one message.

There is no I/O here: every method that runs plugins is a generator of a pipeline's steps, which the session's driver
carries out. A session without a policy does not load this module.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import replace
from operator import attrgetter, is_
from typing import Any

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import RequestError
from dragoman.canonical.blocks import ToolUseBlock, has_only_texts
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.extensions.headers import SENSITIVE_HEADERS, is_sensitive
from dragoman.canonical.extensions.message_labels import carried_labels
from dragoman.canonical.extensions.security import SecurityExtension
from dragoman.canonical.extensions.slots import HttpExtension
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.effects import Work
from dragoman.policy.conversation.context import PolicyContext, PolicyObserver
from dragoman.policy.conversation.labels import ConversationData, LabelLedger, MessageExtensions, has_data_policies
from dragoman.policy.conversation.parts import RequestParts
from dragoman.policy.data_policy import data_policies
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.labels import labels_of, with_labels, without_labels
from dragoman.policy.merging import judge_alternatives
from dragoman.policy.pipeline import Pipeline, start_step
from dragoman.policy.plugin import Hook, Violation
from dragoman.policy.step import LazyExtensions
from dragoman.policy.step_run import StepRun
from dragoman.tools.toolbox import Toolbox
from dragoman.transport.call import validate_headers


class PolicyHeaders:
    """Adds the headers that plugins write into the http slot to the request (docs/reference/cmf.md#headers).

    Each request starts with the slot as the program gave it, ``http``: those headers belong to the request that the
    program itself answers, and are never sent. Headers that plugins add or change during the input hooks go with that
    request and its retries, and with no request to another provider.
    """

    def __init__(self, http: HttpExtension | None) -> None:
        self.given = http
        self._provider: str | None = None
        """The provider that the headers were set for; None if it was not known."""

    def begin_request(self, state: Extensions, adapter: Adapter | None) -> Extensions:
        """Start a new request to this provider with the slot as the program gave it."""
        self._provider = None if adapter is None else adapter.provider
        return self._replace_http(state, self.given)

    def set_provider(self, state: Extensions, adapter: Adapter | None) -> Extensions:
        """Set the provider of the request. Headers for another provider are dropped, and so are credentials that were
        written before the provider was known."""
        known, self._provider = self._provider, None if adapter is None else adapter.provider
        if known == self._provider:
            return state
        if known is not None:
            return self._replace_http(state, self.given)
        written = self._plugin_headers(state)
        if any(map(_is_credential, written)):
            kept = {name: value for name, value in written.items() if not _is_credential(name)}
            return self._replace_http(state, HttpExtension(headers={**_headers(self.given), **kept}))
        return state

    def add_headers(
        self, state: Extensions, adapter: Adapter, options: AdapterOptions
    ) -> tuple[AdapterOptions, list[str]]:
        """Return the options with the headers for this provider, which override the program's, and their names.

        Raises RequestError if a header is invalid, reserved for the transport, or a key of another provider.
        """
        written = self._plugin_headers(state) if self._provider == adapter.provider else {}
        if not written:
            return options, []
        plugin_headers = validate_headers(written)
        key_header = adapter.endpoint.key_header.lower()
        for name in plugin_headers:
            if name != key_header and _is_credential(name):
                raise RequestError(f"a plugin wrote the header {name}, which holds no key of {adapter.provider}")
        own = options.headers.get(adapter.provider, {})
        others = {name: value for name, value in own.items() if name.lower() not in plugin_headers}
        headers = {**options.headers, adapter.provider: {**others, **plugin_headers}}
        return replace(options, headers=headers), sorted(plugin_headers)

    def _plugin_headers(self, state: Extensions) -> dict[str, str]:
        """Return the headers in the slot that the program did not give."""
        if state.http is self.given:
            return {}
        program_headers = {name.lower(): value for name, value in _headers(self.given).items()}
        return {
            name: value for name, value in _headers(state.http).items() if program_headers.get(name.lower()) != value
        }

    def _replace_http(self, state: Extensions, http: HttpExtension | None) -> Extensions:
        return state if state.http is http or state.http == http else state.model_copy(update={"http": http})


def _headers(http: HttpExtension | None) -> Mapping[str, str]:
    return {} if http is None else http.headers


def _is_credential(name: str) -> bool:
    """Whether the header may hold a credential of any provider."""
    lowered = name.lower()
    return lowered in SENSITIVE_HEADERS or (lowered.endswith("key") and is_sensitive(lowered))


_id_of = attrgetter("id")
_ById = dict[str, Message]


class SeenMessages:
    """Which messages the plugins have judged, and for which models: they judge them again for a model that has not
    received them.

    Messages are known by their ids, each in the form that was judged: another one with its id has not been seen.
    """

    def __init__(self) -> None:
        self.judged: _ById = {}
        """Messages as they were judged. A long history has no time for a method of its own."""
        self._by_model: dict[str, _ById] = {}
        """What each model received or wrote."""
        self._replacements: dict[str, list[tuple[Message, Message]]] = {}
        """What is sent in place of messages that are not in the history themselves, such as those with file content:
        one has several forms if models take different media."""
        self._just_checked: tuple[str | None, _ById] = (None, {})

    def begin_turn(self, history: Sequence[Message]) -> Sequence[int]:
        """Return the places of the messages that are not judged. What is not in the history is forgotten."""
        judged, ids = self.judged, [*map(_id_of, history)]
        if not judged:
            return range(len(history))
        if all(map(is_, map(judged.get, ids), history)):
            self.judged = dict(zip(ids, history, strict=True))
            return ()
        self.judged = {each.id: each for each in history if judged.get(each.id) is each}
        return [index for index, each in enumerate(history) if self.judged.get(each.id) is not each]

    def is_judged(self, messages: Iterable[Message], *, in_any_form: bool = False) -> bool:
        """Whether each of the messages was judged: as it is, or ``in_any_form``."""
        judged = self.judged
        if in_any_form:
            return all(each.id in judged for each in messages)
        for each in messages:  # noqa: SIM110 - each turn asks several times, of few messages
            if judged.get(each.id) is not each:
                return False
        return True

    def note_checked(self, model: str | None, messages: Iterable[Message]) -> None:
        """Record messages that were just checked as input of the next request to this model."""
        self._just_checked = (model, {each.id: each for each in messages})

    def note_reply(self, model: str, reply: Message) -> None:
        """Record a message that this model wrote."""
        self._by_model.setdefault(model, {})[reply.id] = reply

    def note_sent(self, model: str, messages: Sequence[Message]) -> None:
        """Record all messages of a request."""
        self._by_model[model] = dict(zip(map(_id_of, messages), messages, strict=True))

    def find_unchecked(self, model: str, messages: Sequence[Message], new: int) -> frozenset[int]:
        """Return the places of the messages to check before a request, which uses up what `note_checked` recorded.
        Those from the place ``new`` on are checked for each request.
        """
        (checked_model, checked), self._just_checked = self._just_checked, (None, {})
        known, places = self._by_model.get(model, {}), range(new, len(messages))
        unchecked = [*places]
        earlier = messages[:new]
        if not all(map(is_, map(known.get, map(_id_of, earlier)), earlier)):
            unchecked += [index for index, each in enumerate(earlier) if known.get(each.id) is not each]
        if checked_model == model:
            unchecked = [index for index in unchecked if checked.get(messages[index].id) is not messages[index]]
        return frozenset(unchecked)

    def replacement(self, message: Message) -> Message | None:
        """Return what is sent in place of the message, if it was replaced."""
        forms = self._replacements.get(message.id, ())
        return next((sent for given, sent in forms if given is message), None)

    def replace(self, message: Message, replacement: Message) -> None:
        forms = [form for form in self._replacements.get(message.id, ()) if form[0] is not message]
        self._replacements[message.id] = [*forms, (message, replacement)]

    def visible(self, messages: Sequence[Message]) -> Sequence[Message]:
        """Return the messages with their replacements; the same object if none has one."""
        if not self._replacements:
            return messages
        return [self.replacement(message) or message for message in messages]


_CARRIED = ("delegation", "custom")
"""Slots whose changes by plugins are visible to later steps. Labels are carried too; changes to http last for one
request."""

_NO_EXTENSIONS = Extensions()
_HEADERS = Violation("headers are written at cmf.llm_input, and nowhere else", code="headers")


def overlay(base: Extensions, extensions: Extensions) -> Extensions:
    """Return the base with the slots that the others set, and of their ``security`` with the fields that they set."""
    changes = {name: value for name in extensions.model_fields_set if (value := getattr(extensions, name)) is not None}
    if extensions.security is not None:
        own = {name: getattr(extensions.security, name) for name in extensions.security.model_fields_set}
        changes["security"] = (base.security or SecurityExtension()).model_copy(update=own)
    return base.model_copy(update=changes)


class PolicyState:
    """``extensions`` are those that the program gave; ``telemetry`` reports to the event bus, if there is one."""

    def __init__(
        self,
        pipeline: Pipeline,
        extensions: Extensions | None,
        session_id: str,
        toolbox: Toolbox,
        message_extensions: MessageExtensions,
        telemetry: PolicyObserver | None,
    ) -> None:
        self.pipeline = pipeline
        self.judges_input = pipeline.has_plugins(Hook.LLM_INPUT)
        """Whether a plugin sees what is sent to models."""
        self.judges_calls = pipeline.has_plugins(Hook.TOOL_PRE_INVOKE)
        self.judges_results = pipeline.has_plugins(Hook.TOOL_POST_INVOKE)
        self.judges_replies = pipeline.has_plugins(Hook.LLM_OUTPUT) or self.judges_results
        """Whether a plugin sees replies, or what tools of a provider found for them."""
        self.judges_requests = pipeline.has_plugins(Hook.REQUEST)
        self.session_id = session_id
        self.extensions = self._given = extensions or _NO_EXTENSIONS
        self._of_turn: Extensions | None = None
        """What the program said of the present turn."""
        self._replaced: dict[str, Any] = {}
        """Slots that plugins write, as they were before this turn: those that the program set for it."""
        self.takes_turn_extensions = False
        self.has_data_policies = has_data_policies(self.extensions)
        self.context = PolicyContext(session_id, self.extensions.agent, toolbox)
        self._message_extensions = message_extensions
        self._ledger = LabelLedger(message_extensions)
        self._headers = PolicyHeaders(self.extensions.http)
        self._telemetry = telemetry
        self.data = ConversationData()
        self.seen = SeenMessages()
        self._parts: tuple[RequestParts, tuple[tuple[ToolDefinition, ...], AdapterOptions]] | None = None
        """What was judged last besides messages, and how it is sent."""
        self.offers: dict[tuple[ToolDefinition, str, frozenset[str]], PolicyDeniedError | None] = {}
        """What the plugins said in this turn of tools that a provider runs: a person is asked once."""
        self._piece_extensions: tuple[tuple[Any, ...], Extensions] = ((None, None, None), self.extensions)
        """The extensions for stream pieces, with their sources, cached until a source changes."""

    def begin_turn(self, extensions: Extensions | None) -> None:
        """Set what the program says of this turn. Labels stay, and so does what plugins wrote."""
        if extensions is self._of_turn:
            return
        written = {name: getattr(self.extensions, name) for name in _CARRIED} | self._replaced
        own = {} if extensions is None else {name: getattr(extensions, name) for name in _CARRIED}
        given = self._given if extensions is None else overlay(self._given, extensions)
        labels = self.labels | labels_of(extensions)
        self._replaced = {name: written[name] for name, value in own.items() if value is not None}
        carried = {name: value for name, value in written.items() if own.get(name) is None}
        state = given.model_copy(update=carried)
        self.extensions = with_labels(without_labels(state, labels_of(state) - labels), labels)
        self._of_turn, self.has_data_policies = extensions, has_data_policies(given)
        self.context.set_agent(given.agent)
        self._headers.given = given.http

    def with_extensions(self, turn: Generator[Any, Any, None], extensions: Extensions) -> Generator[Any, Any, None]:
        """Return the turn: what the program says of it holds until it ends. Raises ConfigurationError."""
        has_data_policies(extensions)
        self.takes_turn_extensions = True

        def until_end() -> Generator[Any, Any, None]:
            try:
                yield from turn
            finally:
                if self._of_turn is extensions:  # no other turn has begun
                    self.begin_turn(None)

        return until_end()

    @property
    def labels(self) -> frozenset[str]:
        """The labels of the whole conversation so far."""
        return labels_of(self.extensions)

    def permits(self, action: str) -> bool:
        """Whether the data policies of what the conversation holds allow the action."""
        return self.data.check_actions((action,)) is None

    @property
    def async_names(self) -> tuple[str, ...]:
        """The plugins that need an event loop."""
        return self.pipeline.async_names

    def _judge_input(
        self, message: Message, adapter: Adapter | None, *, already_seen: bool = False, old: bool = False
    ) -> Work[Message]:
        visible = self.extensions_for(self.context.input_slots, message, adapter)
        return self.judge(Hook.LLM_INPUT, message, visible, already_seen=already_seen, old=old)

    def judge(
        self,
        hook: Hook,
        message: Message,
        visible: Extensions | LazyExtensions,
        *,
        already_seen: bool = False,
        partial: bool = False,
        old: bool = False,
    ) -> Work[Message]:
        """Run the plugins of a hook, and keep what they change. ``old``: the message was in the history before, and its
        labels may have been declassified."""
        calls = self.context.calls
        step_run = start_step(self.pipeline, hook, message, visible, calls, partial, already_seen, self._report_denial)
        if not step_run.is_done:
            yield from step_run.steps()
        judged = message if step_run.source is step_run.first else self._finish(step_run, old)
        if hook is Hook.LLM_OUTPUT and message.alternatives and not partial and self.pipeline.has_plugins(hook):
            judged = yield from judge_alternatives(
                judged, message.alternatives, lambda answer: self.judge(hook, answer, visible)
            )
        return judged

    def _finish(self, step_run: StepRun, old: bool) -> Message:
        judged = step_run.finish()
        changed = step_run.changed_extensions
        if changed is not None and not step_run.source.partial:
            before = step_run.first.extensions or Extensions()
            writes_headers = step_run.source.hook == Hook.LLM_INPUT
            slot_names = (*_CARRIED, "http") if writes_headers else _CARRIED
            if changed.http != before.http and not writes_headers:
                self.refuse(Hook(step_run.source.hook), _HEADERS)
            carried = {name: getattr(changed, name) for name in slot_names}
            changes = {name: value for name, value in carried.items() if value != getattr(before, name)}
            state = self.extensions.model_copy(update=changes) if changes else self.extensions
            old_id = step_run.first.message.id if old else None
            new_labels = self._ledger.new_labels(labels_of(before), labels_of(changed), old_id)
            self.extensions = with_labels(state, new_labels)
        return judged

    def extensions_for(self, slots: Callable[..., Mapping[str, Any]], *facts: Any) -> LazyExtensions:
        """Return the extensions of a step; ``slots`` and its arguments give those that differ from step to step."""
        return LazyExtensions(self.extensions, self.context.agent, slots, facts)

    def refuse(self, hook: Hook, violation: Violation) -> None:
        error = PolicyDeniedError(hook, violation.plugin or "the pipeline", violation.code, violation.reason)
        self._report_denial(error)
        raise error

    def _report_denial(self, error: PolicyDeniedError) -> None:
        if self._telemetry is not None:
            self._telemetry.on_denial(error)

    def _note(self, message: Message, *, old: bool = False) -> None:
        """Record what a message that comes in calls, and its labels."""
        self._note_calls(message)
        if self.has_data_policies or message.metadata.labels or not has_only_texts(message.content):
            self._add_labels(message, old=old)

    def _note_calls(self, message: Message) -> None:
        for use in message.content:
            if type(use) is ToolUseBlock:
                self.context.note_call(use)
                self.data.note_call(use.id, message.metadata.provider)

    def _add_labels(self, message: Message, *, old: bool = False) -> None:
        """Add the labels and the data policies of this message to those of the conversation."""
        policies = data_policies(message, self.extensions, self.context.calls)
        labels = {label for policy in policies for label in policy.apply_labels}
        if not self._ledger.has_labels(message.id):
            labels |= carried_labels(message)
        if labels:
            before = self.labels
            new_labels = self._ledger.new_labels(before, before | labels, message.id if old else None)
            self.extensions = with_labels(self.extensions, new_labels)
        if policies:
            self.data.add(message, policies)

    def _remember(self, message: Message, noted: Message | None = None, *, first: bool = False) -> None:
        """Record a message in its final form; ``noted`` is the form that `_note` recorded."""
        if message is not noted:
            self._note_calls(message)
        self.seen.judged[message.id] = message
        if self._message_extensions or self.extensions.security is not None:
            self._ledger.record_labels(message.id, self.labels, first=first)
        if self.has_data_policies:
            self._ledger.record_retention(message, data_policies(message, self.extensions, self.context.calls))
