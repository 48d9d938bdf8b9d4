"""AdapterOptions: what a caller may ask of one request, whatever the provider. UsedOptions: which of them were sent."""

import math
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter
from typing import Any, Literal, NamedTuple

from dragoman.adapter.context import RequestContext
from dragoman.adapter.errors import RequestError


class NamedTool(NamedTuple):
    """A tool choice: this tool must be called, as in ``tool_choice=NamedTool("look_up")``."""

    name: str
    """The name under which the tool is offered."""


ToolChoice = Literal["auto", "none", "required"] | NamedTool


@dataclass(frozen=True, kw_only=True)
class AdapterOptions:
    """The options of a request. None leaves an option to the provider. Only an output limit has a default of
    ours, for the wires that require one (docs/reference/contract.md#members).

    Args:
        max_output_tokens: The most tokens of a reply, reasoning included.
        temperature: How random the choice of each token is: from 0, the least, up to 1 or 2, by provider.
        top_p: Choose among the most likely tokens only: those that together have this probability.
        top_k: Choose among this many of the most likely tokens.
        frequency_penalty: Makes tokens less likely the more often they occurred, usually from -2 to 2.
        presence_penalty: Makes tokens less likely that occurred at all, usually from -2 to 2.
        seed: Makes replies repeatable, as far as the provider can.
        stop_sequences: Texts that end the reply when the model writes one of them.

        tool_choice: Whether the model may call tools, must not or must; a `NamedTool` must be called.
        parallel_tool_calls: Whether one reply may call several tools.
        output_schema: A JSON Schema that the answer's text obeys.

        effort: Reasoning effort: none, minimal, low, medium, high, xhigh or max.
        thinking: Whether to reason, and to return the reasoning if the model hides it by default.
        thinking_budget: The limit of reasoning tokens, for models that accept a budget.

        prompt_cache: Request prompt caching with that lifetime, if caching is not automatic.
        service_tier: How fast and at which price to serve: auto, standard, flex or priority, or a word of the
            provider's own.
        verbosity: How long the answer should be.
        reasoning_summary: How much of the reasoning to return as a summary: auto, concise or detailed.

        user: An id of your end user by which a provider recognises abuse.
        metadata: Labels that the provider stores with the request, such as for its bill.
        safety: How much the provider's own filter of harmful content blocks.
        logprobs: Return the log probability of each token of the answer, and of this many alternatives to it.

        server_state: Continue the history that the provider stores, and send only what is new.
        background: Let the provider work on the reply without an open connection, and ask for it until it has ended.
        n: How many answers to the same prompt to return: the first one is the message, the others are its
            `alternatives`.
        num_ctx: The context window that a local server reserves, in tokens.
        keep_alive: How long a local server keeps the model in memory, such as ``10m``, or seconds.

        strict_prefix: Raise ProjectionError for a request that would void signed thinking of earlier turns.
        stream: Whether the reply arrives in pieces.
        headers: Headers by provider name.
        extra: Body fields by provider name; no other provider receives them.
        context: The session that the request belongs to, and what it knows about ids, prices and the time.
    """

    max_output_tokens: int | None = None
    """The most tokens of a reply, reasoning included."""
    temperature: float | None = None
    """How random the choice of each token is: from 0, the least, up to 1 or 2, by provider."""
    top_p: float | None = None
    """Choose among the most likely tokens only: those that together have this probability."""
    top_k: int | None = None
    """Choose among this many of the most likely tokens."""
    frequency_penalty: float | None = None
    """Makes tokens less likely the more often they occurred, usually from -2 to 2."""
    presence_penalty: float | None = None
    """Makes tokens less likely that occurred at all, usually from -2 to 2."""
    seed: int | None = None
    """Makes replies repeatable, as far as the provider can."""
    stop_sequences: tuple[str, ...] = ()
    """Texts that end the reply when the model writes one of them. A plain string counts as one sequence."""

    tool_choice: ToolChoice | None = None
    """Whether the model may call tools, must not or must; a `NamedTool` must be called."""
    parallel_tool_calls: bool | None = None
    """Whether one reply may call several tools."""
    output_schema: Mapping[str, Any] | None = None
    """A JSON Schema that the answer's text obeys."""

    effort: str | None = None
    """Reasoning effort: none, minimal, low, medium, high, xhigh or max. The adapter maps it to the model's levels."""
    thinking: bool | None = None
    """Whether to reason, and to return the reasoning if the model hides it by default."""
    thinking_budget: int | None = None
    """The limit of reasoning tokens, for models that accept a budget."""

    prompt_cache: Literal["5m", "1h"] | None = None
    """Request prompt caching with that lifetime, if caching is not automatic."""
    service_tier: str | None = None
    """How fast and at which price to serve: auto, standard, flex or priority, or a word of the provider's own."""
    verbosity: Literal["low", "medium", "high"] | None = None
    """How long the answer should be."""
    reasoning_summary: str | None = None
    """How much of the reasoning to return as a summary: auto, concise or detailed."""

    user: str | None = None
    """An id of your end user by which a provider recognises abuse. It must not identify a person."""
    metadata: Mapping[str, str] | None = None
    """Labels that the provider stores with the request, such as for its bill."""
    safety: Literal["off", "standard", "strict"] | None = None
    """How much the provider's own filter of harmful content blocks."""
    logprobs: int | None = None
    """Return the log probability of each token of the answer, and of this many alternatives to it."""

    server_state: bool | str | None = None
    """Continue the history that the provider stores, and send only what is new. True: after its last reply. A text: in
    the provider's conversation of that id. If the history was edited, or the provider no longer has it, all is sent."""
    background: bool | float | None = None
    """Let the provider work on the reply without an open connection, and ask for it until it has ended. A number is the
    seconds after which it is cancelled. A stream then has progress events, and the whole reply at its end."""
    n: int | None = None
    """How many answers to the same prompt to return: the first one is the message, the others are its `alternatives`.
    Each of them is paid for. 1 is the same as None."""
    num_ctx: int | None = None
    """The context window that a local server reserves, in tokens."""
    keep_alive: str | int | None = None
    """How long a local server keeps the model in memory, such as ``10m``, or seconds."""

    strict_prefix: bool = False
    """Raise ProjectionError for a request that would void signed thinking of earlier turns."""
    stream: bool = False
    """Whether the reply arrives in pieces."""
    headers: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Headers by provider name. No other provider receives them."""
    extra: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Body fields by provider name; no other provider receives them. They are merged into the body at any depth. If an
    option sets the same field, the value here is sent, and the option is a loss. Tools are added to the tools. The
    value ``...`` removes a field from the body."""
    context: RequestContext | None = None
    """The session that the request belongs to, and what it knows about ids, prices and the time."""

    def __post_init__(self) -> None:
        if isinstance(self.stop_sequences, str):
            object.__setattr__(self, "stop_sequences", (self.stop_sequences,))
        # Every request makes options, and most are not set: nothing is called for those.
        given = self.__dict__ if type(self) is AdapterOptions else {name: getattr(self, name) for name in _CLASSES}
        for name, (classes, words) in _CLASSES.items():
            value = given[name]
            if value is not None and type(value) not in classes and not _is_one_of(value, classes):
                raise RequestError(
                    f"{name} must be {words}, not a value of the class {type(value).__name__}{_hint(name, value)}"
                )
        self._check_values()
        if self.background is not None or self.server_state is not None:
            self._check_state()
        for name in ("headers", "extra") if self.headers or self.extra else ():
            for provider, fields in getattr(self, name).items():
                if not isinstance(fields, Mapping):
                    raise RequestError(
                        f"{name} are given by provider, such as {name}={{'openai': {{{provider!r:.40}: ...}}}}"
                    )

    def _check_values(self) -> None:
        """Raise RequestError for a value that no provider takes, and write each meaning in one form."""
        if self.max_output_tokens is not None and self.max_output_tokens < 0:
            raise RequestError(f"max_output_tokens must be at least 0, not {self.max_output_tokens!r:.40}")
        if self.stop_sequences and not all(isinstance(each, str) for each in self.stop_sequences):
            raise RequestError("stop_sequences must be a list of strings: one of them is not a string")
        if self.tool_choice is not None:
            _check_tool_choice(self.tool_choice)
        if self.n is not None:
            if type(self.n) is not int or self.n < 1:
                raise RequestError(f"n must be a number of answers, at least 1, not {self.n!r:.40}")
            object.__setattr__(self, "n", None if self.n == 1 else self.n)
        if self.safety is not None and self.safety not in _SAFETY:
            raise RequestError(f"safety must be one of {', '.join(_SAFETY)}, not {self.safety!r:.40}")
        if self.logprobs is not None:
            object.__setattr__(self, "logprobs", _check_logprobs(self.logprobs))
        if self.background is False:
            object.__setattr__(self, "background", None)

    def _check_state(self) -> None:
        """Do the same for what a provider keeps."""
        seconds = type(self.background) in (int, float) and 0 < (self.background or 0) < math.inf
        if not (self.background is None or self.background is True or seconds):
            raise RequestError(f"background must be True or a number of seconds, not {self.background!r:.40}")
        if self.server_state is False:
            object.__setattr__(self, "server_state", None)
        if not (
            self.server_state is None
            or self.server_state is True
            or (self.server_state and type(self.server_state) is str)
        ):
            raise RequestError(f"server_state must be True or the id of a conversation, not {self.server_state!r:.40}")

    @cached_property
    def _given(self) -> Mapping[str, Any]:
        """The options without the context. Those that are None, as in the class, are left out."""
        return {
            name: value
            for name, each in self.__dataclass_fields__.items()
            if ((value := getattr(self, name)) is not None or each.default is not None) and name != "context"
        }

    def with_context(self, context: RequestContext) -> "AdapterOptions":
        """Return a copy with that context."""
        if type(self) is not AdapterOptions:
            return replace(self, context=context)  # a subclass may have slots and other defaults
        # Every request needs a copy, and `replace` takes many times as long. Most options are not set.
        changed, given = object.__new__(AdapterOptions), self._given
        object.__setattr__(changed, "__dict__", {**given, "context": context, "_given": given})
        return changed


