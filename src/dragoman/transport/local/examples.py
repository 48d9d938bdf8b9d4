"""Worked examples that show a very small model what to do.

Without them SmolLM2-135M fills in arguments that the user did not give, and does not answer from a tool's result
(measured). With them it copies, which it does well. None of them resembles a user's own tools.
"""

from typing import Any, NamedTuple


class Example(NamedTuple):
    """A request, the call that serves it, and optionally the result and the answer."""

    request: str
    name: str
    arguments: dict[str, Any]
    result: str = ""
    answer: str = ""


CALLING = (
    Example("Reserve a table for two at Luigi's.", "book_table", {"place": "Luigi's", "guests": 2}),
    Example("What does the song Yesterday sound like?", "play_song", {"title": "Yesterday"}),
    Example("Delete draft-3.txt", "delete_note", {"note": "draft-3.txt"}),
    Example("How far is it to Berlin?", "get_distance", {"place": "Berlin"}),
)
"""How a request becomes a call."""

ANSWERING = (
    Example(
        "Is there a table for two at Luigi's?",
        "find_table",
        {"place": "Luigi's", "guests": 2},
        "Luigi's: one table is free. It is table 7, near the window, at 19:00.",
        "Yes, table 7 is free at 19:00.",
    ),
    Example(
        "What does draft-3.txt say about milk?",
        "open_note",
        {"name": "draft-3.txt"},
        "# Shopping\n\nBuy bread and eggs.\nThe milk must be fresh and comes from the market.",
        "The milk must be fresh and comes from the market.",
    ),
    Example(
        "How far is it to Berlin?",
        "get_distance",
        {"place": "Berlin"},
        "Berlin, 289 km by car, 3 h 10 min",
        "It is 289 km to Berlin by car.",
    ),
)
"""How a result becomes an answer."""
