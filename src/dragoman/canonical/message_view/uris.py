"""What a URI means, one canonical spelling for all spellings that a client fetches alike, and patterns over it.

The rules are those of RFC 3986, of the WHATWG URL standard for web addresses, and of RFC 8089 for files. A
spelling that readers understand differently, such as one with a backslash, has no meaning here: `read_uri` returns
None, and a policy denies it. Names of hosts are not resolved, and symbolic links are not followed.
Source: docs/reference/cmf.md#uris.
"""

import ipaddress
import re
import unicodedata
from functools import lru_cache
from typing import NamedTuple
from urllib.parse import quote, unquote_to_bytes

from dragoman.canonical.glob import glob

DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443, "ftp": 21}
"""The web schemes: their hosts are names or addresses of the internet."""

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]+:")
"""A scheme has at least two letters here, because a single letter is a drive on Windows."""
_NESTED = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:/")
_BROKEN_ESCAPE = re.compile(r"%(?![0-9A-Fa-f]{2})")
_ESCAPE = re.compile(r"%[0-9A-Fa-f]{2}")
_DRIVE = re.compile(r"[A-Za-z][:|]")
_HOST = re.compile(r"[a-z0-9_-]{1,63}(\.[a-z0-9_-]{1,63})*")
_NUMBER = re.compile(r"[0-9]+|0x[0-9a-f]*")
_DEVIATIONS = frozenset("\u00df\u03c2\u200c\u200d")
"""Characters that IDNA 2003 and IDNA 2008 translate to different hosts."""
_PORT = re.compile(r"0{0,16}[0-9]{1,5}")
_DOTS = (".", "..")
_SLASHES = re.compile(r"//+")
_PARAMETERS = re.compile(r";[^/]*")
_MAX_HOST = 253
_MAX_PORT = 65_535
_ADDRESS_BYTES = 4
_MAX_BYTE = 255
_MAX_DIGITS = 32
"""Digits of one number of an address; an octal one of 32 bits has 11, and perhaps leading zeros."""
_SAFE_IN_PATH = "-._~!$&'()+,;=:@"
"""The star is not among them: it is a wildcard in a pattern, so a star in a URI becomes %2A."""
_SAFE_IN_QUERY = _SAFE_IN_PATH + "/?%"


class UriMeaning(NamedTuple):
    """``text`` is the canonical spelling.

    ``readings`` are all spellings that a server may read in it; an allow list must allow all of them. More than one
    exists only if a path of the web has an escaped slash. ``parts`` are the readings with and without the query, the
    user name, parameters of segments and repeated slashes; a deny list compares these.
    """

    text: str
    readings: tuple[str, ...]
    parts: tuple[str, ...]


class AmbiguousUriError(ValueError):
    """A URI has no single meaning, so that no rule can decide about it."""


@lru_cache(maxsize=4_096)
def read_uri(uri: str) -> UriMeaning | None:
    """Return what the URI means, or None if it is not a URI, or if readers disagree about it."""
    try:
        return _read(uri)
    except (AmbiguousUriError, UnicodeError):
        return None


def _read(uri: str) -> UriMeaning:
    match = _SCHEME.match(uri)
    if match is None:
        raise AmbiguousUriError("it has no scheme")
    scheme, rest = match[0][:-1].lower(), uri[match.end() :]
    if scheme == "data":
        return _read_data(rest)
    if has_control(uri) or uri != uri.strip():
        raise AmbiguousUriError("it has a space at its end, or a control character")
    rest, _, fragment = rest.partition("#")
    hierarchy, _, query = rest.partition("?")
    if "\\" in hierarchy:
        raise AmbiguousUriError("only some readers take a backslash for a slash")
    authority: str | None = None
    slash, path = ("/" if hierarchy.startswith("/") else ""), hierarchy.removeprefix("/")
    if hierarchy.startswith("//"):
        authority, slash, path = hierarchy[2:].partition("/")
        if not slash and "@" in query + fragment:
            raise AmbiguousUriError("readers disagree about where its host ends")
    if scheme == "file":
        return _read_file(authority, path if slash or authority else None, query + fragment)
    if not slash and authority is None and scheme not in DEFAULT_PORTS:
        return _read_opaque(scheme, hierarchy, query)
    return _read_place(scheme, authority, slash, path, query, fragment)


