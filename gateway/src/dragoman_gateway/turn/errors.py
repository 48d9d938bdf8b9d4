"""Errors in the shape of a client's wire."""

import re
from copy import copy

from dragoman import PolicyDeniedError, RequestContext, WireResponse
from dragoman.errors import (
    AuthenticationError,
    ConfigurationError,
    ContentFilterError,
    DragomanError,
    NetworkError,
    ProviderError,
    RequestTimeoutError,
    ServerError,
    StreamTruncatedError,
    UnexpectedPageError,
)
from dragoman_gateway.errors import ClientError, OwnCodeError, ProviderAccessError
from dragoman_gateway.json import dumps, loads
from dragoman_gateway.log import logger
from dragoman_gateway.turn.replies import REQUEST_ID, Headers, Response
from dragoman_gateway.wires import Wire

_ID = re.compile(r"[\w.:-]{1,200}", re.ASCII)
_HIDDEN = "the request could not be answered because of an internal error"


def to_known(error: Exception, model: str = "") -> DragomanError:
    """Return an error that a client may see. What nobody foresaw is logged, and is an internal error to the client. A
    mistake in the settings is logged too: the operator can mend it, and no client.
    """
    if isinstance(error, PolicyDeniedError):
        return ContentFilterError(str(error))
    refused = error.provider if isinstance(error, AuthenticationError) else None
    if refused or isinstance(error, ConfigurationError):
        logger.error("a request for %s failed: %s", model or "an unknown model", error)
    if refused:
        return ProviderAccessError(refused)
    if isinstance(error, NetworkError) and not isinstance(error, StreamTruncatedError):
        return _without_address(error)
    if isinstance(error, DragomanError):
        return error
    logger.error("a request failed", exc_info=error)
    return ServerError(_HIDDEN)


def _without_address(error: NetworkError) -> NetworkError:
    """Return an error of the way to a provider as clients see it: where the operator's servers are is not theirs."""
    logger.debug("a provider was not reached: %s", error)
    provider, shown = error.provider or "the provider", copy(error)
    if isinstance(error, UnexpectedPageError):
        shown.message = f"{provider} answered with a page and not with a reply"
    elif isinstance(error, RequestTimeoutError):
        shown.message = f"{provider} did not answer in time"
    elif error.sent is False:
        shown.message = f"there is no connection to {provider}"
    else:
        shown.message = f"the connection to {provider} broke"
    return shown


def as_provider_error(known: DragomanError) -> DragomanError:
    """Return the error whose words a client's wire uses."""
    return known.provider_error if isinstance(known, ClientError) else known


def encoded_headers(written: WireResponse, given: Headers) -> Headers:
    """Return the headers of a written reply, without those that are given already."""
    names = {name for name, _ in given}
    found = [(name.encode(), value.encode()) for name, value in written.headers.items()]
    return [each for each in found if each[0] not in names]


def error_response(wire: Wire, error: Exception, model: str, request_id: str) -> Response:
    """Return an error as the wire's provider would send it. An error of that provider keeps its id, as a reply does."""
    known = to_known(error, model)
    adapter = wire.adapter(model)
    written = adapter.to_wire_response(as_provider_error(known), RequestContext(model=str(adapter.model_id)))
    shown = request_id
    if isinstance(known, ProviderError) and known.provider == wire.provider and _ID.fullmatch(known.request_id or ""):
        shown = known.request_id or request_id
    status, fields = written.status, loads(written.body)
    if "request_id" in fields:  # clients show this one or that of the header
        fields["request_id"] = shown
    headers = [(wire.request_id_header, shown.encode()), (REQUEST_ID, request_id.encode())]
    described = fields["error"] if isinstance(fields["error"], dict) else {}  # Ollama's is a text
    if isinstance(known, OwnCodeError) and isinstance(described.get("code"), str):
        described["code"] = known.own_code
    if isinstance(known, ClientError):  # which may say something else than the wire does for its class
        status = known.status
        headers += [(name.encode(), value.encode()) for name, value in known.headers.items()]
        if (kind := wire.error_types.get(status)) is not None:
            described["type"] = kind
        if known.details:
            described["details"] = known.details
    return Response(status, [*headers, *encoded_headers(written, headers)], dumps(fields))
