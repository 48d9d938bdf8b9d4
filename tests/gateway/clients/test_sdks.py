"""The official SDKs through whole conversations, with the models of other vendors behind."""

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest
from pydantic import BaseModel

from tests.gateway.scripted import JSON, Answer, Received, Upstream, answer_with, reply, says

CITY: dict[str, Any] = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
                        "additionalProperties": False}  # fmt: skip
FUNCTION: Any = {"type": "function", "function": {"name": "weather", "description": "W.", "parameters": CITY,
                                                  "strict": True}}  # fmt: skip
RESPONSES_TOOL: Any = {"type": "function", "name": "weather", "description": "W.", "parameters": CITY, "strict": True}
MESSAGES_TOOL: Any = {"name": "weather", "description": "W.", "input_schema": CITY}
QUESTION: Any = {"role": "user", "content": "How is the weather in Bern?"}
BEHIND_CHAT = ("messages-model", "responses-model", "google-model")
BEHIND_RESPONSES = ("messages-model", "chat-model", "google-model")
BEHIND_MESSAGES = ("chat-model", "responses-model", "google-model")


class Weather(BaseModel):
    city: str
    degrees: int


def calls_then_says(request: Received) -> Answer:
    """Call the tool, and answer when its result is there."""
    done = b"sunny in Bern" in request.raw
    found = reply("It is sunny.") if done else reply("Let me see.", calls=(("weather", {"city": "Bern"}),))
    return answer_with(found)(request)


