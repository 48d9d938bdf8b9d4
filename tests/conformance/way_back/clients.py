"""What the official clients read from our bytes: each parses with its own stream helper and strict types.

Google's client is used if it is installed; otherwise the chunks are read as its documentation describes them.
"""

import base64
import importlib.util
import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cache
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

if TYPE_CHECKING:  # the clients are imported when one is first used: to import them takes seconds
    import anthropic
    import httpx
    import httpx2
    import openai

HAS_GOOGLE = importlib.util.find_spec("google") is not None and importlib.util.find_spec("google.genai") is not None

_MODEL = "client-model"
_QUESTION: list[Any] = [{"role": "user", "content": "Question"}]


@dataclass(frozen=True, slots=True)
class Usage:
    """Counts in the convention of the wire: the whole prompt, what a cache had, the whole output, the reasoning."""

    prompt: int
    cached: int
    output: int
    reasoning: int


@dataclass(frozen=True, slots=True)
class Seen:
    """What a client sees of a reply. ``echo`` is the reply as it sends it back: items of the next request's history."""

    text: str
    thinking: str
    calls: tuple[tuple[str, str, Any], ...]
    stop: str
    usage: Usage | None
    links: tuple[str, ...]
    images: int
    echo: tuple[Any, ...]
    refusal: str = ""


class _Server:
    """Answers every request of every client with the same reply. To make a client takes longer than a request."""

    def __init__(self) -> None:
        self.body = b""
        self.media_type = ""

    def answer2(self, _: "httpx2.Request") -> "httpx2.Response":
        import httpx2

        return httpx2.Response(200, headers={"content-type": self.media_type}, content=self.body)

    def answer(self, _: "httpx.Request") -> "httpx.Response":
        import httpx

        return httpx.Response(200, headers={"content-type": self.media_type}, content=self.body)


_SERVER = _Server()


def _serve(body: bytes, media_type: str) -> None:
    _SERVER.body, _SERVER.media_type = body, media_type


def _anthropic(body: bytes, media_type: str) -> "anthropic.Anthropic":
    _serve(body, media_type)
    return _anthropic_client()


def _openai(body: bytes, media_type: str) -> "openai.OpenAI":
    _serve(body, media_type)
    return _openai_client()


@cache
def _anthropic_client() -> "anthropic.Anthropic":
    import anthropic
    import httpx2

    http = httpx2.Client(transport=httpx2.MockTransport(_SERVER.answer2))
    return anthropic.Anthropic(api_key="x", base_url="http://127.0.0.1", http_client=http, max_retries=0)


@cache
def _openai_client() -> "openai.OpenAI":
    import httpx2
    import openai

    http = httpx2.Client(transport=httpx2.MockTransport(_SERVER.answer2))
    return openai.OpenAI(api_key="x", base_url="http://127.0.0.1/v1", http_client=http, max_retries=0)


def anthropic_whole(body: bytes) -> Seen:
    _check_anthropic(json.loads(body))
    client = _anthropic(body, "application/json")
    return _anthropic_seen(client.messages.create(model=_MODEL, max_tokens=10, messages=_QUESTION))


def anthropic_stream(body: bytes) -> Seen:
    with _anthropic(body, "text/event-stream").messages.stream(
        model=_MODEL, max_tokens=10, messages=_QUESTION
    ) as stream:
        final: Any = stream.get_final_message()
    _check_anthropic(final.model_dump(warnings=False, exclude={"content": {"__all__": {"parsed_output"}}}))
    return _anthropic_seen(final)


def _check_anthropic(native: dict[str, Any]) -> None:
    """Validate a message against the strict types; those of betas hold more kinds of blocks."""
    from anthropic.types import Message
    from anthropic.types.beta import BetaMessage

    try:
        Message.model_validate(native)
    except ValidationError:
        BetaMessage.model_validate(native)


def _anthropic_seen(message: Any) -> Seen:
    echo = [_filled(block.model_dump(warnings=False, exclude={"parsed_output"})) for block in message.content]
    texts = [block for block in message.content if block.type == "text"]
    details = message.usage.output_tokens_details
    return Seen(
        text="".join(block.text for block in texts),
        thinking="".join(block.thinking for block in message.content if block.type == "thinking"),
        calls=tuple((block.id, block.name, block.input) for block in message.content if block.type == "tool_use"),
        stop=message.stop_reason,
        usage=Usage(
            prompt=message.usage.input_tokens
            + (message.usage.cache_read_input_tokens or 0)
            + (message.usage.cache_creation_input_tokens or 0),
            cached=message.usage.cache_read_input_tokens or 0,
            output=message.usage.output_tokens,
            reasoning=details.thinking_tokens if details else 0,
        ),
        links=tuple(source.url for block in texts for source in block.citations or () if hasattr(source, "url")),
        images=0,
        echo=({"role": "assistant", "content": echo},),
    )


def _filled(value: dict[str, Any]) -> dict[str, Any]:
    return {key: item for key, item in value.items() if item is not None}


