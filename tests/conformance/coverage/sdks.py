"""The official SDKs: what each declares, and how a program sends it."""

import base64
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, version
from typing import Any, Literal

from tests.conformance.coverage.chunks import chunk_fields
from tests.conformance.coverage.shapes import (
    botocore_samples,
    fields_of,
    literals,
    members,
    parameters_of,
    samples,
)

Group = Literal["parameter", "part", "tool"]
MODEL = "sample-model"
_NEVER = {"extra_headers", "extra_query", "extra_body", "timeout", "api_key", "retries", "server_url", "timeout_ms",
          "http_headers", "request_options", "stream", "http_options", "should_return_http_response",
          "automatic_function_calling", "continuation_token", "automatic_continuation"}  # fmt: skip
"""Arguments that configure the SDK and send no field. ``stream`` is another method of some SDKs."""


@dataclass(frozen=True)
class Sdk:
    """One SDK and one API of it."""

    provider: str
    """The provider of Dragoman that the API is."""
    package: str
    connect: Callable[[str], Callable[..., Any]]
    """Returns the method that sends a request to a server at that address."""
    parameters: Callable[[], Mapping[str, list[Any]]]
    """The samples of each keyword argument."""
    base: Mapping[str, Any]
    """The arguments of the smallest request."""
    parts: Callable[[], list[Any]] = list
    """Samples of the parts of a message."""
    tools: Callable[[], list[Any]] = list
    with_parts: Callable[[list[Any]], dict[str, Any]] = lambda parts: {"messages": [{"role": "user", "content": parts}]}
    with_tools: Callable[[list[Any]], dict[str, Any]] = lambda tools: {"tools": tools}
    replay: Callable[[dict[str, Any]], dict[str, Any]] = dict
    """Turns the body of a request into the arguments that send it."""
    stop_reasons: Callable[[], tuple[str, ...]] = tuple
    events: Callable[[], tuple[str, ...]] = tuple
    reply_parts: Callable[[], list[Any]] = list
    """Samples of the parts of a reply."""
    typed: Callable[[], Iterable[dict[str, Any]]] | None = None
    """The requests that Dragoman writes from its own words; None for those of `typed_requests`."""
    one_by_one: bool = False
    """The SDK checks what it sends, so each sample is sent alone."""

    @property
    def version(self) -> str | None:
        """The installed version; None if it is not installed."""
        try:
            return version(self.package)
        except PackageNotFoundError:
            return None

    def requests(self) -> Iterator[tuple[Group, dict[str, Any]]]:
        """Yield the arguments of each request, without those of the smallest."""
        for name, values in self.parameters().items():
            if name not in _NEVER and name not in ("messages", "input", "contents", "tools"):
                for value in values:
                    yield "parameter", {name: value}
        for group, values, place in (
            ("part", self.parts(), self.with_parts),
            ("tool", self.tools(), self.with_tools),
        ):
            for each in [[value] for value in values] if self.one_by_one else [values] if values else []:
                yield group, place(each)  # type: ignore[misc]


def _get(path: str) -> Any:
    module, _, name = path.rpartition(".")
    return getattr(import_module(module), name)


def _all(hints: Mapping[str, Any]) -> dict[str, list[Any]]:
    return {name: samples(hint) for name, hint in hints.items()}


def _kinds(path: str) -> list[Any]:
    return [value for member in members(_get(path)) for value in samples(member)]


def _functions(path: str) -> list[Any]:
    return [{**value, "type": "function"} for value in samples(_get(path))]


def _literals(path: str) -> Callable[[], tuple[str, ...]]:
    return lambda: literals(_get(path))


def event_types(path: str) -> tuple[str, ...]:
    """Return the names of the events of a union."""
    found: dict[str, None] = {}
    for member in members(_get(path)):
        hints = fields_of(member) or {}
        found.update(dict.fromkeys(literals(hints.get("type") or hints.get("event_type"))))
    return tuple(name for name in found if name != "UNKNOWN")


def _anthropic(url: str) -> Callable[..., Any]:
    return import_module("anthropic").Anthropic(api_key="sample-key", base_url=url, max_retries=0).beta.messages.create


