"""Addresses that ask no model: health, counts, the description, and those that do not exist."""

import asyncio
import json
import re
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path

import httpx
import pytest
from starlette.routing import Route

from dragoman import AsyncClient, ConfigurationError
from dragoman.testing.faults.server import FaultyServer, Pause, sse_reply
from dragoman_gateway import GatewaySettings, create_app
from dragoman_gateway.app import build_app
from dragoman_gateway.configuration import read_generation
from dragoman_gateway.endpoints.openapi import openapi
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.server.command import check_address
from dragoman_gateway.wires.forwarded import addresses
from tests.gateway.app.test_bad_night import wait_until
from tests.gateway.serving import serving
from tests.gateway.upstream import PATHS, PATIENCE, gateway_before, question, stream_bytes, streamed_reply, whole_reply


def test_health_readiness_and_the_description() -> None:
    with gateway_before(whole_reply("chat"), models={}) as (url, _):
        assert httpx.get(f"{url}/health").text == "ok"
        assert httpx.get(f"{url}/ready").text == "ready"
        assert httpx.head(url).status_code == 200
        described = httpx.get(f"{url}/openapi.json").json()
    assert set(PATHS.values()) <= described["paths"].keys()
    assert described["openapi"].startswith("3.1")


ALIASES = ("/models", "/v1/models/{}:", "/v1alpha/")
"""Beginnings of addresses that mean the same as those of /v1beta."""
PAGES = {("GET", "/"), ("GET", "/openapi.json"), ("GET", "/gateway")}


def test_the_description_has_every_address() -> None:
    """And no other; each parameter of an address is described."""
    app = create_app(client=AsyncClient())
    served = {
        (method, re.sub(r"\{[^}]*\}", "{}", route.path))
        for route in app.routes
        if isinstance(route, Route)
        for method in route.methods or ()
        if method != "HEAD"
    }
    forwarded = {(each.method, re.sub(r"\{[^}]*\}", "{}", each.path)) for each in addresses()}  # closed, unless opened
    served = {each for each in served if not each[1].startswith(ALIASES)} - PAGES - forwarded
    document = openapi()
    described = {
        (method.upper(), re.sub(r"\{[^}]*\}", "{}", path))
        for path, operations in document["paths"].items()
        for method in operations
    }
    assert described == served
    for path, operations in document["paths"].items():
        for operation in operations.values():
            names = [each["name"] for each in operation.get("parameters", ())]
            assert names == re.findall(r"\{(\w+)\}", path)
            assert operation["summary"]


def test_counts() -> None:
    with gateway_before(streamed_reply("chat"), models={"house": "openai-chat:gpt-5.2"}) as (url, _):
        httpx.post(f"{url}/v1/messages", json=question("messages", "house", stream=True))
        httpx.post(f"{url}/v1/messages", json=question("messages", "no-such-model"))
        page = httpx.get(f"{url}/metrics").text
    model = 'model="openai-chat:gpt-5.2"'
    assert f'dragoman_requests_total{{form="stream",{model},status="200",wire="messages"}} 1.0' in page
    assert 'dragoman_requests_total{form="whole",model="",status="404",wire="messages"} 1.0' in page
    assert f'dragoman_tokens_total{{kind="output_tokens",{model}}} 9.0' in page
    assert f"dragoman_cost_usd_total{{{model}}}" in page
    assert 'dragoman_dropped{kind="request"} 0.0' in page
    assert "no-such-model" not in page


@pytest.mark.parametrize("path", ["/v1/v1/messages", "/v2/messages", "/v1/messages/batches"])
def test_an_unknown_address_is_an_error_of_the_client_s_wire(path: str) -> None:
    with gateway_before(whole_reply("chat"), models={}) as (url, _):
        messages = httpx.post(url + path, headers={"anthropic-version": "2023-06-01"})
        other = httpx.post(url + path)
    assert (messages.status_code, other.status_code) == (404, 404)
    assert messages.json()["error"]["type"] == "not_found_error"
    assert path in other.json()["error"]["message"]
    assert ("without /v1" in other.text) == path.startswith("/v1/v1")


@pytest.mark.parametrize(
    ("path", "allowed"), [("/v1/chat/completions", "POST"), ("/v1/responses/resp_1", "DELETE, GET, HEAD")]
)
def test_a_wrong_method(path: str, allowed: str) -> None:
    with gateway_before(whole_reply("chat"), models={}) as (url, _):
        reply = httpx.put(url + path)
    assert (reply.status_code, reply.headers["allow"]) == (405, allowed)


