"""The OpenAPI document. Bodies are those of the providers' own references, so they are described by links."""

import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from typing import Any

_PARAMETER = re.compile(r"\{(\w+)\}")
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
    described: dict[str, Any] = {"summary": operation["summary"], "responses": {"200": {"description": "OK"}}}
    if link := operation.get("link"):
        described["externalDocs"] = {"url": link}
    if names := _PARAMETER.findall(operation["path"]):
        described["parameters"] = [
            {"name": name, "in": "path", "required": True, "schema": {"type": "string"}} for name in names
        ]
    if operation.get("takes_model"):
        described |= _bodies(with_model=not names)
    return described


def _bodies(*, with_model: bool) -> dict[str, Any]:
    """Return what the request and the replies hold. ``with_model``: the body names the model, and not the address."""
    schema = {"type": "object"} | ({"required": ["model"]} if with_model else {})
    content = {"application/json": {"schema": schema}}
    answers = {"application/json": {"schema": {"type": "object"}}, "text/event-stream": {"schema": {"type": "string"}}}
    return {
        "requestBody": {"required": True, "content": content},
        "responses": {
            "200": {
                "description": "The answer",
                "content": answers,
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
