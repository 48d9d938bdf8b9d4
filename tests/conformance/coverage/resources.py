"""Whole resources: the requests of an SDK's other methods, and which of them Dragoman makes, too."""

import inspect
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from importlib import import_module
from typing import Any

from dragoman import DragomanError, Message, get_adapter
from dragoman.adapter.operations.service_api import FileContent
from dragoman.embeddings import EmbeddingOptions
from tests.conformance.coverage.loopback import Loopback
from tests.conformance.coverage.shapes import parameters_of, samples
from tests.conformance.coverage.typed import MODELS, encode

Request = tuple[str, str]
"""The method and the path, in which ``*`` is any name."""

_EMBEDDING_MODELS = {"openai": "text-embedding-3-small", "google": "gemini-embedding-001", "ollama": "embeddinggemma",
                     "bedrock": "amazon.titan-embed-text-v2:0"}  # fmt: skip
_SAMPLE = re.compile(r"sample(-sample-sample)?")
_WAITS = re.compile(r"poll|wait|connect|listen|^close$|_and_|runner|^from_|^link$")
"""Methods that go on until a server that does more has answered."""
_VERSION = re.compile(r"^/v1(beta|alpha)?(?=/)")


def resource_requests(client: Any, server: Loopback) -> dict[str, Request]:
    """Return the first request of each method of a client that sends one to that server."""
    found: dict[str, Request] = {}
    for name, method in _methods(client):
        before = len(server.sent)
        with suppress(Exception):  # it refuses the samples, or cannot read the empty answer
            method(**_arguments(method))
        if len(server.sent) > before:
            sent = server.sent[before]
            found[name] = sent.method, _pattern(sent.path)
    return found


def own_requests(provider: str) -> set[Request]:
    """Return the first request of each operation that Dragoman has for a provider."""
    adapter: Any = get_adapter(f"{provider}:{MODELS[provider][0]}")
    wire = encode(provider, [Message.user("Hi")])
    assert wire is not None
    found = {(wire.method, wire.path)}
    services, batches = adapter.services, adapter.batch_api
    operations = [] if services is None else [
        lambda: services.count_tokens(wire), lambda: services.upload(FileContent("a.txt", "text/plain", b"a")),
        services.files, lambda: services.delete_file("sample"), services.models,
    ]  # fmt: skip
    if batches is not None:
        operations += [
            lambda: batches.submit([batches.encode_line("a", wire)], {}), lambda: batches.poll("sample"),
            lambda: batches.cancel("sample"), lambda: batches.results("sample"),
        ]  # fmt: skip
    for operation in operations:
        with suppress(DragomanError, NotImplementedError):
            try:
                first = next(operation())
            except StopIteration as done:  # it returns the requests for the caller to send
                first = done.value[0]
            found.add((first.method, first.path))
    if model := _EMBEDDING_MODELS.get(provider):
        embeddings: Any = get_adapter(f"{provider}:{model}").embeddings
        if embeddings is not None:
            vectors = embeddings.to_wire(["Hi"], EmbeddingOptions())
            found.add((vectors.method, vectors.path))
    return {(method, _pattern(path)) for method, path in found}


def _pattern(path: str) -> str:
    bare = _VERSION.sub("", path.partition("?")[0])
    return re.sub(r"(?<=models/)[^/:]+", "*", _SAMPLE.sub("*", bare))


def _arguments(method: Any) -> dict[str, Any]:
    """Return a sample for each argument without a default."""
    required = [
        name
        for name, each in inspect.signature(method).parameters.items()
        if each.kind not in (each.VAR_KEYWORD, each.VAR_POSITIONAL) and each.default is inspect.Parameter.empty
    ]
    hints = parameters_of(method)
    return {name: next(iter(samples(hints.get(name, str))), "sample") for name in required}


def _methods(client: Any, depth: int = 3, prefix: str = "") -> Iterator[tuple[str, Any]]:
    for name in dir(type(client)):
        if name.startswith(("_", "with_", "aio")) or _WAITS.search(name):
            continue
        value = inspect.getattr_static(type(client), name)
        if inspect.isfunction(value):
            if prefix:
                yield prefix + name, getattr(client, name)
        elif hasattr(value, "__get__") and depth:
            with suppress(Exception):
                inner = getattr(client, name)
                if "resources" in type(inner).__module__ or type(inner).__module__.startswith("google.genai"):
                    yield from _methods(inner, depth - 1, f"{prefix}{name}.")


def _anthropic(url: str) -> Any:
    return import_module("anthropic").Anthropic(api_key="sample-key", base_url=url, max_retries=0)


def _openai(url: str) -> Any:
    return import_module("openai").OpenAI(api_key="sample-key", base_url=f"{url}/v1", max_retries=0)


def _google(url: str) -> Any:
    return import_module("google.genai").Client(api_key="sample-key", http_options={"base_url": url})


CLIENTS: dict[str, Callable[[str], Any]] = {"anthropic": _anthropic, "openai": _openai, "google": _google}
"""The clients of SDKs that have more than the conversation, by provider."""
