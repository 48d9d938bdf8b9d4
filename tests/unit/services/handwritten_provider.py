"""A server with the services of Anthropic, OpenAI, Google and Ollama, written by hand from their pages."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from email.parser import BytesParser
from typing import Any
from urllib.parse import parse_qs, urlsplit

from dragoman.testing.faults.server import FaultyServer, HttpReply, ReceivedRequest, json_reply

PAGE = 2
"""Objects on each page of a list."""
TOKENS = 17


@dataclass
class Provider:
    """Stores uploads; every list has several pages."""

    url: str = ""
    uploads: list[tuple[str, str, bytes]] = field(default_factory=list)
    """Name, media type and content."""
    deleted: list[str] = field(default_factory=list)
    requests: list[ReceivedRequest] = field(default_factory=list)

    def reply(self, request: ReceivedRequest) -> HttpReply:
        self.requests.append(request)
        path, query = urlsplit(request.path).path, parse_qs(urlsplit(request.path).query)
        if request.method == "DELETE":
            self.deleted.append(path)
            return json_reply({"id": path.rpartition("/")[2], "deleted": True, "type": "file_deleted"})
        if path.endswith(("/count_tokens", "/input_tokens")):
            return json_reply({"object": "response.input_tokens", "input_tokens": TOKENS})
        if path.endswith("/count-tokens"):
            return json_reply({"inputTokens": TOKENS})
        if path.endswith(":countTokens"):
            return json_reply({"totalTokens": TOKENS})
        if path == "/upload/v1beta/files":
            return self._google_upload(request, query)
        if path.endswith("/files") and request.method == "POST":
            return self._form_upload(request)
        if path == "/api/tags":
            return json_reply({"models": [{"name": "qwen3:8b", "modified_at": "2026-11-01T10:00:00.5+02:00"}]})
        return self._list(path, query)

    def _form_upload(self, request: ReceivedRequest) -> HttpReply:
        head = f"content-type: {request.headers['content-type']}\r\n\r\n".encode()
        parts: Any = BytesParser().parsebytes(head + request.body).get_payload()
        (file,) = (part for part in parts if part.get_filename())
        content, found = file.get_payload(decode=True), re.search(rb'filename="([^"]*)"', request.body)
        assert found is not None
        name = found[1].decode()  # the parser of the standard library takes header fields for ASCII
        self.uploads.append((name, file.get_content_type(), content))
        times = {"created_at": 1_763_800_000 if request.path.startswith("/openai") else "2026-11-22T08:00:00Z"}
        names = {"filename": name, "mime_type": file.get_content_type(), "type": "file"}
        return json_reply({"id": "file_1", "size_bytes": len(content), "bytes": len(content), **times, **names})

    def _google_upload(self, request: ReceivedRequest, query: dict[str, list[str]]) -> HttpReply:
        if request.headers["x-goog-upload-command"] == "start":
            name = json.loads(request.body)["file"].get("display_name") or ""
            self.uploads.append((name, request.headers["x-goog-upload-header-content-type"], b""))
            address = f"{self.url}/upload/v1beta/files?upload_id=u1&upload_protocol=resumable"
            return HttpReply(headers={"x-goog-upload-url": address, "x-goog-upload-status": "active"}, body=b"{}")
        assert query["upload_id"] == ["u1"]
        name, media_type, _ = self.uploads.pop()
        self.uploads.append((name, media_type, request.body))
        file = {
            "name": "files/abc-123", "displayName": name, "mimeType": media_type, "sizeBytes": str(len(request.body)),
            "createTime": "2026-11-22T08:00:00.25Z", "expirationTime": "2026-11-24T08:00:00Z",
            "uri": "https://generativelanguage.googleapis.com/v1beta/files/abc-123", "state": "ACTIVE",
        }  # fmt: skip
        reply = json_reply({"file": file})
        return HttpReply(headers={**reply.headers, "x-goog-upload-status": "final"}, body=reply.body)

    def _list(self, path: str, query: dict[str, list[str]]) -> HttpReply:
        """Three pages of two objects each; tokens of pages are the numbers of the objects before them."""
        kind = path.rpartition("/")[2]
        after = next((query[name][0] for name in ("after_id", "after", "pageToken", "page_token") if name in query), "")
        start = int(re.sub(r"\D", "", after) or 0)
        numbers = range(start + 1, start + PAGE + 1)
        more = numbers[-1] < 3 * PAGE
        if path.startswith("/v1beta"):
            objects = [{"name": f"{kind}/{kind}-{each}", "inputTokenLimit": 1000, "sizeBytes": "5"} for each in numbers]
            return json_reply({kind: objects, **({"nextPageToken": f"token {numbers[-1]}"} if more else {})})
        if "page_size" in query:
            models = [{"name": f"{kind}-{each}", "context_length": 1000} for each in numbers]
            return json_reply({kind: models, **({"next_page_token": f"token {numbers[-1]}"} if more else {})})
        if path.startswith("/openai") and kind == "models":
            numbers, more = range(1, 3 * PAGE + 1), False
        listed = [{"id": f"{kind}-{each}", "type": kind, "max_input_tokens": 1000, "bytes": 5} for each in numbers]
        return json_reply({"object": "list", "data": listed, "has_more": more, "last_id": f"{kind}-{numbers[-1]}"})


@contextmanager
def running_provider() -> Iterator[Provider]:
    provider = Provider()
    with FaultyServer(provider.reply) as server:
        provider.url = server.url
        yield provider
