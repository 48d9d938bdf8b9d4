"""The options table of a wire: the fields that hold our options, for encoding and decoding alike.

A client sends the same options with each of its requests, so those that were read are remembered: reading them includes
writing them again, to find the fields that have no option, which takes longer than the rest of a short request.

Options that the model does not support are left out, or sent as the nearest value, and recorded as losses.
"""

import hashlib
from collections.abc import Callable, Collection, Hashable, Iterable, Mapping, Sequence
from copy import deepcopy
from dataclasses import KW_ONLY, dataclass, field, replace
from typing import Any

from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import RequestError
from dragoman.adapter.facts.capabilities import limits_revision
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.options import AdapterOptions, NamedTool, ToolChoice
from dragoman.adapter.requests.request_builder import ABSENT_OPTION, RequestBuilder, Target
from dragoman.adapter.wirejson import Path, assign_path, lookup_path


def tool_choice(request: RequestBuilder, *, tools: bool, reasoning: bool) -> ToolChoice | None:
    """Return the tool choice to send; None leaves it to the model. Without tools every provider refuses a choice."""
    if request.options.tool_choice is None:
        return None
    choice: ToolChoice | None = request.used.take("tool_choice")
    rule = request.target.capabilities.forced_tool_choice
    forced = choice == "required" or isinstance(choice, NamedTool)
    if not tools:
        if forced:
            request.record_option_loss("tool_choice", "the request offers no tools")
        return None
    if forced and (rule == "never" or (rule == "without_reasoning" and reasoning)):
        request.record_option_loss(
            "tool_choice", f"{request.target.model} cannot be forced to call a tool; it may choose"
        )
        return None
    return choice


_SAMPLING = frozenset({"temperature", "top_p", "top_k", "frequency_penalty", "presence_penalty"})


def supported_value(request: RequestBuilder, name: str, *, reasoning: bool) -> Any:
    """Return the value of an option that is one field; None if it is not set or the model does not support it.

    A model's ``wire.refused_options`` names options that it refuses although its wire has them, and its
    ``wire.sampling_options`` further options that it takes only if it takes sampling parameters.
    """
    wire = request.target.capabilities.wire
    if name in wire.get("refused_options", ()) and request.used.take(name) is not None:
        request.record_option_loss(name, f"{request.target.model} takes none")
        return None
    if name == "stop_sequences":
        return stop_sequences(request) or None
    if name in _SAMPLING or name in wire.get("sampling_options", ()):
        return sampling_value(request, name, reasoning=reasoning)
    return request.used.take(name)


def sampling_value(request: RequestBuilder, name: str, *, reasoning: bool) -> Any:
    """Return the value of a sampling parameter; None if it is not set or the model does not support it.

    ``wire.exclusive_sampling`` of a model names parameters of which it takes one, the first that is set, and
    ``wire.sampling_ranges`` the least and the greatest value of a parameter: another one becomes the nearest.
    """
    value, model = request.used.take(name), request.target.model
    if value is None:
        return None
    if not _takes_sampling(request, name, value, reasoning=reasoning):
        suffix = "" if request.target.capabilities.sampling == "never" else " when it reasons"
        request.record_option_loss(name, f"{model} takes no sampling parameters{suffix}")
        return None
    facts = request.target.capabilities.wire
    for other in facts.get("exclusive_sampling", ()):
        if other == name:
            break
        chosen = getattr(request.options, other) if name in facts["exclusive_sampling"] else None
        if chosen is not None and _takes_sampling(request, other, chosen, reasoning=reasoning):
            request.record_option_loss(name, f"{model} takes {other} or {name}, not both")
            return None
    low, high = facts.get("sampling_ranges", {}).get(name, (value, value))
    if low <= value <= high:
        return value
    nearest = min(max(value, low), high)
    request.record_option_loss(name, f"{model} takes {low} to {high}: {nearest} is sent")
    return nearest


