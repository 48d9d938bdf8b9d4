"""The options table of a wire: the fields that hold our options, for encoding and decoding alike.

A client sends the same options with each of its requests, so those that were read are remembered: reading them includes
writing them again, to find the fields that have no option, which takes longer than the rest of a short request.
"""

import hashlib
from collections.abc import Callable, Collection, Hashable, Mapping
from copy import deepcopy
from dataclasses import replace
from typing import Any

from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import RequestError
from dragoman.adapter.facts.capabilities import limits_revision
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.options import AdapterOptions
from dragoman.adapter.requests import option_support
from dragoman.adapter.requests.request_builder import ABSENT_OPTION, RequestBuilder
from dragoman.adapter.wirejson import Path, assign_path, lookup_path


class OptionTable:
    """Maps each option that is one field of the wire to the path of that field.

    A path is None if the wire has no such field. ``absent`` is the reason of the loss if an option has no field.
    ``words`` are the wire's words for the values of an option, its own ones included; another value is a loss.
    ``digested`` are options whose value is an opaque text of a limited length: of a longer one, a digest is sent.
    ``unlimited`` are numbers for which the wire writes a negative one if there is no limit.
    """

    def __init__(
        self,
        paths: Mapping[str, Path | None],
        *,
        absent: str = ABSENT_OPTION,
        words: Mapping[str, Mapping[str, Any]] | None = None,
        digested: Mapping[str, int] | None = None,
        unlimited: Collection[str] = (),
    ) -> None:
        self.absent = absent
        self._paths = dict(paths)
        self._words = dict(words or {})
        self._digested = dict(digested or {})
        self._unlimited = frozenset(unlimited)

    def encode(
        self,
        request: RequestBuilder,
        body: dict[str, Any],
        names: Collection[str] | None = None,
        *,
        reasoning: bool = False,
    ) -> None:
        """Write the named options into the body, or all of the table, except those that were taken before.

        ``reasoning``: whether the model may reason. What the model or the wire does not support is recorded as a loss.
        """
        for name in request.used.take_set(self._paths if names is None else names):
            path = self._paths[name]
            if path is None:
                request.record_option_loss(name, self.absent)
            elif (value := option_support.supported_value(request, name, reasoning=reasoning)) is not None:
                words = self._words.get(name)
                if name in self._digested:
                    assign_path(body, path, self._shorten(request, name, value))
                elif words is None:
                    assign_path(body, path, value)
                elif value in words:
                    assign_path(body, path, words[value])
                else:
                    request.record_option_loss(name, f"{value!r:.40} is none of {', '.join(words)}")

    def _shorten(self, request: RequestBuilder, name: str, value: str) -> str:
        limit = self._digested[name]
        if len(value) <= limit:
            return value
        reason = f"{name}: more than {limit} characters: a digest is sent, the same for the same value"
        request.record_loss(LossKind.OPTION, reason, Severity.INFO)
        return hashlib.sha256(value.encode()).hexdigest()[:limit]

    def decode(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a body as arguments of `AdapterOptions`. Raises RequestError if a number is expected
        and the value is not a number."""
        values = {name: lookup_path(body, path) for name, path in self._paths.items() if path is not None}
        for name in _NUMBERS & values.keys():
            if (value := values[name]) is not None:
                values[name] = read_option(name, self._paths[name] or "", value, limited=name not in self._unlimited)
        if "stop_sequences" in values:
            stop = values["stop_sequences"]
            values["stop_sequences"] = (stop,) if isinstance(stop, str) else tuple(stop or ())
        for name, words in self._words.items():  # ours, with the wire's
            if name in values:
                native = values[name]
                values[name] = next((ours for ours, theirs in words.items() if theirs == native), None)
        return values


_WHOLE = frozenset({"max_output_tokens", "seed", "n", "num_ctx", "thinking_budget"})
_NUMBERS = _WHOLE | {"temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty"}


def read_option(name: str, path: Path, value: Any, *, limited: bool = True) -> Any:
    """Return the value of an option. A whole number may be written as 10.0. If it is not ``limited``, a negative one
    means no limit: None.

    Raises RequestError with the name of the field if the option is a number and the value is not, and for a negative
    output limit.
    """
    if value is None or name not in _NUMBERS:
        return value
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        raise RequestError(f"{path} must be a number, not {value!r:.40}")
    if name in _WHOLE and isinstance(value, float):
        if not value.is_integer():
            raise RequestError(f"{path} must be a whole number, not {value!r:.40}")
        value = int(value)
    if not limited and value < 0:
        return None
    if name == "max_output_tokens" and value < 0:
        raise RequestError(f"{path} must be at least 0, not {value!r:.40}")
    return value


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
    # The result also depends on who answers, and on the limits of the model, which an update may change while a program
    # runs. As text, 1 and True differ, and an absent field and an empty one do.
    key = (adapter_key, context.model.partition(":")[0], limits_revision(), written)
    if (known := _known.get(key)) is not None:
        return (
            replace(known, context=context, extra=deepcopy(known.extra)) if known.extra else known.with_context(context)
        )
    found = decode()
    # Objects of a request belong to it alone: options that hold one may be changed by whoever has it. Fields that stay
    # as they are, such as the older name of an option, are copied each time.
    if not (found.headers or found.metadata or found.output_schema):
        if len(_known) >= _MAX_KNOWN:
            _known.clear()
        _known[key] = replace(found, context=None, extra=deepcopy(found.extra))
    return found
