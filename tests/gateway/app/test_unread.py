"""With nothing configured that reads them, the messages of a request are left to the provider of its wire."""

import json

import httpx
import pytest

from dragoman import Budget
from dragoman.policy import PluginResult, Step, hook
from tests.gateway.upstream import PATHS, PROVIDERS, gateway_before, question, stream_bytes, streamed_reply, whole_reply


def new_content(wire: str, *, stream: bool = False) -> dict[str, object]:
    """A request with content that only a provider of tomorrow knows."""
    asked = question(wire, "house", stream=stream)
    content = [{"type": "text" if wire != "responses" else "input_text", "text": 7}]
    return {**asked, ("input" if wire == "responses" else "messages"): [{"role": "user", "content": content}]}


@pytest.mark.parametrize("wire", PATHS)
def test_the_provider_judges_the_content(wire: str) -> None:
    with gateway_before(whole_reply(wire), models={"house": f"{PROVIDERS[wire]}:some-model"}) as (url, server):
        reply = httpx.post(url + PATHS[wire], json=new_content(wire))
        (received,) = server.requests
    assert (reply.status_code, reply.content) == (200, whole_reply(wire).body)
    assert json.loads(received.body) == {**new_content(wire), "model": "some-model"}


@hook("cmf.llm_input")
def look(step: Step) -> PluginResult:
    """Judges requests, so each is read."""
    return PluginResult()


@pytest.mark.parametrize("wire", PATHS)
def test_a_budget_or_a_policy_reads_it(wire: str) -> None:
    for settings in ({"budgets": [Budget(tokens=1000)]}, {"policy": [look]}):
        models = {"house": f"{PROVIDERS[wire]}:some-model"}
        with gateway_before(whole_reply(wire), models=models, client=settings) as (url, server):
            reply = httpx.post(url + PATHS[wire], json=new_content(wire))
            assert (reply.status_code, server.requests) == (400, []), settings


@pytest.mark.parametrize("wire", PATHS)
def test_tokens_of_a_stream_are_counted(wire: str) -> None:
    with gateway_before(streamed_reply(wire, *"abcdefgh"), models={"house": f"{PROVIDERS[wire]}:some-model"}) as (
        url,
        _,
    ):
        reply = httpx.post(url + PATHS[wire], json=new_content(wire, stream=True))
        page = httpx.get(f"{url}/metrics").text
    assert reply.content == stream_bytes(wire, *"abcdefgh")
    counts = {line.split("{")[0] + line.split('kind="')[1].split('"')[0]: float(line.split()[-1])
              for line in page.splitlines() if line.startswith("dragoman_tokens_total{")}  # fmt: skip
    assert all(counts[f"dragoman_tokens_total{kind}"] > 0 for kind in ("input_tokens", "output_tokens"))