def _openai(url: str) -> Any:
    return import_module("openai").OpenAI(api_key="sample-key", base_url=f"{url}/v1", max_retries=0)


def _google(url: str) -> Callable[..., Any]:
    genai: Any = import_module("google.genai")
    gemini = genai.Client(api_key="sample-key", http_options={"base_url": url})
    vertex = genai.Client(vertexai=True, api_key="sample-key", http_options={"base_url": url})

    def send(model: str, contents: Any, **config: Any) -> None:
        try:
            gemini.models.generate_content(model=model, contents=contents, config=config)
        except ValueError as error:  # this one is a field of Vertex AI alone
            if "Gemini" not in str(error) and "Vertex" not in str(error) and "enterprise" not in str(error).lower():
                raise
            vertex.models.generate_content(model=model, contents=contents, config=config)

    return send


def _interactions(url: str) -> Callable[..., Any]:
    genai: Any = import_module("google.genai")
    client = genai.Client(api_key="sample-key", http_options={"base_url": url})
    return lambda **body: client.interactions.create(**body)  # a client that nobody holds closes itself


def _replay_google(body: dict[str, Any]) -> dict[str, Any]:
    config = dict(body)
    contents = config.pop("contents", [])
    config.pop("model", None)
    return {"model": MODEL, "contents": contents, **config.pop("generationConfig", {}), **config}


def _bedrock(url: str) -> Callable[..., Any]:
    session = import_module("botocore.session").get_session()
    config = import_module("botocore.config").Config(retries={"max_attempts": 0})
    client = session.create_client(
        "bedrock-runtime", region_name="us-east-1", endpoint_url=url, aws_access_key_id="a", aws_secret_access_key="b",
        config=config,
    )  # fmt: skip
    converse: Callable[..., Any] = client.converse
    return converse


@cache
def _bedrock_model() -> Any:
    return import_module("botocore.session").get_session().get_service_model("bedrock-runtime")


def _bedrock_parameters() -> dict[str, list[Any]]:
    shape = _bedrock_model().operation_model("Converse").input_shape
    aside = ("modelId", "messages", "toolConfig")
    found = {name: botocore_samples(each) for name, each in shape.members.items() if name not in aside}
    choices = botocore_samples(_bedrock_model().shape_for("ToolChoice"))
    tool = {"toolSpec": {"name": "f", "inputSchema": {"json": {}}}}
    return {**found, "toolConfig": [{"tools": [tool], "toolChoice": choice} for choice in choices]}


def _bedrock_events() -> tuple[str, ...]:
    """Without the errors, which have a kind of frame of their own."""
    members = _bedrock_model().shape_for("ConverseStreamOutput").members
    return tuple(name for name, shape in members.items() if not shape.metadata.get("exception"))


def _replay_bedrock(body: dict[str, Any]) -> dict[str, Any]:
    def decoded(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: base64.b64decode(v) if k == "bytes" else decoded(v) for k, v in value.items()}
        return [decoded(each) for each in value] if isinstance(value, list) else value

    return {"modelId": MODEL, **decoded(body)}


def _ollama(url: str) -> Callable[..., Any]:
    chat: Callable[..., Any] = import_module("ollama").Client(host=url).chat
    return chat


def _ollama_parameters() -> dict[str, list[Any]]:
    chat = _get("ollama.Client").chat
    found = {name: samples(hint) for name, hint in parameters_of(chat).items() if name != "options"}
    options = samples(_get("ollama._types.Options"))
    return {**found, "options": options}


def _ollama_parts() -> list[Any]:
    message = samples(_get("ollama.Message"))[0]
    return [{**message, "role": "assistant", "images": ["c2FtcGxl"]}]


def _google_members(name: str) -> Callable[[], list[Any]]:
    """Samples with one field each: a part and a tool are named by it."""

    def found() -> list[Any]:
        hints = fields_of(_get(f"google.genai.types.{name}")) or {}
        return [
            {field_name: value}
            for field_name, hint in hints.items()
            if field_name not in ("mcp_servers", *_FLAGS)
            for value in samples(hint)
        ]

    return found


