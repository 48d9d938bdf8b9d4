"""Errors of the Responses API: OpenAI's shapes, and failed responses with status 200."""

from collections.abc import Mapping
from typing import Any

from dragoman_adapters.openai_platform.errors import decode_error

__all__ = ["decode_error", "find_embedded_error"]


def find_embedded_error(native: Mapping[str, Any]) -> dict[str, Any] | None:
    """Return the error of a failed response, in the shape of HTTP errors; None if the response did not fail."""
    if native.get("status") == "failed" or (native.get("error") and "output" not in native):
        return {"error": native.get("error") or {"code": "server_error", "message": "the response failed"}}
    return None
