"""Judges the prompts and the answers of many requests: by the client's policy, and their labels by its router."""

import copy
from collections.abc import Iterable, Sequence
from dataclasses import replace

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import ProviderError
from dragoman.batch.handle import BatchEntry
from dragoman.batch.requests import PreparedRequest
from dragoman.batch.results import BatchError, BatchResult
from dragoman.canonical.extensions.message_labels import with_message_labels
from dragoman.canonical.message import Message
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.extensions import Extensions, SecurityExtension
from dragoman.policy.plugin import Hook
from dragoman.policy.runner import Steps
from dragoman.routing import Router, RouteRequest
from dragoman.runtime import ClientConfig
from dragoman.session.middleware.policy_hooks import PolicyHooks
from dragoman.tools.toolbox import Toolbox


def label_extensions(labels: Iterable[str]) -> Extensions:
    """Return extensions that have these security labels."""
    return Extensions(security=SecurityExtension(labels=frozenset(labels)))


def check_labels(
    router: Router, adapter: Adapter, messages: Sequence[Message], options: AdapterOptions, labels: frozenset[str]
) -> None:
    """Raise PolicyDeniedError if the router's rules keep content with these labels from the model."""
    request = RouteRequest.of(messages[:-1], messages[-1:], (), options, labels=labels)
    if not router.labels_allow(str(adapter.model_id), request):
        reason = f"content with the labels {', '.join(sorted(labels))} may not go to {adapter.model_id}"
        raise PolicyDeniedError(Hook.LLM_INPUT, "the router", "label_forbidden", f"{reason:.300}")


class BatchJudge:
    """``client`` has a policy, a router, or both. Every method returns steps that run its plugins."""

    def __init__(self, client: ClientConfig, adapter: Adapter) -> None:
        self._client = client
        self._adapter = adapter

    def prompt(self, request: PreparedRequest) -> Steps[PreparedRequest]:
        """Return the request as it may be sent, with the labels of its content. Raises PolicyDeniedError."""
        if self._client.policy is not None:
            hooks = self._hooks(request.session_id, request.labels)
            history = list(request.messages[:-1])
            admitted = yield from hooks.admit(history, request.messages[-1:], self._adapter)
            messages = yield from hooks.check_input(self._adapter, full := [*history, *admitted], full)
            request = replace(
                request,
                messages=tuple(messages),
                options=hooks.add_headers(self._adapter, request.options),
                labels=request.labels | hooks.labels,
            )
        if self._client.router is not None:
            check_labels(self._client.router, self._adapter, request.messages, request.options, request.labels)
        return request

    def answer(self, entry: BatchEntry, result: BatchResult) -> Steps[BatchResult]:
        """Return an answer or an error as the caller may receive it. What is denied is a BatchError."""
        if self._client.policy is None:
            return result
        hooks = self._hooks(entry.session_id, frozenset(entry.labels))
        usage = result.usage
        try:
            if isinstance(result, Message):
                reply = yield from hooks.check_reply(self._adapter, result)
                return with_message_labels(reply, hooks.labels)
            if not isinstance(result.error, ProviderError):
                return result
            return replace(result, error=(yield from self._error(hooks, result.error)))
        except PolicyDeniedError as denial:
            return BatchError(entry.custom_id, denial, usage)

    def _error(self, hooks: PolicyHooks, error: ProviderError) -> Steps[ProviderError]:
        """Judge the provider's words: they may quote the conversation."""
        judged = copy.copy(error)
        judged.partial = None
        judged.message = yield from self._text(hooks, error.message)
        judged.args = (judged.message,)
        judged.code = None if error.code is None else (yield from self._text(hooks, error.code))
        return judged

    def _text(self, hooks: PolicyHooks, text: str) -> Steps[str]:
        checked = yield from hooks.check_fetch(Hook.LLM_OUTPUT, Message.assistant(text), None)
        return checked.text

    def _hooks(self, session_id: str, labels: frozenset[str]) -> PolicyHooks:
        assert self._client.policy is not None
        return PolicyHooks(self._client.policy, label_extensions(labels), session_id, Toolbox(), {}, None)