_FLAGS = ("thought", "thought_signature", "media_resolution", "video_metadata", "part_metadata")


def _google_parameters() -> dict[str, list[Any]]:
    return _all(fields_of(_get("google.genai.types.GenerateContentConfig")) or {})


_INTERACTIONS = "google.genai._gaos.types.interactions"


def _stainless(package: str, provider: str, client: str, params: str, part: str, tool: str | None) -> Sdk:
    """An SDK whose types are those of OpenAI's for Chat Completions."""

    def connect(url: str) -> Callable[..., Any]:
        create: Callable[..., Any] = _get(client)(
            api_key="sample-key", base_url=url, max_retries=0
        ).chat.completions.create
        return create

    return Sdk(
        provider,
        package,
        connect,
        lambda: _all(fields_of(_get(params)) or {}),
        {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]},
        parts=lambda: _kinds(part),
        tools=lambda: [] if tool is None else _kinds(tool),
    )


def _with_step(steps: list[Any]) -> dict[str, Any]:
    """Return the step with the call that it answers, or the answer to its call: none is sent alone."""
    (step,) = steps
    kind, pair = step["type"], {"name": "sample", "server_name": "sample"}
    if kind.endswith("_result"):
        return {
            "input": [{"type": kind.replace("_result", "_call"), "id": step["call_id"], "arguments": {}, **pair}, step]
        }
    if kind.endswith("_call"):
        return {
            "input": [step, {"type": kind.replace("_call", "_result"), "call_id": step["id"], "result": [], **pair}]
        }
    return {"input": [step]}


def _mistral(url: str) -> Callable[..., Any]:
    client = _get("mistralai.client.Mistral")(api_key="sample-key", server_url=url)
    return lambda **body: client.chat.complete(**body)  # a client that nobody holds closes itself


def _cohere(url: str) -> Callable[..., Any]:
    chat: Callable[..., Any] = _get("cohere.ClientV2")(api_key="sample-key", base_url=url).chat
    return chat


def _models(name: str) -> list[Any]:
    return [value for value in _kinds(f"mistralai.client.models.{name}") if "type" in value]