_FOR_THE_CONTRACT = frozenset({"strict_prefix", "stream", "headers", "extra", "context"})
"""Options that say how the request is built and sent. They do not concern the model."""

_SAFETY = ("off", "standard", "strict")

_TEXT = ((str,), "a string")
_NUMBER = ((int, float), "a number")
_COUNT = ((int,), "a whole number")
_SWITCH = ((bool,), "True or False")
_BY_PROVIDER = ((dict, Mapping), "a mapping by provider, such as {'openai': {...}}")

_CLASSES: Mapping[str, tuple[tuple[type, ...], str]] = {
    "max_output_tokens": _COUNT,
    "temperature": _NUMBER,
    "top_p": _NUMBER,
    "top_k": _NUMBER,  # recorded requests to Google have 40.0
    "frequency_penalty": _NUMBER,
    "presence_penalty": _NUMBER,
    "seed": _COUNT,
    "stop_sequences": ((tuple, list), "a list of strings"),
    "parallel_tool_calls": _SWITCH,
    "effort": _TEXT,
    "thinking": _SWITCH,
    "thinking_budget": _COUNT,
    "prompt_cache": _TEXT,
    "service_tier": _TEXT,
    "verbosity": _TEXT,
    "reasoning_summary": _TEXT,
    "user": _TEXT,
    "metadata": ((dict, Mapping), "a mapping of strings"),
    "num_ctx": _COUNT,
    "keep_alive": ((str, int, float), "a string such as '10m' or a number of seconds"),
    "strict_prefix": _SWITCH,
    "stream": _SWITCH,
    "headers": _BY_PROVIDER,
    "extra": _BY_PROVIDER,
}
"""The classes of an option's values, and how an error describes them. The provider knows which values it takes."""

