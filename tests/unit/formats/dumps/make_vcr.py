"""Writes vcr_*.yaml and vcr_*.json: `python make_vcr.py`, with vcrpy, openai and anthropic installed."""

import json
from pathlib import Path
from typing import Any

import vcr
from anthropic import Anthropic
from openai import OpenAI
from scripted_server import WEATHER, serve

HERE = Path(__file__).parent
CHAT_TOOL: Any = {"type": "function", "function": {"name": "weather", "description": "Weather.", "parameters": WEATHER}}
TOOL: Any = {"name": "weather", "description": "Weather.", "input_schema": WEATHER}
RESPONSES_TOOL: Any = {"type": "function", "name": "weather", "parameters": WEATHER}
RECORDER = vcr.VCR(filter_headers=["authorization", "x-api-key"], record_mode="all")


def chat(origin: str, *, stream: bool) -> None:
    client = OpenAI(base_url=f"{origin}/v1", api_key="none")
    messages: list[Any] = [{"role": "user", "content": "The weather in Bern and Ulm?"}]
    for _ in range(2):
        if not stream:
            reply: Any = client.chat.completions.create(model="gpt-4.1", messages=messages, tools=[CHAT_TOOL])
            message = reply.choices[0].message.model_dump(exclude_none=True)
        else:
            with client.chat.completions.stream(model="gpt-4.1", messages=messages, tools=[CHAT_TOOL]) as events:
                message = events.get_final_completion().choices[0].message.model_dump(exclude_none=True)
            for call in message.get("tool_calls") or ():
                call["function"].pop("parsed_arguments", None)
                call.pop("index", None)
        messages.append({name: message[name] for name in ("role", "content", "tool_calls") if message.get(name)})
        messages += [
            {"role": "tool", "tool_call_id": call["id"], "content": "rain"} for call in message.get("tool_calls") or ()
        ]


def messages(origin: str) -> None:
    client = Anthropic(base_url=origin, api_key="none")
    history: list[Any] = [{"role": "user", "content": "The weather in Bern and Ulm?"}]
    for _ in range(2):
        with client.messages.stream(
            model="claude-sonnet-4-6", max_tokens=1024, system="Be brief.", messages=history, tools=[TOOL]
        ) as events:
            reply = events.get_final_message()
        history.append({"role": "assistant", "content": [block.to_dict() for block in reply.content]})
        results: list[Any] = [
            {"type": "tool_result", "tool_use_id": block.id, "content": "rain"}
            for block in reply.content
            if block.type == "tool_use"
        ]
        history += [{"role": "user", "content": results}] if results else []


def responses(origin: str) -> None:
    client = OpenAI(base_url=f"{origin}/v1", api_key="none")
    messages: list[Any] = [{"role": "user", "content": "The weather in Bern and Ulm?"}]
    for _ in range(2):
        reply = client.responses.create(model="gpt-6.1-sol", input=messages, tools=[RESPONSES_TOOL])
        messages += [item.to_dict() for item in reply.output]
        messages += [
            {"type": "function_call_output", "call_id": item.call_id, "output": "rain"}
            for item in reply.output
            if item.type == "function_call"
        ]


def main() -> None:
    with serve() as origin:
        for name, run in {
            "chat.yaml": lambda: chat(origin, stream=False),
            "chat_stream.yaml": lambda: chat(origin, stream=True),
            "anthropic_stream.yaml": lambda: messages(origin),
            "responses.json": lambda: responses(origin),
        }.items():
            path = HERE / f"vcr_{name}"
            path.unlink(missing_ok=True)
            with RECORDER.use_cassette(str(path), serializer=path.suffix[1:]):
                run()
            text = path.read_text().replace(origin, "http://127.0.0.1:8080").replace(origin[7:], "127.0.0.1:8080")
            path.write_text(json.dumps(json.loads(text), indent=1) + "\n" if path.suffix == ".json" else text)


if __name__ == "__main__":
    main()
