"""The OpenAPI document. Bodies are those of the providers' own references, so they are described by links."""

from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

_REFERENCES = {
    "/v1/messages": ("Answer in Messages", "https://docs.claude.com/en/api/messages"),
    "/v1/messages/count_tokens": (
        "Count the tokens of a Messages request",
        "https://docs.claude.com/en/api/messages-count-tokens",
    ),
    "/v1/chat/completions": (
        "Answer in Chat Completions",
        "https://platform.openai.com/docs/api-reference/chat/create",
    ),
    "/v1/embeddings": ("Embed texts", "https://platform.openai.com/docs/api-reference/embeddings/create"),
    "/v1beta/models/{model}:generateContent": (
        "Answer in generateContent",
        "https://ai.google.dev/api/generate-content#method:-models.generatecontent",
    ),
    "/v1beta/models/{model}:streamGenerateContent": (
        "Answer in generateContent, as a stream",
        "https://ai.google.dev/api/generate-content#method:-models.streamgeneratecontent",
    ),
    "/v1beta/models/{model}:countTokens": (
        "Count the tokens of a generateContent request",
        "https://ai.google.dev/api/tokens",
    ),
    "/v1beta/models/{model}:batchEmbedContents": ("Embed contents", "https://ai.google.dev/api/embeddings"),
    "/api/chat": ("Answer in Ollama's chat", "https://docs.ollama.com/api/chat"),
    "/api/generate": ("Answer one prompt in Ollama's generate", "https://docs.ollama.com/api/generate"),
    "/api/embed": ("Embed texts in Ollama's embed", "https://docs.ollama.com/api/embed"),
    "/v1/responses": ("Answer in Responses", "https://platform.openai.com/docs/api-reference/responses/create"),
    "/v1/responses/compact": (
        "Shorten a conversation of Responses",
        "https://platform.openai.com/docs/api-reference/responses/compact",
    ),
}
_PAGES = {
    "/v1/models": "The models, in the shape of the client's wire",
    "/v1beta/models": "The models, in Google's shape",
    "/api/tags": "The models, in Ollama's shape",
    "/health": "Whether the process runs",
    "/ready": "Whether the gateway takes requests",
    "/gateway/": "The page for whoever holds an admin key",
    "/metrics": "Counts in Prometheus's format",
}
_ERRORS = {
    "400": "The request is wrong",
    "401": "The key is missing or wrong",
    "402": "A budget is spent (Messages)",
    "404": "The model does not exist",
    "413": "The body is too large",
    "429": "A limit is reached, or a budget is spent",
    "503": "The gateway takes no requests now",
}


@cache
def openapi() -> dict[str, Any]:
    """Return the document."""
    return {
        "openapi": "3.1.0",
        "info": {"title": "Dragoman gateway", "version": _version()},
        "paths": {
            **{path: {"post": _operation(summary, link)} for path, (summary, link) in _REFERENCES.items()},
            **{
                path: {"get": {"summary": summary, "responses": {"200": {"description": "OK"}}}}
                for path, summary in _PAGES.items()
            },
        },
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            }
        },
        "security": [{"bearer": []}, {"header": []}, {}],
    }


def _operation(summary: str, link: str) -> dict[str, Any]:
    content = {"application/json": {"schema": {"type": "object", "required": ["model"]}}}
    streamed = {**content, "text/event-stream": {"schema": {"type": "string"}}}
    return {
        "summary": summary,
        "externalDocs": {"url": link},
        "requestBody": {"required": True, "content": content},
        "responses": {
            "200": {
                "description": "The answer",
                "content": streamed,
                "headers": {
                    "x-dragoman-request-id": {"schema": {"type": "string"}},
                    "x-dragoman-losses": {"schema": {"type": "string"}},
                },
            },
            **{status: {"description": text} for status, text in _ERRORS.items()},
        },
    }


def _version() -> str:
    try:
        return version("dragoman-gateway")
    except PackageNotFoundError:  # run from its sources
        return "0"
