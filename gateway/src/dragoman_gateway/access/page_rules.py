"""Decides which requests may come from a web page of another site: a gateway without keys answers none of them.

A browser lets every page send requests to this computer. What tells such a request from a program's is what a page
cannot choose: the name that the browser looked up, the site that it says the request is from, and the content type,
which is one of a few unless the gateway was asked before.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import lru_cache
from ipaddress import ip_address
from urllib.parse import urlsplit

from dragoman_gateway.errors import ContentTypeError, DeniedError

PAGE_HEADERS = ("host", "origin", "sec-fetch-site")
"""The headers that `PageRules.check` reads."""
_OWN_NAMES = ("localhost", "*.localhost", "host.docker.internal", "host.containers.internal")
"""Names that no page can give to another address: browsers resolve the first ones themselves, and container engines
give the last ones to the computer that they run on."""
_OWN_SITES = ("", "none", "same-origin")
"""Values of Sec-Fetch-Site for requests that come from a program or directly from a user, and not from another site."""
_SECTION = "in the table [gateway] of dragoman.toml"
_BEARER = "bearer "
"""Browsers add other schemes by themselves."""
_OR_KEY = "or create a key with `dragoman gateway keys create`, which pages of other sites do not have"
_SEND_JSON = "send the header content-type: application/json"
_ASKED_FIRST = frozenset(("x-api-key", "x-goog-upload-command"))
"""Headers that a browser asks the other site about first. Google's key may come from the address instead."""
_MAX_REMEMBERED = 20
"""The hosts and content types, of those that requests repeat, that are not judged again."""


class PageRules:
    """``hosts`` are globs of the names under which the gateway is reached, besides those of this computer, and
    ``origins`` globs of the origins whose pages may ask it."""

    def __init__(self, hosts: Sequence[str] = (), origins: Sequence[str] = ()) -> None:
        self._hosts = (*_OWN_NAMES, *(each.lower() for each in hosts))
        self._origins = tuple(each.lower() for each in origins)
        self._is_known_as = lru_cache(_MAX_REMEMBERED)(self._is_own)  # nearly all requests repeat the same few

    def check(self, headers: Mapping[str, str]) -> None:
        """Raise DeniedError for a request with headers that only a page of another site sends."""
        host = headers.get("host", "").strip().lower()
        if host and not self._is_known_as(host):
            raise DeniedError(
                f"this gateway has no keys and is not known as {host!r:.120}, which another site may have made a name"
                f" of this computer: add it to allowed_hosts {_SECTION}, {_OR_KEY}"
            )
        origin = headers.get("origin", "").strip().lower()
        if origin and _matches(origin, self._origins):
            return
        site = headers.get("sec-fetch-site", "").strip().lower()
        is_own_page = not origin
        with suppress(ValueError):
            is_own_page = is_own_page or (host != "" and urlsplit(origin).netloc == host)
        if not is_own_page or site not in _OWN_SITES:
            raise DeniedError(
                f"this gateway has no keys and does not answer pages of other sites, here {origin or site!r:.120}: open"
                f" its own address yourself, add the origin of the page to allowed_origins {_SECTION}, {_OR_KEY}"
            )

    def _is_own(self, host: str) -> bool:
        """Whether no other site can have this host. An address is never looked up, so no site can have given it."""
        # The name is without the port, and without the dot that may end it.
        name = host[1:].partition("]")[0] if host.startswith("[") else host.partition(":")[0].removesuffix(".")
        with suppress(ValueError):
            ip_address(name)
            return True
        return _matches(name, self._hosts) or _matches(host, self._hosts)


def check_body_type(headers: Mapping[str, str], *, untyped: bool = False, any_type: bool = False) -> None:
    """Raise ContentTypeError if the request has a body that a page may send to any site. ``untyped``: whether clients
    leave the content type out. They send a key, and a browser asks before a page may add one. ``any_type``: whether a
    request with a key, or with the header with which an upload to Google goes on, may have any body.
    """
    sends_bearer = headers.get("authorization", "").lower().startswith(_BEARER)
    if any_type and (sends_bearer or not _ASKED_FIRST.isdisjoint(headers)):
        return
    kind = headers.get("content-type", "")
    if kind and not is_json(kind):
        raise ContentTypeError(f"the content type {kind!r:.80} is not JSON: {_SEND_JSON}")
    length = headers.get("content-length", "0")
    has_body = length != "0" or "transfer-encoding" in headers
    if not kind and has_body and not (untyped and sends_bearer):
        raise ContentTypeError(f"the body has no content type: {_SEND_JSON}")


@lru_cache(_MAX_REMEMBERED)
def is_json(kind: str) -> bool:
    """Whether a content type is that of JSON."""
    essence = kind.partition(";")[0].strip().lower()
    return essence == "application/json" or essence.endswith("+json")


def _matches(text: str, globs: Sequence[str]) -> bool:
    return any(fnmatchcase(text, glob) for glob in globs)