def _read_place(scheme: str, authority: str | None, slash: str, path: str, query: str, fragment: str) -> UriMeaning:
    """Return the meaning of a path, on a host if there is an authority."""
    if scheme in DEFAULT_PORTS:
        user, host = read_authority(authority or "", scheme)
        if not host or host.startswith(":"):
            raise AmbiguousUriError("it has no host")
        return _build_meaning(f"{scheme}://", "", f"{host}/", read_path(path, web=True), query)
    if "/" in fragment or "\\" in fragment:
        raise AmbiguousUriError("only some readers drop the fragment")
    paths = read_path(path, web=False)
    if authority is None:
        return _build_meaning(f"{scheme}:/", "", "", paths, query)
    user, host = read_authority(authority, scheme)
    return _build_meaning(f"{scheme}://", f"{user}@" if user else "", host + slash, paths, query)


def _build_meaning(scheme: str, user: str, host: str, paths: tuple[str, ...], query: str) -> UriMeaning:
    asked = f"?{read_query(query)}" if query else ""
    readings = tuple(f"{scheme}{user}{host}{path}{asked}" for path in paths)
    looser = {*paths, *(_SLASHES.sub("/", _PARAMETERS.sub("", f"/{path}"))[1:] for path in paths)}
    parts = {
        f"{scheme}{before}{host}{path}{after}" for before in ("", user) for path in looser for after in ("", asked)
    }
    return UriMeaning(readings[0], readings, tuple(sorted(parts)))


def _read_file(authority: str | None, path: str | None, rest: str) -> UriMeaning:
    """Return the meaning of a file: the same without a host, with an empty one, and with localhost."""
    if path is None:
        raise AmbiguousUriError("its path is relative")
    if "/" in rest or "\\" in rest or ".." in rest:
        raise AmbiguousUriError("only some readers drop the query and the fragment of a file")
    if authority and _DRIVE.fullmatch(authority):
        authority, path = "", f"{authority}/{path}"
    if path.startswith("/"):
        raise AmbiguousUriError("readers disagree about a file whose path starts with two slashes")
    user, host = read_authority(authority or "", "file")
    if user or ":" in host.rpartition("]")[2]:
        raise AmbiguousUriError("a file has neither a user nor a port")
    (full,) = read_path(path, web=False)
    *folders, last = full.split("/")
    kept = [*filter(None, folders), last]
    if _DRIVE.fullmatch(first := kept[0].replace("%7C", "|")):
        kept[0] = f"{first[0].upper()}:"
    text = f"file://{'' if host == 'localhost' else host}/{'/'.join(kept)}"
    return UriMeaning(text, (text,), (text,))


def _read_data(rest: str) -> UriMeaning:
    """Return a data URL with its media type in lower case; the data stay as they are."""
    head, comma, data = rest.partition(",")
    if not comma or has_control(head):
        raise AmbiguousUriError("it is not a data URL")
    text = f"data:{_decode(head).strip().lower()},{data}"
    return UriMeaning(text, (text,), (text,))


def _read_opaque(scheme: str, path: str, query: str) -> UriMeaning:
    """Return the meaning of a URI without a hierarchy, such as urn:isbn:0451450523."""
    decoded = [_decode(each) for each in path.split("/")]
    if not path or any(each in _DOTS for each in decoded) or _NESTED.match(path):
        raise AmbiguousUriError("it wraps another URI, or has relative parts")
    text = f"{scheme}:{'/'.join(_encode(each) for each in decoded)}"
    full = f"{text}?{read_query(query)}" if query else text
    return UriMeaning(full, (full,), tuple({text, full}))


