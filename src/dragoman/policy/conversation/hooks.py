"""Runs a session's policy: which hook at which point, with which extensions, and what follows from the results.

There is no I/O here: every method that runs plugins is a generator of a pipeline's steps, which the session's driver
carries out. A session without a policy does not load this module.

A message is changed once, when it enters the history; the changed message is stored, so that earlier requests stay a
prefix of later ones. It is checked again for each model that has not received it yet. New messages are checked with
every attempt.
"""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from operator import is_
from typing import Any

from dragoman.adapter.contract import Adapter, AdapterOptions, NamedTool
from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ProviderBlock, TextBlock, ToolResultBlock, ToolUseBlock, replace_fields
from dragoman.canonical.extensions.slots import MCPExtension
from dragoman.canonical.log import get_logger
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ToolDefinition
from dragoman.effects import Perform, Work, perform_all
from dragoman.policy.conversation.context import actions_of, describe, settings_of
from dragoman.policy.conversation.parts import RequestParts
from dragoman.policy.conversation.state import PolicyState
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.labels import Declassification, declassify, with_labels
from dragoman.policy.merging import drop_signed_thinking
from dragoman.policy.pipeline import ENDLESS_LABELS, MAX_LABEL_ROUNDS, start_step
from dragoman.policy.plugin import Hook, Violation
from dragoman.policy.step import OutgoingRequest
from dragoman.policy.step_run import POST_HOOKS, PRE_HOOKS
from dragoman.tools.calls import error_result

logger = get_logger("dragoman.policy")

_REFUSAL_REASONS = {
    "left_out": "what was to be fetched was left out",
    "redirected": "something else was named in the place of what was to be fetched",
}


