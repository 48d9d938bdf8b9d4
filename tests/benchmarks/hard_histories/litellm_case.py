"""LiteLLM: OpenAI's dicts, with the fields in which its own replies hold thinking. Runs in LiteLLM's environment."""

# mypy: disable-error-code="import-not-found"
import json
import os
from typing import Any

from tests.benchmarks.hard_histories.capture import run
from tests.benchmarks.hard_histories.histories import TARGETS, TOOLS, History, Step, schema

os.environ |= {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "AWS_EC2_METADATA_DISABLED": "true"}

import litellm  # it reads its settings while it is imported

# LiteLLM documents both for requests that a provider would refuse: it may change messages and leave options out.
litellm.modify_params = True
litellm.drop_params = True

PREFIX = {
    "anthropic": "anthropic/",
    "responses": "openai/responses/",
    "chat": "openai/",
    "gemini": "gemini/",
    "mistral": "mistral/",
    "bedrock": "bedrock/converse/",
}


def messages(history: History) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for turn in history.turns:
        found.append({"role": "user", "content": turn.question})
        for step in turn.steps:
            found.append(_reply(step, history.issuer))
            found += [
                {"role": "tool", "tool_call_id": call.id, "name": call.name, "content": call.result}
                for call in step.calls
            ]
    return found


def _reply(step: Step, issuer: str) -> dict[str, Any]:
    calls: list[dict[str, Any]] = [
        {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": json.dumps(call.input)},
        }
        for call in step.calls
    ]
    reply: dict[str, Any] = {"role": "assistant", "content": step.text, "tool_calls": calls or None}
    if step.thinking:
        reply["reasoning_content"] = step.thinking
        reply["thinking_blocks"] = [{"type": "thinking", "thinking": step.thinking, "signature": step.signature}]
        if issuer == "google":
            reply["provider_specific_fields"] = {"thought_signatures": [step.signature]}
            for call in calls:
                call["provider_specific_fields"] = {"thought_signature": step.signature}
    return reply


def send(history: History, target: str, url: str) -> None:
    endpoint: dict[str, Any] = {"api_base": url}
    if target == "bedrock":
        endpoint = {
            "aws_bedrock_runtime_endpoint": url,
            "aws_access_key_id": "none",
            "aws_secret_access_key": "none",
            "aws_region_name": "us-east-1",
        }
    litellm.completion(
        model=PREFIX[target] + TARGETS[target],
        messages=messages(history),
        tools=[{"type": "function", "function": {"name": name, "parameters": schema(name)}} for name in TOOLS],
        max_tokens=1000,
        api_key=None if target == "bedrock" else "none",
        num_retries=0,
        **endpoint,
    )


if __name__ == "__main__":
    run(["litellm"], send)
