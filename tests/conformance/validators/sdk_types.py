"""The official SDKs' own request types, as validators: a body in, the violations of the type out.

pydantic reads the TypedDicts of the SDKs, which are then made strict: no key beyond the declared ones, and lists where
the type says ``Iterable``, which pydantic would leave unread until someone iterates. Converse is judged by botocore's
model of the service.
"""

import copy
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

from pydantic import TypeAdapter
from pydantic_core import SchemaValidator, ValidationError

_Schema = dict[str, Any]
_Faults = Iterator[str]

_DISCRIMINATORS = ("type", "role")
_SHOWN = 3

NEWER: dict[str, dict[str, str]] = {
    "anthropic": {
        "temperature": "version 2023-06-01 takes it, for the models that sample",
        "top_p": "version 2023-06-01 takes it, for the models that sample",
        "top_k": "version 2023-06-01 takes it, for the models that sample",
    },
    "ollama": {
        "truncate": "the server takes it, its client has no word for it",
        "shift": "the server takes it, its client has no word for it",
    },
}
"""Fields of a body that the wire has and the SDK's type lacks, with the reason."""


@cache
def validators() -> dict[str, Callable[[dict[str, Any]], _Faults]]:
    """By adapter; each SDK is imported when it is first needed."""
    from anthropic.types.beta import message_create_params as beta_messages
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming
    from openai.types.chat import completion_create_params as chat
    from openai.types.responses import response_create_params as responses

    messages = _of(MessageCreateParamsNonStreaming, MessageCreateParamsStreaming, newer=NEWER["anthropic"])
    beta = _of(
        beta_messages.MessageCreateParamsNonStreaming,
        beta_messages.MessageCreateParamsStreaming,
        newer=NEWER["anthropic"],
    )
    completions = _of(chat.CompletionCreateParamsNonStreaming, chat.CompletionCreateParamsStreaming)
    replies = _of(responses.ResponseCreateParamsNonStreaming, responses.ResponseCreateParamsStreaming)
    return {
        "anthropic": lambda body: (beta if "mcp_servers" in body else messages)(body),
        "openai": replies,
        "openai-chat": completions,
        "azure-openai": lambda body: (completions if "messages" in body else replies)(body),
        "ollama": _ollama,
        "bedrock": _converse,
    }


def faults(adapter: str, body: dict[str, Any]) -> _Faults:
    """How a body violates the types of a provider's SDK; nothing if the SDK has no type for it."""
    judge = validators().get(adapter)
    return judge(body) if judge else iter(())


def _of(whole: Any, streamed: Any, newer: dict[str, str] | None = None) -> Callable[[dict[str, Any]], _Faults]:
    judges = {False: strict(whole), True: strict(streamed)}

    def judge(body: dict[str, Any]) -> _Faults:
        known = {name: value for name, value in body.items() if name not in (newer or {})}
        yield from _complaints(judges[bool(body.get("stream"))], known)

    return judge


def _complaints(judge: SchemaValidator, value: Any) -> _Faults:
    try:
        judge.validate_python(value, strict=True)
    except ValidationError as error:
        # The deepest explain most: the others are about forms that the value does not have.
        listed = sorted(error.errors(include_url=False, include_context=False), key=lambda each: -len(each["loc"]))
        for found in listed[:_SHOWN]:
            where = ".".join(str(step) for step in found["loc"] if "[" not in str(step))
            yield f"the SDK's type: {where}: {found['msg']}"


def strict(declared: Any) -> SchemaValidator:
    """The type as a validator that reads all of a value and accepts nothing undeclared."""
    schema: Any = copy.deepcopy(TypeAdapter(declared).core_schema)
    definitions = {each["ref"]: each for each in schema.get("definitions", ())}
    return SchemaValidator(_Strict(definitions).convert(schema))