class PolicyHooks(PolicyState):
    """The checks at the effects of a turn."""

    def adopt(self, prompt: Message) -> Message:
        """Return the prompt: its labels are taken over when it is judged."""
        return prompt

    def restore(self, history: Sequence[Message]) -> None:
        """Restore the labels stored with these messages, except those that were declassified since."""
        self.extensions = self._ledger.replay(self.extensions, history)

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
        """Remove labels and return the record; None if the conversation has none of them.

        ``audit`` receives the record first, then ``keep`` stores it with the newest message. If either raises, the
        labels stay.
        """
        ids = [message.id for message in history]
        records: list[Declassification] = []

        def record_declassification(record: Declassification) -> None:
            audit_result = None if audit is None else audit(record)
            if inspect.isawaitable(audit_result):
                if inspect.iscoroutine(audit_result):
                    audit_result.close()
                raise ConfigurationError("audit is a plain function: the labels go when it returns")
            self._ledger.add_record(record, ids, keep)
            records.append(record)

        self.extensions = declassify(
            self.extensions,
            labels,
            capabilities=self.pipeline.grants,
            actor=actor,
            reason=reason,
            audit=record_declassification,
            subject=self.session_id,
            at=at,
        )
        if not records:
            return None
        if self._telemetry is not None:
            self._telemetry.on_declassification(records[0])
        return records[0]

    def admit(
        self, history: list[Message], prompt: tuple[Message, ...], adapter: Adapter | None
    ) -> Work[tuple[Message, ...]]:
        """Run the input hooks on the prompt and on history messages that no hook has seen, and replace those in place.

        ``adapter`` is that of the model that will read them, None if it is not known yet. If a history message is
        changed, signed thinking after it is dropped.
        """
        self.extensions = self._headers.begin_request(self.extensions, adapter)
        admitted, history_changed = yield from self._admit_history(history, adapter)
        self.offers.clear()
        if prompt and self.pipeline.plugins:
            self.context.next_turn(prompt[-1].text)
        for message in prompt:
            self._note(message)
            kept = (yield from self._judge_input(message, adapter)) if self.judges_input else message
            admitted.append(drop_signed_thinking(kept) if history_changed else kept)
            self._remember(admitted[-1], message, first=not history and message is prompt[0])
        if self.judges_input:
            self.seen.note_checked(None if adapter is None else str(adapter.model_id), admitted)
        return tuple(admitted[len(admitted) - len(prompt) :])

    def _admit_history(self, history: list[Message], adapter: Adapter | None) -> Work[tuple[list[Message], bool]]:
        """Return the history messages that no hook had seen, and whether one of them was changed."""
        judges, has_data_policies = self.judges_input, self.has_data_policies
        admitted: list[Message] = []
        history_changed = False
        for index in self.seen.begin_turn(history):  # each counts when it is judged: a plugin may deny one of them
            message = history[index]
            # A long history has no time for `_note` if the message is a text, and for the generator of `_judge`.
            content = message.content
            if len(content) != 1 or type(content[0]) is not TextBlock or message.metadata.labels or has_data_policies:
                self._note(message, old=True)
            kept = message
            if self.judges_results and message.tool_results:  # of a program or a client, and not of a tool here
                visible = self.extensions_for(self.context.input_slots, message, adapter)
                kept = yield from self.judge(Hook.TOOL_POST_INVOKE, message, visible, old=True)
            if judges:
                visible = self.extensions_for(self.context.input_slots, kept, adapter)
                calls, report = self.context.calls, self._report_denial
                step_run = start_step(self.pipeline, Hook.LLM_INPUT, kept, visible, calls, on_denial=report)
                if not step_run.is_done:
                    yield from step_run.steps()
                if step_run.source is not step_run.first:
                    kept = self._finish(step_run, True)
            if history_changed:
                kept = drop_signed_thinking(kept)
            if kept is not message:
                history[index], history_changed = kept, True
            admitted.append(kept)
            self._remember(kept, message)
        return admitted, history_changed

    def check_input(
        self, adapter: Adapter, history: Sequence[Message], filled: Sequence[Message], new: int
    ) -> Work[Sequence[Message]]:
        """Return the history as it may be sent to that model; ``filled`` is the same history with file content, and
        messages from the index ``new`` on are judged with each request.

        It is for pipelines with a plugin that sees input."""
        model = str(adapter.model_id)
        self.extensions = self._headers.set_provider(self.extensions, adapter)
        unchecked = self.seen.find_unchecked(model, filled, new)
        sent: Sequence[Message] = self.seen.visible(filled)
        if unchecked:
            sent = checked = []
            for index, (stored, full) in enumerate(zip(history, filled, strict=True)):
                known = self.seen.replacement(full)
                visible = full if known is None else known
                if index in unchecked:
                    is_stored = stored is full and self.seen.is_judged((full,))
                    seen = is_stored or known is not None
                    visible = yield from self._judge_input(visible, adapter, already_seen=seen, old=True)
                    if not is_stored:
                        self.seen.replace(full, visible)
                checked.append(visible)
        self.seen.note_sent(model, filled)
        return sent

    def check_parts(
        self, adapter: Adapter, tools: tuple[ToolDefinition, ...], options: AdapterOptions
    ) -> Work[tuple[tuple[ToolDefinition, ...], AdapterOptions]]:
        """Return the tools and options of a request as the plugins leave their texts. Raises PolicyDeniedError."""
        parts, known = RequestParts(tools, options, adapter.provider, self.context.is_foreign), self._parts
        if known is not None and parts.is_same(known[0]):
            return known[1]
        result = tools, options
        if (message := parts.as_message(self.session_id)) is not None:
            judged = yield from self._judge_input(message, adapter)
            try:
                result = parts.replaced(judged) if judged is not message else result
            except ValueError:
                changed = Violation("a plugin changed a tool or an option so that it cannot be sent", "cannot_change")
                self.refuse(Hook.LLM_INPUT, changed)
        self._parts = parts, result
        return result

    def add_headers(self, adapter: Adapter, options: AdapterOptions) -> AdapterOptions:
        """Return the options with the headers that plugins wrote for this request. Raises RequestError."""
        send_options, names = self._headers.add_headers(self.extensions, adapter, options)
        if names and self._telemetry is not None:
            self._telemetry.on_headers_written(adapter.provider, names)
        return send_options

    def check_calls(self, calls: Sequence[ToolUseBlock]) -> Work[tuple[list[ToolUseBlock], dict[str, ToolResultBlock]]]:
        """Return the calls that may run, with their final arguments, and error results for denied calls if the pipeline
        is set to answer them. All calls are checked before any runs."""
        allowed: list[ToolUseBlock] = []
        refused: dict[str, ToolResultBlock] = {}
        for call in calls:
            message = Message(id=call.id, session_id=self.session_id, role=Role.ASSISTANT, content=(call,))
            visible = self.extensions_for(lambda name: {"mcp": self.context.mcp(name)}, call.name)
            try:
                violation = self.data.check_actions(actions_of(self.context.tool(call.name)))
                if violation is not None:
                    self.refuse(Hook.TOOL_PRE_INVOKE, violation)
                accepted = yield from self.judge(Hook.TOOL_PRE_INVOKE, message, visible)
                if len(accepted.tool_uses) != 1:
                    self.refuse(Hook.TOOL_PRE_INVOKE, Violation("the call was left out", code="left_out"))
                allowed.append(accepted.tool_uses[0])
            except PolicyDeniedError as error:
                if self.pipeline.denied_calls == "raise":
                    raise
                refused[call.id] = error_result(call.id, f"This call was denied by policy ({error.code:.80}).")
        return allowed, refused

    def admit_results(self, adapter: Adapter, results: Sequence[Message]) -> Work[tuple[Message, ...]]:
        """Return tool results as the history stores them, labelled by the policies of their data."""
        admitted = []
        self.extensions = self._headers.begin_request(self.extensions, adapter)
        for message in results:
            self._add_labels(message)
            accepted = message
            if self.judges_results:
                visible = self.extensions_for(self.context.input_slots, message, adapter)
                accepted = yield from self.judge(Hook.TOOL_POST_INVOKE, message, visible)
            self._note(accepted)
            if self.judges_input:
                accepted = yield from self._judge_input(accepted, adapter)
            if len(accepted.tool_results) != 1:
                self.refuse(Hook.TOOL_POST_INVOKE, Violation("a tool's result was left out", code="left_out"))
            self._remember(accepted)
            admitted.append(accepted)
        self.seen.note_checked(str(adapter.model_id), admitted)
        return tuple(admitted)

    def has_judged(self, messages: Sequence[Message]) -> bool:
        """Whether each of the messages was checked, if perhaps in an earlier form."""
        return self.seen.is_judged(messages, in_any_form=True)

    def check_reply(self, adapter: Adapter, reply: Message) -> Work[Message]:
        """Return a reply as the history stores it."""
        accepted = reply
        if self.pipeline.has_plugins(Hook.LLM_OUTPUT):
            visible = self.extensions_for(self.context.reply_slots, reply, adapter)
            accepted = yield from self.judge(Hook.LLM_OUTPUT, reply, visible)
        if self.judges_results:
            # What tools of the provider found came from outside, as the results of other tools: plugins judge it too.
            natives = tuple(block for block in accepted.content if type(block) is ProviderBlock)
            if natives:
                found = accepted.model_copy(update={"content": natives})
                visible = self.extensions_for(self.context.reply_slots, accepted, adapter)
                yield from self.judge(Hook.TOOL_POST_INVOKE, found, visible, already_seen=True)
        self.note_reply(adapter, accepted)
        return accepted

    def note_reply(self, adapter: Adapter, reply: Message) -> None:
        """Record a reply in its final form."""
        if self.has_data_policies:
            self._add_labels(reply)
        self._remember(reply)
        if self.judges_input:
            self.seen.note_reply(str(adapter.model_id), reply)

    def note_kept(self, messages: Iterable[Message]) -> None:
        """Record replies and summaries that no plugin judges, before they are stored."""
        for message in messages:
            if not self.seen.is_judged((message,)):
                self._note(message)
                self._remember(message, message)

    def check_partial(self, adapter: Adapter, partial: Message | None) -> Work[Message | None]:
        """Check the part of a reply that arrived before it ended early; None if it is denied."""
        if partial is None:
            return None
        try:
            return (yield from self.check_reply(adapter, partial))
        except PolicyDeniedError:
            return None

    def check_piece(self, adapter: Adapter, piece: Message) -> Work[Message]:
        """Check a part of a reply that is still streaming."""
        slots = {"agent": self.context.agent, "llm": self.context.model(adapter)}
        sources = (self.extensions, *slots.values())
        if not all(map(is_, self._piece_extensions[0], sources)):
            self._piece_extensions = (sources, replace_fields(self.extensions, slots))
        return (yield from self.judge(Hook.LLM_OUTPUT, piece, self._piece_extensions[1], partial=True))

    def fetch_check(
        self, hook: str, message: Message, require: Callable[[Message], str | None] | None, **slots: Any
    ) -> Perform:
        """Return the effect that runs `check_fetch`."""
        return perform_all(self.check_fetch(hook, message, require, **slots))

    def check_fetch(
        self, hook: str, message: Message, require: Callable[[Message], str | None] | None, **slots: Any
    ) -> Work[Message]:
        """Run one hook on a fetched message; data that comes in is labelled as its policy says.

        ``require`` gets the message as the plugins left it and returns the code of a refusal, or None.
        """
        parsed_hook = Hook.parse(hook)
        if parsed_hook in POST_HOOKS:
            self._add_labels(message)
        checked = message
        if self.pipeline.has_plugins(parsed_hook) or parsed_hook in PRE_HOOKS:
            visible = self.extensions_for(lambda: slots)
            checked = yield from self.judge(parsed_hook, message, visible)
        code = None if require is None else require(checked)
        if code is not None:
            self.refuse(parsed_hook, Violation(_REFUSAL_REASONS[code], code=code, plugin="the session"))
        return checked

    # -- The decision where a request leaves (`dragoman.attempt.decision`), after all plugins have seen its messages

    @property
    def can_decide(self) -> bool:
        """Whether it can keep any request, or any tool of one, back."""
        security = self.extensions.security
        return (
            self.takes_turn_extensions
            or self.has_data_policies
            or self.judges_requests
            or self.judges_calls
            or (security is not None and bool(security.objects))
        )

    def decide(self, request: OutgoingRequest) -> Work[OutgoingRequest]:
        """Return the request as it may leave. Raises PolicyDeniedError. Source: docs/reference/policy.md#decision."""
        adapter = request.adapter
        self.extensions = with_labels(self.extensions, request.labels)
        if (violation := self.data.check_forwarding(adapter.provider)) is not None:
            self.refuse(Hook.REQUEST, violation)
        tools: tuple[ToolDefinition, ...] = ()
        for tool in request.tools:
            denial = (yield from self._check_offer(tool, adapter)) if tool.RUN_BY_PROVIDER else None
            if denial is None:
                tools += (tool,)
            else:  # the request leaves without it
                logger.warning("%.80s is not offered to %s: %.80s", tool.name, adapter.model_id, denial.code)
        yield from self._judge_request(adapter)
        if len(tools) < len(request.tools):
            withheld = {tool.name for tool in request.tools} - {tool.name for tool in tools}
            options, choice = request.options, request.options.tool_choice
            is_gone = choice.name in withheld if isinstance(choice, NamedTool) else choice == "required" and not tools
            options = replace(options, tool_choice=None) if is_gone else options
            request = replace(request, tools=tools, options=options)
        return replace(request, labels=self.labels)

    def _judge_request(self, adapter: Adapter) -> Work[None]:
        """Run the plugins of the request until none of them adds a label: each has then seen all labels."""
        if not self.judges_requests:
            return
        request = Message(role=Role.USER, content=(), session_id=self.session_id)
        for _ in range(MAX_LABEL_ROUNDS):
            before = self.labels
            visible = self.extensions_for(lambda: {"llm": self.context.model(adapter)})
            yield from self.judge(Hook.REQUEST, request, visible, already_seen=True)
            if self.labels == before:
                return
        self.refuse(Hook.REQUEST, Violation(ENDLESS_LABELS, code="labels"))

    def _check_offer(self, tool: ToolDefinition, adapter: Adapter) -> Work[PolicyDeniedError | None]:
        """Return why a provider may not run that tool now, or None."""
        metadata, key = describe(tool, adapter.provider), (tool, adapter.provider, self.labels)
        try:
            if (violation := self.data.check_actions(actions_of(metadata))) is not None:
                self.refuse(Hook.TOOL_PRE_INVOKE, violation)
            if key not in self.offers:
                # A call stands for the offer: its arguments are the settings, without secrets.
                call = ToolUseBlock(id=f"offer_{tool.name}", name=tool.name, input=settings_of(tool))
                offer = Message(id=call.id, session_id=self.session_id, role=Role.ASSISTANT, content=(call,))
                visible = self.extensions_for(lambda: {"mcp": MCPExtension(tool=metadata)})
                yield from self.judge(Hook.TOOL_PRE_INVOKE, offer, visible, already_seen=True)
                self.offers[key] = None
        except PolicyDeniedError as denial:
            self.offers[key] = denial
        return self.offers[key]
