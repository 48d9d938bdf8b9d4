"""Dragoman: canonical messages, whose calls have their ids as from replies. Runs in this project's environment."""

import urllib.error
import urllib.request

from dragoman import (
    AdapterOptions,
    Message,
    RequestContext,
    TextBlock,
    ThinkingBlock,
    ToolDefinition,
    ToolUseBlock,
    get_adapter,
)
from dragoman.canonical.blocks import ContentBlock
from dragoman.canonical.message import MessageMetadata
from tests.benchmarks.hard_histories.capture import run
from tests.benchmarks.hard_histories.histories import TARGETS, TOOLS, History, schema

_ADAPTER = {
    "anthropic": "anthropic",
    "responses": "openai",
    "chat": "openai-chat",
    "gemini": "google",
    "mistral": "mistral",
    "bedrock": "bedrock",
}


def messages(history: History, context: RequestContext) -> list[Message]:
    found: list[Message] = []
    metadata = MessageMetadata(model=f"{history.issuer}:{history.model}", provider=history.issuer)
    for turn in history.turns:
        found.append(Message.user(turn.question))
        for step in turn.steps:
            blocks: list[ContentBlock] = []
            if step.thinking:
                blocks.append(ThinkingBlock(text=step.thinking, signature=step.signature))
            blocks.append(TextBlock(text=step.text))
            ids = [context.tool_ids.receive(history.issuer, call.id) for call in step.calls]
            blocks += [
                ToolUseBlock(id=own, name=call.name, input=call.input)
                for own, call in zip(ids, step.calls, strict=True)
            ]
            found.append(Message.assistant(blocks, metadata=metadata))
            found += [Message.tool(own, call.result) for own, call in zip(ids, step.calls, strict=True)]
    return found


def send(history: History, target: str, url: str) -> list[str]:
    model = f"{_ADAPTER[target]}:{TARGETS[target]}"
    context = RequestContext.for_model(model)
    tools = [ToolDefinition(name=name, input_schema=schema(name)) for name in TOOLS]
    options = AdapterOptions(max_output_tokens=1000, context=context)
    request = get_adapter(model).to_wire(messages(history, context), tools, options)
    losses = [f"{loss.kind}: {loss.reason}" for loss in request.losses]
    taken = urllib.request.Request(url, data=request.body, headers={"content-type": "application/json"})
    try:
        urllib.request.urlopen(taken)
    except urllib.error.HTTPError:
        return losses
    raise AssertionError("the server refuses every request")


if __name__ == "__main__":
    run(["dragoman"], send)