@pytest.fixture
def chat(address: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:
        yield client


@pytest.fixture
def messages(address: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=address, api_key="none", max_retries=0) as client:
        yield client


@pytest.mark.parametrize("model", BEHIND_CHAT)
def test_chat_completions_call_a_tool(chat: openai.OpenAI, upstream: Upstream, model: str) -> None:
    """The helper for streams, then the whole reply to the result."""
    upstream.script = calls_then_says
    with chat.chat.completions.stream(
        model=model, messages=[QUESTION], tools=[FUNCTION], stream_options={"include_usage": True}
    ) as stream:
        kinds = [event.type for event in stream]
        final: Any = stream.get_final_completion()
    assert "tool_calls.function.arguments.done" in kinds
    message = final.choices[0].message
    (call,) = message.tool_calls
    assert (call.function.name, call.function.parsed_arguments) == ("weather", {"city": "Bern"})
    assert final.usage.prompt_tokens == 20
    result: Any = {"role": "tool", "tool_call_id": call.id, "content": "sunny in Bern"}
    done = chat.chat.completions.create(model=model, messages=[QUESTION, message, result], tools=[FUNCTION])
    assert (done.choices[0].message.content, done.choices[0].finish_reason) == ("It is sunny.", "stop")


@pytest.mark.parametrize("model", BEHIND_RESPONSES)
def test_responses_call_a_tool(chat: openai.OpenAI, upstream: Upstream, model: str) -> None:
    """The helper for streams, the items sent back, and the helper again."""
    upstream.script = calls_then_says
    with chat.responses.stream(model=model, input=[QUESTION], tools=[RESPONSES_TOOL]) as stream:
        first: Any = stream.get_final_response()
    (call,) = [item for item in first.output if item.type == "function_call"]
    assert json.loads(call.arguments) == {"city": "Bern"}
    assert (first.usage.input_tokens, first.usage.total_tokens) == (20, 29)
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny in Bern"}
    items = [item.model_dump(exclude_none=True, exclude={"parsed_arguments"}) for item in first.output]
    second: Any = [QUESTION, *items, result]
    with chat.responses.stream(model=model, input=second, tools=[RESPONSES_TOOL]) as stream:
        assert stream.get_final_response().output_text == "It is sunny."


@pytest.mark.parametrize("model", BEHIND_MESSAGES)
def test_messages_call_a_tool(messages: anthropic.Anthropic, upstream: Upstream, model: str) -> None:
    """The helper for streams, the message sent back, and the whole reply."""
    upstream.script = calls_then_says
    with messages.messages.stream(model=model, max_tokens=99, messages=[QUESTION], tools=[MESSAGES_TOOL]) as stream:
        kinds = [event.type for event in stream]
        first = stream.get_final_message()
    assert kinds[0] == "message_start"
    assert kinds[-1] == "message_stop"
    (call,) = [block for block in first.content if block.type == "tool_use"]
    assert (call.name, call.input, first.stop_reason) == ("weather", {"city": "Bern"}, "tool_use")
    result: Any = {"type": "tool_result", "tool_use_id": call.id, "content": "sunny in Bern"}
    history: Any = [QUESTION, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    second: Any = messages.messages.create(model=model, max_tokens=99, messages=history, tools=[MESSAGES_TOOL])
    assert (second.content[0].text, second.stop_reason, second.usage.output_tokens) == ("It is sunny.", "end_turn", 9)


@pytest.mark.parametrize("model", BEHIND_CHAT)
def test_an_answer_of_a_type_is_parsed(chat: openai.OpenAI, upstream: Upstream, model: str) -> None:
    """An answer of a type is parsed by `.parse` of both of OpenAI's APIs; the schema reached the provider."""
    upstream.script = says('{"city": "Bern", ', '"degrees": 7}')
    parsed = chat.chat.completions.parse(model=model, messages=[QUESTION], response_format=Weather)
    assert parsed.choices[0].message.parsed == Weather(city="Bern", degrees=7)
    assert "degrees" in json.dumps(upstream.body)
    if model != "responses-model":
        response = chat.responses.parse(model=model, input=[QUESTION], text_format=Weather)
        assert response.output_parsed == Weather(city="Bern", degrees=7)
        assert "degrees" in json.dumps(upstream.body)


def test_thinking_is_shown_and_comes_back(messages: anthropic.Anthropic, upstream: Upstream) -> None:
    """Blocks of thinking in a stream, and the state of the provider behind in the next request."""
    upstream.script = answer_with(reply("Yes.", thinking=("Because", " it rains."), calls=(("weather", {}),)))
    with messages.messages.stream(
        model="responses-model", max_tokens=2000, messages=[QUESTION], tools=[MESSAGES_TOOL],
        thinking={"type": "enabled", "budget_tokens": 1024},
    ) as stream:  # fmt: skip
        first = stream.get_final_message()
    thoughts = [block for block in first.content if block.type == "thinking"]
    assert "".join(block.thinking for block in thoughts) == "Because it rains."
    call = next(block for block in first.content if block.type == "tool_use")
    result: Any = {"type": "tool_result", "tool_use_id": call.id, "content": "yes"}
    history: Any = [QUESTION, {"role": "assistant", "content": first.content}, {"role": "user", "content": [result]}]
    messages.messages.create(model="responses-model", max_tokens=99, messages=history, tools=[MESSAGES_TOOL])
    assert any(item.get("type") == "reasoning" for item in upstream.body["input"])


def test_tokens_are_counted_for_every_model(messages: anthropic.Anthropic, upstream: Upstream) -> None:
    """Tools and instructions count."""
    for model in BEHIND_MESSAGES:
        short = messages.messages.count_tokens(model=model, messages=[QUESTION])
        long = messages.messages.count_tokens(
            model=model, messages=[QUESTION], system="Be brief. " * 100, tools=[MESSAGES_TOOL] * 1
        )
        assert 0 < short.input_tokens < long.input_tokens


def test_errors_have_the_classes_of_the_sdks(
    chat: openai.OpenAI, messages: anthropic.Anthropic, upstream: Upstream
) -> None:
    """Errors have the classes of the SDKs with the message, and the id of the request."""
    upstream.script = lambda _: Answer(
        [b'{"type": "error", "error": {"type": "overloaded_error", "message": "busy"}}'], status=529, media_type=JSON
    )
    with pytest.raises(openai.InternalServerError) as failed:
        chat.chat.completions.create(model="messages-model", messages=[QUESTION])
    assert failed.value.status_code == 503
    assert failed.value.request_id
    upstream.script = lambda _: Answer(
        [b'{"error": {"message": "slow down", "type": "requests", "code": "rate_limit_exceeded"}}'],
        status=429, media_type=JSON, headers={"retry-after": "3"},
    )  # fmt: skip
    with pytest.raises(anthropic.RateLimitError) as limited:
        messages.messages.create(model="chat-model", max_tokens=9, messages=[QUESTION])
    assert limited.value.type == "rate_limit_error"
    assert limited.value.response.headers["retry-after"] == "3"
    assert limited.value.request_id


def test_async_clients_ask_side_by_side(address: str, upstream: Upstream) -> None:
    """Each gets the answer to its own question."""
    upstream.script = lambda request: says(request.body["messages"][-1]["content"])(request)

    async def ask_all() -> list[str]:
        async with openai.AsyncOpenAI(base_url=f"{address}/v1", api_key="none", max_retries=0) as client:

            async def ask(number: int) -> str:
                messages: Any = [{"role": "user", "content": f"number {number}"}]
                stream = await client.responses.create(model="chat-model", input=messages, stream=True)
                return "".join([event.delta async for event in stream if event.type == "response.output_text.delta"])

            return await asyncio.gather(*(ask(number) for number in range(20)))

    assert asyncio.run(ask_all()) == [f"number {number}" for number in range(20)]


def test_a_sdk_that_asks_for_threads_goes_on_without(messages: anthropic.Anthropic, upstream: Upstream) -> None:
    """Anthropic's runner of tools asks for state on the server first, and repeats its request if there is none."""

    def weather(city: str) -> str:
        """Return the weather.

        Args:
            city: the city
        """
        return f"sunny in {city}"

    upstream.script = calls_then_says
    runner = messages.beta.messages.tool_runner(
        model="chat-model", max_tokens=99, messages=[QUESTION], tools=[anthropic.beta_tool(weather)]
    )
    content: Any = runner.until_done().content
    assert content[0].text == "It is sunny."
    assert "How is the weather in Bern?" in json.dumps(upstream.body)
