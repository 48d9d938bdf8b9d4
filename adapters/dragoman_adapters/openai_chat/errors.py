"""Errors of Chat Completions: OpenAI's shapes, and errors inside a reply or a chunk with status 200."""

from typing import Any

from dragoman_adapters.openai_chat.dialect import Dialect, first_filled
from dragoman_adapters.openai_platform.errors import decode_error

__all__ = ["decode_error", "find_embedded_error"]


def find_embedded_error(native: dict[str, Any], dialect: Dialect) -> dict[str, Any] | None:
    """Return the error object in a reply or a chunk with a good status; None if there is none."""
    if error := first_filled(native, dialect.errors):
        return {**native, "error": error}
    if native.get("object") == "error":
        return native
    for choice in native.get("choices") or ():
        if error := choice.get("error"):
            return {**native, "error": error}
        if (reason := choice.get("finish_reason")) in dialect.failed:
            reason_text = choice.get("native_finish_reason") or reason
            return {"error": {"code": "server_error", "message": f"the model's reply failed: {reason_text}"}}
    return None
