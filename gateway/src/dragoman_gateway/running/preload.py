"""Loads at startup what the first request would otherwise load while all others wait: adapters, prices, the HTTP
client."""

import importlib
from collections.abc import Iterable
from contextlib import suppress

from dragoman import Adapter, AdapterOptions, Message, RequestContext, Role, TextBlock, get_adapter
from dragoman.credentials.target import TargetFinder
from dragoman.errors import ConfigurationError, DragomanError
from dragoman.pricing import price_table
from dragoman_gateway.models.deployments import Deployment
from dragoman_gateway.running.state_keys import state_keys
from dragoman_gateway.wires import WIRES


def preload(models: Iterable[str]) -> None:
    """Load what requests of all wires to these models need. It sends nothing and reads no key."""
    importlib.import_module("aiohttp")
    for wire in WIRES:
        _rehearse(wire.adapter(""))
    for model in models:
        with suppress(DragomanError):  # a wrong setting is the error of its requests
            price_table().find(model)
            _rehearse(get_adapter(model))


def missing_keys(places: Iterable[Deployment]) -> dict[str, list[str]]:
    """Return what is missing for calls to some models, with the models. Nothing is sent."""
    missing: dict[str, list[str]] = {}
    for place in places:
        adapter = get_adapter(place.model)
        settings = (place.client.config.providers or {}).get(adapter.provider, {})
        if adapter.transport != "http" or "client" in settings:  # it authenticates in a way of its own
            continue
        try:
            TargetFinder(settings.get("api_key"), settings.get("base_url")).target(adapter)
        except ConfigurationError as error:
            missing.setdefault(str(error), []).append(place.model)
    return missing


def _rehearse(adapter: Adapter) -> None:
    """Write and read a request and a reply: modules load each other when they first run."""
    with suppress(DragomanError):
        context = RequestContext.for_model(str(adapter.model_id), state_sealer=state_keys())
        question, answer = (
            Message(session_id=context.session_id, role=role, content=(TextBlock(text="Hello"),))
            for role in (Role.USER, Role.ASSISTANT)
        )
        request = adapter.to_wire([question], [], AdapterOptions(context=context))
        adapter.from_wire_request(request.body, context)
        adapter.from_wire_request(request.body, RequestContext(model="another:model"))
        adapter.to_wire_response(answer, context)
