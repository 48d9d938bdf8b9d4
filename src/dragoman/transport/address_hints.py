"""Why a request may have missed its server: the address in full, and the likely mistake in it."""

import re
from typing import Protocol

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import ProviderError, UnexpectedPageError
from dragoman.credentials.target import Target

_VERSION = re.compile(r"/v\d\w*$")
_VERSIONS = re.compile(r"(?:/.*)?/v\d\w*/(?:.*/)?v\d\w*/")
_ENDPOINT = re.compile(
    r"/(?:chat/completions|completions|responses|messages|embeddings|api/chat|api/generate|models(?:/[^/]*enerateContent)?)$"
)
_OF_THE_MODEL = re.compile(
    r"model\b.{0,120}(?:not (?:be )?found|not exist|not_found|no access|unknown)|(?:unknown|no|no such) model",
    re.DOTALL,
)
_PLAIN_SERVER = re.compile(r"WRONG_VERSION_NUMBER|RECORD_LAYER_FAILURE|(?:wrong version number|record layer failure)")
_UNTRUSTED = re.compile(r"certificate.verify.failed", re.IGNORECASE)
_UNKNOWN_HOST = re.compile(
    r"has no address|name or service|getaddrinfo|nodename|no address|failure in name|cannot connect to host .* \[name",
    re.IGNORECASE,
)
_OTHER_WIRES = (
    ("/responses", "the server has Chat Completions only: use openai-chat:{model} or compatible:{model}"),
    ("/messages", "the server does not speak Anthropic's API: use compatible:{model} for OpenAI's"),
    ("/api/chat", "the server does not speak Ollama's own API: use compatible:{model} for OpenAI's"),
    ("enerateContent", "the server does not speak Google's API: use compatible:{model} for OpenAI's"),
    ("/chat/completions", "the server speaks another API: use openai:{model}, anthropic:{model} or ollama:{model}"),
)
"""By a part of a request's path: which API the server may have instead."""


class Prepared(Protocol):
    """What a request was made from."""

    @property
    def target(self) -> Target | None: ...

    @property
    def method(self) -> str: ...

    @property
    def path(self) -> str: ...


def explain(error: ProviderError, prepared: Prepared, adapter: Adapter, *, through_proxy: bool) -> str | None:
    """Return the full address and the likely cause of an error that may concern it; None for any other error."""
    if (target := prepared.target) is None:
        return None
    if error.status is None:
        cause = _of_connection(error, target, through_proxy=through_proxy)
    elif isinstance(error, UnexpectedPageError):
        cause = _of_path(target, prepared.path, adapter.endpoint.base_url, adapter.model)
    elif error.status == 400:
        if "HTTPS port" not in error.message:
            return None
        cause = _write(target, _with_scheme(target.base_url, "https"))
    elif _OF_THE_MODEL.search(error.message.lower()):
        cause = ""
    else:
        cause = _of_path(target, prepared.path, adapter.endpoint.base_url, adapter.model)
    asked = f"{prepared.method} {target.base_url}{prepared.path.partition('?')[0]}"
    return f"{asked}: {cause}" if cause else asked


def _of_path(target: Target, path: str, default: str, model: str) -> str:
    base, setting = target.base_url, target.setting
    if not setting:
        return "the provider has no such path, or no such model"
    versioned = re.match(r"/v\d", path) is not None
    if found := _ENDPOINT.search(base):
        root = base[: found.start()]
        return f"{setting} has a whole endpoint: {_write(target, _VERSION.sub('', root) if versioned else root)}"
    if _VERSIONS.match(_path_of(base) + path):
        return f"{setting} has the version that the path has already: {_write(target, _VERSION.sub('', base))}"
    given, usual = _path_of(base), _path_of(default)
    if usual and not given:
        return f"{setting} lacks {usual}: {_write(target, base + usual)}"
    causes = [next((text.format(model=model) for part, text in _OTHER_WIRES if part in path), "")]
    if given != usual:
        written = _write(target, base.removesuffix(given) + usual)
        causes.insert(0, f"{setting} has the path {given}, and not {usual or 'an empty one'}: {written}")
    return "; or ".join(filter(None, causes)) or f"{setting} has a wrong path"


def _of_connection(error: ProviderError, target: Target, *, through_proxy: bool) -> str:
    message, setting = error.message, target.setting or "the network"
    if _PLAIN_SERVER.search(message):
        return f"the server does not speak TLS: {_write(target, _with_scheme(target.base_url, 'http'))}"
    if _UNTRUSTED.search(message):
        return (
            "its certificate is not trusted: give the authority's, as in"
            " verify=ssl.create_default_context(cafile=...), or in SSL_CERT_FILE"
        )
    if through_proxy:
        return "check the address of the proxy, or except this host in NO_PROXY"
    if _UNKNOWN_HOST.search(message):
        return f"no computer has that name: check the host in {setting}"
    if error.sent is False:
        return f"nothing answers there: start the server, or check host and port in {setting}"
    if target.base_url.startswith("http://") and target.setting:
        written = _write(target, _with_scheme(target.base_url, "https"))
        return f"the server ended the connection; if it speaks TLS, {written}"
    return "the server ended the connection without an answer"


def _write(target: Target, base_url: str) -> str:
    shown = repr(base_url) if target.setting == "base_url" else base_url
    return f"write {target.setting or 'base_url'}={shown}"


def _with_scheme(base_url: str, scheme: str) -> str:
    return f"{scheme}://{base_url.partition('://')[2]}"


def _path_of(base_url: str) -> str:
    """Return the path of a base URL, from its first slash; empty if it has none."""
    _, slash, path = base_url.partition("://")[2].partition("/")
    return slash + path
