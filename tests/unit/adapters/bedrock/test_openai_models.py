"""OpenAI's models on Bedrock, through Converse and through Mantle: by their limits there, and as the SDKs ask."""

import json
from typing import Any

import openai
import pytest

from dragoman import get_adapter
from dragoman.client import Client
from tests.conformance.coverage.loopback import loopback
from tests.tables import each_row

LIMITS = [
    ("bedrock:us.openai.gpt-6-sol", 1_050_000, 128_000, True),
    ("bedrock:global.openai.gpt-5.6-terra", 1_050_000, 128_000, True),
    ("bedrock:openai.gpt-oss-120b-1:0", 128_000, 16_384, False),
    ("bedrock-openai:openai.gpt-6.1-sol", 1_050_000, 128_000, True),
    ("bedrock-openai:us.openai.gpt-6-luna", 1_050_000, 128_000, True),
    ("bedrock-openai:openai.gpt-5.5", 272_000, 128_000, True),
    ("bedrock-openai:openai.gpt-5.4", 272_000, 128_000, True),
    ("bedrock-openai:openai.gpt-oss-20b", 131_072, 16_384, False),
]
CONVERSED = {
    "output": {"message": {"role": "assistant", "content": [{"text": "Yes."}]}},
    "stopReason": "end_turn", "metrics": {"latencyMs": 1},
    "usage": {"inputTokens": 5, "outputTokens": 2, "totalTokens": 7},
}  # fmt: skip
RESPONSE = {
    "id": "resp_1", "object": "response", "created_at": 1, "status": "completed", "model": "openai.gpt-6-sol",
    "output": [{
        "type": "message", "id": "msg_1", "role": "assistant", "status": "completed",
        "content": [{"type": "output_text", "text": "Yes.", "annotations": []}],
    }],
    "parallel_tool_calls": True, "tool_choice": "auto", "tools": [],
    "usage": {
        "input_tokens": 5, "output_tokens": 2, "total_tokens": 7,
        "input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0},
    },
}  # fmt: skip


@each_row(("model", "window", "output", "sees"), LIMITS)
def test_limits_are_those_of_the_cloud(model: str, window: int, output: int, *, sees: bool) -> None:
    """Limits are those of the cloud in every region, behind the vendor's name; all of them reason."""
    found = get_adapter(model).capabilities
    assert (found.max_context_tokens, found.max_output_tokens) == (window, output)
    assert (bool(found.supports_images), bool(found.supports_thinking)) == (sees, True)


def test_mantle_lists_its_own_names() -> None:
    """Not those of OpenAI's API, most of which it does not serve."""
    assert {name.partition(".")[0] for name in get_adapter("bedrock-openai:any").listed_models} == {"openai"}


def test_converse_is_asked_as_its_sdk_asks() -> None:
    """The effort goes in the model's own fields; sampling is a loss, since these models reason unasked."""
    model = "us.openai.gpt-6-sol"
    with loopback() as server, Client() as client:
        server.answer = ("application/json", json.dumps(CONVERSED).encode())
        theirs: Any = pytest.importorskip("botocore.session").get_session().create_client(
            "bedrock-runtime", region_name="us-east-1", endpoint_url=server.url,
            aws_access_key_id="key", aws_secret_access_key="secret",
        )  # fmt: skip
        theirs.converse(
            modelId=model, messages=[{"role": "user", "content": [{"text": "Yes?"}]}], inferenceConfig={"maxTokens": 9},
            additionalModelRequestFields={"reasoning_effort": "xhigh"},
        )  # fmt: skip
        reply = client.ask(
            f"bedrock:{model}", "Yes?", effort="xhigh", temperature=0.5, max_output_tokens=9,
            base_url=server.url, api_key="key-of-a-test",
        )  # fmt: skip
        assert (server.sent[1].path, server.sent[1].body) == (server.sent[0].path, server.sent[0].body)
    assert reply.text == "Yes."
    assert [loss.reason.partition(":")[0] for loss in reply.losses] == ["temperature"]


def test_mantle_is_asked_as_openais_sdk_asks() -> None:
    """Its prices are the cloud's."""
    model = "openai.gpt-6-sol"
    with loopback() as server, Client() as client:
        server.answer = ("application/json", json.dumps(RESPONSE).encode())
        with openai.OpenAI(api_key="key-of-a-test", base_url=server.url) as theirs:
            theirs.responses.create(
                model=model, input=[{"role": "user", "content": "Yes?"}], reasoning={"effort": "xhigh"},
                max_output_tokens=99,
            )  # fmt: skip
        reply = client.ask(
            f"bedrock-openai:{model}", "Yes?", effort="xhigh", max_output_tokens=99,
            base_url=server.url, api_key="key-of-a-test",
        )  # fmt: skip
        ours = {name: value for name, value in server.sent[1].body.items() if name in server.sent[0].body}
        assert (server.sent[1].path, ours) == (server.sent[0].path, server.sent[0].body)
    usage = reply.message.metadata.usage
    assert reply.text == "Yes."
    assert usage is not None
    assert usage.cost_status == "priced"
