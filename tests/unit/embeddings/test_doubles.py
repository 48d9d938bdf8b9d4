"""Embeddings under the doubles of tests: cassettes and the scripted provider."""

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from dragoman import AsyncClient
from dragoman.embeddings import embed
from dragoman.errors import RequestError
from dragoman.testing import Cassette, CassetteMissError, CassetteTransport, ScriptedProvider, cassette
from tests.unit.embeddings.handwritten_provider import running_provider

MODEL = "openai:text-embedding-3-small"


def test_a_cassette_records_and_replays_embeddings(tmp_path: Path) -> None:
    """The same vectors, in any order of the requests; another text is a miss."""
    path, texts = tmp_path / "embeddings.yaml", ["one", "three"]
    with running_provider(dimensions=1536) as provider, cassette(path, "once"):
        recorded = [embed(MODEL, each, base_url=provider.url, api_key="k", dimensions=4) for each in texts]
    client = httpx.Client(transport=CassetteTransport(Cassette.load(path)))
    replayed: Any = {"base_url": "http://replayed.invalid", "api_key": "k", "client": client, "dimensions": 4}
    with client:
        with pytest.raises(CassetteMissError, match="'another'"):
            embed(MODEL, "another", **replayed)
        for text, expected in zip(reversed(texts), reversed(recorded), strict=True):
            found = embed(MODEL, text, **replayed)
            assert (found.vectors, found.usage.cost_usd) == (expected.vectors, expected.usage.cost_usd)


def test_a_scripted_provider_embeds() -> None:
    """A scripted provider embeds without a script, split as for any provider, sync and async."""
    texts = [f"text {number}" for number in range(250)]
    with ScriptedProvider(name="scripted-embeddings") as provider:
        found = embed(provider.model, texts, purpose="query")

        async def run() -> object:
            async with AsyncClient() as client:
                return (await client.embed(provider.model, texts, purpose="query")).vectors

        assert asyncio.run(run()) == found.vectors
        assert sorted(provider.embedded) == sorted([*texts, *texts])
        assert found.usage.input_tokens == 500
        assert len({vector.tobytes() for vector in found}) == 250
        with pytest.raises(RequestError, match="1 to 4096"):
            embed(provider.model, texts, dimensions=5000)
