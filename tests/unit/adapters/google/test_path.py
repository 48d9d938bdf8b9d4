"""Paths of requests: the model's name is part of the path, and changes nothing else."""

import pytest

from dragoman import AdapterOptions, Message
from dragoman.adapter.errors import RequestError
from dragoman_adapters.google.adapter import GoogleAdapter, VertexAdapter
from tests.tables import each_row


@pytest.mark.parametrize(
    ("adapter", "whole", "stream"),
    [
        (
            GoogleAdapter("gemini-3-flash-preview"),
            "/v1beta/models/gemini-3-flash-preview:generateContent",
            "/v1beta/models/gemini-3-flash-preview:streamGenerateContent?alt=sse",
        ),
        (
            GoogleAdapter("models/gemini-2.0-flash"),
            "/v1beta/models/gemini-2.0-flash:generateContent",
            "/v1beta/models/gemini-2.0-flash:streamGenerateContent?alt=sse",
        ),
        (
            GoogleAdapter("tunedModels/mine-1"),
            "/v1beta/tunedModels/mine-1:generateContent",
            "/v1beta/tunedModels/mine-1:streamGenerateContent?alt=sse",
        ),
        (
            VertexAdapter("gemini-2.5-pro"),
            "/publishers/google/models/gemini-2.5-pro:generateContent",
            "/publishers/google/models/gemini-2.5-pro:streamGenerateContent?alt=sse",
        ),
        (
            VertexAdapter("endpoints/123"),
            "/endpoints/123:generateContent",
            "/endpoints/123:streamGenerateContent?alt=sse",
        ),
    ],
)
def test_a_model_has_its_path(adapter: GoogleAdapter, whole: str, stream: str) -> None:
    """The path names the model, and says whether a stream comes back."""
    assert adapter.to_wire([Message.user("Hi")], [], AdapterOptions()).path == whole
    assert adapter.to_wire([Message.user("Hi")], [], AdapterOptions(stream=True)).path == stream


@each_row(
    "name",
    [
        "../secrets", "a/b", "models/../x", "models/a/b", "x?key=1", "x#y", "x%2fy", "x:countTokens", "a..b", ".", "..",
        "", " x", "x\n", "x y", "ü", "models/", "tunedModels/models/x",
    ],
)  # fmt: skip
@each_row("kind", [GoogleAdapter, VertexAdapter])
def test_a_name_with_a_path_is_refused(kind: type[GoogleAdapter], name: str) -> None:
    """No request is built for a name with slashes, only dots, queries, fragments or escapes."""
    with pytest.raises(RequestError):
        kind(name).to_wire([Message.user("Hi")], [], AdapterOptions())


def test_both_platforms_have_their_own_address_and_key() -> None:
    """A key of one is not sent to the other."""
    assert GoogleAdapter.endpoint.base_url == "https://generativelanguage.googleapis.com"
    assert GoogleAdapter.endpoint.key_variables == ("GEMINI_API_KEY", "GOOGLE_API_KEY")
    assert GoogleAdapter.endpoint.key_header == "x-goog-api-key"
    assert VertexAdapter.endpoint.base_url == "https://aiplatform.googleapis.com/v1"
    assert not set(VertexAdapter.endpoint.key_variables) & set(GoogleAdapter.endpoint.key_variables)
