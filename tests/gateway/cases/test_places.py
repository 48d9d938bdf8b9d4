"""Places that all fail, counts that fail, and a gateway that is reloaded often."""

import asyncio
import gc
import json
from typing import Any

import httpx

from dragoman import AsyncClient
from dragoman.testing.faults.server import ReceivedRequest, json_reply
from dragoman_gateway import GatewaySettings
from dragoman_gateway.app import build_app
from dragoman_gateway.running.generation import Gateway, Generation
from tests.gateway.upstream import PATHS, gateway_before, question


def test_if_every_place_fails_the_client_gets_a_true_status() -> None:
    """The client gets the status in its wire, with the wait of the provider, streamed and whole, and again while all
    deployments pause.
    """

    def fails(request: ReceivedRequest) -> Any:
        return json_reply({"error": {"message": "slow down", "type": "rate_limit"}}, 429, retry_after="7")

    places = [{"model": "openai-chat:first"}, {"model": "openai-chat:second"}]
    with gateway_before(fails, models={"house": places}) as (url, server):
        for wire, path in PATHS.items():
            for stream in (True, False):
                reply = httpx.post(url + path, json=question(wire, "house", stream=stream))
                assert (reply.status_code, reply.headers["retry-after"]) == (429, "7"), wire
                assert reply.headers["content-type"] == "application/json"
                assert "slow down" in reply.json()["error"]["message"]
        assert len(server.requests) >= 12


def test_history_at_a_provider_goes_to_no_other_wire_after_a_failure() -> None:
    places = [{"model": "openai:first", "weight": 1}, {"model": "anthropic:second", "weight": 0}]
    with gateway_before(json_reply({"error": {"message": "no"}}, 500), models={"house": places}) as (url, server):
        body = question("responses", "house", conversation="conv_1")
        assert httpx.post(f"{url}/v1/responses", json=body).status_code == 500
        assert [json.loads(request.body)["model"] for request in server.requests] == ["first"]


def test_a_count_with_a_wrong_key_of_the_provider_is_an_error() -> None:
    """No estimate hides it."""
    refused = {"type": "error", "error": {"type": "authentication_error", "message": "invalid x-api-key"}}
    with gateway_before(json_reply(refused, 401), models={"house": "anthropic:m"}) as (url, _):
        reply = httpx.post(f"{url}/v1/messages/count_tokens", json=question("messages", "house"))
    assert reply.status_code == 502
    assert "the provider anthropic refused the key" in reply.text
    assert "input_tokens" not in reply.json()


def test_reloads_leave_nothing_behind() -> None:
    gc.collect()
    earlier = _generations()

    async def scenario() -> tuple[int, int, int]:
        client = AsyncClient()
        gateway = Gateway(Generation(GatewaySettings(), client), lambda _: Generation(GatewaySettings(), client))
        app = build_app(gateway)
        routes = len(app.routes)
        for _ in range(200):
            assert await gateway.reload()
        gc.collect()
        alive = _generations() - earlier  # others are those of gateways that serve other tests
        tasks = len(asyncio.all_tasks())
        await gateway.close()
        await client.close()
        return len(app.routes) - routes, alive, tasks

    routes, alive, tasks = asyncio.run(scenario())
    assert (routes, tasks) == (0, 1)
    assert alive < 10


def _generations() -> int:
    return sum(type(each) is Generation for each in gc.get_objects())