def read_authority(authority: str, scheme: str) -> tuple[str, str]:
    """Return the user information, and the host with a port that is not the default one. Raises AmbiguousUriError."""
    user, _, host = authority.rpartition("@")
    if "@" in user:
        raise AmbiguousUriError("readers disagree about where its host starts")
    port = ""
    if host.startswith("["):
        host, bracket, after = host.partition("]")
        if not bracket or (after and not after.startswith(":")):
            raise AmbiguousUriError("its address is not closed")
        host, port = _read_ipv6(host[1:]), after[1:]
    else:
        host, _, port = host.partition(":")
        host = _read_host(host) if scheme in DEFAULT_PORTS or scheme == "file" else _read_other_host(host)
    if port:
        if not _PORT.fullmatch(port) or int(port) > _MAX_PORT:
            raise AmbiguousUriError("its port is not a number up to 65535")
        if int(port) != DEFAULT_PORTS.get(scheme):
            host = f"{host}:{int(port)}"
    return _encode(_decode(user)), host


def _read_host(host: str) -> str:
    if "%" in host:
        host = _decode(host)
    if not host.isascii():
        if _DEVIATIONS & set(host):
            raise AmbiguousUriError("readers translate its host to different names")
        import idna  # a part of httpx; imported late, because few hosts need its tables

        try:
            host = idna.encode(host, uts46=True).decode("ascii")
        except idna.IDNAError:
            raise AmbiguousUriError("its host is not an international name") from None
    host = host.lower().removesuffix(".")
    if not host:
        return host
    last = host.rpartition(".")[2]
    if _NUMBER.fullmatch(last):
        return _read_ipv4(host)
    if not _HOST.fullmatch(host) or len(host) > _MAX_HOST:
        raise AmbiguousUriError("its host is neither a name nor an address")
    return host


def _read_other_host(host: str) -> str:
    """Return the host of a scheme that has no names of the internet, such as one of an MCP server."""
    host = _decode(host).lower()
    if host.endswith(".") or set(host) & set("/\\?#@"):
        raise AmbiguousUriError("readers disagree about its host")
    return _encode(host)


def _read_ipv4(host: str) -> str:
    """Return an address of one to four numbers, each decimal, octal or hexadecimal, in the usual spelling."""
    numbers = [_read_number(each) for each in host.split(".")]
    *high, low = numbers
    if len(high) >= _ADDRESS_BYTES or max(high, default=0) > _MAX_BYTE:
        raise AmbiguousUriError("its address is out of range")
    rest = _ADDRESS_BYTES - len(high)
    try:
        return str(ipaddress.IPv4Address(bytes(high) + low.to_bytes(rest, "big")))
    except OverflowError:
        raise AmbiguousUriError("its address is out of range") from None


def _read_number(text: str) -> int:
    base = 16 if text.startswith("0x") else 8 if text.startswith("0") else 10
    digits = "0" if text == "0x" else text.removeprefix("0x")
    try:
        if not digits.isalnum() or len(digits) > _MAX_DIGITS:
            raise ValueError
        return int(digits, base)
    except ValueError:
        raise AmbiguousUriError("its address is not a number") from None


def _read_ipv6(text: str) -> str:
    """Return the shortest spelling; an IPv4 address that is written as an IPv6 address is the IPv4 address."""
    try:
        address = ipaddress.IPv6Address(text)
    except ValueError:
        raise AmbiguousUriError("its address is not one of IPv6") from None
    if address.scope_id is not None:
        raise AmbiguousUriError("its address names an interface of one machine")
    return str(address.ipv4_mapped) if address.ipv4_mapped else f"[{address}]"


