"""The OpenAPI document. Bodies are those of the providers' own references, so they are described by links."""

import re
from collections.abc import Mapping
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from dragoman_gateway.toml import load_table

_PARAMETER = re.compile(r"\{(\w+)\}")


@cache
def openapi() -> dict[str, Any]:
    """Return the document."""
    try:
        own_version = version("dragoman-gateway")
    except PackageNotFoundError:  # run from its sources
        own_version = "0"
    table = load_table("endpoints/openapi.toml")
    paths: dict[str, dict[str, Any]] = {}
    for operation in table["operations"]:
        described = _describe(operation, table["statuses"])
        paths.setdefault(operation["path"], {})[operation.get("method", "get")] = described
    info = {**table["document"]["info"], "version": own_version}
    return {**table["document"], "info": info, "paths": paths}


def _describe(operation: Mapping[str, Any], statuses: Mapping[str, dict[str, str]]) -> dict[str, Any]:
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
        text = {"schema": {"type": "string"}}
        answer = {
            "description": "The answer",
            "content": {
                "application/json": {"schema": {"type": operation.get("answer", "object")}},
                "text/event-stream": text,
                "application/x-ndjson": text,
            },
            "headers": {"x-dragoman-request-id": text, "x-dragoman-losses": text},
        }
        return described | {"responses": {"200": answer, **_errors(statuses["model"])}}
    if refused := operation.get("refuses"):
        return described | {"responses": _errors(refused)}
    media = operation.get("media", "application/json")
    found = {"description": "OK", "content": {media: {}}}
    errors = (
        statuses["any"] | ({} if operation.get("open") else statuses["keyed"]) | (statuses["item"] if names else {})
    )
    return described | {"responses": {"200": found, **_errors(errors, media)}}


def _errors(texts: Mapping[str, str], media: str = "application/json") -> dict[str, Any]:
    """Return the replies with these statuses: JSON in the shape of the client's wire, or a page."""
    content = {"application/json": {"schema": {"type": "object"}}} | ({media: {}} if media == "text/html" else {})
    return {status: {"description": texts[status], "content": content} for status in sorted(texts)}
