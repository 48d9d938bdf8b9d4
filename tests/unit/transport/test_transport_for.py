"""Which transport an adapter gets."""

from typing import ClassVar

import anthropic
import httpx
import ollama
import openai
import pytest

from dragoman.adapter.errors import ConfigurationError, MissingKeyError
from dragoman.local import AsyncLocalTransport, LocalTransport
from dragoman.transport import (
    AsyncHttpTransport,
    AsyncVendorTransport,
    HttpTransport,
    RetryPolicy,
    VendorTransport,
    transport_for,
)
from tests.unit.transport.drivers import ADAPTER, KEY, PLAIN_REQUEST, PlainAdapter


class LocalPlainAdapter(PlainAdapter):
    transport: ClassVar[str] = "local"


class PigeonAdapter(PlainAdapter):
    transport: ClassVar[str] = "pigeon"


def test_http_is_the_default() -> None:
    """An adapter of transport http gets the sync or the async transport, with the given settings."""
    assert type(transport_for(ADAPTER)) is HttpTransport
    assert type(transport_for(ADAPTER, asynchronous=True)) is AsyncHttpTransport
    with httpx.Client() as client:
        chosen = transport_for(ADAPTER, client=client, api_key=KEY, retry=RetryPolicy(max_retries=0), timeout=1.0)
        assert type(chosen) is HttpTransport


def test_a_vendor_client_makes_a_vendor_transport() -> None:
    """The client's package decides which."""
    for client in (anthropic.Anthropic(api_key=KEY), openai.OpenAI(api_key=KEY), ollama.Client()):
        assert type(transport_for(ADAPTER, client=client)) is VendorTransport
        client.close()
    for other in (anthropic.AsyncAnthropic(api_key=KEY), openai.AsyncOpenAI(api_key=KEY), ollama.AsyncClient()):
        assert type(transport_for(ADAPTER, asynchronous=True, client=other)) is AsyncVendorTransport


def test_a_model_in_this_process() -> None:
    """The local transport comes in by its entry point, which gets the settings."""
    said: list[str] = []
    assert isinstance(transport_for(LocalPlainAdapter("m"), notify=said.append), LocalTransport)
    assert isinstance(transport_for(LocalPlainAdapter("m"), asynchronous=True), AsyncLocalTransport)
    with pytest.raises(ConfigurationError, match="device"):
        transport_for(LocalPlainAdapter("m"), device="CPU")


def test_an_unknown_transport_is_an_error() -> None:
    """The error lists the known ones."""
    with pytest.raises(ConfigurationError, match="'pigeon', which is neither registered nor installed"):
        transport_for(PigeonAdapter("m"))


def test_nothing_is_opened_or_read_before_the_first_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """A transport without a key can be made; the first call reports the missing key."""
    monkeypatch.delenv("PLAIN_KEY", raising=False)
    monkeypatch.delenv("PLAIN_TOKEN", raising=False)
    transport = transport_for(ADAPTER)
    with pytest.raises(MissingKeyError):
        transport.send(ADAPTER, PLAIN_REQUEST)
