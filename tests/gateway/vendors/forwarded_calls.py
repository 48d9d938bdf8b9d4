"""Calls of the official SDKs to each address that can be forwarded, and a server that records them."""

import io
import json
import re
from collections.abc import Callable, Mapping
from typing import Any

from google.genai import types

from dragoman.testing.faults.server import HttpReply, ReceivedRequest

_BOUNDARY = re.compile(rb"boundary=([\w.-]+)")
Call = Callable[[Any], object]


def _form(name: str) -> tuple[str, io.BytesIO]:
    return name, io.BytesIO(bytes(range(256)) * 40)


OPENAI: Mapping[str, Call] = {
    "POST /v1/moderations": lambda sdk: sdk.moderations.create(input="Hi", model="omni-moderation-latest"),
    "POST /v1/files": lambda sdk: sdk.files.create(file=_form("a.pdf"), purpose="user_data"),
    "GET /v1/files": lambda sdk: list(sdk.files.list()),
    "GET /v1/files/{file}": lambda sdk: sdk.files.retrieve("file-1"),
    "DELETE /v1/files/{file}": lambda sdk: sdk.files.delete("file-1"),
    "GET /v1/files/{file}/content": lambda sdk: sdk.files.content("file-1").read(),
    "POST /v1/uploads": lambda sdk: sdk.uploads.create(
        bytes=10240, filename="a.pdf", mime_type="application/pdf", purpose="user_data"
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
    "POST /v1/skills": lambda sdk: sdk.skills.create(files=[_form("a/SKILL.md")]),
    "GET /v1/skills": lambda sdk: list(sdk.skills.list()),
    "GET /v1/skills/{skill}": lambda sdk: sdk.skills.retrieve("skill_1"),
    "POST /v1/skills/{skill}": lambda sdk: sdk.skills.update("skill_1", default_version="2"),
    "DELETE /v1/skills/{skill}": lambda sdk: sdk.skills.delete("skill_1"),
    "GET /v1/skills/{skill}/content": lambda sdk: sdk.skills.content.retrieve("skill_1").read(),
    "POST /v1/skills/{skill}/versions": lambda sdk: sdk.skills.versions.create("skill_1", files=[_form("a/SKILL.md")]),
    "GET /v1/skills/{skill}/versions": lambda sdk: list(sdk.skills.versions.list("skill_1")),
    "GET /v1/skills/{skill}/versions/{_version}": lambda sdk: sdk.skills.versions.retrieve("2", skill_id="skill_1"),
    "DELETE /v1/skills/{skill}/versions/{_version}": lambda sdk: sdk.skills.versions.delete("2", skill_id="skill_1"),
    "GET /v1/skills/{skill}/versions/{_version}/content": lambda sdk: sdk.skills.versions.content.retrieve(
        "2", skill_id="skill_1"
    ).read(),
}
ANTHROPIC: Mapping[str, Call] = {
    "POST /v1/files": lambda sdk: sdk.beta.files.upload(file=_form("a.txt")),
    "GET /v1/files": lambda sdk: list(sdk.beta.files.list()),
    "GET /v1/files/{file}": lambda sdk: sdk.beta.files.retrieve_metadata("file-1"),
    "DELETE /v1/files/{file}": lambda sdk: sdk.beta.files.delete("file-1"),
    "GET /v1/files/{file}/content": lambda sdk: sdk.beta.files.download("file-1").read(),
    "POST /v1/skills": lambda sdk: sdk.beta.skills.create(files=[_form("a/SKILL.md")]),
    "GET /v1/skills": lambda sdk: list(sdk.beta.skills.list()),
    "GET /v1/skills/{skill}": lambda sdk: sdk.beta.skills.retrieve("skill_1"),
    "DELETE /v1/skills/{skill}": lambda sdk: sdk.beta.skills.delete("skill_1"),
    "POST /v1/skills/{skill}/versions": lambda sdk: sdk.beta.skills.versions.create(
        "skill_1", files=[_form("a/SKILL.md")]
    ),
    "GET /v1/skills/{skill}/versions": lambda sdk: list(sdk.beta.skills.versions.list("skill_1")),
    "GET /v1/skills/{skill}/versions/{_version}": lambda sdk: sdk.beta.skills.versions.retrieve(
        "2", skill_id="skill_1"
    ),
    "DELETE /v1/skills/{skill}/versions/{_version}": lambda sdk: sdk.beta.skills.versions.delete(
        "2", skill_id="skill_1"
    ),
    "GET /v1/skills/{skill}/versions/{_version}/content": lambda sdk: sdk.beta.skills.versions.download(
        "2", skill_id="skill_1"
    ).read(),
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

_CACHE, _FILE, _BATCH, _STORE = "cachedContents/cache-1", "files/file-1", "batches/batch-1", "fileSearchStores/store-1"
GOOGLE: Mapping[str, Call] = {
    "POST /v1/cachedContents": lambda sdk: sdk.caches.create(
        model="gemini-3-pro", config={"contents": ["Bern"], "ttl": "60s"}
    ),
    "GET /v1/cachedContents": lambda sdk: list(sdk.caches.list()),
    "GET /v1/cachedContents/{cached_content}": lambda sdk: sdk.caches.get(name=_CACHE),
    "PATCH /v1/cachedContents/{cached_content}": lambda sdk: sdk.caches.update(name=_CACHE, config={"ttl": "90s"}),
    "DELETE /v1/cachedContents/{cached_content}": lambda sdk: sdk.caches.delete(name=_CACHE),
    "POST /upload/v1/files": lambda sdk: sdk.files.upload(
        file=io.BytesIO(bytes(range(256)) * 40), config={"mime_type": "text/plain"}
    ),
    "GET /v1/files": lambda sdk: list(sdk.files.list()),
    "GET /v1/files/{file}:download": lambda sdk: sdk.files.download(file=_FILE),
    "GET /v1/files/{file}": lambda sdk: sdk.files.get(name=_FILE),
    "DELETE /v1/files/{file}": lambda sdk: sdk.files.delete(name=_FILE),
    "POST /v1/models/{_model}:batchGenerateContent": lambda sdk: sdk.batches.create(
        model="gemini-3-pro", src=[{"contents": [{"parts": [{"text": "Hi"}]}]}]
    ),
    "POST /v1/models/{_model}:asyncBatchEmbedContent": lambda sdk: sdk.batches.create_embeddings(
        model="gemini-embedding-001", src={"inlined_requests": {"contents": [{"parts": [{"text": "Hi"}]}]}}
    ),
    "GET /v1/batches": lambda sdk: list(sdk.batches.list()),
    "GET /v1/batches/{batch}": lambda sdk: sdk.batches.get(name=_BATCH),
    "POST /v1/batches/{batch}:cancel": lambda sdk: sdk.batches.cancel(name=_BATCH),
    "DELETE /v1/batches/{batch}": lambda sdk: sdk.batches.delete(name=_BATCH),
    "POST /v1/fileSearchStores": lambda sdk: sdk.file_search_stores.create(config={"display_name": "docs"}),
    "GET /v1/fileSearchStores": lambda sdk: list(sdk.file_search_stores.list()),
    "GET /v1/fileSearchStores/{file_search_store}": lambda sdk: sdk.file_search_stores.get(name=_STORE),
    "DELETE /v1/fileSearchStores/{file_search_store}": lambda sdk: sdk.file_search_stores.delete(name=_STORE),
    "POST /upload/v1/fileSearchStores/{file_search_store}:uploadToFileSearchStore": lambda sdk: (
        sdk.file_search_stores.upload_to_file_search_store(
            file_search_store_name=_STORE, file=io.BytesIO(b"Bern"), config={"mime_type": "text/plain"}
        )
    ),
    "POST /v1/fileSearchStores/{file_search_store}:importFile": lambda sdk: sdk.file_search_stores.import_file(
        file_search_store_name=_STORE, file_name=_FILE
    ),
    "GET /v1/fileSearchStores/{file_search_store}/documents": lambda sdk: list(
        sdk.file_search_stores.documents.list(parent=_STORE)
    ),
    "GET /v1/fileSearchStores/{file_search_store}/documents/{_document}": lambda sdk: (
        sdk.file_search_stores.documents.get(name=f"{_STORE}/documents/d")
    ),
    "DELETE /v1/fileSearchStores/{file_search_store}/documents/{_document}": lambda sdk: (
        sdk.file_search_stores.documents.delete(name=f"{_STORE}/documents/d")
    ),
    "GET /v1/fileSearchStores/{file_search_store}/operations/{_operation}": lambda sdk: sdk.operations.get(
        types.ImportFileOperation(name=f"{_STORE}/operations/o")
    ),
    "GET /v1/fileSearchStores/{file_search_store}/upload/operations/{_operation}": lambda sdk: sdk.operations.get(
        types.UploadToFileSearchStoreOperation(name=f"{_STORE}/upload/operations/o")
    ),
}
OLLAMA: Mapping[str, Call] = {
    "POST /api/pull": lambda sdk: sdk.pull("llama3.2"),
    "POST /api/push": lambda sdk: sdk.push("mine/llama3.2"),
    "POST /api/create": lambda sdk: sdk.create("mine", from_="llama3.2"),
    "POST /api/copy": lambda sdk: sdk.copy("llama3.2", "mine"),
    "DELETE /api/delete": lambda sdk: sdk.delete("mine"),
    "POST /api/blobs/{_digest}": lambda sdk: sdk.create_blob(__file__),
}
_JOB = "7f0c2a34-8d3f-4f5e-a1b2-c3d4e5f60718"
MISTRAL: Mapping[str, Call] = {
    "POST /v1/files": lambda sdk: sdk.files.upload(
        file={"file_name": "a.jsonl", "content": b'{"custom_id": "1", "body": {"messages": []}}\n'}, purpose="batch"
    ),
    "GET /v1/files": lambda sdk: sdk.files.list(),
    "GET /v1/files/{file}": lambda sdk: sdk.files.retrieve(file_id="file-1"),
    "DELETE /v1/files/{file}": lambda sdk: sdk.files.delete(file_id="file-1"),
    "GET /v1/files/{file}/content": lambda sdk: sdk.files.download(file_id="file-1").read(),
    "GET /v1/files/{file}/url": lambda sdk: sdk.files.get_signed_url(file_id="file-1"),
    "POST /v1/batch/jobs": lambda sdk: sdk.batch.jobs.create(
        endpoint="/v1/chat/completions", input_files=["file-1"], model="mistral-small-latest"
    ),
    "GET /v1/batch/jobs": lambda sdk: sdk.batch.jobs.list(),
    "GET /v1/batch/jobs/{batch_job}": lambda sdk: sdk.batch.jobs.get(job_id=_JOB),
    "POST /v1/batch/jobs/{batch_job}/cancel": lambda sdk: sdk.batch.jobs.cancel(job_id=_JOB),
    "DELETE /v1/batch/jobs/{batch_job}": lambda sdk: sdk.batch.jobs.delete(job_id=_JOB),
    "POST /v1/ocr": lambda sdk: sdk.ocr.process(
        model="mistral-ocr-latest", document={"type": "document_url", "document_url": "https://a.b"}
    ),
    "POST /v1/moderations": lambda sdk: sdk.classifiers.moderate(model="mistral-moderation-latest", inputs=["Hi"]),
    "POST /v1/chat/moderations": lambda sdk: sdk.classifiers.moderate_chat(
        model="mistral-moderation-latest", inputs=[{"role": "user", "content": "Hi"}]
    ),
    "POST /v1/classifications": lambda sdk: sdk.classifiers.classify(model="mine", inputs=["Hi"]),
    "POST /v1/chat/classifications": lambda sdk: sdk.classifiers.classify_chat(
        model="mine", input=[{"messages": [{"role": "user", "content": "Hi"}]}]
    ),
    "POST /v1/audio/transcriptions": lambda sdk: sdk.audio.transcriptions.complete(
        model="voxtral-mini-latest", file={"file_name": "a.wav", "content": bytes(range(256)) * 40}
    ),
    "POST /v1/audio/speech": lambda sdk: sdk.audio.speech.complete(model="voxtral-mini-tts-latest", input="Hi"),
    "POST /v1/fim/completions": lambda sdk: sdk.fim.complete(model="codestral-latest", prompt="def f("),
}
COHERE: Mapping[str, Call] = {
    "POST /v1/rerank": lambda sdk: sdk.first.rerank(model="rerank-v3.5", query="Bern", documents=["a", "b"]),
    "POST /v2/rerank": lambda sdk: sdk.second.rerank(model="rerank-v3.5", query="Bern", documents=["a", "b"]),
}


_OF_MISTRAL: Mapping[str, Any] = {
    "audio_data": "",
    "bytes": 1, "choices": [], "completed_requests": 0, "created": 1, "created_at": 1, "deleted": True,
    "endpoint": "/v1/chat/completions", "errors": [], "failed_requests": 0, "filename": "a", "input_files": [],
    "language": None, "model": "m", "pages": [], "purpose": "batch", "sample_type": "batch_request", "source": "upload",
    "status": "RUNNING", "succeeded_requests": 0, "total_requests": 0, "url": "https://files.example/1",
    "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12, "prompt_audio_seconds": 30},
    "usage_info": {"pages_processed": 3},
}  # fmt: skip
"""What its SDK checks, unlike all others."""


def record(request: ReceivedRequest) -> HttpReply:
    """Answer any address: a list, bytes, lines, or an object with an id of its kind."""
    if "goog-api" in request.head.decode("latin-1") or "/upload/" in request.path:
        return _as_google(request)
    path = request.path.partition("?")[0].removeprefix("/v1")
    first, last = path.split("/")[1], path.split("/")[-1]
    if last == "results":
        return HttpReply(headers={"content-type": "application/x-jsonl"}, steps=[b'{"custom_id": "1"}\n'])
    if (last == "content" and first != "vector_stores") or (last == "speech" and b"voxtral" not in request.body):
        return HttpReply(headers={"content-type": "application/octet-stream"}, steps=[bytes(range(256))])
    made = {
        "batches": "msgbatch_1" if first == "messages" else "batch_1",
        "conversations": "conv_1",
        "files": "file-1",
        "parts": "part_1",
        "jobs": _JOB,
        "skills": "skill_1",
        "uploads": "upload_1",
        "vector_stores": "vs_1",
        "videos": "video_1",
    }.get(last, "id_1")
    if last == "msgbatch_1":
        made = last
    fields: dict[str, Any] = {"id": made, "object": "batch", "data": [], "results": [], "text": "Hi", **_OF_MISTRAL}
    if request.method == "GET" and last in ("files", "batches", "jobs", "skills", "videos", "vector_stores"):
        rows = [{**fields, "id": "secret-of-another"}, {**fields, "id": made}]
        fields = {
            "object": "list",
            "total": 2,
            "has_more": False,
            "first_id": "secret-of-another",
            "last_id": made,
            "data": rows,
        }
    if first == "messages":
        fields["results_url"] = "https://api.anthropic.com/v1/messages/batches/msgbatch_1/results"
        fields["processing_status"] = "ended"
    return _json(fields)


def _json(fields: Any, **headers: str) -> HttpReply:
    body = json.dumps(fields).encode()
    return HttpReply(headers={"content-type": "application/json", **headers}, steps=[body])


def _as_google(request: ReceivedRequest) -> HttpReply:
    path, _, query = request.path.partition("?")
    if path.startswith("/upload/"):
        if "upload_id=" not in query:
            address = f"http://{request.headers['host']}{path}?upload_id=up-1&upload_protocol=resumable"
            return HttpReply(headers={"x-goog-upload-url": address, "x-goog-upload-status": "active"}, steps=[b""])
        file = {"name": _FILE, "uri": f"https://generativelanguage.googleapis.com/v1/{_FILE}"}
        return _json({"file": file}, **{"x-goog-upload-status": "final"})
    if path.endswith(":download"):
        return HttpReply(headers={"content-type": "application/octet-stream"}, steps=[bytes(range(256))])
    for name, made in (("cachedContents", _CACHE), ("files", _FILE), ("fileSearchStores", _STORE), ("batches", _BATCH)):
        if request.method == "GET" and path.endswith(f"/{name}"):
            rows = [{"name": f"{name}/secret-of-another"}, {"name": made}]
            return _json({"operations" if name == "batches" else name: rows})
        if f"/{name}" in path:
            return _json({"name": made})
    return _json({"name": _BATCH, "metadata": {"state": "BATCH_STATE_PENDING"}})


def plain(request: ReceivedRequest) -> tuple[str, str, bytes, str]:
    """Return what a vendor reads of a request, whatever the boundary of its form."""
    kind, body = request.headers.get("content-type", "").encode(), request.body
    if (found := _BOUNDARY.search(kind)) is not None:
        kind, body = kind.replace(found[1], b"-"), body.replace(found[1], b"-")
    return request.method, request.path, body, kind.decode() if body else ""
