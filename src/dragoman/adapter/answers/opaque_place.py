"""Places blocks that the client cannot read in a reply: never at its end.

Clients take the last block for the answer, and providers refuse histories in which thinking ends a message.
"""

from collections.abc import Callable, Sequence
from typing import TypeVar

TEXT, CALL, OPAQUE = "text", "tool_use", "opaque"
"""What an item is for clients: the first two have the names of canonical blocks."""

ItemT = TypeVar("ItemT")


def place_opaque(items: Sequence[ItemT], added: Sequence[ItemT], kind_of: Callable[[ItemT], str]) -> list[ItemT]:
    """Return the items with ``added``, and with the opaque items at the end, before the calls that end the reply, or
    before its last text: of a text, two calls and an opaque item, the last one goes before the first call.

    ``kind_of`` returns TEXT, CALL or OPAQUE. If nothing but opaque items is there, ``added`` follows them.
    """
    end = len(items)
    while end and kind_of(items[end - 1]) == OPAQUE:
        end -= 1
    if end == 0:
        return [*items, *added]
    place = end - 1
    while place and kind_of(items[end - 1]) == kind_of(items[place - 1]) == CALL:
        place -= 1
    return [*items[:place], *items[end:], *added, *items[place:end]]
