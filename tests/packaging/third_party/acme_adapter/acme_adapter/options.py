"""The options of a request, in both directions."""

from dataclasses import replace
from typing import Any

from dragoman.adapters import (
    AdapterOptions,
    OptionTable,
    RequestBuilder,
    RequestContext,
    Target,
    extra_fields,
    record_cache_hint_loss,
)

OPTIONS = OptionTable(
    {"max_output_tokens": "limit", "temperature": "warmth", "top_p": "breadth", "stop_sequences": "halt"}
)


def encode_options(request: RequestBuilder) -> dict[str, Any]:
    """Encode everything except the conversation and the tools."""
    encoded: dict[str, Any] = {}
    OPTIONS.encode(request, encoded)
    encoded["live"] = request.options.stream
    record_cache_hint_loss(request)
    return encoded


def decode_options(native: dict[str, Any], target: Target, context: RequestContext) -> AdapterOptions:
    """Decode the options of a request. Fields that our encoder would write differently stay in ``extra``."""
    options = AdapterOptions(**OPTIONS.decode(native), stream=native.get("live", False), context=context)
    encoded = encode_options(RequestBuilder(target, options, context, (), []))
    extra = extra_fields(native, encoded, ("engine", "turns", "instruments"))
    return replace(options, extra={"acme": extra} if extra else {})
