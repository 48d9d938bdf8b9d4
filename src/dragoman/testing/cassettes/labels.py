"""Takes a client's labels out of requests before they are compared: ids of its session, dates, numbers of processes.

They say nothing about what is asked, and differ whenever an agent runs again. The table is ``labels.toml``.
"""

import re
import tomllib
from collections.abc import Iterable, Mapping
from importlib.resources import files
from typing import Any, Self

from dragoman.adapter.errors import ConfigurationError

__all__ = ["Labels"]

_PLACE = "<label>"


class Labels:
    """Fields that do not count, and patterns of texts that do not count within any text of a request.

    ``fields`` are paths such as ``metadata.user_id``. ``patterns`` are regular expressions: of one with groups, only
    what the groups match does not count. Raises ConfigurationError for an invalid pattern.
    """

    def __init__(self, fields: Iterable[str] = (), patterns: Iterable[str | re.Pattern[str]] = ()) -> None:
        self._fields = tuple(tuple(path.split(".")) for path in fields)
        try:
            self._patterns = tuple(re.compile(pattern) for pattern in patterns)
        except re.error as error:
            raise ConfigurationError(
                f"the pattern {error.pattern!r:.80} is not a regular expression: {error}"
            ) from None

    @classmethod
    def known(cls, fields: Iterable[str] = (), patterns: Iterable[str | re.Pattern[str]] = ()) -> Self:
        """Return the labels of known clients, with those of the caller added."""
        text = files("dragoman.testing.cassettes").joinpath("labels.toml").read_text(encoding="utf-8")
        clients = tomllib.loads(text).values()
        known_fields, known_patterns = (
            [each for client in clients for each in client.get(kind, ())] for kind in ("fields", "patterns")
        )
        return cls([*known_fields, *fields], [*known_patterns, *patterns])

    def remove(self, body: Any) -> Any:
        """Return a body, parsed from JSON, without labels."""
        for path in self._fields:
            body = _without(body, path)
        return self._replace(body)

    def _replace(self, value: Any) -> Any:
        if isinstance(value, str):
            for pattern in self._patterns:
                value = pattern.sub(_hide, value)
            return value
        if isinstance(value, Mapping):
            return {key: self._replace(each) for key, each in value.items()}
        return [self._replace(each) for each in value] if isinstance(value, list) else value


def _hide(found: re.Match[str]) -> str:
    if not found.re.groups:
        return _PLACE
    text, start = found[0], found.start()
    for group in range(found.re.groups, 0, -1):
        begin, end = found.span(group)
        if begin >= 0:
            text = text[: begin - start] + _PLACE + text[end - start :]
    return text


def _without(value: Any, path: tuple[str, ...]) -> Any:
    name, *rest = path
    if not isinstance(value, Mapping) or name not in value:
        return value
    kept = dict(value)
    if rest:
        kept[name] = _without(kept[name], tuple(rest))
    if not rest or kept[name] == {}:
        del kept[name]
    return kept
