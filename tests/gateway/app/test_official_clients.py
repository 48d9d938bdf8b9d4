"""The official SDKs ask a gateway, and a scripted model of another wire answers."""

import json
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import anthropic
import openai
import pytest

from dragoman import AsyncClient
from dragoman.testing import ScriptedProvider, scripted_reply
from dragoman_gateway import GatewaySettings, create_app
from tests.gateway.serving import serving

WEATHER = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}


@pytest.fixture
def provider() -> Iterator[ScriptedProvider]:
    with ScriptedProvider(
        scripted_reply("Bern is in Switzerland."), scripted_reply(calls={"weather": {"city": "Bern"}})
    ) as scripted:
        yield scripted


@pytest.fixture
def address(provider: ScriptedProvider) -> Iterator[str]:
    settings = GatewaySettings(models={"fast": provider.model})
    with serving(create_app(settings, client=AsyncClient())) as url:
        yield url


@pytest.mark.parametrize("streamed", [False, True])
def test_messages(opened: ExitStack, address: str, streamed: bool) -> None:
    client = opened.enter_context(anthropic.Anthropic(base_url=address, api_key="none", max_retries=0))
    question = {"model": "fast", "max_tokens": 100, "messages": [{"role": "user", "content": "Where is Bern?"}]}
    tools = [{"name": "weather", "description": "The weather.", "input_schema": WEATHER}]

    def ask(**more: Any) -> Any:
        if not streamed:
            return client.messages.create(**question, **more)
        with client.messages.stream(**question, **more) as stream:
            return stream.get_final_message()

    first = ask()
    assert (first.model, first.stop_reason) == ("fast", "end_turn")
    assert first.content[0].text == "Bern is in Switzerland."
    second = ask(tools=tools)
    assert second.stop_reason == "tool_use"
    assert (second.content[-1].name, second.content[-1].input) == ("weather", {"city": "Bern"})


@pytest.mark.parametrize("streamed", [False, True])
def test_chat_completions(opened: ExitStack, address: str, streamed: bool) -> None:
    client = opened.enter_context(openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0))
    question = {"model": "fast", "messages": [{"role": "user", "content": "Where is Bern?"}]}
    tools = [{"type": "function", "function": {"name": "weather", "description": "W.", "parameters": WEATHER}}]

    def ask(**more: Any) -> Any:
        if not streamed:
            return client.chat.completions.create(**question, **more)
        with client.chat.completions.stream(**question, **more) as stream:
            return stream.get_final_completion()

    first = ask()
    assert first.choices[0].message.content == "Bern is in Switzerland."
    assert (first.model, first.choices[0].finish_reason) == ("fast", "stop")
    call = ask(tools=tools).choices[0]
    assert call.finish_reason == "tool_calls"
    assert call.message.tool_calls[0].function.name == "weather"


@pytest.mark.parametrize("streamed", [False, True])
def test_responses(opened: ExitStack, address: str, streamed: bool) -> None:
    client = opened.enter_context(openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0))
    tools = [{"type": "function", "name": "weather", "description": "W.", "parameters": WEATHER, "strict": False}]

    def ask(**more: Any) -> Any:
        if not streamed:
            return client.responses.create(model="fast", input="Where is Bern?", **more)
        with client.responses.stream(model="fast", input="Where is Bern?", **more) as stream:
            return stream.get_final_response()

    first = ask()
    assert (first.output_text, first.status, first.model) == ("Bern is in Switzerland.", "completed", "fast")
    call = ask(tools=tools).output[-1]
    assert (call.type, call.name, json.loads(call.arguments)) == ("function_call", "weather", {"city": "Bern"})


def test_an_unknown_model_is_named_with_its_neighbours(opened: ExitStack) -> None:
    with serving(create_app(GatewaySettings(models={"fast": "local:smollm2"}), client=AsyncClient())) as url:
        client = opened.enter_context(anthropic.Anthropic(base_url=url, api_key="none", max_retries=0))
        with pytest.raises(anthropic.NotFoundError) as caught:
            client.messages.create(model="fest", max_tokens=1, messages=[{"role": "user", "content": "Hi"}])
    assert "near names are fast" in str(caught.value)
    assert caught.value.type == "not_found_error"