class _Strict:
    def __init__(self, definitions: dict[str, _Schema]) -> None:
        self._definitions = definitions

    def convert(self, schema: Any) -> Any:
        if isinstance(schema, list):
            return [self.convert(each) for each in schema]
        if not isinstance(schema, dict):
            return schema
        kind = schema.get("type")
        if kind in ("literal", "model"):
            return schema
        if kind == "union":
            return self._union(schema)
        if kind == "typed-dict":
            fields = {name: self.convert(each) for name, each in schema["fields"].items()}
            forbidding = {name: each for name, each in schema.items() if name not in ("config", "extras_schema")}
            return forbidding | {"fields": fields, "extra_behavior": "forbid"}
        made = {name: self.convert(each) if name not in _OPAQUE else each for name, each in schema.items()}
        if kind == "generator":
            made["type"] = "list"
        return made

    def _union(self, schema: _Schema) -> _Schema:
        """Objects are distinguished by their type field, so that an error is about one kind only.

        Python objects of the SDK, which its types accept next to dicts, are left out: no JSON is one.
        """
        choices = [each[0] if isinstance(each, tuple) else each for each in schema["choices"]]
        choices = [each for each in choices if not self._is_object(each)]
        objects = [each for each in choices if self._resolve(each).get("type") == "typed-dict"]
        others = [self.convert(each) for each in choices if each not in objects]
        for name in _DISCRIMINATORS:
            if len(objects) > 1 and all(self._tags(each, name) for each in objects):
                return _join([self._tagged(objects, name), *others], schema)
        return _join([*map(self.convert, objects), *others], schema)

    def _tagged(self, objects: list[_Schema], name: str) -> _Schema:
        by_tag: dict[str, list[_Schema]] = {}
        default: str | None = None
        for each in objects:
            for tag in self._tags(each, name):
                by_tag.setdefault(tag, []).append(self.convert(each))
                if not self._resolve(each)["fields"][name].get("required", False):
                    default = default or tag

        def tag_of(value: Any) -> Any:
            return value.get(name, default) if isinstance(value, dict) else None

        tagged = {tag: _join(choices, {}) for tag, choices in by_tag.items()}
        return {"type": "tagged-union", "discriminator": tag_of, "choices": tagged}

    def _tags(self, schema: _Schema, name: str) -> list[str]:
        declared = self._resolve(schema)["fields"].get(name, {}).get("schema", {})
        return [tag for tag in declared.get("expected", ()) if isinstance(tag, str)]

    def _resolve(self, schema: _Schema) -> _Schema:
        while schema.get("type") == "definition-ref":
            schema = self._definitions[schema["schema_ref"]]
        return schema

    def _is_object(self, schema: _Schema) -> bool:
        found = self._resolve(schema)
        match found.get("type"):
            case "union":
                return all(self._is_object(each[0] if isinstance(each, tuple) else each) for each in found["choices"])
            case "tagged-union":
                return all(map(self._is_object, found["choices"].values()))
            case kind:
                return kind == "model"


_OPAQUE = ("metadata", "serialization", "cls", "function", "config")


def _join(choices: list[_Schema], schema: _Schema) -> _Schema:
    named = {"ref": schema["ref"]} if "ref" in schema else {}
    return choices[0] if len(choices) == 1 and not named else {"type": "union", "choices": choices} | named


@cache
def _ollama_request() -> Any:
    import ollama._types as types

    return types.ChatRequest


def _ollama(body: dict[str, Any]) -> _Faults:
    """The client's request model, unchanged: its nested models ignore unknown fields."""
    known = {name: value for name, value in body.items() if name not in NEWER["ollama"]}
    request = _ollama_request()
    yield from (f"the SDK's type: no field {name}" for name in known.keys() - request.model_fields.keys())
    try:
        # Images that are not base64 are read from files, which the other rules judge.
        messages = [{k: v for k, v in each.items() if k != "images"} for each in known.get("messages", ())]
        request.model_validate({**known, "messages": messages})
    except ValidationError as error:
        for found in error.errors(include_url=False, include_context=False)[:_SHOWN]:
            yield f"the SDK's type: {'.'.join(map(str, found['loc']))}: {found['msg']}"


@cache
def _converse_shape() -> Any:
    import botocore.session

    model = botocore.session.Session().get_service_model("bedrock-runtime")
    return model.operation_model("Converse").input_shape


def _converse(body: dict[str, Any]) -> _Faults:
    """botocore's model of Converse; it does not judge bodies of a model's own shape."""
    from botocore.validate import ParamValidator

    if "anthropic_version" in body or "schemaVersion" in body:
        return
    found = ParamValidator().validate({"modelId": "any", **body}, _converse_shape())
    if found.has_errors():
        yield from (f"the SDK's type: {line}" for line in found.generate_report().splitlines()[:_SHOWN])
