"""One HTTP request that is being answered, as all endpoints pass it on."""

from dataclasses import dataclass, field

from starlette.types import Receive, Scope, Send

from dragoman_gateway.access import Caller
from dragoman_gateway.access.page_rules import check_body_type
from dragoman_gateway.bodies.read import read_headers
from dragoman_gateway.running.generation import Generation
from dragoman_gateway.running.metrics import RequestRecord
from dragoman_gateway.running.services import RequestServices
from dragoman_gateway.running.shares import Share, name_holder
from dragoman_gateway.turn.replies import Response
from dragoman_gateway.wires import Wire


@dataclass(slots=True, kw_only=True)
class Exchange:
    """The request as ASGI passes it, and the means to answer it."""

    wire: Wire
    scope: Scope
    receive: Receive
    send: Send
    record: RequestRecord
    generation: Generation
    services: RequestServices
    headers: dict[str, str] = field(init=False)
    share: Share = field(init=False)
    """What the request holds of its caller's share, as soon as the caller is known."""

    def __post_init__(self) -> None:
        self.headers = read_headers(self.scope)

    @property
    def request_id(self) -> str:
        return self.record.request_id

    async def authenticate(self, *, any_type: bool = False, resumed: str | None = None) -> Caller:
        """Return the caller, whose share the request takes a part of. ``any_type``: whether the body may be a form.
        ``resumed`` is the key that began what the request goes on with, if its client sends no key.

        Raises AuthenticationError, UnavailableError if the key cannot be checked, what `Shares.enter` raises, and
        DeniedError or ContentTypeError if there are no keys, and the request could be that of a page of another site.
        """
        if self.generation.tracing is not None:
            self.generation.tracing.follow(self.headers)
        caller = await self.generation.access.authenticate(self.headers, resumed)
        if caller.key_id is None:
            check_body_type(self.headers, untyped=self.wire.untyped_bodies, any_type=any_type)
        self.record.key_id = caller.key_id
        self.share = self.services.enter(name_holder(caller, self.scope), self.generation.settings)
        return caller

    async def reply(self, response: Response) -> None:
        """Send the whole reply, and note its status."""
        self.record.status = response.status
        await response.send(self.send)
