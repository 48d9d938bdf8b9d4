"""A request on its way from one deployment to the next, until one answers.

A deployment answers in one of three ways: `Through`, `Direct`, or `dragoman_gateway.turn.in_session.InSession`. Each
has the same members. `ask` returns the whole reply as the client gets it, and `stream` yields it: no bytes before the
reply has begun; empty ones say that it has, and that its content is held back. Both raise what the request raises. The
attributes:

- ``complete``: whether a stream has its end, which is said before its last bytes are yielded.
- ``relays``: whether the provider has the client's wire, and gets the client's bytes.
- ``passes``: whether the bytes of the reply are the provider's.
- ``keeps_request``: whether the request is needed until the end of the reply.
- ``hides_usage``: whether the counts of a stream were asked for here, and not by the client.
- ``usages``, ``losses`` and ``headers``: what all attempts used, what the request lost, and the headers of the
  provider's reply.
"""

import re
from collections.abc import AsyncGenerator
from contextlib import aclosing
from functools import partial
from typing import Any

from dragoman import (
    Adapter,
    AsyncClient,
    Message,
    RequestContext,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolResultBlock,
    ToolUseBlock,
    Usage,
    WireRequest,
    WireResponse,
)
from dragoman.answers import ProviderRequest, holds_state
from dragoman.errors import ProviderError
from dragoman_gateway.bodies.repeated import HISTORIES
from dragoman_gateway.errors import ServerStateError
from dragoman_gateway.models import Deployment
from dragoman_gateway.turn.in_session import InSession
from dragoman_gateway.turn.request import ClientRequest, ReadRequest, RequestResources, refuse_losses
from dragoman_gateway.turn.usage_chunk import lacks_usage


class Through(ProviderRequest):
    """A provider of the client's wire gets the client's bytes, and the client gets the provider's. The messages are
    read only if something has to measure them."""

    relays = passes = True
    keeps_request = False
    hides_usage = False

    async def ask(self) -> WireResponse:
        await self.send()
        assert self.response is not None
        return self.response


class Direct(ProviderRequest):
    """A provider of another wire is asked without a session: about texts, calls and results, which need nothing that
    only a session does."""

    relays = passes = hides_usage = False
    keeps_request = True
    reply: Message
    """The whole reply, after `ask`."""

    def __init__(self, read: ReadRequest, target: Adapter, client: AsyncClient) -> None:
        super().__init__(
            client.config,
            target,
            partial(_encode, target, read),  # not a method: what refers to itself waits for the collector
            governors=read.resources.governors,
            measure=partial(read.measure, target),
            session_id=read.context.session_id,
            tool_ids=read.context.tool_ids,
            is_long=read.is_long,
        )
        self._request = read

    async def ask(self) -> WireResponse:
        self.reply = await self.send()
        return self._request.write(self.reply)

    async def stream(self) -> AsyncGenerator[bytes, None]:
        """Yield the reply in the client's wire."""
        async with aclosing(self.batches()) as batches:
            async for events in batches:
                yield b"".join(map(self._request.encoder.feed, events))
                del events


def _encode(target: Adapter, read: ReadRequest, context: RequestContext) -> WireRequest:
    """Encode an attempt. Raises InvalidRequestError."""
    if (kept := read.request.kept) is not None:
        context.encode_cache = kept.encodings
    messages, options = read.for_other_wire(target, read.messages, read.tools, read.read_options)
    request = target.to_wire(messages, read.tools, options.with_context(context))
    if read.resources.settings.strict:
        refuse_losses(request)
    return request


_OF_TEXT = frozenset({TextBlock, ThinkingBlock, ToolUseBlock, ToolResultBlock})
_ROLES = ("user", "assistant", "system", "developer", "tool", "function")
_THINKING = re.compile(rb'"type"\s*:\s*"thinking"')


