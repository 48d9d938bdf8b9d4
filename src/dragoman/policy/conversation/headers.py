"""Adds the headers that plugins write into the http slot to the request (docs/reference/cmf.md#headers).

Each request starts with the slot as the program gave it: those headers belong to the request that the program itself
answers, and are never sent. Headers that plugins add or change during the input hooks go with that request and its
retries, and with no request to another provider.
"""

from collections.abc import Mapping
from dataclasses import replace

from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.errors import RequestError
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.extensions.headers import SENSITIVE_HEADERS, is_sensitive
from dragoman.canonical.extensions.slots import HttpExtension
from dragoman.transport.request_validation import validate_headers


class PolicyHeaders:
    """The headers written for the next request. ``http`` is the slot as the program gave it."""

    def __init__(self, http: HttpExtension | None) -> None:
        self.given = http
        self._provider: str | None = None
        """The provider that the headers were set for; None if it was not known."""

    def begin_request(self, state: Extensions, adapter: Adapter | None) -> Extensions:
        """Start a new request to this provider with the slot as the program gave it."""
        self._provider = None if adapter is None else adapter.provider
        return state if state.http is self.given else self._replace_http(state, self.given)

    def set_provider(self, state: Extensions, adapter: Adapter | None) -> Extensions:
        """Set the provider of the request. Headers for another provider are dropped, and so are credentials that were
        written before the provider was known."""
        known, self._provider = self._provider, None if adapter is None else adapter.provider
        if known == self._provider:
            return state
        if known is not None:
            return self._replace_http(state, self.given)
        written = self._plugin_headers(state)
        if any(map(_is_credential, written)):
            kept = {name: value for name, value in written.items() if not _is_credential(name)}
            return self._replace_http(state, HttpExtension(headers={**_headers(self.given), **kept}))
        return state

    def add_headers(
        self, state: Extensions, adapter: Adapter, options: AdapterOptions
    ) -> tuple[AdapterOptions, list[str]]:
        """Return the options with the headers for this provider, which override the program's, and their names.

        Raises RequestError if a header is invalid, reserved for the transport, or a key of another provider.
        """
        if state.http is self.given or self._provider != adapter.provider:
            return options, []
        written = self._plugin_headers(state)
        if not written:
            return options, []
        plugin_headers = validate_headers(written)
        key_header = adapter.endpoint.key_header.lower()
        for name in plugin_headers:
            if name != key_header and _is_credential(name):
                raise RequestError(f"a plugin wrote the header {name}, which holds no key of {adapter.provider}")
        own = options.headers.get(adapter.provider, {})
        others = {name: value for name, value in own.items() if name.lower() not in plugin_headers}
        headers = {**options.headers, adapter.provider: {**others, **plugin_headers}}
        return replace(options, headers=headers), sorted(plugin_headers)

    def _plugin_headers(self, state: Extensions) -> dict[str, str]:
        """Return the headers in the slot that the program did not give."""
        if state.http is self.given:
            return {}
        program_headers = {name.lower(): value for name, value in _headers(self.given).items()}
        return {
            name: value for name, value in _headers(state.http).items() if program_headers.get(name.lower()) != value
        }

    def _replace_http(self, state: Extensions, http: HttpExtension | None) -> Extensions:
        return state if state.http is http or state.http == http else state.model_copy(update={"http": http})


def _headers(http: HttpExtension | None) -> Mapping[str, str]:
    return {} if http is None else http.headers


def _is_credential(name: str) -> bool:
    """Whether the header may hold a credential of any provider."""
    lowered = name.lower()
    return lowered in SENSITIVE_HEADERS or (lowered.endswith("key") and is_sensitive(lowered))
