"""Bedrock's paths, which name the model and the operation, and what of its recordings is in scope."""

import re
from urllib.parse import unquote

from tests.exchanges import RecordedExchange

PATH = re.compile(r"/model/([^/]+)/(converse|converse-stream|invoke|invoke-with-response-stream)")

_EVENT_STREAM_START = b"\0"
"""The first byte of a length: no message of a recording is as long as 16 MiB."""


def skip_reason(exchange: RecordedExchange) -> str | None:
    """Why an exchange on one of these paths is not judged, or None where it is."""
    found = PATH.fullmatch(exchange.url_path)
    body = exchange.request or {}
    if found and found[2].startswith("invoke") and not body.keys() & {"anthropic_version", "schemaVersion"}:
        return "InvokeModel with a body of its own that neither Claude nor Nova takes"
    if isinstance(exchange.response, bytes) and not exchange.response.startswith(_EVENT_STREAM_START):
        return "the recorder wrote base64 of the event stream, and the recording base64 of that"
    return None


def model(exchange: RecordedExchange) -> str:
    """The model id or ARN in the path: recordings name it in part."""
    found = PATH.fullmatch(exchange.url_path)
    return unquote(found[1]) if found else exchange.model or "unknown"
