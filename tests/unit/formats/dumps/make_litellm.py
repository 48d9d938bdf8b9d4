"""Writes litellm_*.json: `python make_litellm.py`, with litellm installed."""

import json
from pathlib import Path
from typing import Any

import litellm
from scripted_server import WEATHER, serve

HERE = Path(__file__).parent
TOOL = {"type": "function", "function": {"name": "weather", "description": "Weather.", "parameters": WEATHER}}


def conversation(model: str, base: str) -> list[dict[str, Any]]:
    """A message list as its users keep it: replies are appended as the library returns them."""
    messages: list[dict[str, Any]] = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": [
            {"type": "text", "text": "The weather in Bern and Ulm?"},
            {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo="}},
        ]},
    ]  # fmt: skip
    for turn in range(2):
        reply = litellm.completion(model=model, messages=messages, tools=[TOOL], api_base=base, api_key="none")
        message = reply.choices[0].message
        messages.append(message.model_dump())
        messages += [
            {"role": "tool", "tool_call_id": call["id"], "name": call["function"]["name"], "content": "rain"}
            for call in message.tool_calls or ()
        ]
        if turn == 1:
            response = reply.model_dump()
            (HERE / f"litellm_{model.partition('/')[0]}_response.json").write_text(
                json.dumps(response, indent=1, default=str) + "\n"
            )
    return messages


def main() -> None:
    with serve() as origin:
        for model, base in (("openai/gpt-4.1", f"{origin}/v1"), ("anthropic/claude-sonnet-4-6", origin)):
            name = model.partition("/")[0]
            text = json.dumps(conversation(model, base), indent=1).replace(origin, "http://127.0.0.1:8080")
            (HERE / f"litellm_{name}_messages.json").write_text(text + "\n")


if __name__ == "__main__":
    main()