def chat_whole(body: bytes) -> Seen:
    from openai.types.chat import ChatCompletion

    ChatCompletion.model_validate_json(body)
    return _chat_seen(_openai(body, "application/json").chat.completions.create(model=_MODEL, messages=_QUESTION))


def chat_stream(body: bytes) -> Seen:
    # The helper raises an error for a reply that was cut or filtered; what it read is then not to be had.
    for word in (b"length", b"content_filter"):
        if (reason := b'"finish_reason":"' + word + b'"') in body:
            seen = chat_stream(body.replace(reason, b'"finish_reason":"stop"'))
            return replace(seen, stop=word.decode())
    client = _openai(body, "text/event-stream")
    with client.chat.completions.stream(model=_MODEL, messages=_QUESTION) as stream:
        final: Any = stream.get_final_completion()
    return _chat_seen(final)


def _chat_seen(completion: Any) -> Seen:
    (choice,) = [choice for choice in completion.choices if choice.index == 0]
    message = choice.message
    native = _filled(message.model_dump(warnings=False, exclude={"parsed"}))
    calls = [
        (call.id, call.function.name, _parsed(call.function.arguments))
        if call.type == "function"
        else (call.id, call.custom.name, {"input": call.custom.input})
        for call in message.tool_calls or ()
    ]
    if message.function_call:
        calls.append(("", message.function_call.name, _parsed(message.function_call.arguments)))
    for call in native.get("tool_calls") or ():
        call.get("function", {}).pop("parsed_arguments", None)
        call.pop("index", None)
    usage = completion.usage
    annotations = native.get("annotations") or ()
    # Clients send back the fields that the API documents, and no others.
    echo = {key: native[key] for key in ("role", "content", "tool_calls", "function_call", "refusal") if key in native}
    return Seen(
        text=message.content or "",
        thinking=native.get("reasoning_content") or native.get("reasoning") or "",
        calls=tuple(calls),
        stop=choice.finish_reason,
        usage=usage
        and Usage(
            usage.prompt_tokens,
            (usage.prompt_tokens_details and usage.prompt_tokens_details.cached_tokens) or 0,
            usage.completion_tokens,
            (usage.completion_tokens_details and usage.completion_tokens_details.reasoning_tokens) or 0,
        ),
        links=tuple(each["url_citation"]["url"] for each in annotations),
        images=0,
        echo=({"content": None, **echo},),
        refusal=message.refusal or "",
    )


def _parsed(arguments: str) -> Any:
    try:
        return json.loads(arguments)
    except ValueError:
        return arguments


def responses_whole(body: bytes) -> Seen:
    from openai.types.responses import Response

    Response.model_validate_json(body)
    return _responses_seen(_openai(body, "application/json").responses.create(model=_MODEL, input="Question"))


def responses_stream(body: bytes) -> Seen:
    from openai.types.responses import Response

    with _openai(body, "text/event-stream").responses.stream(model=_MODEL, input="Question") as stream:
        for _ in stream:
            pass
        completed = [json.loads(line[6:]) for line in body.decode().split("\n") if line.startswith("data: ")][-1]
        if completed["type"] == "response.incomplete":  # the helper has no final response of this kind
            return _responses_seen(Response.model_validate(completed["response"]))
        final: Any = stream.get_final_response()
    return _responses_seen(final)


def _responses_seen(response: Any) -> Seen:
    items = response.output
    parts = [part for item in items if item.type == "message" for part in item.content]
    usage = response.usage
    calls = [
        (item.call_id, item.name, _parsed(item.arguments) if item.type == "function_call" else item.input)
        for item in items
        if item.type in ("function_call", "custom_tool_call")
    ]
    reason = response.incomplete_details.reason if response.incomplete_details else None
    thoughts = [part.text for item in items if item.type == "reasoning" for part in item.summary or item.content or ()]
    return Seen(
        text="".join(part.text for part in parts if part.type == "output_text"),
        thinking="".join(thoughts),
        calls=tuple(calls),
        stop=reason or response.status,
        usage=usage
        and Usage(
            usage.input_tokens,
            usage.input_tokens_details.cached_tokens or 0,
            usage.output_tokens,
            usage.output_tokens_details.reasoning_tokens or 0,
        ),
        links=tuple(
            note.url for part in parts for note in getattr(part, "annotations", None) or () if hasattr(note, "url")
        ),
        images=sum(item.type == "image_generation_call" for item in items),
        echo=tuple(_without_parsed(item.model_dump(warnings=False)) for item in items),
        refusal="".join(part.refusal for part in parts if part.type == "refusal"),
    )  # fmt: skip


def _without_parsed(item: dict[str, Any]) -> dict[str, Any]:
    item.pop("parsed_arguments", None)
    if item["type"] == "message":
        item["content"] = [{key: part[key] for key in part if key != "parsed"} for part in item["content"]]
        item["content"] = [_filled(part) for part in item["content"]]
    return _filled(item)


def google_whole(body: bytes) -> Seen:
    return _google_seen([json.loads(body)]) if not HAS_GOOGLE else _google_client(body, stream=False)


