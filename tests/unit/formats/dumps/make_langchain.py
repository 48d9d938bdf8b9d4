"""Writes langchain_*.json: `python make_langchain.py`, with langchain-openai and langchain-anthropic installed."""

import json
from pathlib import Path
from typing import Any

from langchain_anthropic import ChatAnthropic
from langchain_core.load import dumpd
from langchain_core.messages import (
    AIMessage,
    AIMessageChunk,
    BaseMessage,
    ChatMessage,
    FunctionMessage,
    HumanMessage,
    RemoveMessage,
    SystemMessage,
    ToolMessage,
    messages_to_dict,
)
from langchain_core.outputs import ChatGeneration, LLMResult
from langchain_openai import ChatOpenAI
from scripted_server import WEATHER, serve

HERE = Path(__file__).parent
PIXEL = "iVBORw0KGgo="
TOOL = {"name": "weather", "description": "The weather in a city.", "parameters": WEATHER}


def run(model: Any) -> list[BaseMessage]:
    """A question, calls, their results and the answer."""
    messages: list[BaseMessage] = [SystemMessage("Be brief."), HumanMessage("The weather in Bern and Ulm?")]
    bound = model.bind_tools([TOOL])
    messages.append(bound.invoke(messages))
    calls = messages[-1].tool_calls
    messages.append(ToolMessage('{"sky": "rain"}', tool_call_id=calls[0]["id"], name="weather"))
    messages.append(ToolMessage("no such city", tool_call_id=calls[1]["id"], name="weather", status="error"))
    messages.append(bound.invoke(messages))
    return messages


def every_block() -> list[BaseMessage]:
    """Blocks that the models' replies do not have."""
    return [
        HumanMessage(
            [
                "Look.",
                {"type": "text", "text": "And this."},
                {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}", "detail": "low"}},
                {"type": "image", "base64": PIXEL, "mime_type": "image/png"},
                {"type": "image", "url": "https://example.org/a.png"},
                {"type": "image", "source_type": "base64", "data": PIXEL, "mime_type": "image/png"},
                {"type": "audio", "base64": "UklGRg==", "mime_type": "audio/wav"},
                {"type": "video", "url": "https://example.org/a.mp4"},
                {"type": "file", "base64": "JVBERi0xLjc=", "mime_type": "application/pdf"},
                {"type": "file", "file_id": "file-1"},
                {"type": "text-plain", "text": "A note.", "title": "a.txt"},
            ]
        ),
        AIMessage(
            content_blocks=[
                {"type": "reasoning", "reasoning": "Hm.", "extras": {"signature": "c2ln"}},
                {
                    "type": "text",
                    "text": "So.",
                    "annotations": [{"type": "citation", "url": "https://example.org", "title": "A", "start_index": 0}],
                },
                {"type": "server_tool_call", "id": "s_1", "name": "web_search", "args": {"query": "Bern"}},
                {"type": "server_tool_result", "tool_call_id": "s_1", "status": "success", "output": ["rain"]},
                {"type": "non_standard", "value": {"type": "hologram"}},
                {"type": "tool_call", "id": "c_1", "name": "weather", "args": {"city": "Bern"}},
            ]
        ),
        ToolMessage([{"type": "text", "text": "rain"}, {"type": "image", "base64": PIXEL}], tool_call_id="c_1"),
        AIMessage(
            "",
            invalid_tool_calls=[
                {"id": "c_2", "name": "weather", "args": '{"city', "error": "cut off", "type": "invalid_tool_call"}
            ],
            additional_kwargs={"function_call": {"name": "weather", "arguments": "{}"}},
        ),
        AIMessageChunk("In pieces.", chunk_position="last"),
        FunctionMessage("rain", name="weather"),
        ChatMessage("As a developer.", role="developer"),
        RemoveMessage(id="m_1"),
    ]


def write(name: str, data: Any, origin: str) -> None:
    text = json.dumps(data, indent=1, ensure_ascii=False).replace(origin, "http://127.0.0.1:8080")
    (HERE / f"langchain_{name}.json").write_text(text + "\n")


def main() -> None:
    with serve() as origin:
        chat = ChatOpenAI(model="gpt-4.1", base_url=f"{origin}/v1", api_key="none")
        responses = ChatOpenAI(
            model="gpt-6.1-sol", base_url=f"{origin}/v1", api_key="none", use_responses_api=True,
            output_version="responses/v1",
        )  # fmt: skip
        anthropic = ChatAnthropic(model="claude-sonnet-4-6", base_url=origin, api_key="none")
        write("chat_dumpd", dumpd(run(chat)), origin)
        write("responses_dumpd", dumpd(run(responses)), origin)
        write("responses_v1_dumpd", dumpd(run(responses.model_copy(update={"output_version": "v1"}))), origin)
        messages = run(anthropic)
        write("anthropic_dicts", messages_to_dict(messages), origin)
        write("every_block_dicts", messages_to_dict(every_block()), origin)
        write("every_block_dumpd", dumpd(every_block()), origin)
        result = LLMResult(generations=[[ChatGeneration(message=messages[-1])]])
        write("result_dumpd", {"messages": dumpd(messages[:-1]), "output": dumpd(result)}, origin)


if __name__ == "__main__":
    main()