class Turn:
    """``way`` is how the present deployment answers. If it fails before the client has received anything, the next one
    is asked: `go_on`.
    """

    way: Through | Direct | InSession

    def __init__(self, request: ClientRequest, resources: RequestResources, *, path: str | None = None) -> None:
        """``path`` is the address at a provider of the client's wire, if it is not the usual one.

        Raises ClientError and RequestError for a request that cannot be read.
        """
        self.request = request
        self.read = ReadRequest(request=request, resources=resources)
        self._resources = resources
        self._path = path
        self._left = list(resources.in_order())
        self._earlier: list[Usage] = []
        self._wait: float | None = None
        """Seconds until the first of the deployments that have failed is free again, if one has said so."""
        self._take(is_first=True)

    async def check(self) -> None:
        """Raise what refuses the request before it is sent. Nothing is stored for it then."""
        await self._resources.check(partial(self.read.measure, self._target))

    async def ask(self) -> WireResponse:
        """Return the whole reply of the first deployment that has one. Raises the error of the last one."""
        while True:
            self.forget_history()
            try:
                written = await self.way.ask()
            except Exception as error:
                if not self.go_on(error):
                    raise
            else:
                self.succeed()
                return written

    def succeed(self) -> None:
        """Note that the deployment has answered."""
        if self._deployment.failures:
            self._resources.deployments.report(self._deployment, None)

    def go_on(self, error: Exception) -> bool:
        """Turn to the next deployment after a failure. Return False if there is none, or if none would help: the error
        then says when the first of those that failed is free again."""
        self._resources.deployments.report(self._deployment, error)
        if isinstance(error, ProviderError) and error.retryable:
            waits = [wait for wait in (self._wait, error.retry_after) if wait is not None]
            self._wait = error.retry_after = min(waits, default=None)
        if not self._left or not self._resources.quota.allows(error):
            return False
        self._earlier += self.way.usages
        self._take()
        return True

    def forget_history(self) -> None:
        """Release the conversation of a request that needs no session, if it is asked nowhere else: it may be long, and
        the reply may take minutes."""
        if not (self._left or self.way.keeps_request or self._resources.governors):
            self.request.forget_history()

    def note_end(self) -> None:
        """Note in the record what was used, also by a reply that the client left."""
        record = self.request.record
        record.model = record.asked
        record.usages = [*self._earlier, *self.way.usages]
        if isinstance(self.way, InSession):
            self.way.forget()

    async def note_labels(self, message: Message) -> None:
        """Note the labels of the conversation, which only a session has, with a message that its client may send back.
        Raises UnavailableError."""
        if isinstance(self.way, InSession):
            await self.way.note_labels(message)

    @property
    def reply(self) -> Message:
        """The whole reply as a message, after `ask`."""
        if not isinstance(self.way, Through):
            return self.way.reply
        assert self.way.response is not None
        return self._target.from_wire_response(self.way.response, self.read.context)

    @property
    def may_pass(self) -> bool:
        """Whether the present deployment is a provider of the client's wire, which may get the client's bytes."""
        return self.read.may_pass and self._target.provider == self.request.wire.provider

    def _take(self, *, is_first: bool = False) -> None:
        """Turn to the next deployment, and choose how it answers."""
        resources, read, wire = self._resources, self.read, self.request.wire
        self._deployment = self._left.pop(0)
        self._target = target = self._deployment.adapter
        if resources.is_bounded and target.provider == wire.provider:
            wire.headers.check_betas(self.request.headers)
        client = resources.client_for(self._deployment.client)
        model = str(target.model_id)
        # An address of its own needs a session, which also refuses models that the caller may not ask.
        needs_session = (
            self._path is not None
            or not ProviderRequest.is_possible(client.config, target)
            or not (resources.may_ask is None or resources.may_ask(model))
        )
        governors, body = resources.governors, None
        if not (needs_session or self._must_read()):
            hides_usage = bool(governors) and wire.asks_for_usage and lacks_usage(self.request.fields)
            body = self.request.body_for(target, asks_for_usage=hides_usage, exact=resources.settings.exact_bytes)
        if body is not None:
            self.way = Through.of_bytes(
                client.config,
                target,
                body,
                headers=wire.headers.to_provider(self.request.headers),
                stream=self.request.stream,
                governors=governors,
                measure=partial(read.measure, target),
            )
            self.way.hides_usage = hides_usage
            self.request.record.asked = model
            return
        read.read()
        if is_first and wire.server_state:
            self._check_server_state()
        if not needs_session and read.may_pass and target.provider != wire.provider and _is_plain(read):
            self.way = Direct(read, target, client)
            self.request.record.asked = model
        else:
            # Each deployment has a session of its own, so that each can be stored.
            session_id = read.context.session_id if is_first else None
            self.way = InSession(read, target, client, path=self._path, session_id=session_id)

    def _must_read(self) -> bool:
        """Whether the request needs what a session does with its messages."""
        request, wire, fields = self.request, self.request.wire, self.request.fields
        return (
            type(request) is not ClientRequest  # its address or its form says a part
            or self._target.provider != wire.provider
            # A later deployment of another wire may need state that the reply holds.
            or (self._resources.state_store is not None and not all(map(self._has_client_wire, self._left)))
            or not _has_messages(fields)
            or bool(fields.get("background"))
            or any(fields.get(name) is not None for name in wire.server_state)
            or (wire.signs_thinking and _THINKING.search(request.body) is not None)
            or holds_state(request.body)
        )

    def _has_client_wire(self, deployment: Deployment) -> bool:
        return deployment.model.startswith(f"{self.request.wire.provider}:")

    def _check_server_state(self) -> None:
        """Keep the deployments that can go on from state at the provider, if the request names some. Raises
        ServerStateError."""
        for name, details in self.request.wire.server_state.items():
            if self.request.fields.get(name) is not None:
                if not self.may_pass:
                    raise ServerStateError(name, details)
                self._left = [each for each in self._left if self._has_client_wire(each)]


def _is_plain(read: ReadRequest) -> bool:
    """Whether a request asks for a reply to texts, calls and their results, and no more. It needs nothing that only a
    session does, such as reading files, running tools and going on without an expired container: the calls are the
    client's."""
    return (
        read.options.server_state is None
        and read.options.background is None
        and all(type(tool) is ToolDefinition for tool in read.tools)
        and read.kinds <= _OF_TEXT
        and (
            ToolResultBlock not in read.kinds
            or all(
                type(part) is TextBlock
                for message in read.messages
                for block in message.content
                if type(block) is ToolResultBlock
                for part in block.content
            )
        )
    )


def _has_messages(fields: dict[str, Any]) -> bool:
    """Whether the history looks like one; the provider says what is wrong inside."""
    name = next((name for name in HISTORIES if name in fields), "")
    history = fields.get(name)
    if isinstance(history, list):
        default = None if name == "messages" else "user"  # items of Responses need no role
        return bool(history) and all(isinstance(each, dict) and each.get("role", default) in _ROLES for each in history)
    return isinstance(history, str) and bool(history)
