"""Token counts, files and models (https://platform.claude.com/docs/en/api/messages-count-tokens, /files, /models)."""

from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import quote

from dragoman.adapter import wirejson
from dragoman.adapter.operations.operation import Operation, delete_request, encode_form, post_request
from dragoman.adapter.operations.service_api import (
    FileContent,
    ProviderFile,
    ProviderModel,
    ServiceApi,
    read_integer,
    read_text,
    read_time,
)
from dragoman.adapter.wire import WireRequest
from dragoman_adapters.anthropic import encode

_FILES = "/v1/files"
_MODELS = "/v1/models"
_PAGE_SIZE = 1_000
_HEADERS = {"anthropic-version": encode.LATEST_VERSION}
_COUNTED_FIELDS = frozenset({
    "messages", "model", "system", "tools", "tool_choice", "thinking", "cache_control", "output_config",
    "context_management", "mcp_servers", "speed",
})  # fmt: skip
"""The fields of a request that the endpoint takes."""


class AnthropicServiceApi(ServiceApi):
    offers: ClassVar[frozenset[str]] = frozenset({"count_tokens", "files", "models"})
    count_path: ClassVar[str] = "/v1/messages/count_tokens"

    def count_tokens(self, request: WireRequest) -> Operation[int]:
        body = {name: value for name, value in wirejson.loads_object(request.body).items() if name in _COUNTED_FIELDS}
        # On Vertex AI, the path has the model in place of the body.
        reply = yield post_request(self.count_path, wirejson.dumps({"model": self.model, **body}), request.headers)
        return self.require_count(self.parse(reply), "input_tokens")

    def upload(self, file: FileContent) -> Operation[ProviderFile]:
        content_type, form = encode_form({}, *file)
        reply = yield post_request(_FILES, form, {**_HEADERS, "content-type": content_type})
        return self._file(self.parse(reply))

    def files(self) -> Operation[tuple[ProviderFile, ...]]:
        return self.read_pages(f"{_FILES}?limit={_PAGE_SIZE}", _HEADERS, "data", self._file, _next_query)

    def delete_file(self, file_id: str) -> Operation[None]:
        yield delete_request(f"{_FILES}/{quote(file_id, safe='')}", _HEADERS)

    def models(self) -> Operation[tuple[ProviderModel, ...]]:
        return self.read_pages(f"{_MODELS}?limit={_PAGE_SIZE}", _HEADERS, "data", self._model, _next_query)

    def _file(self, native: Mapping[str, Any]) -> ProviderFile:
        return ProviderFile(
            provider=self.provider,
            id=read_text(native, "id"),
            name=read_text(native, "filename"),
            media_type=read_text(native, "mime_type") or None,
            size=read_integer(native, "size_bytes"),
            created_at=read_time(native.get("created_at")),
            expires_at=read_time(native.get("expires_at")),
            raw=native,
        )

    def _model(self, native: Mapping[str, Any]) -> ProviderModel:
        return ProviderModel(
            id=f"{self.provider}:{read_text(native, 'id')}",
            display_name=read_text(native, "display_name"),
            created_at=read_time(native.get("created_at")),
            max_input_tokens=read_integer(native, "max_input_tokens"),
            max_output_tokens=read_integer(native, "max_tokens"),
            raw=native,
        )


class CloudServiceApi(AnthropicServiceApi):
    """Clouds of other vendors offer only token counts among these services."""

    offers: ClassVar[frozenset[str]] = frozenset({"count_tokens"})


class VertexServiceApi(CloudServiceApi):
    count_path: ClassVar[str] = "/publishers/anthropic/models/count-tokens:rawPredict"


def _next_query(page: Mapping[str, Any]) -> str:
    last = read_text(page, "last_id")
    return f"&after_id={quote(last, safe='')}" if page.get("has_more") is True and last else ""
