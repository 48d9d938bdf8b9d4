"""The OpenAPI document. Bodies are those of the providers' own references, so they are described by links."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

_PARAMETER = re.compile(r"\{(\w+)\}")
_REFUSED = {"401": "The key is missing or wrong", "403": "The key may not do that"}
_MISSING = {"404": "What the address names does not exist"}
_UNAVAILABLE = {"503": "The gateway takes no requests now, or a server that it needs does not answer"}
_FAILED = {
    "400": "The request is wrong",
    "402": "A budget is spent (Messages)",
    "404": "The model does not exist",
    "408": "The body did not arrive in time",
    "413": "The body is too large",
    "415": "The body is not JSON, or its compression is unknown",
    "429": "A limit is reached, or a budget is spent",
    "500": "The provider failed",
    "502": "The provider cannot be reached, or its reply cannot be read",
    "504": "The provider did not answer in time",
    "529": "The provider is overloaded",
}


@cache
def openapi() -> dict[str, Any]:
    """Return the document."""
    text = files("dragoman_gateway.endpoints").joinpath("openapi.toml").read_text("utf-8")
    paths: dict[str, dict[str, Any]] = {}
    for operation in tomllib.loads(text)["operations"]:
        paths.setdefault(operation["path"], {})[operation.get("method", "get")] = _describe(operation)
    return {
        "openapi": "3.1.0",
        "info": {"title": "Dragoman gateway", "version": _version()},
        "paths": paths,
        "components": {
            "securitySchemes": {
                "bearer": {"type": "http", "scheme": "bearer"},
                "header": {"type": "apiKey", "in": "header", "name": "x-api-key"},
            }
        },
        "security": [{"bearer": []}, {"header": []}, {}],
    }


def _describe(operation: Mapping[str, Any]) -> dict[str, Any]:
    described: dict[str, Any] = {"summary": operation["summary"]}
    if link := operation.get("link"):
        described["externalDocs"] = {"url": link}
    if names := _PARAMETER.findall(operation["path"]):
        described["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if (required := operation.get("requires")) is not None:
        schema = {"type": "object"} | ({"required": required} if required else {})
        described["requestBody"] = {"required": True, "content": {"application/json": {"schema": schema}}}
        answer = _answer(operation.get("answer", "object"))
        return described | {"responses": {"200": answer, **_errors(_FAILED | _REFUSED | _UNAVAILABLE)}}
    if refused := operation.get("refuses"):
        return described | {"responses": _errors(refused)}
    media = operation.get("media", "application/json")
    found = {"description": "OK", "content": {media: {}}}
    errors = _UNAVAILABLE | ({} if operation.get("open") else _REFUSED) | (_MISSING if names else {})
    return described | {"responses": {"200": found, **_errors(errors, media)}}


def _answer(kind: str) -> dict[str, Any]:
    """Return the reply of a model: JSON of that type, or a stream."""
    stream, header = {"schema": {"type": "string"}}, {"schema": {"type": "string"}}
    return {
        "description": "The answer",
        "content": {
            "application/json": {"schema": {"type": kind}},
            "text/event-stream": stream,
            "application/x-ndjson": stream,
        },
        "headers": {"x-dragoman-request-id": header, "x-dragoman-losses": header},
    }


def _errors(texts: Mapping[str, str], media: str = "application/json") -> dict[str, Any]:
    """Return the replies with these statuses: JSON in the shape of the client's wire, or a page."""
    content = {"application/json": {"schema": {"type": "object"}}} | ({media: {}} if media == "text/html" else {})
    return {status: {"description": texts[status], "content": content} for status in sorted(texts)}


def _version() -> str:
    try:
        return version("dragoman-gateway")
    except PackageNotFoundError:  # run from its sources
        return "0"
