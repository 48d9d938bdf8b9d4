"""Writes vocabularies.json, the names of SDKs that the tests do not install:

`uv run --with mistralai --with cohere --with groq --with openrouter --with perplexityai
python -m tests.conformance.coverage.extract`
"""

import inspect
import json
from collections.abc import Callable
from dataclasses import asdict
from importlib import import_module
from importlib.metadata import version
from typing import Any

from tests.conformance.coverage.sdk import STORED, Vocabulary, kinds


def mistral() -> Vocabulary:
    models: Any = import_module("mistralai.client.models")
    parts = [name for name in kinds(models.ContentChunk) if name != "UNKNOWN"]
    return Vocabulary(tuple(models.ChatCompletionRequest.model_fields), tuple(parts), ("function",))


def cohere() -> Vocabulary:
    types: Any = import_module("cohere.types")
    client: Any = import_module("cohere.v2.client")
    aside = ("self", "request_options")
    names = [name for name in inspect.signature(client.V2Client.chat).parameters if name not in aside]
    unions = (types.Content, types.AssistantMessageV2ContentOneItem, types.ToolContent)
    parts = dict.fromkeys(name for union in unions for name in kinds(union))
    return Vocabulary(tuple(names), tuple(parts), ("function",))


def groq() -> Vocabulary:
    chat: Any = import_module("groq.types.chat")
    request: Any = import_module("groq.types.chat.completion_create_params")
    part: Any = import_module("groq.types.chat.chat_completion_content_part_param")
    tools = ("function", "browser_search", "code_interpreter")  # the values that ChatCompletionToolParam names
    assert chat.ChatCompletionToolParam is not None
    names = tuple(request.CompletionCreateParams.__annotations__)
    return Vocabulary(names, kinds(part.ChatCompletionContentPartParam), tools)


def openrouter() -> Vocabulary:
    components: Any = import_module("openrouter.components")
    names = tuple(components.ChatRequest.model_fields)
    parts, tools = (
        tuple(name for name in kinds(union) if name != "UNKNOWN")
        for union in (components.ChatContentItems, components.ChatFunctionTool)
    )
    return Vocabulary(names, parts, tools)


def perplexity() -> Vocabulary:
    """Names with an underscore are its own tests'."""
    request: Any = import_module("perplexity.types.chat.completion_create_params")
    message: Any = import_module("perplexity.types.shared_params.chat_message_input")
    names = tuple(name for name in request.CompletionCreateParamsBase.__annotations__ if not name.startswith("_"))
    return Vocabulary(names, kinds(message.ContentStructuredContent), ("function",))


SDKS: dict[str, tuple[str, Callable[[], Vocabulary]]] = {
    "mistral": ("mistralai", mistral),
    "cohere": ("cohere", cohere),
    "groq": ("groq", groq),
    "openrouter": ("openrouter", openrouter),
    "perplexity": ("perplexityai", perplexity),
}
"""The distribution and the names, by provider."""


def main() -> None:
    found = {provider: {"sdk": f"{sdk} {version(sdk)}", **asdict(names())} for provider, (sdk, names) in SDKS.items()}
    STORED.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
