"""Errors in the shape of a client's wire."""

import logging

from dragoman import RequestContext
from dragoman.errors import DragomanError, ServerError
from dragoman_gateway.errors import ClientError, UnavailableError
from dragoman_gateway.turn.replies import Headers, Response
from dragoman_gateway.wires import Wire

logger = logging.getLogger("dragoman.gateway")

_HIDDEN = "the request could not be answered because of an internal error"


def to_known(error: Exception) -> DragomanError:
    """Return an error that a client may see. What nobody foresaw is logged, and is an internal error to the client."""
    if isinstance(error, DragomanError):
        return error
    logger.error("a request failed", exc_info=error)
    return ServerError(_HIDDEN)


def error_response(wire: Wire, error: Exception, model: str, headers: Headers) -> Response:
    """Return an error as the wire's provider would send it."""
    known = to_known(error)
    written = wire.adapter(model).to_wire_response(known, RequestContext(model=f"{wire.provider}:{model or 'unknown'}"))
    status = known.status if isinstance(known, ClientError) else written.status
    added = [(name.encode(), value.encode()) for name, value in written.headers.items()]
    if isinstance(known, UnavailableError):
        added.append((b"retry-after", str(known.retry_after).encode()))
    return Response(status, [*headers, *added], written.body)
