"""Messages as HTML for notebooks.

The renderer is registered as ``html`` under the entry-point group ``dragoman.renderers``, so that the canonical form
does not import it. IPython calls ``_repr_html_``: https://ipython.readthedocs.io/en/stable/config/integrating.html.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any

_MAX_MESSAGES = 20
"""How many messages of a conversation a notebook shows: the output of a cell is stored in the notebook's file."""


def render_html(messages: Sequence[Any]) -> str | None:
    """Return the messages as an HTML fragment; None if the renderer or one of its requirements is not installed."""
    renderer = _renderer()
    return None if renderer is None else renderer(messages)


def render_end(messages: Sequence[Any]) -> str | None:
    """Return the last messages as `render_html` does, after a line that counts them if there are more; None if there
    are none. A result is not shown without its call."""
    shown = messages[-_MAX_MESSAGES:]
    while len(shown) < len(messages) and shown[:1] and shown[0].role == "tool":
        shown = shown[1:]
    html = render_html(shown) if shown else None
    if html is None or len(shown) == len(messages):
        return html
    return f"<p><i>The last {len(shown)} of {len(messages)} messages:</i></p>\n{html}"


@cache
def _renderer() -> Callable[[Sequence[Any]], str | None] | None:
    for entry in entry_points(group="dragoman.renderers", name="html"):
        try:
            renderer: Callable[[Sequence[Any]], str | None] = entry.load()
        except ImportError:
            return None
        return renderer
    return None
