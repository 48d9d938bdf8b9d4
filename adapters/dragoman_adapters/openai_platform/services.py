"""Token counts, files and models of OpenAI, and the models of endpoints with its wire
(https://developers.openai.com/api/reference/resources/files, /models, /responses/subresources/input_tokens)."""

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

_COUNT_PATH = "/responses/input_tokens"
_FILES = "/files"
_MODELS = "/models"
_PAGE_SIZE = 10_000
_PURPOSE = "user_data"
"""Files that are used in conversations."""
_COUNTED_FIELDS = frozenset({
    "conversation", "input", "instructions", "model", "parallel_tool_calls", "previous_response_id", "reasoning",
    "text", "tool_choice", "tools", "truncation",
})  # fmt: skip
"""The fields of a request that the endpoint takes."""


class CompatibleServiceApi(ServiceApi):
    """What nearly every endpoint with OpenAI's wire has: a list of its models."""

    offers: ClassVar[frozenset[str]] = frozenset({"models"})

    def models(self) -> Operation[tuple[ProviderModel, ...]]:
        return self.read_pages(_MODELS, {}, "data", self._model, lambda page: "")

    def _model(self, native: Mapping[str, Any]) -> ProviderModel:
        return ProviderModel(
            id=f"{self.provider}:{read_text(native, 'id')}",
            display_name=read_text(native, "name"),
            created_at=read_time(native.get("created")),
            raw=native,
        )


class OpenAIFilesApi(CompatibleServiceApi):
    """Chat Completions: OpenAI counts the tokens of Responses alone."""

    offers: ClassVar[frozenset[str]] = frozenset({"files", "models"})

    def upload(self, file: FileContent) -> Operation[ProviderFile]:
        content_type, form = encode_form({"purpose": _PURPOSE}, *file)
        reply = yield post_request(_FILES, form, {"content-type": content_type})
        return self._file(self.parse(reply), file.media_type)

    def files(self) -> Operation[tuple[ProviderFile, ...]]:
        return self.read_pages(f"{_FILES}?limit={_PAGE_SIZE}", {}, "data", self._file, _next_query)

    def delete_file(self, file_id: str) -> Operation[None]:
        yield delete_request(f"{_FILES}/{quote(file_id, safe='')}")

    def _file(self, native: Mapping[str, Any], media_type: str | None = None) -> ProviderFile:
        return ProviderFile(
            provider=self.provider,
            id=read_text(native, "id"),
            name=read_text(native, "filename"),
            media_type=media_type,  # the provider does not say it
            size=read_integer(native, "bytes"),
            created_at=read_time(native.get("created_at")),
            expires_at=read_time(native.get("expires_at")),
            raw=native,
        )


class OpenAIServiceApi(OpenAIFilesApi):
    """The Responses API."""

    offers: ClassVar[frozenset[str]] = frozenset({"count_tokens", "files", "models"})

    def count_tokens(self, request: WireRequest) -> Operation[int]:
        body = {name: value for name, value in wirejson.loads_object(request.body).items() if name in _COUNTED_FIELDS}
        reply = yield post_request(_COUNT_PATH, wirejson.dumps(body), request.headers)
        return self.require_count(self.parse(reply), "input_tokens")


_OWN = {"openai": OpenAIServiceApi, "openai-chat": OpenAIFilesApi}


def find_services(provider: str, model: str) -> ServiceApi:
    """Return OpenAI's services; those of other endpoints with this wire list their models."""
    return _OWN.get(provider, CompatibleServiceApi)(provider, model)


def _next_query(page: Mapping[str, Any]) -> str:
    items = page.get("data") or [{}]
    last = read_text(page, "last_id") or read_text(items[-1], "id")
    return f"&after={quote(last, safe='')}" if page.get("has_more") is True and last else ""
