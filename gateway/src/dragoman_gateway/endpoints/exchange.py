"""One HTTP request that is being answered, as all endpoints pass it on."""

from dataclasses import dataclass, field

from starlette.types import Receive, Scope, Send

from dragoman_gateway.access import Caller
from dragoman_gateway.running.generation import Generation
from dragoman_gateway.running.metrics import RequestRecord
from dragoman_gateway.running.services import RequestServices
from dragoman_gateway.turn.body import read_body, read_headers
from dragoman_gateway.turn.replies import Response


@dataclass(slots=True, kw_only=True)
class Exchange:
    """The request as ASGI has it, and what it is answered with."""

    scope: Scope
    receive: Receive
    send: Send
    record: RequestRecord
    generation: Generation
    services: RequestServices
    headers: dict[str, str] = field(init=False)

    def __post_init__(self) -> None:
        self.headers = read_headers(self.scope)

    @property
    def request_id(self) -> str:
        return self.record.request_id

    async def authenticate(self) -> Caller:
        """Return the caller. Raises AuthenticationError, and UnavailableError if the key cannot be checked."""
        self.generation.follow_trace(self.headers)
        caller = await self.generation.access.authenticate(self.headers)
        self.record.key_id = caller.key_id
        return caller

    async def read_body(self) -> bytes:
        """Return the body, decompressed. Raises what `turn.body.read_body` raises."""
        return await read_body(self.receive, self.headers, self.generation.settings)

    async def reply(self, response: Response) -> None:
        """Send the whole reply, and note its status."""
        self.record.status = response.status
        await response.send(self.send)
