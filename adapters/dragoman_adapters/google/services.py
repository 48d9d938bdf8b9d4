"""Token counts, files and models (https://ai.google.dev/api/tokens, /files, /models)."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar
from urllib.parse import quote, urlsplit

from dragoman.adapter import wirejson
from dragoman.adapter.errors import MalformedReplyError, RequestError
from dragoman.adapter.operations.operation import Operation, delete_request, post_request
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

_FILES = "/v1beta/files"
_UPLOAD = "/upload/v1beta/files"
_MODELS = "/v1beta/models"
_FILE_NAME = re.compile(r"files/[A-Za-z0-9-]{1,64}", re.ASCII)


class InteractionsServiceApi(ServiceApi):
    """The files and models of the Gemini API; an interaction has no count beforehand.

    A file is ready when the ``state`` in its ``raw`` is ACTIVE.
    """

    offers: ClassVar[frozenset[str]] = frozenset({"files", "models"})

    def upload(self, file: FileContent) -> Operation[ProviderFile]:
        """Upload in two requests: the first announces the file, and its reply names the address of the second."""
        announced = yield post_request(
            _UPLOAD,
            wirejson.dumps({"file": {"display_name": file.name}}),
            {
                "content-type": "application/json",
                "x-goog-upload-protocol": "resumable",
                "x-goog-upload-command": "start",
                "x-goog-upload-header-content-length": str(len(file.data)),
                "x-goog-upload-header-content-type": file.media_type,
            },
        )
        address = urlsplit(announced.headers.get("x-goog-upload-url", ""))
        if not address.path.startswith("/") or not address.query:
            raise MalformedReplyError("the answer names no address for the upload", provider=self.provider)
        # The host is left out: the file and the key go to the configured address only.
        headers = {"x-goog-upload-offset": "0", "x-goog-upload-command": "upload, finalize"}
        reply = yield post_request(f"{address.path}?{address.query}", file.data, headers)
        native = self.parse(reply).get("file")
        if not isinstance(native, dict):
            raise MalformedReplyError("the answer has no file", provider=self.provider)
        return self._file(native)

    def files(self) -> Operation[tuple[ProviderFile, ...]]:
        return self.read_pages(f"{_FILES}?pageSize=100", {}, "files", self._file, _next_query)

    def delete_file(self, file_id: str) -> Operation[None]:
        if not _FILE_NAME.fullmatch(file_id):
            raise RequestError(f"{file_id!r:.80} is not a name of a file of {self.provider}, such as files/abc-123")
        yield delete_request(f"/v1beta/{file_id}")

    def models(self) -> Operation[tuple[ProviderModel, ...]]:
        return self.read_pages(f"{_MODELS}?pageSize=1000", {}, "models", self._model, _next_query)

    def _file(self, native: Mapping[str, Any]) -> ProviderFile:
        return ProviderFile(
            provider=self.provider,
            id=read_text(native, "name"),
            name=read_text(native, "displayName"),
            media_type=read_text(native, "mimeType") or None,
            size=read_integer(native, "sizeBytes"),
            created_at=read_time(native.get("createTime")),
            expires_at=read_time(native.get("expirationTime")),
            reference=read_text(native, "uri"),
            raw=native,
        )

    def _model(self, native: Mapping[str, Any]) -> ProviderModel:
        return ProviderModel(
            id=f"{self.provider}:{read_text(native, 'name').removeprefix('models/')}",
            display_name=read_text(native, "displayName"),
            max_input_tokens=read_integer(native, "inputTokenLimit"),
            max_output_tokens=read_integer(native, "outputTokenLimit"),
            raw=native,
        )


class GoogleServiceApi(InteractionsServiceApi):
    """The Gemini API."""

    offers: ClassVar[frozenset[str]] = frozenset({"count_tokens", "files", "models"})

    def count_tokens(self, request: WireRequest) -> Operation[int]:
        path, model = _count_path(request)
        native = {"model": model.removeprefix("/v1beta/"), **wirejson.loads_object(request.body)}
        reply = yield post_request(path, wirejson.dumps({"generateContentRequest": native}), request.headers)
        return self.require_count(self.parse(reply), "totalTokens")


class VertexServiceApi(ServiceApi):
    """Vertex AI counts a body as it is; its files are those of Cloud Storage."""

    offers: ClassVar[frozenset[str]] = frozenset({"count_tokens"})

    def count_tokens(self, request: WireRequest) -> Operation[int]:
        path, _ = _count_path(request)
        reply = yield post_request(path, request.body, request.headers)
        return self.require_count(self.parse(reply), "totalTokens")


def _count_path(request: WireRequest) -> tuple[str, str]:
    """Return the path of the count, and that of the model."""
    model = request.path.partition("?")[0].rpartition(":")[0]
    return f"{model}:countTokens", model


def _next_query(page: Mapping[str, Any]) -> str:
    token = read_text(page, "nextPageToken")
    return f"&pageToken={quote(token, safe='')}" if token else ""
