"""Message Batches (https://platform.claude.com/docs/en/build-with-claude/batch-processing)."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from dragoman.adapter import wirejson
from dragoman.adapter.errors import MalformedReplyError, ProviderError, RequestCancelledError, ServerError
from dragoman.adapter.operations.batch_api import BatchApi, BatchLine, BatchState, BatchStatus, sum_counts
from dragoman.adapter.operations.operation import Operation, get_request, post_request
from dragoman.adapter.replies.error_context import ErrorContext
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman_adapters.anthropic import encode, errors

PATH = "/v1/messages/batches"
_VERSION = {"anthropic-version": encode.LATEST_VERSION}
_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}", re.ASCII)


class AnthropicBatchApi(BatchApi):
    max_requests: ClassVar[int] = 100_000
    max_bytes: ClassVar[int] = 256_000_000

    def accepts(self, custom_id: str) -> bool:
        return _ID.fullmatch(custom_id) is not None

    def encode_line(self, wire_id: str, request: WireRequest) -> bytes:
        return b'{"custom_id":' + wirejson.dumps(wire_id) + b',"params":' + request.body + b"}"

    def headers(self, requests: Sequence[WireRequest]) -> dict[str, str]:
        """Return the header of the oldest API version. It accepts what newer versions do, and sampling parameters
        too."""
        oldest = min(request.headers["anthropic-version"] for request in requests)
        same = [replace(each, headers={**each.headers, "anthropic-version": oldest}) for each in requests]
        return super().headers(same)

    def submit(self, lines: list[bytes], headers: Mapping[str, str]) -> Operation[str]:
        created = yield post_request(PATH, b'{"requests":[' + b",".join(lines) + b"]}", headers)
        return self.require_text(self.parse_response(created), "id")

    def poll(self, batch_id: str) -> Operation[BatchState]:
        reply = yield get_request(f"{PATH}/{batch_id}", _VERSION)
        return self._state(self.parse_response(reply))

    def cancel(self, batch_id: str) -> Operation[BatchState]:
        reply = yield post_request(f"{PATH}/{batch_id}/cancel", b"{}", _VERSION)
        return self._state(self.parse_response(reply))

    def results(self, batch_id: str) -> Operation[tuple[WireRequest, ...]]:
        # The batch's results_url has a host; with the path alone, the transport chooses the host.
        return (get_request(f"{PATH}/{batch_id}/results", _VERSION),)
        yield  # pragma: no cover - makes this a generator, as in the other adapters

    def decode_line(self, line: bytes) -> BatchLine:
        native = wirejson.loads_object(line, what="a line of the batch's results")
        result = native.get("result")
        if not isinstance(result, dict):
            raise MalformedReplyError("a line of the batch's results has no result", provider=self.provider)
        return BatchLine(self.require_text(native, "custom_id"), self._outcome(result))

    def _outcome(self, result: dict[str, Any]) -> WireResponse | ProviderError:
        match result.get("type"):
            case "succeeded":
                return WireResponse(200, wirejson.dumps(result.get("message")))
            case "errored":
                native = result.get("error")
                return errors.decode_error(
                    native if isinstance(native, dict) else {}, ErrorContext(self.provider, self.model)
                )
            case "canceled":
                return RequestCancelledError("the batch was cancelled before this request", provider=self.provider)
            case "expired":
                return ServerError(
                    "the batch expired before this request: submit it again", provider=self.provider, code="expired"
                )
            case kind:
                return MalformedReplyError(f"a result of the unknown kind {kind!r:.80}", provider=self.provider)

    def _state(self, native: dict[str, Any]) -> BatchState:
        counts = native.get("request_counts")
        succeeded, failed = sum_counts(counts, "succeeded"), sum_counts(counts, "errored", "canceled", "expired")
        if self.require_text(native, "processing_status") != "ended":
            status = BatchStatus.IN_PROGRESS
        elif sum_counts(counts, "succeeded", "errored"):
            status = BatchStatus.COMPLETED
        else:  # what all its requests have in common
            common = [word for word in _WITHOUT_ANSWERS if sum_counts(counts, word)]
            status = _WITHOUT_ANSWERS[common[0]] if common else BatchStatus.COMPLETED
        return BatchState(status, succeeded, failed, raw=native)


_WITHOUT_ANSWERS = {"canceled": BatchStatus.CANCELLED, "expired": BatchStatus.EXPIRED}
