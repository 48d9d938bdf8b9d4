"""Errors about a container or a file that the request names and the provider no longer has."""

import json
import pickle

import pytest

from dragoman import RequestContext, get_adapter
from dragoman.adapter.wire import WireResponse
from dragoman.errors import ExpiredReferenceError, InvalidRequestError, NotFoundError, ProviderError


def refused(model: str, status: int, message: str) -> ProviderError:
    """Return the error of a reply in the provider's own form."""
    kind = "not_found_error" if status == 404 else "invalid_request_error"
    error = {"type": kind, "code": status, "message": message, "status": "NOT_FOUND"}
    body = json.dumps({"type": "error", "error": error}).encode()
    with pytest.raises(ProviderError) as caught:
        get_adapter(model).from_wire_response(WireResponse(status, body), RequestContext.for_model(model))
    return caught.value


@pytest.mark.parametrize(
    ("model", "status", "message", "reference"),
    [
        ("anthropic:claude-sonnet-4-5", 404, "Container container_1 not found.", "container"),
        ("anthropic:claude-sonnet-4-5", 400, "container: the container has expired", "container"),
        ("anthropic:claude-sonnet-4-5", 404, "File not found: file_011", "file"),
        ("openai:gpt-5.4", 400, "Container is expired.", "container"),
        ("openai:gpt-5.4", 404, "Container with id 'cntr_1' not found.", "container"),
        ("openai-chat:gpt-4.1", 404, "No such File object: file-abc", "file"),
        ("google:gemini-2.5-flash", 403,
         "You do not have permission to access the File abc or it may not exist.", "file"),
    ],
)  # fmt: skip
def test_what_is_gone_is_named(model: str, status: int, message: str, reference: str) -> None:
    """The message says what to do, after the provider's own words."""
    error = refused(model, status, message)
    assert isinstance(error, ExpiredReferenceError)
    assert error.reference == reference
    assert error.message.startswith(message.rstrip("."))
    assert ("Upload the file again" if reference == "file" else "Ask without the id") in error.message
    assert pickle.loads(pickle.dumps(error)).reference == reference


@pytest.mark.parametrize(
    ("status", "message", "kind"),
    [
        (400, "container_id is required when there are pending tool uses", InvalidRequestError),
        (404, "model: claude-9 not found", NotFoundError),
        (400, "messages.0.content.1.source.file: Field required", InvalidRequestError),
    ],
)
def test_other_errors_stay_what_they_are(status: int, message: str, kind: type[ProviderError]) -> None:
    """A missing model, or a field that a request lacks, is not an expired reference."""
    error = refused("anthropic:claude-sonnet-4-5", status, message)
    assert (type(error), error.message) == (kind, message)
