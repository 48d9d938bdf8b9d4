"""Iterates over all parts of a step, at any depth."""

from collections.abc import Iterable, Iterator

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.glob import Glob, glob
from dragoman.canonical.message_view.view import MessageView
from dragoman.policy.step import Step


def iter_views_deep(step: Step) -> Iterator[MessageView]:
    """Yield a view of each part, followed by those of the parts inside it, at any depth. Raises UnknownPartError."""
    return _with_inner(step.views())


def _with_inner(views: Iterable[MessageView]) -> Iterator[MessageView]:
    for view in views:
        yield view
        yield from _with_inner(view.inner_views())


def compile_globs(patterns: Iterable[str]) -> tuple[Glob, ...]:
    """Return the compiled patterns. Raises ConfigurationError for one that is too long."""
    try:
        return tuple(glob(pattern) for pattern in patterns)
    except ValueError as error:
        raise ConfigurationError(str(error)) from None
