"""Judges what no session sends: by the client's policy, and its labels by the client's router."""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, TypeVar

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import ConfigurationError, ProviderError
from dragoman.attempt.reports import CallReports, EventIds
from dragoman.canonical.extensions.message_labels import with_message_labels
from dragoman.canonical.message import Message
from dragoman.canonical.tools import ToolDefinition
from dragoman.configuration import ClientConfig
from dragoman.effects import Work
from dragoman.session.history import first_new

if TYPE_CHECKING:
    from dragoman.policy.conversation.hooks import PolicyHooks
    from dragoman.policy.errors import PolicyDeniedError


@dataclass(frozen=True, slots=True, kw_only=True)
class Prompt:
    """What a request is about to send."""

    session_id: str
    messages: tuple[Message, ...]
    tools: Sequence[ToolDefinition] = ()
    options: AdapterOptions
    labels: frozenset[str] = frozenset()


PromptT = TypeVar("PromptT", bound=Prompt)


class Judge:
    """Every method returns work that runs the plugins of a client. A client without a policy changes nothing."""

    def __init__(
        self, client: ClientConfig, adapter: Adapter, reports: CallReports | None = None, turn_id: str | None = None
    ) -> None:
        """``reports`` gets what the policy does, in the turn of that id."""
        self._client = client
        self._adapter = adapter
        self._reports = reports
        self._turn_id = turn_id

    def prompt(self, prompt: PromptT) -> Work[PromptT]:
        """Return the prompt as it may be sent, with the labels of its content. Raises PolicyDeniedError, and
        ConfigurationError if nothing in the client reads its labels."""
        policy, router = self._client.policy, self._client.router
        hooks: PolicyHooks | None = None
        if policy is None and router is None and prompt.labels:
            raise ConfigurationError("labels are for a policy or a router: use a client that has one")
        if policy is not None:
            hooks = self._hooks(prompt.session_id, prompt.labels)
            history = list(prompt.messages[:-1])
            admitted = yield from hooks.admit(history, prompt.messages[-1:], self._adapter)
            messages = yield from hooks.check_input(self._adapter, full := [*history, *admitted], full, first_new(full))
            tools, options = yield from hooks.check_parts(self._adapter, tuple(prompt.tools), prompt.options)
            prompt = replace(
                prompt,
                messages=tuple(messages),
                tools=tools,
                options=hooks.add_headers(self._adapter, options),
                labels=prompt.labels | hooks.labels,
            )
        if hooks is None and router is None:
            return prompt
        from dragoman.attempt.decision import decide  # what is not configured is not imported
        from dragoman.policy.step import OutgoingRequest

        request = OutgoingRequest(
            adapter=self._adapter,
            messages=prompt.messages,
            tools=tuple(prompt.tools),
            options=prompt.options,
            labels=prompt.labels,
        )
        observer = self._observer(prompt.session_id)
        decision = hooks
        report = None if observer is None else observer.on_denial
        allowed = yield from decide(request, decision, router, report)
        return replace(prompt, tools=allowed.tools, options=allowed.options, labels=allowed.labels)

    def reply(self, session_id: str, labels: Iterable[str], reply: Message) -> Work[Message]:
        """Return a reply as the caller may receive it, with its labels. Raises PolicyDeniedError."""
        if self._client.policy is None:
            return reply
        hooks = self._hooks(session_id, labels)
        judged = yield from hooks.check_reply(self._adapter, reply)
        return with_message_labels(judged, hooks.labels)

    def error(self, session_id: str, labels: Iterable[str], error: ProviderError) -> Work[ProviderError]:
        """Judge the provider's words: they may quote the conversation. Raises PolicyDeniedError."""
        if self._client.policy is None:
            return error
        hooks = self._hooks(session_id, labels)
        judged = copy.copy(error)
        judged.partial = None
        judged.message = yield from _judge_text(hooks, error.message)
        judged.args = (judged.message,)
        judged.code = None if error.code is None else (yield from _judge_text(hooks, error.code))
        return judged

    def _hooks(self, session_id: str, labels: Iterable[str]) -> "PolicyHooks":
        from dragoman.policy.conversation.hooks import PolicyHooks
        from dragoman.policy.labels import with_labels
        from dragoman.tools.toolbox import Toolbox

        assert self._client.policy is not None
        extensions = with_labels(self._client.extensions, labels)
        return PolicyHooks(self._client.policy, extensions, session_id, Toolbox(), {}, self._observer(session_id))

    def _observer(self, session_id: str) -> "_Observer | None":
        if self._reports is None:
            return None
        return _Observer(self._reports, EventIds(session_id, self._turn_id))


class _Observer:
    """Reports what the policy of one request does."""

    def __init__(self, reports: CallReports, ids: EventIds) -> None:
        self._reports = reports
        self._ids = ids

    def on_denial(self, error: "PolicyDeniedError") -> None:
        self._reports.deny(self._ids, error)

    def on_headers_written(self, provider: str, names: Sequence[str]) -> None:
        self._reports.write_headers(self._ids, names)

    def on_declassification(self, record: object) -> None:
        """Do nothing: only a session removes labels."""


def _judge_text(hooks: "PolicyHooks", text: str) -> Work[str]:
    from dragoman.policy.plugin import Hook

    checked = yield from hooks.check_fetch(Hook.LLM_OUTPUT, Message.assistant(text), None)
    return checked.text
