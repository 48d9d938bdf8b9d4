"""What Ollama's clients ask about the models."""

import hashlib
from typing import Any

from dragoman import AdapterCapabilities, get_adapter
from dragoman.errors import DragomanError
from dragoman_gateway.bodies.read import named_model
from dragoman_gateway.vendors.service import Call

_TAG = ":latest"


def plain_name(name: str) -> str:
    """Return the name without the tag that some clients add to every name without one."""
    plain = name.removesuffix(_TAG)
    return name if ":" in plain else plain


_VERSION = "0.13.0"
"""The version of Ollama whose interface this is: clients refuse to use an older one."""
_MODIFIED = "2026-01-01T00:00:00Z"
"""A fixed time: the names are the gateway's own, and clients require one."""


async def show_version(call: Call) -> dict[str, Any]:
    return {"version": _VERSION}


async def list_running(call: Call) -> dict[str, Any]:
    """Return no models: none is loaded here."""
    return {"models": []}


async def list_models(call: Call) -> dict[str, Any]:
    """Return the models that the caller may use."""
    found = []
    for name in call.generation.models.names(call.caller):
        target = call.generation.models.target(name)
        digest = hashlib.sha256(target.encode()).hexdigest()
        facts = {"size": 0, "digest": digest, "details": _details(target)}
        found.append({"name": name, "model": name, "modified_at": _MODIFIED, **facts})
    return {"models": found}


async def show(call: Call) -> dict[str, Any]:
    """Return what is known of a model. Older clients call the field ``name``."""
    name = named_model({"model": call.fields.get("model") or call.fields.get("name")})
    target = call.generation.models.resolve(plain_name(name), call.caller).model
    try:
        facts = get_adapter(target).capabilities
    except DragomanError:
        facts = AdapterCapabilities()
    family = target.partition(":")[0]
    info: dict[str, Any] = {"general.architecture": family, "general.basename": name}
    if facts.max_context_tokens is not None:
        info[f"{family}.context_length"] = facts.max_context_tokens
    abilities = {"tools": facts.supports_tools, "vision": facts.supports_images, "thinking": facts.supports_thinking}
    return {
        "modelfile": "",
        "parameters": "",
        "template": "",
        "details": _details(target),
        "model_info": info,
        "capabilities": ["completion", *(name for name, supported in abilities.items() if supported)],
        "modified_at": _MODIFIED,
    }


def _details(target: str) -> dict[str, Any]:
    family = target.partition(":")[0]
    return {
        "parent_model": "",
        "format": "",
        "family": family,
        "families": [family],
        "parameter_size": "",
        "quantization_level": "",
    }
