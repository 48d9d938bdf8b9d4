"""Calls of the official SDKs to each address that can be forwarded, and a server that records them."""

import io
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from dragoman.testing.faults.server import HttpReply, ReceivedRequest

IDS = {
    "file": "file-1",
    "upload": "upload_1",
    "upload part": "part_1",
    "batch": "batch_1",
    "conversation": "conv_1",
    "video": "video_1",
    "vector store": "vs_1",
    "message batch": "msgbatch_1",
}
_BOUNDARY = re.compile(rb"boundary=([\w.-]+)")
Call = Callable[[Any], object]


def _form(name: str) -> tuple[str, io.BytesIO]:
    return name, io.BytesIO(bytes(range(256)) * 40)


OPENAI: Mapping[str, Call] = {
    "POST /v1/moderations": lambda sdk: sdk.moderations.create(input="Hi", model="omni-moderation-latest"),
    "POST /v1/files": lambda sdk: sdk.files.create(file=_form("a.jsonl"), purpose="batch"),
    "GET /v1/files": lambda sdk: list(sdk.files.list()),
    "GET /v1/files/{file}": lambda sdk: sdk.files.retrieve("file-1"),
    "DELETE /v1/files/{file}": lambda sdk: sdk.files.delete("file-1"),
    "GET /v1/files/{file}/content": lambda sdk: sdk.files.content("file-1").read(),
    "POST /v1/uploads": lambda sdk: sdk.uploads.create(
        bytes=10240, filename="a.jsonl", mime_type="application/jsonl", purpose="batch"
    ),
    "POST /v1/uploads/{upload}/parts": lambda sdk: sdk.uploads.parts.create("upload_1", data=_form("part")),
    "POST /v1/uploads/{upload}/complete": lambda sdk: sdk.uploads.complete("upload_1", part_ids=["part_1"]),
    "POST /v1/uploads/{upload}/cancel": lambda sdk: sdk.uploads.cancel("upload_1"),
    "POST /v1/batches": lambda sdk: sdk.batches.create(
        completion_window="24h", endpoint="/v1/responses", input_file_id="file-1"
    ),
    "GET /v1/batches": lambda sdk: list(sdk.batches.list()),
    "GET /v1/batches/{batch}": lambda sdk: sdk.batches.retrieve("batch_1"),
    "POST /v1/batches/{batch}/cancel": lambda sdk: sdk.batches.cancel("batch_1"),
    "POST /v1/conversations": lambda sdk: sdk.conversations.create(metadata={"topic": "demo"}),
    "GET /v1/conversations/{conversation}": lambda sdk: sdk.conversations.retrieve("conv_1"),
    "POST /v1/conversations/{conversation}": lambda sdk: sdk.conversations.update("conv_1", metadata={"a": "b"}),
    "DELETE /v1/conversations/{conversation}": lambda sdk: sdk.conversations.delete("conv_1"),
    "POST /v1/conversations/{conversation}/items": lambda sdk: sdk.conversations.items.create(
        "conv_1", items=[{"type": "message", "role": "user", "content": "Hi"}]
    ),
    "GET /v1/conversations/{conversation}/items": lambda sdk: list(sdk.conversations.items.list("conv_1")),
    "GET /v1/conversations/{conversation}/items/{_item}": lambda sdk: sdk.conversations.items.retrieve(
        "msg_1", conversation_id="conv_1"
    ),
    "DELETE /v1/conversations/{conversation}/items/{_item}": lambda sdk: sdk.conversations.items.delete(
        "msg_1", conversation_id="conv_1"
    ),
    "POST /v1/images/generations": lambda sdk: sdk.images.generate(prompt="a cat", model="gpt-image-1"),
    "POST /v1/images/edits": lambda sdk: sdk.images.edit(image=_form("a.png"), prompt="a hat", model="gpt-image-1"),
    "POST /v1/images/variations": lambda sdk: sdk.images.create_variation(image=_form("a.png")),
    "POST /v1/audio/speech": lambda sdk: sdk.audio.speech.create(input="Hi", model="tts-1", voice="alloy").read(),
    "POST /v1/audio/transcriptions": lambda sdk: sdk.audio.transcriptions.create(
        file=_form("a.wav"), model="whisper-1"
    ),
    "POST /v1/audio/translations": lambda sdk: sdk.audio.translations.create(file=_form("a.wav"), model="whisper-1"),
    "POST /v1/videos": lambda sdk: sdk.videos.create(prompt="a cat", input_reference=_form("a.png")),
    "GET /v1/videos": lambda sdk: list(sdk.videos.list()),
    "GET /v1/videos/{video}": lambda sdk: sdk.videos.retrieve("video_1"),
    "DELETE /v1/videos/{video}": lambda sdk: sdk.videos.delete("video_1"),
    "GET /v1/videos/{video}/content": lambda sdk: sdk.videos.download_content("video_1").read(),
    "POST /v1/videos/{video}/remix": lambda sdk: sdk.videos.remix("video_1", prompt="a dog"),
    "POST /v1/vector_stores": lambda sdk: sdk.vector_stores.create(file_ids=["file-1"]),
    "GET /v1/vector_stores": lambda sdk: list(sdk.vector_stores.list()),
    "GET /v1/vector_stores/{vector_store}": lambda sdk: sdk.vector_stores.retrieve("vs_1"),
    "POST /v1/vector_stores/{vector_store}": lambda sdk: sdk.vector_stores.update("vs_1", name="docs"),
    "DELETE /v1/vector_stores/{vector_store}": lambda sdk: sdk.vector_stores.delete("vs_1"),
    "POST /v1/vector_stores/{vector_store}/search": lambda sdk: list(sdk.vector_stores.search("vs_1", query="Bern")),
    "POST /v1/vector_stores/{vector_store}/files": lambda sdk: sdk.vector_stores.files.create("vs_1", file_id="file-1"),
    "GET /v1/vector_stores/{vector_store}/files": lambda sdk: list(sdk.vector_stores.files.list("vs_1")),
    "GET /v1/vector_stores/{vector_store}/files/{_file}": lambda sdk: sdk.vector_stores.files.retrieve(
        "file-1", vector_store_id="vs_1"
    ),
    "POST /v1/vector_stores/{vector_store}/files/{_file}": lambda sdk: sdk.vector_stores.files.update(
        "file-1", vector_store_id="vs_1", attributes={"a": "b"}
    ),
    "DELETE /v1/vector_stores/{vector_store}/files/{_file}": lambda sdk: sdk.vector_stores.files.delete(
        "file-1", vector_store_id="vs_1"
    ),
    "GET /v1/vector_stores/{vector_store}/files/{_file}/content": lambda sdk: list(
        sdk.vector_stores.files.content("file-1", vector_store_id="vs_1")
    ),
    "POST /v1/vector_stores/{vector_store}/file_batches": lambda sdk: sdk.vector_stores.file_batches.create(
        "vs_1", file_ids=["file-1"]
    ),
    "GET /v1/vector_stores/{vector_store}/file_batches/{_batch}": lambda sdk: sdk.vector_stores.file_batches.retrieve(
        "vsfb_1", vector_store_id="vs_1"
    ),
    "POST /v1/vector_stores/{vector_store}/file_batches/{_batch}/cancel": lambda sdk: (
        sdk.vector_stores.file_batches.cancel("vsfb_1", vector_store_id="vs_1")
    ),
    "GET /v1/vector_stores/{vector_store}/file_batches/{_batch}/files": lambda sdk: list(
        sdk.vector_stores.file_batches.list_files("vsfb_1", vector_store_id="vs_1")
    ),
    "POST /v1/completions": lambda sdk: sdk.completions.create(model="gpt-3.5-turbo-instruct", prompt="Hi"),
}
ANTHROPIC: Mapping[str, Call] = {
    "POST /v1/files": lambda sdk: sdk.beta.files.upload(file=_form("a.txt")),
    "GET /v1/files": lambda sdk: list(sdk.beta.files.list()),
    "GET /v1/files/{file}": lambda sdk: sdk.beta.files.retrieve_metadata("file-1"),
    "DELETE /v1/files/{file}": lambda sdk: sdk.beta.files.delete("file-1"),
    "GET /v1/files/{file}/content": lambda sdk: sdk.beta.files.download("file-1").read(),
    "POST /v1/messages/batches": lambda sdk: sdk.messages.batches.create(
        requests=[
            {
                "custom_id": "1",
                "params": {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": "Hi"}]},
            }
        ]
    ),
    "GET /v1/messages/batches": lambda sdk: list(sdk.messages.batches.list()),
    "GET /v1/messages/batches/{message_batch}": lambda sdk: sdk.messages.batches.retrieve("msgbatch_1"),
    "DELETE /v1/messages/batches/{message_batch}": lambda sdk: sdk.messages.batches.delete("msgbatch_1"),
    "POST /v1/messages/batches/{message_batch}/cancel": lambda sdk: sdk.messages.batches.cancel("msgbatch_1"),
    "GET /v1/messages/batches/{message_batch}/results": lambda sdk: list(sdk.messages.batches.results("msgbatch_1")),
}

_CACHE = "cachedContents/cache-1"
GOOGLE: Mapping[str, Call] = {
    "POST /v1/cachedContents": lambda sdk: sdk.caches.create(
        model="gemini-3-pro", config={"contents": ["Bern"], "ttl": "60s"}
    ),
    "GET /v1/cachedContents": lambda sdk: list(sdk.caches.list()),
    "GET /v1/cachedContents/{cached_content}": lambda sdk: sdk.caches.get(name=_CACHE),
    "PATCH /v1/cachedContents/{cached_content}": lambda sdk: sdk.caches.update(name=_CACHE, config={"ttl": "90s"}),
    "DELETE /v1/cachedContents/{cached_content}": lambda sdk: sdk.caches.delete(name=_CACHE),
}
OLLAMA: Mapping[str, Call] = {
    "POST /api/pull": lambda sdk: sdk.pull("llama3.2"),
    "POST /api/push": lambda sdk: sdk.push("mine/llama3.2"),
    "POST /api/create": lambda sdk: sdk.create("mine", from_="llama3.2"),
    "POST /api/copy": lambda sdk: sdk.copy("llama3.2", "mine"),
    "DELETE /api/delete": lambda sdk: sdk.delete("mine"),
    "POST /api/blobs/{_digest}": lambda sdk: sdk.create_blob(__file__),
}
MISTRAL: Mapping[str, Mapping[str, Any]] = {
    "POST /v1/ocr": {
        "model": "mistral-ocr-latest",
        "document": {"type": "document_url", "document_url": "https://a.b"},
    },
    "POST /v1/chat/moderations": {
        "model": "mistral-moderation-latest",
        "input": [{"role": "user", "content": "Hi"}],
    },
    "POST /v1/classifications": {"model": "mine", "input": ["Hi"]},
    "POST /v1/chat/classifications": {"model": "mine", "input": [{"messages": [{"role": "user", "content": "Hi"}]}]},
    "POST /v1/fim/completions": {"model": "codestral-latest", "prompt": "def f("},
}
"""Bodies: no SDK of Mistral is installed."""


def record(request: ReceivedRequest) -> HttpReply:
    """Answer any address: a list, bytes, lines, or an object with an id of its kind."""
    path = request.path.partition("?")[0].removeprefix("/v1")
    first, last = path.split("/")[1], path.split("/")[-1]
    if last == "results":
        return HttpReply(headers={"content-type": "application/x-jsonl"}, steps=[b'{"custom_id": "1"}\n'])
    if (last == "content" and first != "vector_stores") or last == "speech":
        return HttpReply(headers={"content-type": "application/octet-stream"}, steps=[bytes(range(256))])
    made = {
        "batches": "msgbatch_1" if first == "messages" else "batch_1",
        "conversations": "conv_1",
        "files": "file-1",
        "parts": "part_1",
        "uploads": "upload_1",
        "vector_stores": "vs_1",
        "videos": "video_1",
    }.get(last, "id_1")
    if last == "msgbatch_1":
        made = last
    fields: dict[str, Any] = {"id": made, "object": "thing", "data": [], "results": [], "text": "Hi"}
    if request.method == "GET" and last in ("files", "batches", "videos", "vector_stores"):
        rows = [{"id": "secret-of-another"}, {"id": made}]
        fields = {"object": "list", "has_more": False, "first_id": "secret-of-another", "last_id": made, "data": rows}
    if "cachedContents" in request.path:
        fields = {"name": _CACHE, "model": "models/gemini-3-pro"}
        if request.method == "GET" and last == "cachedContents":
            fields = {"cachedContents": [{"name": "cachedContents/secret-of-another"}, fields]}
    if first == "messages":
        fields["results_url"] = "https://api.anthropic.com/v1/messages/batches/msgbatch_1/results"
        fields["processing_status"] = "ended"
    body = json.dumps(fields).encode()
    return HttpReply(headers={"content-type": "application/json"}, steps=[body])


def plain(request: ReceivedRequest) -> tuple[str, str, bytes, str]:
    """Return what a vendor reads of a request, whatever the boundary of its form."""
    kind, body = request.headers.get("content-type", "").encode(), request.body
    if (found := _BOUNDARY.search(kind)) is not None:
        kind, body = kind.replace(found[1], b"-"), body.replace(found[1], b"-")
    return request.method, request.path, body, kind.decode() if body else ""
