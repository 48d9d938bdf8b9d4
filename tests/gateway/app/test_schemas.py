"""A client that asks for an answer by a schema gets the model's answer as it is, and checks it itself."""

import httpx
import pytest

from tests.gateway.upstream import PROVIDERS, gateway_before, streamed_reply, whole_reply

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string"}},
    "required": ["city"],
    "additionalProperties": False,
}
FORMAT = {"type": "json_schema", "json_schema": {"name": "city", "schema": SCHEMA, "strict": True}}


@pytest.mark.parametrize("behind", PROVIDERS)
@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_breaks_the_schema_is_not_asked_for_again(behind: str, stream: bool) -> None:
    reply = streamed_reply(behind, "No ", "JSON.") if stream else whole_reply(behind, "No JSON.")
    body = {"model": "house", "messages": [{"role": "user", "content": "Name a city."}], "response_format": FORMAT}
    with gateway_before(reply, models={"house": f"{PROVIDERS[behind]}:gpt-6.1"}) as (url, server):
        answer = httpx.post(f"{url}/v1/chat/completions", json={**body, "stream": stream})
        (request,) = server.requests
    assert answer.status_code == 200
    assert answer.text.count("JSON.") == 1
    assert b"additionalProperties" in request.body
