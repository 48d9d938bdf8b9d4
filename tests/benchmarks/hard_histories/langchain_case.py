"""LangChain: its standard messages, bound to each partner package's chat model. Runs in LangChain's environment."""

# mypy: disable-error-code="import-not-found"
import os
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_aws import ChatBedrockConverse
from langchain_core.messages import AIMessage, BaseMessage, HumanMessage, ToolMessage
from langchain_google_genai import ChatGoogleGenerativeAI
from langchain_mistralai import ChatMistralAI
from langchain_openai import ChatOpenAI
from pydantic import SecretStr

from tests.benchmarks.hard_histories.capture import run
from tests.benchmarks.hard_histories.histories import TARGETS, TOOLS, History, Step, schema

_PACKAGES = [
    "langchain-core",
    "langchain-anthropic",
    "langchain-openai",
    "langchain-google-genai",
    "langchain-mistralai",
    "langchain-aws",
]
FORMAT = os.environ.get("MESSAGE_FORMAT", "v1")
_PROVIDER = {"openrouter": "openai", "github-copilot": "openai", "anthropic": "anthropic", "google": "google_genai"}


def messages(history: History) -> list[BaseMessage]:
    found: list[BaseMessage] = []
    for turn in history.turns:
        found.append(HumanMessage(turn.question))
        for step in turn.steps:
            found.append(_reply(step, history))
            found += [ToolMessage(call.result, tool_call_id=call.id, name=call.name) for call in step.calls]
    return found


def _reply(step: Step, history: History) -> AIMessage:
    """In the format that `output_version` names: "v0" as each package writes by default, "v1" common to all."""
    calls = [{"name": call.name, "args": call.input, "id": call.id, "type": "tool_call"} for call in step.calls]
    provider = _PROVIDER[history.issuer]
    extra: dict[str, Any] = {}
    if step.thinking and provider == "google_genai":
        extra = {"__gemini_function_call_thought_signatures__": {call.id: step.signature for call in step.calls}}
    return AIMessage(
        content=_v1(step, calls) if FORMAT == "v1" else _v0(step, provider),
        tool_calls=calls,
        additional_kwargs=extra,
        response_metadata={
            "model_provider": provider,
            "model_name": history.model,
            **({"output_version": "v1"} if FORMAT == "v1" else {}),
        },
    )


def _v1(step: Step, calls: list[dict[str, Any]]) -> list[Any]:
    text = {"type": "text", "text": step.text}
    if not step.thinking:
        return [text, *calls]
    return [{"type": "reasoning", "reasoning": step.thinking, "extras": {"signature": step.signature}}, text, *calls]


def _v0(step: Step, provider: str) -> Any:
    if not step.thinking:
        return step.text
    thinking = {"type": "thinking", "thinking": step.thinking, "signature": step.signature}
    used = [{"type": "tool_use", "id": call.id, "name": call.name, "input": call.input} for call in step.calls]
    return [thinking, {"type": "text", "text": step.text}, *(used if provider == "anthropic" else [])]


def model(target: str, url: str) -> Any:
    name, key = TARGETS[target], SecretStr("none")
    match target:
        case "anthropic":
            return ChatAnthropic(model=name, api_key=key, base_url=url, max_tokens=1000, max_retries=0)
        case "responses":
            return ChatOpenAI(model=name, api_key=key, base_url=url, use_responses_api=True, max_retries=0)
        case "chat":
            return ChatOpenAI(model=name, api_key=key, base_url=url, use_responses_api=False, max_retries=0)
        case "gemini":
            return ChatGoogleGenerativeAI(model=name, api_key=key, base_url=url, max_retries=1)
        case "mistral":
            return ChatMistralAI(model=name, api_key=key, base_url=url, max_retries=0)
        case _:
            return ChatBedrockConverse(
                model=name,
                region_name="us-east-1",
                endpoint_url=url,
                aws_access_key_id=key,
                aws_secret_access_key=key,
            )


def send(history: History, target: str, url: str) -> None:
    tools = [{"type": "function", "function": {"name": name, "parameters": schema(name)}} for name in TOOLS]
    model(target, url).bind_tools(tools).invoke(messages(history))


if __name__ == "__main__":
    run(_PACKAGES, send)