def google_stream(body: bytes) -> Seen:
    if HAS_GOOGLE:
        return _google_client(body, stream=True)
    frames = [frame for frame in body.decode().split("\r\n\r\n") if frame]
    assert all(frame.startswith("data: ") for frame in frames)
    return _google_seen([json.loads(frame.removeprefix("data: ")) for frame in frames])


def _google_client(body: bytes, *, stream: bool) -> Seen:
    """Parse with Google's own client."""
    media_type = "text/event-stream" if stream else "application/json"
    _serve(body, media_type)
    client = _google_genai_client()
    if stream:
        replies = list(client.models.generate_content_stream(model=_MODEL, contents="Question"))
    else:
        replies = [client.models.generate_content(model=_MODEL, contents="Question")]
    return _google_seen([reply.model_dump(mode="json", by_alias=True, exclude_none=True) for reply in replies])


@cache
def _google_genai_client() -> Any:
    import httpx
    from google import genai

    arguments = {"transport": httpx.MockTransport(_SERVER.answer)}
    options = genai.types.HttpOptions(base_url="http://127.0.0.1", client_args=arguments, async_client_args={})
    return genai.Client(api_key="x", http_options=options)


def _google_seen(chunks: list[dict[str, Any]]) -> Seen:
    parts: list[dict[str, Any]] = []
    contents: list[dict[str, Any]] = []
    stop, usage, links = "", None, []
    for chunk in chunks:
        candidate = chunk["candidates"][0]
        content = candidate.get("content") or {}
        parts += content.get("parts") or ()
        if content.get("parts"):
            contents.append({"role": "model", "parts": content["parts"]})
        stop = candidate.get("finishReason") or stop
        if counts := chunk.get("usageMetadata"):
            thoughts = counts.get("thoughtsTokenCount") or 0
            usage = Usage(
                (counts.get("promptTokenCount") or 0) + (counts.get("toolUsePromptTokenCount") or 0),
                counts.get("cachedContentTokenCount") or 0,
                (counts.get("candidatesTokenCount") or 0) + thoughts,
                thoughts,
            )
        grounding = candidate.get("groundingMetadata") or {}
        links += [found["web"]["uri"] for found in grounding.get("groundingChunks") or () if "web" in found]
    calls = [part["functionCall"] for part in parts if part.get("functionCall")]
    for part in parts:  # opaque fields are bytes
        if "thoughtSignature" in part:
            base64.b64decode(part["thoughtSignature"].replace("-", "+").replace("_", "/"), validate=True)
    return Seen(
        text="".join(part.get("text") or "" for part in parts if not part.get("thought")),
        thinking="".join(part.get("text") or "" for part in parts if part.get("thought")),
        calls=tuple((call.get("id") or "", call["name"], call.get("args") or {}) for call in calls),
        stop=stop,
        usage=usage,
        links=tuple(links),
        images=sum("inlineData" in part for part in parts),
        echo=tuple(contents),
    )


def ollama_whole(body: bytes) -> Seen:
    return _ollama_seen([_ollama_client(body).chat(model=_MODEL, messages=_QUESTION)])


def ollama_stream(body: bytes) -> Seen:
    lines = list(_ollama_client(body).chat(model=_MODEL, messages=_QUESTION, stream=True))
    assert lines[-1].done
    return _ollama_seen(lines)


def _ollama_client(body: bytes) -> Any:
    _serve(body, "application/json")
    return _ollama()


@cache
def _ollama() -> Any:
    import httpx
    import ollama

    return ollama.Client(host="http://127.0.0.1:1", transport=httpx.MockTransport(_SERVER.answer))


def _ollama_seen(lines: Iterable[Any]) -> Seen:
    lines = list(lines)
    last = lines[-1]
    calls = [call for line in lines for call in line.message.tool_calls or ()]
    images = [image for line in lines for image in line.message.images or ()]
    text = "".join(line.message.content or "" for line in lines)
    thinking = "".join(line.message.thinking or "" for line in lines)
    native = [call.model_dump(exclude_none=True) for call in calls]
    counted = last.prompt_eval_count is not None
    echo = {"role": "assistant", "content": text} | ({"tool_calls": native} if native else {})
    return Seen(
        text=text,
        thinking=thinking,
        calls=tuple(
            (getattr(call, "id", None) or "", call.function.name, dict(call.function.arguments)) for call in calls
        ),
        stop=last.done_reason or "",
        usage=Usage(last.prompt_eval_count or 0, 0, last.eval_count or 0, 0) if counted else None,
        links=(),
        images=len(images),
        echo=({**echo, **({"thinking": thinking} if thinking else {})},),
    )  # fmt: skip


WHOLE: dict[str, Callable[[bytes], Seen]] = {
    "anthropic": anthropic_whole,
    "openai-chat": chat_whole,
    "openai": responses_whole,
    "google": google_whole,
    "ollama": ollama_whole,
}
STREAM: dict[str, Callable[[bytes], Seen]] = {
    "anthropic": anthropic_stream,
    "openai-chat": chat_stream,
    "openai": responses_stream,
    "google": google_stream,
    "ollama": ollama_stream,
}