_CHAT = {"model": MODEL, "messages": [{"role": "user", "content": "Hi"}]}
SDKS: dict[str, Sdk] = {
    each.provider: each
    for each in (
        Sdk(
            "anthropic", "anthropic", _anthropic,
            lambda: _all(fields_of(_get("anthropic.types.beta.message_create_params.MessageCreateParamsBase")) or {}),
            {**_CHAT, "max_tokens": 50},
            parts=lambda: _kinds("anthropic.types.beta.BetaContentBlockParam"),
            tools=lambda: _kinds("anthropic.types.beta.BetaToolUnionParam"),
            stop_reasons=_literals("anthropic.types.beta.BetaStopReason"),
            events=lambda: event_types("anthropic.types.beta.BetaRawMessageStreamEvent"),
            reply_parts=lambda: _kinds("anthropic.types.beta.BetaContentBlock"),
        ),
        Sdk(
            "openai", "openai", lambda url: _openai(url).responses.create,  # type: ignore[no-any-return]
            lambda: _all(
                fields_of(_get("openai.types.responses.response_create_params.ResponseCreateParamsBase")) or {}
            ),
            {"model": MODEL, "input": [{"role": "user", "content": "Hi"}]},
            parts=lambda: _kinds("openai.types.responses.ResponseInputItemParam"),
            tools=lambda: _kinds("openai.types.responses.ToolParam"),
            with_parts=lambda parts: {"input": parts},
            stop_reasons=lambda: literals(
                fields_of(_get("openai.types.responses.response.IncompleteDetails"))["reason"]  # type: ignore[index]
            ),
            events=lambda: event_types("openai.types.responses.ResponseStreamEvent"),
            reply_parts=lambda: _kinds("openai.types.responses.ResponseOutputItem"),
        ),
        Sdk(
            "openai-chat", "openai", lambda url: _openai(url).chat.completions.create,  # type: ignore[no-any-return]
            lambda: _all(
                fields_of(_get("openai.types.chat.completion_create_params.CompletionCreateParamsBase")) or {}
            ),
            _CHAT,
            parts=lambda: _kinds("openai.types.chat.ChatCompletionContentPartParam"),
            tools=lambda: _kinds("openai.types.chat.ChatCompletionToolUnionParam"),
            stop_reasons=lambda: literals(
                fields_of(_get("openai.types.chat.chat_completion.Choice"))["finish_reason"]  # type: ignore[index]
            ),
            events=lambda: chunk_fields("openai-chat"),
        ),
        Sdk(
            "google", "google-genai", _google, _google_parameters, {"model": MODEL, "contents": "Hi"},
            parts=_google_members("Part"), tools=_google_members("Tool"),
            with_parts=lambda parts: {"contents": [{"role": "user", "parts": parts}]},
            replay=_replay_google, one_by_one=True,
            stop_reasons=_literals("google.genai.types.FinishReason"), events=lambda: chunk_fields("google"),
        ),
        Sdk(
            "google-interactions", "google-genai", _interactions,
            lambda: _all(fields_of(_get(f"{_INTERACTIONS}.createmodelinteraction.CreateModelInteractionParam")) or {}),
            {"model": MODEL, "input": "Hi"},
            parts=lambda: _kinds(f"{_INTERACTIONS}.step.StepParam"),
            tools=lambda: _kinds(f"{_INTERACTIONS}.tool.ToolParam"),
            with_parts=_with_step, one_by_one=True,
            events=lambda: event_types(f"{_INTERACTIONS}.InteractionSSEEvent"),
        ),
        Sdk(
            "bedrock", "botocore", _bedrock, _bedrock_parameters,
            {"modelId": MODEL, "messages": [{"role": "user", "content": [{"text": "Hi"}]}]},
            parts=lambda: botocore_samples(_bedrock_model().shape_for("ContentBlock")),
            tools=lambda: botocore_samples(_bedrock_model().shape_for("Tool")),
            with_tools=lambda tools: {"toolConfig": {"tools": tools}},
            replay=_replay_bedrock, one_by_one=True,
            stop_reasons=lambda: tuple(_bedrock_model().shape_for("StopReason").enum),
            events=_bedrock_events,
            reply_parts=lambda: botocore_samples(_bedrock_model().shape_for("ContentBlock")),
        ),
        Sdk(
            "ollama", "ollama", _ollama, _ollama_parameters, _CHAT,
            parts=_ollama_parts, tools=lambda: _functions("ollama.Tool"),
            with_parts=lambda parts: {"messages": parts}, one_by_one=True, events=lambda: chunk_fields("ollama"),
        ),
        Sdk(
            "mistral", "mistralai", _mistral, lambda: _all(parameters_of(_get("mistralai.client.chat.Chat").complete)),
            _CHAT, parts=lambda: _models("ContentChunk"), tools=lambda: _functions("mistralai.client.models.Tool"),
            one_by_one=True,
        ),
        Sdk(
            "cohere", "cohere", _cohere, lambda: _all(parameters_of(_get("cohere.v2.client.V2Client").chat)), _CHAT,
            parts=lambda: _kinds("cohere.types.Content"), tools=lambda: _functions("cohere.types.ToolV2"),
            one_by_one=True, stop_reasons=_literals("cohere.types.ChatFinishReason"),
        ),
        _stainless(
            "groq", "groq", "groq.Groq", "groq.types.chat.completion_create_params.CompletionCreateParams",
            "groq.types.chat.ChatCompletionContentPartParam", "groq.types.chat.ChatCompletionToolParam",
        ),
        _stainless(
            "together", "together", "together.Together",
            "together.types.chat.completion_create_params.CompletionCreateParamsBase",
            "together.types.chat.chat_completion_user_message_param."
            "ContentChatCompletionUserMessageContentMultimodal",
            "together.types.ToolsParam",
        ),
    )
}  # fmt: skip
"""By provider. xAI's SDK speaks gRPC, which no server on loopback can compare with HTTP."""
