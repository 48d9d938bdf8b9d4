"""Patterns over URIs: globs that are compared with what a URI means, not with how it is spelled.

Source: docs/reference/cmf.md#uris.
"""

import re
from functools import lru_cache

from dragoman.canonical.glob import glob
from dragoman.canonical.message_view.uris import (
    DEFAULT_PORTS,
    AmbiguousUriError,
    UriMeaning,
    read_authority,
    read_path,
    read_query,
    read_uri,
)

_SCHEME = re.compile(r"([A-Za-z*][A-Za-z0-9+.*-]*):(//)?")
_OWN_SCHEMES = frozenset({"tool", "prompt"})
"""Schemes of this library's own URIs, which are names and are never fetched."""
_DRIVE = re.compile(r"\A[a-z]:(?=/|\Z)")

Patterns = tuple[str, ...]


class UriPattern:
    """One pattern of an allow list or a deny list.

    It is brought into the canonical spelling as URIs are. Raises ValueError if it has no meaning, such as a pattern
    with a backslash, or if it is too long.
    """

    __slots__ = ("_allow", "_deny", "_name", "pattern")

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern
        self._name = glob(pattern)
        narrow, wide = _canonical_patterns(pattern)
        self._allow = tuple(map(glob, narrow))
        self._deny = tuple(map(glob, wide))

    def matches_name(self, uri: str) -> bool:
        """Return True for this URI of a tool or a prompt, character by character."""
        return self._name.matches(uri)

    def allows(self, meaning: UriMeaning) -> bool:
        """Return True if all readings of the URI match."""
        return all(any(each.matches(text) for each in self._allow) for text in meaning.readings)

    def allows_any(self, meaning: UriMeaning) -> bool:
        """Return True if at least one reading of the URI matches."""
        return any(each.matches(text) for each in self._allow for text in meaning.readings)

    def denies(self, meaning: UriMeaning) -> bool:
        """Return True if any part of what the URI may mean matches; see `UriMeaning.parts`."""
        return any(each.matches(text) for each in self._deny for text in meaning.parts)


@lru_cache(maxsize=1_024)
def uri_pattern(pattern: str) -> UriPattern:
    """Return the compiled pattern, from a cache. Raises ValueError."""
    return UriPattern(pattern)


def matches_uri(pattern: str, uri: str) -> bool:
    """Return True if what the URI means matches. Raises AmbiguousUriError if it has no single meaning."""
    meaning = read_uri(uri)
    compiled = uri_pattern(pattern)
    if meaning is None or compiled.allows(meaning) != compiled.allows_any(meaning):
        raise AmbiguousUriError("a URI has no single meaning, so that no pattern can decide about it")
    return compiled.allows(meaning)


def _canonical_patterns(pattern: str) -> tuple[Patterns, Patterns]:
    """Return the patterns for an allow list, and those for a deny list."""
    match = _SCHEME.match(pattern)
    if match is None:
        return _both(_read_rest(pattern, web=True) if pattern.strip("*") else pattern)
    scheme, rest = match[1].lower(), pattern[match.end() :]
    if scheme in _OWN_SCHEMES:
        return _both(pattern)
    if scheme == "data" and ("*" in pattern or "," not in pattern):
        head, comma, data = rest.partition(",")
        return _both(f"data:{head.lower()}{comma}{data}")
    if "*" not in pattern:
        return _both(_read_literal(pattern))
    if match[2] is None:
        slash = "/" if rest.startswith("/") else ""
        start = "file://" if scheme == "file" else f"{scheme}:"
        return _both(start + slash + _read_rest(rest.removeprefix("/"), web=False, file=scheme == "file"))
    return _read_with_host(scheme, rest, pattern)


def _both(*patterns: str) -> tuple[Patterns, Patterns]:
    return patterns, patterns


def _read_literal(pattern: str) -> str:
    meaning = read_uri(pattern)
    if meaning is None or len(meaning.readings) > 1:
        raise ValueError(f"the pattern {pattern!r:.80} has no single meaning: write the URI without escapes")
    return meaning.text


def _read_with_host(scheme: str, rest: str, pattern: str) -> tuple[Patterns, Patterns]:
    authority, slash, path = rest.partition("/")
    web = scheme in DEFAULT_PORTS or "*" in scheme
    if web and "@" in authority:
        raise ValueError(f"the pattern {pattern!r:.80} has a user name, which is not compared: leave it out")
    start = f"{scheme}://{_read_host_pattern(authority, scheme, pattern)}"
    if slash:
        written = f"/{_read_rest(path, web=web, file=scheme == 'file')}"
        any_port = start.endswith(":*")
        return _both(*([start + written, start[:-2] + written] if any_port else [start + written]))
    if not web or not authority.strip("*"):
        return _both(start if authority.endswith("**") or not web else f"{start}/")
    name = start.rstrip("*")
    stars = start[len(name) :]
    if not stars:
        return _both(f"{start}/")
    # Stars behind a name stand for its paths. A deny list also matches hosts whose names are longer.
    narrow = f"{name.removesuffix(':')}/{stars}"
    return (narrow,), (narrow, f"{start}/", start)


def _read_host_pattern(authority: str, scheme: str, pattern: str) -> str:
    if "*" not in authority:
        try:
            user, host = read_authority(authority, scheme)
        except (AmbiguousUriError, UnicodeError) as error:
            raise ValueError(f"the pattern {pattern!r:.80} has no single meaning: {error}") from None
        host = "" if scheme == "file" and host == "localhost" else host
        return f"{user}@{host}" if user else host
    if not authority.isascii() or "%" in authority or "\\" in authority:
        raise ValueError(f"the pattern {pattern!r:.80} has a wildcard in its host: write the rest of it in ASCII")
    host, colon, port = authority.lower().partition(":")
    default = str(DEFAULT_PORTS.get(scheme, ""))
    return host if not port or port == default else f"{host}{colon}{port}"


def _read_rest(rest: str, *, web: bool, file: bool = False) -> str:
    """Return the path and the query of a pattern. Stars stay, and a segment with one is not a relative part."""
    if file and rest.startswith("/"):
        raise ValueError(f"the pattern with the path {rest!r:.80} has two slashes at its start")
    path, mark, query = rest.partition("?")
    segments: list[str] = []
    try:
        for segment in path.split("/"):
            pieces = [
                read_path(piece, web=web)[0] if piece not in (".", "..") else piece for piece in segment.split("*")
            ]
            written = "*".join(pieces)
            if written == "..":
                if not segments or "*" in segments[-1]:
                    raise AmbiguousUriError("it has a relative part behind a wildcard")
                segments.pop()
            elif written != "." and (written or not file):
                segments.append(written)
        asked = "*".join(read_query(piece) for piece in query.split("*"))
    except (AmbiguousUriError, UnicodeError) as error:
        raise ValueError(f"the pattern with the path {rest!r:.80} has no single meaning: {error}") from None
    if file and path.endswith("/"):
        segments.append("")
    written = "/".join(segments)
    return (_DRIVE.sub(lambda match: match[0].upper(), written, count=1) if file else written) + mark + asked
