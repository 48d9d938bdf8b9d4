"""A reply of one provider, what a client sends back of it, and what the provider gets then."""

import json
from dataclasses import dataclass
from typing import Any

from dragoman import AdapterOptions, Message, RequestContext, ToolDefinition, get_adapter
from dragoman.adapter.answers.client_ids import ClientToolIds
from dragoman.adapter.answers.state_keys import StateKeys, StateMemory
from dragoman.canonical.blocks import RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import MessageMetadata, StopReason

CLAUDE, BEDROCK = "anthropic:claude-opus-5-5", "bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0"
KEYS = StateKeys({"a": bytes(range(64))})
SIGNATURE, REDACTED = "SIGNATURE" * 12, "REDACTED" * 12
TOOL = ToolDefinition(name="add", description="Adds.", input_schema={"type": "object", "properties": {}})


@dataclass
class Echo:
    """The request of a client's second turn. ``envelopes`` are where the sealed texts stand in it."""

    wire: str
    body: dict[str, Any]
    envelopes: list[tuple[dict[str, Any], str]]


def model_behind(wire: str) -> str:
    """The model that answers a client: of another provider than that of the client's wire, and it reads signatures."""
    return BEDROCK if wire == "anthropic" else CLAUDE


def context(wire: str, team: str = "red", keys: Any = KEYS, store: StateMemory | None = None) -> RequestContext:
    return RequestContext.for_model(
        model_behind(wire), state_sealer=keys, state_store=store, team_id=team, tool_ids=ClientToolIds(), prices=None
    )


def reply(wire: str, calls: int = 1) -> Message:
    """A reply with signed thinking, sealed thinking, a text and calls."""
    blocks = [
        ThinkingBlock(text="Let me think.", signature=SIGNATURE),
        RedactedThinkingBlock(data=REDACTED),
        TextBlock(text="I add."),
        *(ToolUseBlock(id=f"tu_{number:026d}", name="add", input={"x": number}) for number in range(calls)),
    ]
    ids = {f"tu_{number:026d}": f"toolu_native{number}" for number in range(calls)}
    model = model_behind(wire)
    provider = model.partition(":")[0]
    raw = {"by": provider, "tool_ids": ids}
    metadata = MessageMetadata(model=model, provider=provider, stop_reason=StopReason.TOOL_USE, provider_raw=raw)
    return Message(id="01K0000000000000000000000A", role="assistant", content=blocks, metadata=metadata)  # type: ignore[arg-type]  # pydantic makes the role


def first_body(wire: str, question: str = "What is 1 + 1?") -> dict[str, Any]:
    match wire:
        case "google":
            return {"contents": [{"role": "user", "parts": [{"text": question}]}]}
        case "openai":
            return {"model": "m", "input": [{"role": "user", "content": question}]}
        case _:
            return {"model": "m", "max_tokens": 9, "messages": [{"role": "user", "content": question}]}


def echo(wire: str, given: RequestContext, message: Message | None = None, question: str = "What is 1 + 1?") -> Echo:
    """Answer a client's first request with the reply, and return its second one."""
    adapter = get_adapter(f"{wire}:client")
    body = first_body(wire, question)
    adapter.from_wire_request(body, given)
    native = json.loads(adapter.to_wire_response(message or reply(wire), given).body)
    match wire:
        case "anthropic":
            results = [
                {"type": "tool_result", "tool_use_id": block["id"], "content": "2"}
                for block in native["content"]
                if block["type"] == "tool_use"
            ]
            body["messages"] += [
                {"role": "assistant", "content": native["content"]},
                {"role": "user", "content": results},
            ]
            places = [
                (block, field) for block in native["content"] for field in ("signature", "data") if block.get(field)
            ]
        case "openai":
            results = [
                {"type": "function_call_output", "call_id": item["call_id"], "output": "2"}
                for item in native["output"]
                if item["type"] == "function_call"
            ]
            body["input"] += [*native["output"], *results]
            places = [(item, "encrypted_content") for item in native["output"] if item.get("encrypted_content")]
        case "google":
            content = native["candidates"][0]["content"]
            results = [
                {"functionResponse": {"name": "add", "id": part["functionCall"]["id"], "response": {"output": "2"}}}
                for part in content["parts"]
                if "functionCall" in part
            ]
            body["contents"] += [content, {"role": "user", "parts": results}]
            places = [(part, "thoughtSignature") for part in content["parts"] if part.get("thoughtSignature")]
        case "openai-chat":
            said = native["choices"][0]["message"]
            kept = {"role": "assistant", "content": said["content"], "tool_calls": said["tool_calls"]}
            results = [{"role": "tool", "tool_call_id": call["id"], "content": "2"} for call in said["tool_calls"]]
            body["messages"] += [kept, *results]
            places = []
        case _:
            said = native["message"]
            calls = [{"function": call["function"]} for call in said["tool_calls"]]
            kept = {"role": "assistant", "content": said["content"], "tool_calls": calls}
            body["messages"] += [kept, {"role": "tool", "tool_name": "add", "content": "2"}]
            places = []
    return Echo(wire, body, places)


def read(sent: Echo, given: RequestContext) -> tuple[list[Message], str]:
    """Read a client's second request; return its messages, and the request to the provider behind."""
    messages, _, _ = get_adapter(f"{sent.wire}:client").from_wire_request(sent.body, given)
    wire = get_adapter(model_behind(sent.wire)).to_wire(messages, [TOOL], AdapterOptions(context=given))
    return messages, wire.body.decode()
