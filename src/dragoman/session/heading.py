"""Headers that plugins write into the http slot, on their way to the request of the step (CMF A4.3, HttpExtension).

The slot begins each request as the program gave it: those headers are of the request that the program itself answers,
and go nowhere. What plugins add or change there while the input of a request is judged goes with that request and its
retries, and with no request to another provider.
"""

from collections.abc import Mapping
from dataclasses import replace

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import RequestError
from dragoman.canonical.extensions import Extensions, HttpExtension
from dragoman.canonical.headers import SENSITIVE_HEADERS, is_sensitive
from dragoman.transport.prepare import checked_headers


class Heading:
    """What was written for the request that comes next. ``host`` is the slot as the program gave it."""

    def __init__(self, host: HttpExtension | None) -> None:
        self._host = host
        self._provider: str | None = None
        """Whom the slot was last written for; None where that was not known."""

    def begin(self, state: Extensions) -> Extensions:
        """Another request begins."""
        self._provider = None
        return self._with(state, self._host)

    def turned_to(self, state: Extensions, adapter: Adapter | None) -> Extensions:
        """The request goes to this provider: what was written for another one is gone, and keys that were written
        while nobody knew for whom."""
        known, self._provider = self._provider, None if adapter is None else adapter.provider
        if known == self._provider:
            return state
        if known is not None:
            return self._with(state, self._host)
        if any(map(_is_key, self._written(state))):
            kept = {name: value for name, value in self._written(state).items() if not _is_key(name)}
            return self._with(state, HttpExtension(headers={**_headers(self._host), **kept}))
        return state

    def headed(self, state: Extensions, adapter: Adapter, options: AdapterOptions) -> tuple[AdapterOptions, list[str]]:
        """The options with the headers that were written for this provider, which go before those of the program, and
        their names. Raises RequestError where one is no header, the transport's own, or a key of another provider's.
        """
        if self._provider != adapter.provider:
            return options, []
        written = checked_headers(self._written(state))
        if not written:
            return options, []
        own = adapter.endpoint.key_header.lower()
        for name in written:
            if name != own and _is_key(name):
                raise RequestError(f"a plugin wrote the header {name}, which holds no key of {adapter.provider}")
        others = {name: value for name, value in options.headers.items() if name.lower() not in written}
        return replace(options, headers={**others, **written}), sorted(written)

    def _written(self, state: Extensions) -> dict[str, str]:
        """What is in the slot, and was not given."""
        given = {name.lower(): value for name, value in _headers(self._host).items()}
        return {name: value for name, value in _headers(state.http).items() if given.get(name.lower()) != value}

    def _with(self, state: Extensions, http: HttpExtension | None) -> Extensions:
        return state if state.http == http else state.model_copy(update={"http": http})


def _headers(http: HttpExtension | None) -> Mapping[str, str]:
    return {} if http is None else http.headers


def _is_key(name: str) -> bool:
    """Whether it may hold a credential, of any provider's."""
    plain = name.lower()
    return plain in SENSITIVE_HEADERS or (plain.endswith("key") and is_sensitive(plain))
