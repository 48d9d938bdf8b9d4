"""Batches of Responses and of Chat Completions (https://developers.openai.com/api/docs/guides/batch)."""

from collections.abc import Mapping
from typing import Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.errors import ProviderError, RequestCancelledError, ServerError
from dragoman.adapter.operations.batch_api import BatchApi, BatchLine, BatchState, BatchStatus, sum_counts
from dragoman.adapter.operations.operation import Operation, encode_form, get_request, post_request
from dragoman.adapter.replies.error_context import ErrorContext, parse_error_body
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman_adapters.openai_platform import errors

PATH = "/batches"
_FILES = "/files"
_WINDOW = "24h"  # the only supported value

_ENDPOINTS = {"openai": "/v1/responses", "openai-chat": "/v1/chat/completions"}
"""The paths of requests, by provider."""

_STATUS = {
    "validating": BatchStatus.QUEUED,
    "in_progress": BatchStatus.IN_PROGRESS,
    "finalizing": BatchStatus.IN_PROGRESS,
    "cancelling": BatchStatus.IN_PROGRESS,
    "completed": BatchStatus.COMPLETED,
    "failed": BatchStatus.FAILED,
    "expired": BatchStatus.EXPIRED,
    "cancelled": BatchStatus.CANCELLED,
}


def find_batch_api(provider: str, model: str) -> "OpenAIBatchApi | None":
    """Return OpenAI's batch API; None for other endpoints with its wires, which have none, or a different one."""
    return OpenAIBatchApi(provider, model) if provider in _ENDPOINTS else None


class OpenAIBatchApi(BatchApi):
    max_requests: ClassVar[int] = 50_000
    max_bytes: ClassVar[int] = 200_000_000

    def accepts(self, custom_id: str) -> bool:
        return 0 < len(custom_id) <= 64 and custom_id.isprintable()

    def encode_line(self, wire_id: str, request: WireRequest) -> bytes:
        head = wirejson.dumps({"custom_id": wire_id, "method": request.method, "url": _ENDPOINTS[self.provider]})
        return head[:-1] + b',"body":' + request.body + b"}"

    def submit(self, lines: list[bytes], headers: Mapping[str, str]) -> Operation[str]:
        content_type, form = encode_form({"purpose": "batch"}, "batch.jsonl", "application/jsonl", b"\n".join(lines))
        upload_reply = yield post_request(_FILES, form, {**headers, "content-type": content_type})
        file = self.require_text(self.parse_response(upload_reply), "id")
        fields = {"input_file_id": file, "endpoint": _ENDPOINTS[self.provider], "completion_window": _WINDOW}
        reply = yield post_request(PATH, wirejson.dumps(fields), headers)
        return self.require_text(self.parse_response(reply), "id")

    def poll(self, batch_id: str) -> Operation[BatchState]:
        reply = yield get_request(f"{PATH}/{batch_id}")
        return self._state(self.parse_response(reply))

    def cancel(self, batch_id: str) -> Operation[BatchState]:
        reply = yield post_request(f"{PATH}/{batch_id}/cancel", b"{}")
        return self._state(self.parse_response(reply))

    def results(self, batch_id: str) -> Operation[tuple[WireRequest, ...]]:
        reply = yield get_request(f"{PATH}/{batch_id}")
        native = self.parse_response(reply)
        files = [native.get(name) for name in ("output_file_id", "error_file_id")]
        return tuple(get_request(f"{_FILES}/{file}/content") for file in files if isinstance(file, str) and file)

    def decode_line(self, line: bytes) -> BatchLine:
        native = wirejson.loads_object(line, what="a line of the batch's results")
        return BatchLine(self.require_text(native, "custom_id"), self._outcome(native))

    def _outcome(self, native: dict[str, Any]) -> WireResponse | ProviderError:
        response, error = native.get("response"), native.get("error")
        if isinstance(response, dict) and type(response.get("status_code")) is int:
            status, body = response["status_code"], wirejson.dumps(response.get("body"))
            if status < 300:
                return WireResponse(status, body)
            return errors.decode_error(
                parse_error_body(body), ErrorContext(self.provider, self.model, status, {}, body)
            )
        details = error if isinstance(error, dict) else {}
        match details.get("code"):
            case "batch_expired":
                return ServerError(
                    "the batch expired before this request: submit it again", provider=self.provider, code="expired"
                )
            case "batch_cancelled":
                return RequestCancelledError("the batch was cancelled before this request", provider=self.provider)
            case _:
                return errors.decode_error(details, ErrorContext(self.provider, self.model))

    def _state(self, native: dict[str, Any]) -> BatchState:
        status = _STATUS.get(self.require_text(native, "status"), BatchStatus.IN_PROGRESS)
        counts = native.get("request_counts")
        faults = native.get("errors")
        items = faults.get("data") if isinstance(faults, dict) else None
        # The reasons why the file was refused, line by line.
        lines = [
            f"line {each.get('line')}: {each.get('message')}"
            for each in (items if isinstance(items, list) else ())
            if isinstance(each, dict)
        ]
        problem = "; ".join(lines[:10])[:1_000] or None
        return BatchState(status, sum_counts(counts, "completed"), sum_counts(counts, "failed"), problem, native)
