"""A request on its way from one deployment to the next, until one answers."""

import re
from collections.abc import Sequence
from typing import Any

from dragoman import (
    Adapter,
    AdapterOptions,
    AsyncClient,
    Message,
    TextBlock,
    ToolDefinition,
    Usage,
    get_adapter,
)
from dragoman.answers import ProviderRequest, holds_state
from dragoman.errors import ProviderError
from dragoman_gateway.bodies.repeated import HISTORIES
from dragoman_gateway.errors import ServerStateError
from dragoman_gateway.models.deployments import Deployment
from dragoman_gateway.turn.in_session import InSession
from dragoman_gateway.turn.request import ClientRequest, ReadRequest
from dragoman_gateway.turn.resources import RequestResources
from dragoman_gateway.turn.way import Direct, Through, Way

_ROLES = ("user", "assistant", "system", "developer", "tool", "function")
_THINKING = re.compile(rb'"type"\s*:\s*"thinking"')


class Turn:
    """``way`` is how the present deployment answers. If it fails before the client has received anything, the next one
    is asked: `go_on`.
    """

    way: Way

    def __init__(self, request: ClientRequest, resources: RequestResources, *, path: str | None = None) -> None:
        """``path`` is the address at a provider of the client's wire, if it is not the usual one.

        Raises ClientError and RequestError for a request that cannot be read.
        """
        self.request = request
        self.read = ReadRequest(request, resources)
        self._resources = resources
        self._path = path
        self._left = list(resources.in_order())
        self._earlier: list[Usage] = []
        self._wait: float | None = None
        """Seconds until the first of the deployments that have failed is free again, if one has said so."""
        self._take(is_first=True)

    async def check(self) -> None:
        """Raise what refuses the request before it is sent. Nothing is stored for it then."""
        await self._resources.check(self.way.measure)

    def succeed(self) -> None:
        """Note that the deployment has answered."""
        self._resources.deployments.report(self._deployment, None)

    def go_on(self, error: Exception) -> bool:
        """Turn to the next deployment after a failure. Return False if there is none, or if none would help: the error
        then says when the first of those that failed is free again."""
        self._resources.report(self._deployment, error)
        if isinstance(error, ProviderError) and error.retryable:
            waits = [wait for wait in (self._wait, error.retry_after) if wait is not None]
            self._wait = error.retry_after = min(waits, default=None)
        if not self._left or not self._resources.may_ask_again(error):
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
        self.way.forget()

    @property
    def may_pass(self) -> bool:
        """Whether the present deployment is a provider of the client's wire, which may get the client's bytes."""
        return self.read.may_pass and self._has_client_wire(self._deployment)

    def _take(self, *, is_first: bool = False) -> None:
        """Turn to the next deployment, and choose how it answers."""
        self._deployment = self._left.pop(0)
        if self._resources.is_bounded and self._has_client_wire(self._deployment):
            self.request.wire.headers.check_betas(self.request.headers)
        client = self._resources.client_for(self._deployment.client)
        if (body := self._bytes_to_pass(client)) is not None:
            self.way = Through(self.read, self._deployment, client, body)
            return
        self.read.read()
        if is_first:
            self._check_server_state()
        if self._may_go_directly(client):
            self.way = Direct(self.read, self._deployment, client)
        else:
            # Each deployment has a session of its own, so that each can be stored.
            session_id = self.read.context.session_id if is_first else None
            self.way = InSession(self.read, self._deployment, client, path=self._path, session_id=session_id)

    def _bytes_to_pass(self, client: AsyncClient) -> bytes | None:
        """Return the client's bytes for the present deployment; None if anything but the provider has to read them."""
        request, model = self.request, self._deployment.model
        # An address of its own needs a session, and so does state that a later deployment of another wire may need.
        if self._path is not None or _must_read(request, model):
            return None
        if self._resources.state_store is not None and not all(map(self._has_client_wire, self._left)):
            return None
        target = get_adapter(model)
        if not self._needs_no_session(client, target):
            return None
        body = request.body_for(target)
        return self.read.rename_fields(body, target) if body is not None and request.wire.renames_fields else body

    def _needs_no_session(self, client: AsyncClient, target: Adapter) -> bool:
        """Whether nothing reads what is asked and answered. A session refuses models that the caller may not ask."""
        may_ask = self._resources.may_ask
        return ProviderRequest.is_possible(client.config, target) and (may_ask is None or may_ask(str(target.model_id)))

    def _may_go_directly(self, client: AsyncClient) -> bool:
        """Whether a provider of another wire can be asked without a session."""
        read, target = self.read, get_adapter(self._deployment.model)
        return (
            target.provider != self.request.wire.provider
            and read.may_pass
            and read.prompt is not None
            and _is_plain(read.messages, read.tools, read.options)
            and self._needs_no_session(client, target)
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


def _must_read(request: ClientRequest, model: str) -> bool:
    """Whether the request needs what a session does with its messages. ``model`` is that of the deployment."""
    wire, fields = request.wire, request.fields
    return (
        type(request) is not ClientRequest  # its address or its form says a part
        or not model.startswith(f"{wire.provider}:")
        or not _has_messages(fields)
        or bool(fields.get("background"))
        or any(fields.get(name) is not None for name in wire.server_state)
        or (wire.signs_thinking and _THINKING.search(request.body) is not None)
        or holds_state(request.body)
    )


def _is_plain(messages: Sequence[Message], tools: Sequence[ToolDefinition], options: AdapterOptions) -> bool:
    """Whether a request asks for a reply to texts and no more: then it needs nothing that only a session does, such as
    running tools, reading files and going on without an expired container."""
    return (
        not tools
        and options.server_state is None
        and options.background is None
        and all(type(block) is TextBlock for message in messages for block in message.content)
    )


def _has_messages(fields: dict[str, Any]) -> bool:
    """Whether the history looks like one; the provider says what is wrong inside."""
    name = next((name for name in HISTORIES if name in fields), "")
    history = fields.get(name)
    if isinstance(history, list):
        default = None if name == "messages" else "user"  # items of Responses need no role
        return bool(history) and all(isinstance(each, dict) and each.get("role", default) in _ROLES for each in history)
    return isinstance(history, str) and bool(history)
