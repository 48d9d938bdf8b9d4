"""A batch that was sent under a policy gives its answers under the same plugins only."""

import json
from typing import Any

import httpx
import pytest

from dragoman import Client
from dragoman.batch import BatchHandle
from dragoman.errors import ConfigurationError
from dragoman.policy import Pipeline
from tests.unit.session.handwritten_replies import handwritten_anthropic
from tests.unit.session.middleware.policy_plugins import SECRET, RecordingPlugin, RedactingPlugin

MODEL = "anthropic:claude-opus-5-5"


def answer(request: httpx.Request) -> httpx.Response:
    if str(request.url).endswith("/results"):
        reply = json.loads(handwritten_anthropic(f"It is {SECRET}.").body)
        return httpx.Response(
            200, text=json.dumps({"custom_id": "a", "result": {"type": "succeeded", "message": reply}}) + "\n"
        )
    counts = {"processing": 0, "succeeded": 1, "errored": 0, "canceled": 0, "expired": 0}
    ended = {"id": "msgbatch_1", "processing_status": "ended", "request_counts": counts}
    return httpx.Response(200, json={**ended, "results_url": "https://api.anthropic.com/v1/messages/batches/1/results"})


def client(*plugins: Any) -> Client:
    provider = {"client": httpx.Client(transport=httpx.MockTransport(answer)), "api_key": "nobody"}
    return Client(providers={"anthropic": provider}, **({"policy": Pipeline(plugins)} if plugins else {}))


def test_a_batch_is_not_fetched_without_its_policy() -> None:
    """More plugins may be there."""
    hiding, noting = RedactingPlugin(), RecordingPlugin()
    with client(hiding) as sending, sending.batches(MODEL) as batches:
        handle = BatchHandle.model_validate_json(batches.submit({"a": "Hi"}).model_dump_json())
    assert handle.plugins == ("hiding",)
    for plugins in ((), (noting,)):
        with client(*plugins) as other, other.batches(MODEL) as batches:
            with pytest.raises(ConfigurationError, match="hiding"):
                batches.fetch(handle)
            with pytest.raises(ConfigurationError, match="hiding"):
                batches.poll(handle)
    for plugins in ((hiding,), (hiding, noting)):
        with client(*plugins) as same, same.batches(MODEL) as batches:
            (reply,) = batches.fetch(handle)
        assert reply.text == "It is ***."


def test_the_handle_of_a_batch_without_a_policy_is_as_before() -> None:
    """The handle of a batch without a policy is as before so that an earlier version can read it."""
    with client() as sending, sending.batches(MODEL) as batches:
        handle = batches.submit({"a": "Hi"})
    assert "plugins" not in json.loads(handle.model_dump_json())