def _takes_sampling(request: RequestBuilder, name: str, value: Any, *, reasoning: bool) -> bool:
    capabilities = request.target.capabilities
    rule = capabilities.sampling
    if rule == "allowed" or (rule == "without_reasoning" and not reasoning):
        return True
    low, high = capabilities.wire.get("sampling_beside_reasoning", {}).get(name, (1, 0))
    return rule == "without_reasoning" and bool(low <= value <= high)


def thinking_budget(request: RequestBuilder, requested: int, limit: int) -> int | None:
    """Return the tokens of thinking to ask for, below the output limit; None if that leaves no room.

    Only models whose facts have ``wire.min_thinking_budget`` are so strict. With the beta feature that
    ``wire.unbounded_thinking_beta`` names, a budget is for several outputs and may exceed the limit of one.
    """
    facts, model = request.target.capabilities.wire, request.target.model
    least: int | None = facts.get("min_thinking_budget")
    if least is None or not request.holds_budgets:
        return requested
    budget = max(requested, least) if requested > 0 else 0  # none, or as many as the model likes
    if budget >= limit:
        beta = facts.get("unbounded_thinking_beta")
        # A beta feature is asked for by a header, or by a field of the body.
        headers = request.options.headers.get(request.provider, {})
        asked = f"{[*headers.values()]} {request.options.extra.get(request.provider, {})}"
        budget = budget if beta is not None and beta in asked else limit - 1
    if budget < least:
        reason = f"{model} takes {least} or more, below the output limit of {limit}: it is left out"
        request.record_option_loss("thinking_budget", reason)
        return None
    if budget != requested:
        reason = f"{model} takes {least} or more, below the output limit of {limit}: {budget} is sent"
        request.record_option_loss("thinking_budget", reason)
    return budget


EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")
"""The levels of effort of all providers, in order."""


def nearest_effort(request: RequestBuilder, requested: str, levels: Sequence[str]) -> str | None:
    """Return the level that is nearest to the requested effort, the lower of two; another one is a loss.

    A level of the endpoint's own, such as ``default``, counts as ``medium``. None if the model has no levels, or if
    the effort is not a level of any provider.
    """
    if requested in levels:
        return requested
    model = request.target.model
    if not levels:
        request.record_option_loss("effort", f"{model} has no levels of effort")
        return None
    if requested not in EFFORTS:
        request.record_option_loss("effort", f"{requested!r} is not a level of {model}: {', '.join(levels)}")
        return None
    ranks = {level: EFFORTS.index(level if level in EFFORTS else "medium") for level in levels}
    rank = EFFORTS.index(requested)
    nearest = min(levels, key=lambda level: (abs(ranks[level] - rank), ranks[level]))
    request.record_option_loss("effort", f"{model} has no level {requested}: {nearest} is asked for")
    return nearest


def stop_sequences(request: RequestBuilder) -> list[str]:
    """Return the stop sequences to send: the first ones, up to the model's limit."""
    requested, limit = request.used.take("stop_sequences"), request.target.capabilities.max_stop_sequences
    if requested and limit == 0:
        request.record_option_loss("stop_sequences", f"{request.target.model} takes none")
    elif limit is not None and len(requested) > limit:
        reason = f"{request.target.model} takes {limit}: the last {len(requested) - limit} are left out"
        request.record_option_loss("stop_sequences", reason)
    return list(requested if limit is None else requested[:limit])


def encode_logprobs(
    request: RequestBuilder, body: dict[str, Any], field: Path, count_field: Path | None, *, reasoning: bool = False
) -> None:
    """Write the switch of log probabilities, and the number of alternatives if the wire takes one.

    ``reasoning``: whether the model may reason; see `supported_value`.
    """
    if request.options.logprobs is None:
        return
    count = supported_value(request, "logprobs", reasoning=reasoning)
    if count is None:
        return
    assign_path(body, field, True)
    if count and count_field is None:
        request.record_option_loss("logprobs", "the wire returns no alternatives")
    elif count and count_field is not None:
        assign_path(body, count_field, count)


def decode_logprobs(body: Mapping[str, Any], field: Path, count_field: Path | None) -> int | None:
    """Decode what `encode_logprobs` writes."""
    if lookup_path(body, field) is not True:
        return None
    count = lookup_path(body, count_field) if count_field else None
    return count if isinstance(count, int) else 0


