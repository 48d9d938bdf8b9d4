"""Asks one question in canonical form, without a session (docs/answers.md#relays)."""

from collections.abc import Awaitable, Callable

from dragoman.adapter.context import RequestContext
from dragoman.adapter.contract import Adapter
from dragoman.adapter.losses import Loss, log_losses
from dragoman.adapter.requests.history.tool_ids import ToolIdMap
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.canonical.message import Message
from dragoman.canonical.usage import Usage
from dragoman.runtime.attempts import Admitted, Attempts
from dragoman.runtime.config import ClientConfig


class DirectRequest(Attempts):
    """One request for a whole reply. It is retried as a session retries.

    What else a session does is left out: it runs no tools, reads no files, follows no reply in the background, and does
    not ask again without a reference that has expired.
    """

    def __init__(
        self,
        config: ClientConfig,
        adapter: Adapter,
        encode: Callable[[RequestContext], WireRequest],
        *,
        session_id: str = "",
        tool_ids: ToolIdMap | None = None,
        admit: Callable[[], Awaitable[Admitted]] | None = None,
    ) -> None:
        """``config`` is that of the client that sends. ``encode`` returns the request of an attempt with its context,
        as `Adapter.to_wire` writes it. ``session_id`` and ``tool_ids`` are those of the reply. ``admit`` is awaited
        before each attempt, and raises if it may not be sent.

        Raises ConfigurationError if the client is closed, or if it is not possible (`is_possible`).
        """
        super().__init__(config, adapter, admit)
        self._encode = encode
        self._session_id = session_id
        self._tool_ids = ToolIdMap() if tool_ids is None else tool_ids
        self.losses: tuple[Loss, ...] = ()
        """What the request lost."""

    async def send(self) -> Message:
        """Return the reply. Raises ProviderError, RequestError, MissingKeyError, ConfigurationError, and what
        ``encode`` and ``admit`` raise.
        """
        return await self._send(self._encode_attempt, self._read)

    def _encode_attempt(self, context: RequestContext) -> WireRequest:
        context.session_id, context.tool_ids = self._session_id, self._tool_ids
        request = self._encode(context)
        new = tuple(loss for loss in request.losses if loss not in self.losses)
        log_losses(new, session_id=self._session_id, adapter=self._adapter.provider)
        self.losses += new
        return request

    def _read(self, response: WireResponse, context: RequestContext) -> tuple[Usage | None, Message]:
        message = self._adapter.from_wire_response(response, context)
        return message.usage, message
