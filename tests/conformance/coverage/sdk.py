"""What the official SDKs can ask for: names of parameters, and type names of content parts and of tools."""

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, ForwardRef, Literal, Union, get_args, get_origin, get_type_hints

from pydantic import BaseModel

STORED = Path(__file__).parent / "vocabularies.json"
"""The names of SDKs that the tests do not install; `extract` writes them."""


@dataclass(frozen=True)
class Vocabulary:
    """Of one wire."""

    parameters: tuple[str, ...]
    parts: tuple[str, ...]
    tools: tuple[str, ...]


def anthropic() -> Vocabulary:
    from anthropic.types import message_create_params as messages
    from anthropic.types.beta import beta_content_block_param, beta_tool_union_param
    from anthropic.types.beta import message_create_params as beta

    names = {**_fields(messages.MessageCreateParamsBase), **_fields(beta.MessageCreateParamsBase)}
    del names["betas"]  # a header
    parts = kinds(beta_content_block_param.BetaContentBlockParam)
    return Vocabulary(tuple(names), parts, kinds(beta_tool_union_param.BetaToolUnionParam))


def openai_responses() -> Vocabulary:
    from openai.types.responses import response_create_params as responses
    from openai.types.responses import response_input_item_param, tool_param

    names = _fields(responses.ResponseCreateParamsBase)
    return Vocabulary(
        tuple(names), kinds(response_input_item_param.ResponseInputItemParam), kinds(tool_param.ToolParam)
    )


def openai_chat() -> Vocabulary:
    from openai.types.chat import (
        chat_completion_content_part_param,
        chat_completion_tool_union_param,
        completion_create_params,
    )

    names = _fields(completion_create_params.CompletionCreateParamsBase)
    parts = kinds(chat_completion_content_part_param.ChatCompletionContentPartParam)
    return Vocabulary(tuple(names), parts, kinds(chat_completion_tool_union_param.ChatCompletionToolUnionParam))


def google() -> Vocabulary:
    """Parts and tools are the fields of `Part` and `Tool`."""
    from google.genai import types

    aside = {"http_options", "should_return_http_response", "automatic_function_calling", "continuation_token",
             "automatic_continuation"}  # fmt: skip
    names = tuple(_camel(name) for name in types.GenerateContentConfig.model_fields if name not in aside)
    flags = {"thought", "thought_signature", "media_resolution", "video_metadata", "part_metadata"}
    parts = tuple(_camel(name) for name in types.Part.model_fields if name not in flags)
    tools = tuple(_camel(name) for name in types.Tool.model_fields if name != "mcp_servers")
    return Vocabulary(names, parts, tools)


def google_interactions() -> Vocabulary:
    """Parameters are those of the settings, too; parts are the steps and their contents."""
    from google.genai._gaos.types.interactions import content, createmodelinteraction, generationconfig, step, tool

    names = {
        **_fields(createmodelinteraction.CreateModelInteractionParam),
        **_fields(generationconfig.GenerationConfigParam),
    }
    parts = (*kinds(step.StepParam), *kinds(content.ContentParam))
    return Vocabulary(tuple(names), parts, kinds(tool.ToolParam))


def bedrock() -> Vocabulary:
    """The service model of Converse. Parts and tools are the fields of `ContentBlock` and `Tool`."""
    import botocore.session

    service = botocore.session.get_session().get_service_model("bedrock-runtime")
    members = service.operation_model("Converse").input_shape.members
    names = [*members, *service.shape_for("InferenceConfiguration").members]
    names.remove("modelId")  # a part of the path
    return Vocabulary(
        tuple(names), tuple(service.shape_for("ContentBlock").members), tuple(service.shape_for("Tool").members)
    )


def ollama() -> Vocabulary:
    """Parameters are those of the options, too; parts are the fields of `Message`."""
    from ollama import Message, Options
    from ollama._types import ChatRequest

    parts = tuple(name for name in Message.model_fields if name != "role")
    return Vocabulary((*ChatRequest.model_fields, *Options.model_fields), parts, ("function",))


def _stored(provider: str) -> Vocabulary:
    names = json.loads(STORED.read_text(encoding="utf-8"))[provider]
    return Vocabulary(tuple(names["parameters"]), tuple(names["parts"]), tuple(names["tools"]))


VOCABULARIES: dict[str, Callable[[], Vocabulary]] = {
    "anthropic": anthropic,
    "openai": openai_responses,
    "openai-chat": openai_chat,
    "google": google,
    "google-interactions": google_interactions,
    "bedrock": bedrock,
    "ollama": ollama,
    "mistral": partial(_stored, "mistral"),
    "cohere": partial(_stored, "cohere"),
    "groq": partial(_stored, "groq"),
    "openrouter": partial(_stored, "openrouter"),
    "perplexity": partial(_stored, "perplexity"),
}
"""By provider."""


def _fields(declared: Any) -> dict[str, Any]:
    return dict(get_type_hints(declared, include_extras=True))


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def kinds(union: Any) -> tuple[str, ...]:
    """The values of the field ``type`` in the members of a union; a member without one is named by its class."""
    found: dict[str, None] = {}
    for member in _members(union):
        names = [str(value) for value in _literals(_type_field(member))]
        found.update(dict.fromkeys(names or [member.__name__]))
    return tuple(found)


def _type_field(member: Any) -> Any:
    if issubclass(member, BaseModel):
        return member.model_fields["type"].annotation if "type" in member.model_fields else None
    return _fields(member).get("type")


def _members(union: Any) -> Iterator[Any]:
    """The TypedDicts of a union, however it is nested."""
    union = getattr(union, "__value__", union)  # a type alias
    if isinstance(union, ForwardRef) or union is type(None):
        return
    if get_origin(union) is Union or type(union).__name__ == "UnionType":
        for each in get_args(union):
            yield from _members(each)
    elif hasattr(union, "__metadata__"):
        yield from _members(get_args(union)[0])
    elif isinstance(union, type) and hasattr(union, "__annotations__") and not issubclass(union, (str, bytes)):
        yield union


def _literals(hint: Any) -> Iterator[Any]:
    if get_origin(hint) is Literal:
        yield from get_args(hint)
        return
    for inner in get_args(hint):
        yield from _literals(inner)
