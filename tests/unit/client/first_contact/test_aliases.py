"""A short name is a model wherever a model is named."""

from collections.abc import Iterator
from datetime import UTC, datetime
from http.server import ThreadingHTTPServer
from pathlib import Path

import pytest

from dragoman import AsyncSession, Client, RequestContext, Router, Session, Usage, ask, cost, get_adapter
from dragoman.adapter.names import bundled_aliases
from dragoman.bulk import bulk
from dragoman.errors import UnknownProviderError
from dragoman.pricing import reprice
from dragoman.services import Services
from tests.unit.client.first_contact.provider import serve

SONNET = bundled_aliases()["sonnet"]
AT = datetime(2026, 11, 1, tzinfo=UTC)


@pytest.fixture(autouse=True)
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[ThreadingHTTPServer]:
    with serve() as server:
        monkeypatch.setenv("ANTHROPIC_BASE_URL", f"http://127.0.0.1:{server.server_address[1]}")
        monkeypatch.setenv("ANTHROPIC_API_KEY", "none")
        yield server


def test_every_door_takes_an_alias(tmp_path: Path) -> None:
    """What is stored and shown is the full id: an alias may mean another model tomorrow."""
    assert ask("sonnet", "Hi").message.metadata.model == SONNET
    assert Client().ask("Sonnet", "Hi").message.metadata.model == SONNET
    assert str(get_adapter("sonnet").model_id) == RequestContext.for_model(SONNET).model == SONNET
    with Session("haiku") as session:
        assert session.preview("sonnet").model == SONNET
        session.swap("sonnet")
        assert session.model == SONNET
        assert Session.load(session.dump()).model == SONNET
        session.ask("Hi")
        assert session.cost_on("opus").by_model.keys() == {bundled_aliases()["opus"]}
    assert AsyncSession("sonnet", api_key="k", base_url="http://127.0.0.1:9").model == SONNET
    assert str(Services("sonnet").adapter.model_id) == SONNET
    with bulk([{"prompt": "Hi"}], "sonnet", to=tmp_path / "rows.jsonl") as report:
        assert [row["model"] for row in report] == [SONNET]
    usage = Usage(input_tokens=1000, output_tokens=10)
    assert cost(usage, "sonnet", AT) == cost(usage, SONNET, AT)
    reply = session.messages[-1]
    assert list(reprice([reply], as_model="opus", at=AT)) == list(
        reprice([reply], as_model=bundled_aliases()["opus"], at=AT)
    )


def test_an_alias_of_the_program_comes_before_a_bundled_one() -> None:
    """With settings of the provider too, which are those of the model that the alias means."""
    router = Router(aliases={"sonnet": "ollama:llama3.2"})
    session = Session("sonnet", router=router, base_url="http://127.0.0.1:9")
    assert session.model == "ollama:llama3.2"
    assert session.providers["ollama"]["base_url"] == "http://127.0.0.1:9"


def test_a_name_that_is_nearly_an_alias_is_answered_with_it() -> None:
    with pytest.raises(UnknownProviderError, match="did you mean 'sonnet'"):
        ask("sonet", "Hi")
