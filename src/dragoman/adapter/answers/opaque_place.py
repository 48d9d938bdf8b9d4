"""Places blocks that the client cannot read in a reply: never at its end.

Clients take the last block for the answer, and providers refuse histories in which thinking ends a message.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

TEXT, CALL, OPAQUE = "text", "call", "opaque"

ItemT = TypeVar("ItemT")


def place_opaque(items: Sequence[ItemT], added: Sequence[ItemT], kind_of: Callable[[ItemT], str]) -> list[ItemT]:
    """Return the items with ``added``, and with the opaque items at the end, before the calls that end the reply, or
    before its last text. ``kind_of`` returns TEXT, CALL or OPAQUE. A reply with nothing else stays as it is."""
    end = len(items)
    while end and kind_of(items[end - 1]) == OPAQUE:
        end -= 1
    if end == 0:
        return [*items, *added]
    place = end - 1
    while place and kind_of(items[end - 1]) == kind_of(items[place - 1]) == CALL:
        place -= 1
    return [*items[:place], *items[end:], *added, *items[place:end]]