CONFIGURATION = """
[gateway]
database = "sqlite://"
[gateway.models]
fast = "{model}"
"""


def test_a_reload_reads_the_file_again_and_a_mistake_in_it_changes_nothing(tmp_path: Path) -> None:
    file = tmp_path / "dragoman.toml"

    def write(model: str) -> None:
        file.write_text(CONFIGURATION.format(model=model))

    write("local:first")
    gateway = Gateway(read_generation(file), partial(read_generation, file))
    app = build_app(gateway)

    def owner() -> str:
        owned: str = httpx.get(f"{url}/v1/models/fast").json()["owned_by"]
        return owned

    with serving(app) as url:
        assert owner() == "local"
        write("anthropic:second")
        assert asyncio.run(gateway.reload())
        assert owner() == "anthropic"
        file.write_text("[gateway]\nprot = 1\n")
        assert not asyncio.run(gateway.reload())
        assert owner() == "anthropic"


ROTATED = """
[providers.openai-chat]
base_url = "{address}/v1"
[gateway]
database = "sqlite://"
[gateway.models]
house = [{{model = "openai-chat:m", key_variable = "OPENAI_API_KEY_{number}"}}]
"""


def test_keys_of_a_provider_rotate_without_a_lost_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Requests that have begun go on with the key that they began with; each later one has the new key."""
    for number in range(5):
        monkeypatch.setenv(f"OPENAI_API_KEY_{number}", f"sk-{number}")
    file = tmp_path / "dragoman.toml"
    slow = sse_reply(Pause(0.3), stream_bytes("chat"))
    with FaultyServer([slow, *[streamed_reply("chat")] * 40]) as server, ThreadPoolExecutor(1) as pool:

        def write(number: int) -> None:
            file.write_text(ROTATED.format(address=server.url, number=number))

        write(0)
        gateway = Gateway(read_generation(file), partial(read_generation, file))
        with serving(build_app(gateway)) as url:

            def ask() -> tuple[int, bool]:
                reply = httpx.post(f"{url}/v1/messages", json=question("messages", "house", stream=True))
                return reply.status_code, "message_stop" in reply.text

            begun = pool.submit(ask)
            wait_until(lambda: len(server.requests) == 1)
            for number in range(1, 5):
                write(number)
                assert asyncio.run(gateway.reload())
                assert ask() == (200, True)
            assert begun.result(PATIENCE) == (200, True)
    sent = [request.headers["authorization"] for request in server.requests]
    assert sent == [f"Bearer sk-{number}" for number in range(5)]


def test_without_keys_it_listens_on_this_computer_only() -> None:
    check_address(GatewaySettings(host="127.0.0.1"), has_keys=False)
    check_address(GatewaySettings(host="0.0.0.0"), has_keys=True)
    with pytest.raises(ConfigurationError, match="without keys"):
        check_address(GatewaySettings(host="0.0.0.0"), has_keys=False)


def test_mistakes_in_the_settings_are_named() -> None:
    with pytest.raises(ConfigurationError, match=r"gateway\.workers.*; gateway\.prot"):
        GatewaySettings.from_table({"prot": 1, "workers": 0})
    places = [{"model": "anthropic:m", "key_variable": "AWS_SECRET_ACCESS_KEY"}]
    with pytest.raises(ConfigurationError, match="does not begin with ANTHROPIC_API_KEY"):
        create_app(GatewaySettings.from_table({"models": {"claude": places}}), client=AsyncClient())


def test_each_request_has_a_line_in_the_log_without_what_was_said(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level("INFO", "dragoman.gateway.requests")
    with gateway_before(whole_reply("chat"), models={"house": "openai-chat:gpt-5.2"}) as (url, _):
        answered = httpx.post(f"{url}/v1/messages", json=question("messages", "house"))
        refused = httpx.post(f"{url}/v1/messages", json=question("messages", "nothing"))
    first, second = (json.loads(line.message) for line in caplog.records if line.name == "dragoman.gateway.requests")
    assert first["request"] == answered.headers["x-dragoman-request-id"]
    assert (first["model"], first["status"], first["output_tokens"]) == ("openai-chat:gpt-5.2", 200, 9)
    assert (second["request"], second["error"]) == (refused.headers["x-dragoman-request-id"], "NotFoundError")
    assert "Bern" not in caplog.text
