"""Detects the wire of a URL; the table is ``wires.toml``."""

import re
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from urllib.parse import unquote, urlsplit

_CHAT = re.compile(r"/chat/completions")
_RESPONSES = re.compile(r"/responses")


@dataclass(frozen=True, slots=True)
class Wire:
    """``provider`` is the name of the adapter that reads it; ``model`` is None if the URL does not name it."""

    provider: str
    model: str | None
    streams: bool
    """True if the URL itself requests a stream."""


@dataclass(frozen=True, slots=True)
class _Row:
    host: re.Pattern[str] | None
    path: re.Pattern[str]
    provider: str

    def match(self, host: str, path: str) -> re.Match[str] | None:
        if self.host is not None and self.host.search(host) is None:
            return None
        return self.path.search(path)


def wire_at(url: str) -> Wire | None:
    """Return the wire of a URL. None if the URL is not one for generating, or is unknown.

    An unknown host with an OpenAI wire may be any compatible provider: it counts as OpenAI.
    """
    try:
        parts = urlsplit(url)
    except ValueError:
        return None
    host, path = parts.netloc.rpartition("@")[2].lower(), parts.path
    streams = "stream" in path.rpartition("/")[2].lower()
    for row in _rows():
        if (found := row.match(host, path)) is not None:
            model = found.groupdict().get("model")
            return Wire(row.provider, unquote(model) if model else None, streams)
    return None


@cache
def _rows() -> tuple[_Row, ...]:
    table = tomllib.loads(files("dragoman.formats.importers").joinpath("wires.toml").read_text(encoding="utf-8"))
    rows = [_row(row.get("host"), re.compile(f"{row['path']}$"), row["provider"]) for row in table["wires"]]
    either = re.compile(f"({_CHAT.pattern}|{_RESPONSES.pattern})$")
    rows += [_row(row["host"], either, row["provider"]) for row in table["hosts"]]
    rows.append(_row(None, re.compile(f"{_CHAT.pattern}$"), "openai-chat"))
    rows.append(_row(None, re.compile(f"{_RESPONSES.pattern}$"), "openai"))
    return tuple(rows)


def _row(host: str | None, path: re.Pattern[str], provider: str) -> _Row:
    return _Row(re.compile(f"({host})(:[0-9]+)?$") if host else None, path, provider)
