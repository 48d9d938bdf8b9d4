"""Mistakes of an operator: found before the first request, and named in the log if a request finds them."""

from pathlib import Path

import httpx
import pytest

from dragoman import AsyncClient, ConfigurationError
from dragoman_gateway import GatewaySettings, create_app
from dragoman_gateway.configuration import read_generation, read_settings
from dragoman_gateway.running.state_keys import VARIABLE, state_keys
from tests.cli.test_commands import command
from tests.gateway.serving import serving
from tests.gateway.upstream import PATHS, question

WRONG = """[gateway]
first_evnt_seconds = 3
[gateway.keys]
reserve_outpt = 4000
[gateway.models]
fast = "antropic:claude-sonnet-4-5"
slow = "claude-sonnet-4-5"
both = [{model = "anthropic:m"}, {model = "opnai:m", weigt = 2}]
"""


def test_each_mistake_in_the_settings_has_its_line_and_a_near_name(tmp_path: Path) -> None:
    """`dragoman config check` finds what the start refuses."""
    file = tmp_path / "dragoman.toml"
    file.write_text(WRONG)
    with pytest.raises(ConfigurationError) as raised:
        read_settings(file)
    text = str(raised.value)
    for line, mistake in (
        (2, "gateway.first_evnt_seconds: an unknown setting; did you mean 'first_event_seconds'?"),
        (4, "gateway.keys.reserve_outpt: an unknown setting; did you mean 'reserve_output'?"),
        (6, "gateway.models.fast: no provider 'antropic': did you mean 'anthropic'"),
        (7, "gateway.models.slow: "),
        (8, "gateway.models.both.1.model: no provider 'opnai'"),
        (8, "gateway.models.both.1.weigt: an unknown setting; did you mean 'weight'?"),
    ):
        assert f"{file}:{line}: {mistake}" in text
    assert len(text.splitlines()) == 7
    done = command("config", "check", str(file), COLUMNS="400")
    assert done.returncode == 2
    assert text in done.stderr


@pytest.mark.parametrize("keys", ["a:notbase64", "a:AAAA"])
def test_keys_that_cannot_seal_end_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, keys: str) -> None:
    """Each request would fail. The error shows none of the key."""
    file = tmp_path / "dragoman.toml"
    file.write_text('[gateway]\ndatabase = "sqlite://"\n')
    monkeypatch.setenv(VARIABLE, keys)
    state_keys.cache_clear()
    try:
        with pytest.raises(ConfigurationError) as raised:
            read_generation(file)
    finally:
        state_keys.cache_clear()
    assert keys.partition(":")[2] not in str(raised.value)
    assert command("config", "check", str(file), **{VARIABLE: keys}).returncode == 2


def test_a_missing_key_is_named_at_the_start_and_for_each_request(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The log names the variable and the model; the client learns neither."""
    monkeypatch.delenv("ANTHROPIC_API_KEY", raising=False)
    settings = GatewaySettings(models={"house": "anthropic:m"})
    with serving(create_app(settings, client=AsyncClient(providers={"openai": {"api_key": "sk-1"}}))) as url:
        httpx.get(f"{url}/health")
        [warning] = [line.getMessage() for line in caplog.records if line.name == "dragoman.gateway"]
        assert "anthropic:m" in warning
        assert "ANTHROPIC_API_KEY" in warning
        caplog.clear()
        for stream in (False, True):
            reply = httpx.post(url + PATHS["messages"], json=question("messages", "house", stream=stream))
            assert reply.status_code == 500
            assert "ANTHROPIC" not in reply.text
    causes = [line.getMessage() for line in caplog.records if line.name == "dragoman.gateway"]
    assert len(causes) == 2
    assert all("house" in each and "ANTHROPIC_API_KEY" in each for each in causes)
