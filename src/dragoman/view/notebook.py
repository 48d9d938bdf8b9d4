"""Messages as HTML for notebooks, from the pieces of the page.

Registered as ``html`` under the entry-point group ``dragoman.renderers``.
"""

from collections.abc import Sequence

from dragoman.adapter.errors import MissingExtraError
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.message import Message
from dragoman.view.swaps import Projections
from dragoman.view.templates import environment
from dragoman.view.turns import build_turns


def render(messages: Sequence[Message]) -> str | None:
    """Return an HTML fragment without styles or scripts of its own; None without the `cli` extra."""
    try:
        turns = list(build_turns(messages, Projections(ToolIdMap(), ()), raw=False))
        return environment().get_template("notebook.html.jinja").render(turns=turns)
    except MissingExtraError:
        return None