def has_background(request: RequestBuilder) -> bool:
    """Whether the endpoint replies in the background; if not, the option is a loss."""
    found = bool(request.target.capabilities.wire.get("background"))
    if not found:
        request.record_option_loss("background", "the endpoint is not known to reply in the background")
    return found


def record_parallel_calls_loss(request: RequestBuilder, reason: str) -> None:
    """Record that parallel calls were forbidden, on a wire that cannot forbid them."""
    if request.used.take("parallel_tool_calls") is False:
        request.record_option_loss("parallel_tool_calls", reason)


def record_cache_hint_loss(request: RequestBuilder) -> None:
    """Record a request for prompt caching that the wire cannot express. The reply does not depend on it."""
    if request.used.take("prompt_cache") is None:
        return
    capabilities = request.target.capabilities
    can_cache = capabilities.supports_prompt_caching and "cache_control" not in capabilities.wire
    how = "caches by itself, for as long as it sees fit" if can_cache else "is not known to cache at request"
    request.record_loss(LossKind.OPTION, f"prompt_cache: {request.target.model} {how}", Severity.INFO)


@dataclass(frozen=True, slots=True, eq=False)
class OptionTable:
    """Maps each option that is one field of the wire to the path of that field.

    A path is None if the wire has no such field. ``absent`` is the reason of the loss if an option has no field.
    ``words`` are the wire's words for the values of an option, its own ones included; another value is a loss.
    ``digested`` are options whose value is an opaque text of a limited length: of a longer one, a digest is sent.
    ``unlimited`` are numbers for which the wire writes a negative one if there is no limit.
    """

    paths: Mapping[str, Path | None]
    """The path of each option's field in the body."""
    _: KW_ONLY
    absent: str = ABSENT_OPTION
    words: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    digested: Mapping[str, int] = field(default_factory=dict)
    unlimited: Collection[str] = ()

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
        for name in request.used.take_set(self.paths if names is None else names):
            path = self.paths[name]
            if path is None:
                request.record_option_loss(name, self.absent)
            elif (value := supported_value(request, name, reasoning=reasoning)) is not None:
                words, most = self.words.get(name), self.digested.get(name)
                if most is not None and len(value) > most:
                    reason = f"{name}: more than {most} characters: a digest is sent, the same for the same value"
                    request.record_loss(LossKind.OPTION, reason, Severity.INFO)
                    value = hashlib.sha256(value.encode()).hexdigest()[:most]
                if words is None:
                    assign_path(body, path, value)
                elif value in words:
                    assign_path(body, path, words[value])
                else:
                    request.record_option_loss(name, f"{value!r:.40} is none of {', '.join(words)}")

    def decode(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Return the options of a body as arguments of `AdapterOptions`. Raises RequestError if a number is expected
        and the value is not a number."""
        values = {name: lookup_path(body, path) for name, path in self.paths.items() if path is not None}
        for name in _NUMBERS & values.keys():
            if (value := values[name]) is not None:
                values[name] = read_option(name, self.paths[name] or "", value, limited=name not in self.unlimited)
        if "stop_sequences" in values:
            stop = values["stop_sequences"]
            values["stop_sequences"] = (stop,) if isinstance(stop, str) else tuple(stop or ())
        for name, words in self.words.items():  # ours, with the wire's
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


def keep_other_fields(
    options: AdapterOptions,
    native: Mapping[str, Any],
    target: Target,
    encode: Callable[[RequestBuilder], dict[str, Any]],
    covered: Iterable[str],
) -> AdapterOptions:
    """Return the options of a request with the fields that our encoder would write differently in ``extra``.

    ``encode`` writes options, and ``covered`` names the fields that the messages and the tools cover.
    """
    from dragoman.adapter.requests.request_reader import extra_fields  # imported late: only servers read options

    request = RequestBuilder(target, options, options.context or RequestContext(model=""), (), [], holds_budgets=False)
    extra = extra_fields(native, encode(request), covered)
    return replace(options, extra={target.provider: extra} if extra else {})


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
