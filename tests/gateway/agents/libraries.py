"""One library as a client: ``python libraries.py CASE``, with BASE and MODEL in the environment.

Runs in the libraries' own environment, without Dragoman. Each case asks whole or as a stream, calls a tool, sends its
result back, and prints the answer.
"""

import asyncio
import os
import pathlib
import subprocess
import sys
from typing import Any

BASE, MODEL = os.environ["BASE"], os.environ["MODEL"]
PROMPT = "What is the weather in Oslo?"
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"type": "function", "function": {"name": "get_weather", "description": "Weather", "parameters": CITY}}


def get_weather(city: str) -> str:
    """Weather of a city."""
    return f"sunny in {city}"


def langchain(kind: str) -> str:
    from langchain_core.messages import HumanMessage, ToolMessage
    from langchain_core.tools import tool

    if kind == "messages":
        from langchain_anthropic import ChatAnthropic

        model: Any = ChatAnthropic(model=MODEL, base_url=BASE, api_key="none", max_tokens=100)
    else:
        from langchain_openai import ChatOpenAI

        model = ChatOpenAI(model=MODEL, base_url=f"{BASE}/v1", api_key="none", use_responses_api=kind == "responses")
    model = model.bind_tools([tool(get_weather)])
    messages: list[Any] = [HumanMessage(PROMPT)]
    whole: Any = None
    for chunk in model.stream(messages):
        whole = chunk if whole is None else whole + chunk
    call = whole.tool_calls[0]
    messages += [whole, ToolMessage(get_weather(**call["args"]), tool_call_id=call["id"])]
    answer = model.invoke(messages)
    assert (whole.usage_metadata or {"input_tokens": 1000})["input_tokens"] == 1000, whole.usage_metadata
    return str(answer.text)


def pydantic_ai(kind: str) -> str:
    from pydantic_ai import Agent

    if kind == "messages":
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        model: Any = AnthropicModel(MODEL, provider=AnthropicProvider(base_url=BASE, api_key="none"))
    else:
        from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
        from pydantic_ai.providers.openai import OpenAIProvider

        kinds = {"chat": OpenAIChatModel, "responses": OpenAIResponsesModel}
        model = kinds[kind](MODEL, provider=OpenAIProvider(base_url=f"{BASE}/v1", api_key="none"))
    agent: Any = Agent(model, tools=[get_weather])
    whole = agent.run_sync(PROMPT).output

    async def stream() -> str:
        async with agent.run_stream(PROMPT) as result:
            return "".join([text async for text in result.stream_text(delta=True)])

    assert asyncio.run(stream()) in ("Reading.", whole)  # it may end with the first text, which stands beside a call
    return str(whole)


def litellm(kind: str) -> str:
    import litellm as library

    library.suppress_debug_info = True
    if kind == "responses":
        events = library.responses(
            model=f"openai/{MODEL}", api_base=f"{BASE}/v1", api_key="none", input=PROMPT, stream=True,
            tools=[{"type": "function", "name": "get_weather", "description": "Weather", "parameters": CITY}],
        )  # fmt: skip
        output = [event for event in events if event.type == "response.completed"][-1].response.output
        (call,) = [item for item in output if item.type == "function_call"]
        result = {"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}
        items = [{"role": "user", "content": PROMPT}, *(item.model_dump() for item in output), result]
        done = library.responses(model=f"openai/{MODEL}", api_base=f"{BASE}/v1", api_key="none", input=items)
        return str(done.output[-1].content[0].text)
    model, base = (f"anthropic/{MODEL}", BASE) if kind == "messages" else (f"openai/{MODEL}", f"{BASE}/v1")
    shared: Any = {"model": model, "api_base": base, "api_key": "none", "tools": [FUNCTION]}
    messages: list[Any] = [{"role": "user", "content": PROMPT}]
    message = library.completion(messages=messages, **shared).choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "sunny"}
    messages += [message.model_dump(), result]
    chunks = library.completion(messages=messages, stream=True, **shared)
    return "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)


def llm(_: str) -> str:
    folder = pathlib.Path(os.environ["LLM_USER_PATH"])
    folder.mkdir(parents=True)
    (folder / "extra-openai-models.yaml").write_text(
        f"- model_id: gateway\n  model_name: {MODEL}\n  api_base: {BASE}/v1\n  api_key_name: gateway\n"
        "  supports_tools: true\n  can_stream: true\n"
    )
    (folder / "keys.json").write_text('{"gateway": "none"}')
    functions = 'def get_weather(city: str) -> str:\n    "Weather of a city"\n    return "sunny"'
    command = [str(pathlib.Path(sys.executable).with_name("llm")), "prompt", "-m", "gateway", "--no-log"]
    done = subprocess.run(
        [*command, "--functions", functions, PROMPT], stdin=subprocess.DEVNULL, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return done.stdout + done.stderr


if __name__ == "__main__":
    name, _, wire = sys.argv[1].rpartition("-")
    print({"langchain": langchain, "pydantic-ai": pydantic_ai, "litellm": litellm, "llm": llm}[name](wire))
