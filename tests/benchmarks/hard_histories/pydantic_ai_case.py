"""pydantic-ai: an agent with the history as its own messages. Runs in pydantic-ai's environment."""

# mypy: disable-error-code="import-not-found"
from typing import Any

import boto3  # type: ignore[import-untyped,unused-ignore]
from botocore.config import Config
from pydantic_ai import Agent, ToolDefinition
from pydantic_ai.messages import (
    ModelMessage,
    ModelRequest,
    ModelResponse,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolReturnPart,
    UserPromptPart,
)
from pydantic_ai.models.anthropic import AnthropicModel
from pydantic_ai.models.bedrock import BedrockConverseModel
from pydantic_ai.models.google import GoogleModel
from pydantic_ai.models.mistral import MistralModel
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
from pydantic_ai.providers.anthropic import AnthropicProvider
from pydantic_ai.providers.bedrock import BedrockProvider
from pydantic_ai.providers.google import GoogleProvider
from pydantic_ai.providers.mistral import MistralProvider
from pydantic_ai.providers.openai import OpenAIProvider
from pydantic_ai.toolsets import ExternalToolset

from tests.benchmarks.hard_histories.capture import run
from tests.benchmarks.hard_histories.histories import TARGETS, TOOLS, History, Step, schema


def messages(history: History) -> list[ModelMessage]:
    """All but the last question, which is the agent's prompt."""
    found: list[ModelMessage] = []
    for turn in history.turns[:-1]:
        found.append(ModelRequest([UserPromptPart(turn.question)]))
        for step in turn.steps:
            found.append(ModelResponse(_parts(step, history), provider_name=history.issuer, model_name=history.model))
            if step.calls:
                results = [ToolReturnPart(call.name, call.result, tool_call_id=call.id) for call in step.calls]
                found.append(ModelRequest(results))
    return found


def _parts(step: Step, history: History) -> list[Any]:
    parts: list[Any] = []
    signed: dict[str, Any] = {}
    if step.thinking:
        parts.append(ThinkingPart(step.thinking, signature=step.signature, provider_name=history.issuer))
    if step.thinking and history.issuer == "google":
        signed = {"provider_name": "google", "provider_details": {"thought_signature": step.signature}}
    parts.append(TextPart(step.text))
    parts += [ToolCallPart(call.name, call.input, tool_call_id=call.id, **signed) for call in step.calls]
    return parts


def model(target: str, url: str) -> Any:
    name = TARGETS[target]
    match target:
        case "anthropic":
            return AnthropicModel(name, provider=AnthropicProvider(api_key="none", base_url=url))
        case "responses":
            return OpenAIResponsesModel(name, provider=OpenAIProvider(api_key="none", base_url=url))
        case "chat":
            return OpenAIChatModel(name, provider=OpenAIProvider(api_key="none", base_url=url))
        case "gemini":
            return GoogleModel(name, provider=GoogleProvider(api_key="none", base_url=url))
        case "mistral":
            return MistralModel(name, provider=MistralProvider(api_key="none", base_url=url))
        case _:
            client = boto3.client(
                "bedrock-runtime",
                endpoint_url=url,
                region_name="us-east-1",
                aws_access_key_id="none",
                aws_secret_access_key="none",
                config=Config(retries={"max_attempts": 0}),
            )
            return BedrockConverseModel(name, provider=BedrockProvider(bedrock_client=client))


def send(history: History, target: str, url: str) -> None:
    tools = [ToolDefinition(name=name, parameters_json_schema=schema(name)) for name in TOOLS]
    agent = Agent(model(target, url), toolsets=[ExternalToolset(tools)], output_type=str, retries=0)
    agent.run_sync(
        history.turns[-1].question,
        message_history=messages(history),
        model_settings={"max_tokens": 1000},
    )


if __name__ == "__main__":
    run(["pydantic-ai-slim"], send)