TOOL_CHOICES = ("auto", "none", "required")
"""The words of ``tool_choice``, in place of which it may be a `NamedTool`."""


def _hint(name: str, value: Any) -> str:
    """Return what to write in place of a value that another library takes."""
    from dragoman.adapter.names import foreign_value  # it needs this module

    return foreign_value(name, value, AdapterOptions.__dataclass_fields__)


def _is_one_of(value: Any, classes: tuple[type, ...]) -> bool:
    """Whether the value has one of the classes or a subclass. A bool does not count as a number."""
    return isinstance(value, classes) and (not isinstance(value, bool) or bool in classes)


def _check_tool_choice(choice: Any) -> None:
    if isinstance(choice, NamedTool):
        if type(choice.name) is not str:
            raise RequestError("tool_choice: the name in NamedTool must be a string")
    elif not isinstance(choice, str) or choice not in TOOL_CHOICES:
        raise RequestError(
            "tool_choice must be 'auto', 'none', 'required' or NamedTool('name_of_a_tool') from dragoman.tools, not "
            f"{choice!r:.40}{_hint('tool_choice', choice)}"
        )


def _check_logprobs(count: Any) -> int:
    """Return the number of alternatives; True asks for none."""
    if count is True:
        return 0
    if type(count) is not int or count < 0:
        raise RequestError(f"logprobs must be the number of alternatives of each token, at least 0, not {count!r:.40}")
    return count


_EMPTY: tuple[Any, ...] = ((), [], {}, "")
"""Values that mean, as None does, that an option is not set."""


class UsedOptions:
    """The options of one request, and the names of those that are set and were not taken so far."""

    __slots__ = ("_names", "_options", "left")

    def __init__(self, options: AdapterOptions) -> None:
        self._options = options
        given = options._given
        self._names = [name for name in given if name not in _FOR_THE_CONTRACT and given[name] is not None]
        self.left = {name for name in self._names if given[name] not in _EMPTY}
        """The names of those that are set and were not taken so far."""

    def take(self, name: str) -> Any:
        """Return the value of an option. The caller sends it, or records why not."""
        self.left.discard(name)
        return getattr(self._options, name)

    def take_set(self, names: Collection[str]) -> list[str]:
        """Take the named options. Returns the names of those that are set and were not taken before."""
        left = self.left
        if not left or left.isdisjoint(names):
            return []
        found = [name for name in names if name in left]
        left.difference_update(found)
        return found

    def take_rest(self) -> list[str]:
        """Take all options that were not taken. Returns the names of those that are set."""
        options = self._options
        fields = options.__dataclass_fields__
        return [name for name in self.take_set(self._names) if getattr(options, name) != fields[name].default]


def encoding_options(options: AdapterOptions) -> tuple[Any, ...]:
    """Return the options that decide how messages are encoded. A copy without the others would take longer."""
    kind = type(options)
    if kind not in _ENCODING_FIELDS:
        names = (name for name in kind.__dataclass_fields__ if name not in ("context", "stream"))
        _ENCODING_FIELDS[kind] = attrgetter(*names)
    values: tuple[Any, ...] = _ENCODING_FIELDS[kind](options)
    return values


_ENCODING_FIELDS: dict[type[AdapterOptions], "attrgetter[Any]"] = {}
