"""What the errors of all client wires share: the row of an error in a wire's table, its message and its headers."""

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from dragoman.adapter import errors
from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import (
    BudgetExceededError,
    DragomanError,
    MalformedReplyError,
    NoModelError,
    ProviderError,
    RequestError,
)
from dragoman.adapter.package_data import read_toml

SHOWN_ERRORS = (ProviderError, RequestError, NoModelError, BudgetExceededError)
"""Errors whose message concerns the client. Others, such as a missing setting, concern the operator of the program."""

_HIDDEN = "the request could not be answered because of an internal error"
_COUNT = re.compile(r"\d[\d,]*\d|\d")
_MIN_COUNT = 100
"""A smaller number in a message about an overflow is not a number of tokens."""


@dataclass(frozen=True, slots=True)
class ErrorRow:
    """How a wire expresses a class of errors: the HTTP status, and the type and the code if the wire has them."""

    status: int
    kind: str = ""
    code: str | None = None


ErrorTable = Mapping[type[Exception], ErrorRow]
"""Rows by class of error; a subclass without a row has its base's. The row of DragomanError is for all others."""


def load_error_table(package: str) -> ErrorTable:
    """Return the table of a wire from the rows in the errors.toml of its adapter, by name of the class. Raises
    AttributeError for an unknown name."""
    rows = read_toml(package, "errors.toml")["rows"]
    return {getattr(errors, name): ErrorRow(*row) for name, row in rows.items()}


def find_row(error: DragomanError, table: ErrorTable) -> ErrorRow:
    """Return the row of the error's class."""
    return next(table[kind] for kind in type(error).__mro__ if kind in table)


def error_message(error: DragomanError) -> str:
    """Return the message for the client; internal errors are not described, and neither is how a reply was read."""
    if isinstance(error, MalformedReplyError):
        return f"the reply of {error.provider or 'the model'} is not what its API promises"
    if isinstance(error, ProviderError):
        return error.message
    return str(error) if isinstance(error, SHOWN_ERRORS) else _HIDDEN


def error_status(error: DragomanError, row: ErrorRow, provider: str) -> int:
    """Return the status: the provider's own if the error came from this wire, else that of the row.

    An error may have a status below 400, such as a page that came with 200. A client would take it for a success.
    """
    if isinstance(error, ProviderError) and error.provider == provider and (error.status or 0) >= 400:
        return error.status or row.status
    return row.status


def own_fields(error: DragomanError, provider: str) -> dict[str, Any]:
    """Return the fields of the error object that are the provider's own, if the error came from this wire."""
    return error.own_fields if isinstance(error, ProviderError) and error.provider == provider else {}


def error_headers(error: DragomanError) -> dict[str, str]:
    """Return the headers of an error: how long to wait, in whole seconds and exactly, and that another try is useless
    for a spent budget."""
    headers = {"content-type": "application/json"}
    wait = error.retry_after if isinstance(error, ProviderError) else None
    if wait is not None:
        headers["retry-after"] = str(math.ceil(wait))
        headers["retry-after-ms"] = str(math.ceil(wait * 1000))
    if isinstance(error, BudgetExceededError):
        headers["x-should-retry"] = "false"
    return headers


def find_request_id(error: DragomanError, context: RequestContext) -> str:
    """Return the provider's id of the request, or our own."""
    return (error.request_id if isinstance(error, ProviderError) else None) or context.request_id


def overflow_counts(message: str) -> tuple[int, int] | None:
    """Return the tokens of the prompt and the model's limit, if a message about an overflow names both."""
    numbers = sorted({int(found.replace(",", "")) for found in _COUNT.findall(message)}, reverse=True)
    large = [number for number in numbers if number >= _MIN_COUNT]
    return (large[0], large[1]) if len(large) >= 2 else None
