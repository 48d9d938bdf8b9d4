"""Errors in the shape of a client's wire."""

import logging

from dragoman import PolicyDeniedError, RequestContext, WireResponse
from dragoman.errors import ContentFilterError, DragomanError, ServerError
from dragoman_gateway.errors import ClientError
from dragoman_gateway.turn.replies import Headers, Response
from dragoman_gateway.wires import Wire

logger = logging.getLogger("dragoman.gateway")

_HIDDEN = "the request could not be answered because of an internal error"


def to_known(error: Exception) -> DragomanError:
    """Return an error that a client may see. What nobody foresaw is logged, and is an internal error to the client."""
    if isinstance(error, PolicyDeniedError):
        return ContentFilterError(str(error))
    if isinstance(error, DragomanError):
        return error
    logger.error("a request failed", exc_info=error)
    return ServerError(_HIDDEN)


def encoded_headers(written: WireResponse, given: Headers) -> Headers:
    """Return the headers of a written reply, without those that are given already."""
    names = {name for name, _ in given}
    found = [(name.encode(), value.encode()) for name, value in written.headers.items()]
    return [each for each in found if each[0] not in names]


def error_response(wire: Wire, error: Exception, model: str, headers: Headers) -> Response:
    """Return an error as the wire's provider would send it."""
    known = to_known(error)
    context = RequestContext(model=f"{wire.provider}:{model or 'unknown'}")
    written = wire.adapter(model).to_wire_response(known, context)
    status, added = written.status, encoded_headers(written, headers)
    if isinstance(known, ClientError):
        status = known.status
        if known.retry_after is not None:
            added.append((b"retry-after", str(known.retry_after).encode()))
    return Response(status, [*headers, *added], written.body)