def read_path(path: str, *, web: bool) -> tuple[str, ...]:
    """Return the path without relative parts and needless escapes, and without its first slash.

    The second item, if there is one, has slashes in place of escaped ones. Raises AmbiguousUriError.
    """
    decoded = [_decode_segment(each, web=web) for each in path.split("/")]
    kept: list[str] = []
    for place, segment in enumerate(decoded):
        if segment in _DOTS:
            if segment == ".." and kept:
                kept.pop()
            if place == len(decoded) - 1:
                kept.append("")
        else:
            kept.append(segment)
    plain = "/".join(map(_encode, kept))
    slashed = "/".join(_encode(each) for segment in kept for each in segment.split("/"))
    return (plain,) if plain == slashed else (plain, slashed)


def _decode_segment(segment: str, *, web: bool) -> str:
    text = _decode(segment)
    if text in _DOTS:
        return text
    similar = unicodedata.normalize("NFKC", text)
    if (
        _ESCAPE.search(text)
        or "\\" in similar
        or similar.count("/") != text.count("/")
        or any(each.partition(";")[0] in _DOTS for each in similar.split("/"))
        or ("/" in text and not web)
    ):
        raise AmbiguousUriError("servers disagree about a segment of its path")
    return text


def _decode(text: str) -> str:
    """Decode all escapes. Raises AmbiguousUriError if one is broken, or hides a control character or broken UTF-8."""
    if _BROKEN_ESCAPE.search(text):
        raise AmbiguousUriError("it has a percent sign that starts no escape")
    decoded = unquote_to_bytes(text).decode("utf-8")
    if has_control(decoded):
        raise AmbiguousUriError("it has an escaped control character")
    return decoded


def _encode(text: str) -> str:
    return quote(text, safe=_SAFE_IN_PATH)


def read_query(query: str) -> str:
    """Return the query with needless escapes removed. Reserved characters stay as they are written."""

    def read_escape(match: re.Match[str]) -> str:
        character = chr(int(match[0][1:], 16))
        plain = character.isascii() and (character.isalnum() or character in "-._~")
        return character if plain else match[0].upper()

    return quote(_ESCAPE.sub(read_escape, _BROKEN_ESCAPE.sub("%25", query)), safe=_SAFE_IN_QUERY)


def has_control(text: str) -> bool:
    return any(character < " " or "\x7f" <= character <= "\x9f" for character in text)


_PATTERN_SCHEME = re.compile(r"([A-Za-z*][A-Za-z0-9+.*-]*):(//)?")
_OWN_SCHEMES = frozenset({"tool", "prompt"})
"""Schemes of this library's own URIs, which are names and are never fetched."""
_DRIVE_START = re.compile(r"\A[a-z]:(?=/|\Z)")

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
    match = _PATTERN_SCHEME.match(pattern)
    if match is None:
        return _both(_read_rest(pattern, web=True) if pattern.strip("*") else pattern)
    scheme, rest = match[1].lower(), pattern[match.end() :]
    if scheme in _OWN_SCHEMES:
        return _both(pattern)
    if scheme == "data" and ("*" in pattern or "," not in pattern):
        head, comma, data = rest.partition(",")
        return _both(f"data:{head.lower()}{comma}{data}")
    if "*" not in pattern:
        meaning = read_uri(pattern)
        if meaning is None or len(meaning.readings) > 1:
            raise ValueError(f"the pattern {pattern!r:.80} has no single meaning: write the URI without escapes")
        return _both(meaning.text)
    if match[2] is None:
        slash = "/" if rest.startswith("/") else ""
        start = "file://" if scheme == "file" else f"{scheme}:"
        return _both(start + slash + _read_rest(rest.removeprefix("/"), web=False, file=scheme == "file"))
    return _read_with_host(scheme, rest, pattern)


def _both(*patterns: str) -> tuple[Patterns, Patterns]:
    return patterns, patterns


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
    return (_DRIVE_START.sub(lambda match: match[0].upper(), written, count=1) if file else written) + mark + asked
