"""What tells one Chat Completions endpoint from the next, as data (docs/reference/wires/openai-chat.md).

The defaults are OpenAI's own. Whatever else speaks this wire is a row of such fields, never a branch in the code.
What differs from model to model (limits, roles, media, tool ids, sampling) is not here but in models.toml.
"""

from collections.abc import Mapping
from decimal import Decimal
from functools import cache
from typing import Any, Literal

from pydantic import Field, field_validator

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.guard import JsonObject

Path = str
"""Where a value lies in a JSON object: names of fields with dots between them."""


class Dialect(FrozenModel):
    """How an endpoint names and places things. A field that is None, or empty in a table, does not exist there."""

    path: str = "/chat/completions"

    # Parameters of a request.
    max_tokens: Path = "max_completion_tokens"
    seed: Path | None = "seed"
    top_k: Path | None = None
    stop: Path | None = "stop"
    stream_usage: bool = True
    """Whether a stream must be asked for its usage with stream_options; others send it unasked."""
    parallel_tool_calls: bool = True
    tool_choices: dict[str, str] = Field(default={"auto": "auto", "none": "none", "required": "required"})
    """The endpoint's words for ours; a word that is missing cannot be asked for."""
    named_tool_choice: bool = True
    schema_format: Literal["json_schema", "json_object"] = "json_schema"
    """json_object: the endpoint promises JSON, but no schema."""
    effort: Path | None = "reasoning_effort"
    thinking_budget: Path | None = None
    thinking_on: JsonObject = Field(default={})
    thinking_off: JsonObject = Field(default={})
    """Body fields that switch reasoning; where they are empty, the effort does it."""

    # Messages.
    part_roles: tuple[str, ...] = ("user", "assistant", "system", "developer")
    """Roles whose content may be a list of several texts; those of the others are joined."""
    free_arguments: bool = True
    """Whether the arguments of an earlier call may be a text that is no JSON."""
    tool_name: bool = False
    """Whether a tool's message names the tool; one that was read from the provider's own wire stays as it was."""
    media_as_text: bool = False
    """Whether audio and documents are parts whose value is a text, a URL, rather than an object."""
    alternating: bool = False
    """Whether neighbouring messages of one role must be one."""
    references: bool = False
    """Whether the sources of a text are content parts of the type reference behind it."""
    prefill: JsonObject = Field(default={})
    """Fields of the assistant's message at the end of a request, which the model is to go on with."""

    # Reasoning.
    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning")
    """Fields of a message, or of a delta, that hold reasoning; the first one that is filled counts. The first of
    all is written."""
    thinking_parts: bool = False
    """Whether reasoning is written as a content part of the type thinking instead."""
    reasoning_replay: Literal["never", "with_tools", "always"] = "never"
    """Which assistant's messages take their reasoning back: none, those that call tools, or all."""
    reasoning_required: bool = False
    """Whether a message that calls tools must hold reasoning, be it empty, where the model may reason."""
    reasoning_details: bool = False
    """Whether reasoning may come as a list of typed details too; where it does, they count and they go back."""

    # Replies.
    done_marker: bool = True
    """Whether a stream must end with [DONE]; else a finish_reason and the end of the bytes are enough."""
    final_usage: bool = False
    """Whether a stream that ends without [DONE] must have told its usage besides."""
    failed: tuple[str, ...] = ()
    """Finish reasons that mean that the reply is none."""
    errors: tuple[Path, ...] = ("error", "x_groq.error")
    """Where an error stands in a stream's chunk or under status 200."""
    usage: tuple[Path, ...] = ("usage", "x_groq.usage")
    """Where the counts stand in a reply or a chunk; the first that is filled counts."""
    cached_tokens: tuple[Path, ...] = (
        "prompt_tokens_details.cached_tokens",
        "prompt_cache_hit_tokens",
        "cached_tokens",
    )
    cache_write_tokens: tuple[Path, ...] = ("prompt_tokens_details.cache_write_tokens",)
    """Where cached tokens stand in the usage; both are parts of prompt_tokens."""
    reasoning_beside: bool | None = None
    """Whether completion_tokens leaves reasoning out. None: the total tells."""
    cost: Path | None = None
    cost_unit: Decimal = Decimal(1)
    """Where the provider's own figure stands in the usage, and how many US dollars one of it is."""
    server_tools: Path | None = None
    """Where the usage counts calls of the provider's own tools."""
    source_list: Path | None = None
    """Where a reply lists the sources of its answer, apart from its message."""

    @field_validator("seed", "top_k", "stop", "effort", "thinking_budget", "cost", "server_tools", "source_list")
    @classmethod
    def _absent(cls, value: Path | None) -> Path | None:
        return value or None


OPENAI = Dialect()


def lookup_path(native: Any, path: Path) -> Any:
    """The value at a path; None if there is nothing."""
    for name in _steps(path):
        if not isinstance(native, dict):
            return None
        native = native.get(name)
    return native


def first_filled(native: Mapping[str, Any], paths: tuple[Path, ...]) -> Any:
    """The first value at one of the paths that is not empty; None if there is none."""
    if _first_steps(paths).isdisjoint(native):  # true of nearly every chunk of a stream
        return None
    return next((value for path in paths if (value := lookup_path(native, path))), None)


@cache
def _first_steps(paths: tuple[Path, ...]) -> frozenset[str]:
    """The fields that the paths begin with."""
    return frozenset(_steps(path)[0] for path in paths)


@cache
def _steps(path: Path) -> tuple[str, ...]:
    return tuple(path.split("."))


def assign_path(body: dict[str, Any], path: Path, value: Any) -> None:
    """Sets the value at a path, with the objects that it takes to get there."""
    *outer, name = path.split(".")
    for step in outer:
        body = body.setdefault(step, {})
    body[name] = value
