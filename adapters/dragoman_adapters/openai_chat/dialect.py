"""The differences between Chat Completions endpoints, as data (docs/reference/wires/openai-chat.md).

The defaults are OpenAI's own. Every other endpoint is a row of such fields, never a branch in the
code.
What differs from model to model (limits, roles, media, tool ids, sampling) is not here but in models.toml.
"""

from collections.abc import Mapping
from decimal import Decimal
from functools import cache, cached_property
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from dragoman.adapter.requests.option_table import OptionTable
from dragoman.adapter.wirejson import Path, lookup_path, split_path
from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.guard import JsonObject
from dragoman_adapters.openai_platform.options import MAX_USER_LENGTH, SERVICE_TIERS

OptionalPath = Annotated[Path | None, AfterValidator(lambda path: path or None)]
"""The path of a field that an endpoint may lack: then it is empty, or None."""


class Dialect(FrozenModel):
    """The names and places of an endpoint's fields. A field that is None, or empty in a table, does not exist there."""

    path: str = "/chat/completions"

    # Parameters of a request.
    max_tokens: Path = "max_completion_tokens"
    seed: OptionalPath = "seed"
    top_k: OptionalPath = None
    frequency_penalty: OptionalPath = "frequency_penalty"
    presence_penalty: OptionalPath = "presence_penalty"
    stop: OptionalPath = "stop"
    options: dict[str, Path] = Field(default={})
    """The fields of further options that the endpoint is known to have, by option."""
    words: dict[str, dict[str, str | bool]] = Field(default={})
    """The endpoint's words for the values of an option."""
    digested: dict[str, int] = Field(default={})
    """Options whose value is an opaque text of a limited length, with that length."""
    logprobs: bool = True
    stream_usage: bool = True
    """Whether a stream must be asked for its usage with stream_options; others send it unasked."""
    parallel_tool_calls: bool = True
    tool_choices: dict[str, str] = Field(default={"auto": "auto", "none": "none", "required": "required"})
    """The endpoint's values for ours; a missing one cannot be sent."""
    named_tool_choice: bool = True
    schema_format: Literal["json_schema", "json_object"] = "json_schema"
    """json_object: the endpoint promises JSON, but no schema."""
    effort: OptionalPath = "reasoning_effort"
    thinking_budget: OptionalPath = None
    thinking_on: JsonObject = Field(default={})
    thinking_off: JsonObject = Field(default={})
    """Body fields that switch reasoning; if they are empty, the effort does."""

    # Messages.
    part_roles: tuple[str, ...] = ("user", "assistant", "system", "developer")
    """Roles whose content may be a list of texts; for the others, texts are joined."""
    free_arguments: bool = True
    """Whether the arguments of an earlier call may be text that is not JSON."""
    tool_name: bool = False
    """Whether a tool's message names the tool; one that was read from the provider's own wire stays as it was."""
    media_as_text: bool = False
    """Whether audio and documents are parts whose value is a text, a URL, rather than an object."""
    alternating: bool = False
    """Whether consecutive messages of one role must be merged."""
    references: bool = False
    """Whether the citations of a text are content parts of type reference after it."""
    prefill: JsonObject = Field(default={})
    """Fields of a final assistant message that the model continues."""

    # Reasoning.
    reasoning_fields: tuple[str, ...] = ("reasoning_content", "reasoning")
    """Fields of a message, or of a delta, that hold reasoning; the first one that is filled counts. The first
    one is written."""
    thinking_parts: bool = False
    """Whether reasoning is written as a content part of the type thinking instead."""
    reasoning_replay: Literal["never", "with_tools", "always"] = "never"
    """Which assistant messages get their reasoning back: none, those with calls, or all."""
    reasoning_required: bool = False
    """Whether a message with calls must have reasoning, even if empty, if the model may reason."""
    reasoning_details: bool = False
    """Whether reasoning may also come as a list of typed details. If so, the details count and are sent back."""

    # Replies.
    done_marker: bool = True
    """Whether a stream must end with [DONE]; otherwise a finish_reason and the end of the bytes suffice."""
    final_usage: bool = False
    """Whether a stream without [DONE] must have a usage as well."""
    failed: tuple[str, ...] = ()
    """Finish reasons that mean an error."""
    errors: tuple[Path, ...] = ("error", "x_groq.error")
    """Paths of an error in a chunk or in a reply with status 200."""
    usage: tuple[Path, ...] = ("usage", "x_groq.usage")
    """Paths of the usage in a reply or a chunk; the first filled one counts."""
    cached_tokens: tuple[Path, ...] = (
        "prompt_tokens_details.cached_tokens",
        "prompt_cache_hit_tokens",
        "cached_tokens",
    )
    cache_write_tokens: tuple[Path, ...] = ("prompt_tokens_details.cache_write_tokens",)
    """Paths of cached tokens in the usage; both are part of prompt_tokens."""
    reasoning_beside: bool | None = None
    """Whether completion_tokens excludes reasoning. None: the total decides."""
    cost: OptionalPath = None
    cost_unit: Decimal = Decimal(1)
    """The path of the provider's own figure in the usage, and the worth of one in US dollars."""
    server_tools: OptionalPath = None
    """The path of the counts of server tool calls in the usage."""
    server_tool_list: str | None = None
    """The field of a message that lists the calls of server tools, if the usage does not count them."""
    uncounted_server_tools: tuple[str, ...] = ()
    """Names among the counts that are sums of others."""
    source_list: OptionalPath = None
    """The path of the citations of a reply, if they are outside of its message."""

    @cached_property
    def option_table(self) -> OptionTable:
        """The fields of the options that are one field each."""
        paths = {
            "max_output_tokens": self.max_tokens,
            "stop_sequences": self.stop,
            "temperature": "temperature",
            "top_p": "top_p",
            "top_k": self.top_k,
            "seed": self.seed,
            "frequency_penalty": self.frequency_penalty,
            "presence_penalty": self.presence_penalty,
            **self.options,
        }
        return OptionTable(
            paths,
            absent="the endpoint has none",
            words=self.words,
            digested=self.digested,
            unlimited=("max_output_tokens",),  # to servers of local models
        )


OPENAI = Dialect(
    options={
        "service_tier": "service_tier",
        "verbosity": "verbosity",
        "user": "safety_identifier",
        "metadata": "metadata",
        "n": "n",
    },
    words={"service_tier": SERVICE_TIERS},
    digested={"user": MAX_USER_LENGTH},
)


def first_filled(native: Mapping[str, Any], paths: tuple[Path, ...]) -> Any:
    """Return the first value at one of the paths that is not empty; None if there is none."""
    if _first_steps(paths).isdisjoint(native):  # true for nearly every chunk of a stream
        return None
    for path in paths:
        if value := lookup_path(native, path):
            return value
    return None


@cache
def _first_steps(paths: tuple[Path, ...]) -> frozenset[str]:
    """Return the first fields of the paths."""
    return frozenset(split_path(path)[0] for path in paths)
