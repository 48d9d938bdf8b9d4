"""Messages as HTML for notebooks.

The renderer is registered as ``html`` under the entry-point group ``dragoman.renderers``, so that the canonical form
does not import it. IPython calls ``_repr_html_``: https://ipython.readthedocs.io/en/stable/config/integrating.html.
"""

from collections.abc import Callable, Sequence
from functools import cache
from importlib.metadata import entry_points
from typing import Any


def render_html(messages: Sequence[Any]) -> str | None:
    """Return the messages as an HTML fragment; None if the renderer or one of its requirements is not installed."""
    renderer = _renderer()
    return None if renderer is None else renderer(messages)


@cache
def _renderer() -> Callable[[Sequence[Any]], str | None] | None:
    for entry in entry_points(group="dragoman.renderers", name="html"):
        try:
            renderer: Callable[[Sequence[Any]], str | None] = entry.load()
        except ImportError:
            return None
        return renderer
    return None
