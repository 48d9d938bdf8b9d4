"""How a request may end, the same for every road."""

from dataclasses import dataclass
from typing import Literal

from tests.attempts.provider import Fault

When = Literal["", "before", "after"]


@dataclass(frozen=True, slots=True)
class Ending:
    """What goes wrong: at the provider (``fault``), on the way to it, or in what the client governs.

    ``counters`` and ``store`` fail before the request is sent, or once it has arrived. ``budget``: ``spent`` has no
    room for a request, ``for one`` is a client's budget as it is by default, with room for one request, and the
    question is asked twice. ``label``: the content may not go to the model that is asked.
    """

    name: str
    fault: Fault = "none"
    refused: bool = False
    counters: When = ""
    store: When = ""
    budget: Literal["", "spent", "for one"] = ""
    label: bool = False


ENDINGS = {
    each.name: each
    for each in (
        Ending("whole"),
        Ending("unreadable", fault="unreadable"),
        Ending("429, then whole", fault="throttled once"),
        Ending("cut", fault="cut"),
        Ending("cancelled", fault="waits"),
        Ending("connection refused", refused=True),
        Ending("budget of the user spent", budget="spent"),
        Ending("budget of the client for one, asked twice", budget="for one"),
        Ending("label forbids the model", label=True),
        Ending("counters gone before", counters="before"),
        Ending("counters gone after", counters="after"),
        Ending("store gone before", store="before"),
        Ending("store gone after", store="after"),
    )
}
