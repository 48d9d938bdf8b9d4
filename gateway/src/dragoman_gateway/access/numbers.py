"""Refuses numbers that no provider reads, before any code computes with them."""

from typing import Any

from dragoman_gateway.access.wire_fields import wire_objects
from dragoman_gateway.errors import ClientError
from dragoman_gateway.json import is_in_range


def check_numbers(fields: dict[str, Any]) -> None:
    """Raise ClientError for a number beyond 64 bits, unless it is in a place where a client chooses the names, as in
    the schema of a tool."""
    for each in wire_objects(fields):
        for name, value in each.items():
            if _is_beyond(value):
                raise ClientError(f"{name:.80}: the number is too large: send one of at most 64 bits")


def _is_beyond(value: Any) -> bool:
    """Whether a value is, or lists, a number that is too large."""
    left = [value]
    while left:
        each = left.pop()
        if isinstance(each, list):
            left += each
        elif isinstance(each, (int, float)) and not is_in_range(each):
            return True
    return False
