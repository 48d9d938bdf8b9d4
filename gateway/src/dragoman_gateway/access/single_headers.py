"""Headers that a request may have only once. Of two values, a proxy or a provider could read another one than this
gateway."""

from collections import Counter
from collections.abc import Sequence

from starlette.datastructures import QueryParams

from dragoman_gateway.errors import ClientError

_SINGLE = (
    "authorization",
    "x-api-key",
    "api-key",
    "x-goog-api-key",
    "host",
    "origin",
    "sec-fetch-site",
    "content-type",
    "content-length",
)


def check_single(names: Sequence[str]) -> None:
    """Raise ClientError if one of the headers occurs twice. ``names`` are those of all headers, in lower case."""
    times = Counter(names)
    for name in _SINGLE:
        if times[name] > 1:
            raise ClientError(f"the header {name} occurs {times[name]} times: send it once")


def key_of_query(query: bytes, header: str | None) -> str | None:
    """Return the key that Google's clients may write into the address; None if there is none. ``header`` is the key of
    their header. Raises ClientError if there are two different ones.
    """
    found = {each for each in QueryParams(query).getlist("key") if each}
    if len(found | ({header} if header else set())) > 1:
        raise ClientError("the request has two different API keys: send one")
    return next(iter(found), None)
