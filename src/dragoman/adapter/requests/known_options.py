"""Remembers the options of requests of clients: a client sends the same ones with each of its requests.

Reading them includes writing them again, to find the fields that have no option. That takes longer than the rest of a
short request.
"""

from collections.abc import Callable, Collection, Hashable, Mapping
from dataclasses import replace
from typing import Any

from dragoman.adapter.context import RequestContext
from dragoman.adapter.facts.limit_updates import limits_revision
from dragoman.adapter.options import AdapterOptions

_MAX_KNOWN = 512
_MAX_KEY = 1000
"""Characters. Longer options hold schemas, or what a program made up for one request."""

_known: dict[Hashable, AdapterOptions] = {}


def read_options(
    native: Mapping[str, Any],
    adapter_key: Hashable,
    context: RequestContext,
    conversation: Collection[str],
    decode: Callable[[], AdapterOptions],
) -> AdapterOptions:
    """Return the options of a request. ``decode`` reads them if no request with the same ones is known.

    ``adapter_key`` is the class and the model of the adapter. ``conversation`` names the fields that are not options:
    to the options it only matters whether they are there.
    """
    options = {name: value if name not in conversation or not value else True for name, value in native.items()}
    try:
        written = repr(options)
    except ValueError:  # an integer of thousands of digits
        return decode()
    if len(written) > _MAX_KEY:
        return decode()
    # The result also depends on the limits of the model, which an update may change while a program runs. As text, 1
    # and True differ, and an absent field and an empty one do.
    key = (adapter_key, limits_revision(), written)
    if (known := _known.get(key)) is not None:
        return known.with_context(context)
    found = decode()
    # Objects of a request belong to it alone: options that hold one may be changed by whoever has it.
    if not (found.extra or found.headers or found.metadata or found.output_schema):
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        _known[key] = replace(found, context=None)
    return found
