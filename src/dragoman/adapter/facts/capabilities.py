"""The capabilities of a model, as its adapter declares them (docs/reference/contract.md#capabilities).

The declarations are data: `ModelTable` reads the rows of each adapter's models.toml. An update of the price tables may
bring newer limits while a program runs.
"""

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import date
from enum import StrEnum
from fnmatch import fnmatchcase
from functools import cache, lru_cache
from typing import Any, ClassVar, Generic, Literal, Self, TypeVar

from pydantic import Field, model_validator

from dragoman.adapter.package_data import read_toml
from dragoman.canonical.blocks import FrozenModel


class Support(StrEnum):
    """Truthy unless absent. ``emulated``: the adapter uses another way, which has a cost."""

    NATIVE = "native"
    EMULATED = "emulated"
    ABSENT = "absent"

    def __bool__(self) -> bool:
        return self is not Support.ABSENT


NATIVE, EMULATED, ABSENT = Support.NATIVE, Support.EMULATED, Support.ABSENT

_MIN_DERIVED = 6
"""Characters after the prefix: with fewer, a long session could run out of ids."""
_ALPHANUMERIC = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
_DIGEST_LENGTH = 8
_NOT_PLAIN = re.compile(r"[^A-Za-z0-9_]+")


class ToolIdRule(FrozenModel):
    """Which tool ids a provider accepts, and the form of the ids that Dragoman makes for it."""

    alphabet: str = _ALPHANUMERIC + "_-"
    """The characters that an id may have."""
    min_length: int = 1
    """The fewest characters of an id."""
    max_length: int = 64
    """The most characters of an id."""
    prefix: str = ""
    """The prefix of ids made for this provider; ids of others need not have it."""

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if not set(self.prefix) <= set(self.alphabet):
            raise ValueError(f"the prefix {self.prefix!r} is outside the alphabet")
        if self.max_length < max(self.min_length, len(self.prefix) + _MIN_DERIVED):
            raise ValueError(f"max_length {self.max_length} leaves too little room for ids of our own")
        return self

    def accepts(self, tool_id: str) -> bool:
        """Whether the provider accepts the id."""
        return self.min_length <= len(tool_id) <= self.max_length and set(tool_id) <= set(self.alphabet)


class SchemaRule(FrozenModel):
    """The part of JSON Schema that a target supports. An empty table or list means everything."""

    keywords: tuple[str, ...] = ()
    """The keywords that are supported."""
    values: dict[str, tuple[Any, ...]] = Field(default_factory=dict)
    """The values that a keyword may have, such as formats, for keywords that are supported with some values only."""
    renamed: dict[str, str] = Field(default_factory=dict)
    """Keywords with another name on the wire: oneOf as anyOf, or const as an enum of one."""
    closed: bool = False
    """Whether every object must forbid other properties."""
    requires: bool = False
    """Whether every object must require one of its properties."""
    root: Literal["any", "object"] = "any"
    """``object``: the outermost schema must be an object's, not a union."""

    @property
    def restricts(self) -> bool:
        """Whether the target does not support all schemas inside the outermost one."""
        return bool(self.keywords or self.values or self.renamed or self.closed or self.requires)


class ToolNameRule(FrozenModel):
    """Which tool names a provider accepts: those that ``pattern`` fully matches. An empty pattern accepts any."""

    pattern: str = r"[A-Za-z0-9_-]+"
    max_length: int = 64
    """The most characters of a name."""

    @model_validator(mode="after")
    def _leaves_room(self) -> Self:
        if self.max_length <= _DIGEST_LENGTH + 1:
            raise ValueError(f"max_length {self.max_length} leaves no room for names of our own")
        re.compile(self.pattern)
        return self

    def accepts(self, name: str) -> bool:
        """Whether the provider accepts the name."""
        return self.name_check()(name)

    def name_check(self) -> Callable[[str], bool]:
        """Return `accepts` for many names: an agent sends the same ones with each request, and they are kept."""
        return _name_check(self.pattern, self.max_length)

    def make_legal(self, name: str) -> str:
        """Return the name, or a legal one: its plain characters and a digest of the whole name."""
        if self.accepts(name):
            return name
        digest = hashlib.sha256(name.encode("utf-8", "surrogatepass")).hexdigest()[:_DIGEST_LENGTH]
        plain = _NOT_PLAIN.sub("_", name).strip("_")[: self.max_length - _DIGEST_LENGTH - 3]
        return f"t_{plain}_{digest}" if not plain[:1].isalpha() else f"{plain}_{digest}"


@cache
def _name_check(pattern: str, max_length: int) -> Callable[[str], bool]:
    matches = re.compile(pattern, re.ASCII).fullmatch

    @lru_cache(maxsize=4096)
    def accepts(name: str) -> bool:
        return not pattern or (len(name) <= max_length and matches(name) is not None)

    return accepts


class ThinkingPolicy(FrozenModel):
    """What a model does with thinking in its history.

    ``reads_from`` are globs over full model ids whose signed blocks this model can read; in a models.toml ``{vendor}``
    is the part of the model's name before a slash. ``prefix_bound``: a signature is void when anything before it
    changes. ``must_echo``: leaving its own thinking out is an error. ``accepts_unsigned``: thinking without a signature
    may be sent. ``foreign`` says what happens to thinking that the model cannot read.
    """

    reads_from: tuple[str, ...] = ()
    prefix_bound: bool = False
    must_echo: bool = False
    accepts_unsigned: bool = False
    own_unsigned: bool = False
    """Its own thinking may go back without a signature: the provider finds it again by an id."""
    sealed: bool = True
    """Whether the wire supports redacted thinking."""
    foreign: Literal["drop", "text", "refuse"] = "drop"

    def can_read(self, model: str | None) -> bool:
        """Whether the model reads the thinking of another one, given by its full id."""
        return model is not None and any(fnmatchcase(model, pattern) for pattern in self.reads_from)


class TokenEstimate(FrozenModel):
    """An adapter's overrides of tokenizers.toml for a model: the name of a tokenizer there, weights that replace its
    own, and fields of an `ImageRule`."""

    tokenizer: str | None = None
    weights: dict[str, float] = Field(default_factory=dict)
    image: dict[str, Any] = Field(default_factory=dict)


class AdapterCapabilities(FrozenModel):
    """One model's abilities, limits and rules. Absent abilities are falsy."""

    # The specification's own.

    supports_thinking: Support = ABSENT
    """Whether the model reasons before it answers, and its thinking is in the reply."""
    supports_images: Support = ABSENT
    """Whether messages may hold images. Absent: each becomes a text that says so."""
    supports_tools: Support = NATIVE
    """Whether the model calls functions. Absent: no tools are sent, and earlier calls become text."""
    supports_system_prompt: Support = NATIVE
    """Whether the wire has instructions. Absent: they are sent as the user's words."""
    supports_structured_output: Support = ABSENT
    """Whether an answer can be made to follow a schema."""
    supports_streaming: Support = NATIVE
    """Absent: the model is asked for a whole reply, which is handed on as the events of a stream."""
    supports_streaming_tool_calls: Support = NATIVE
    """Native: the input of a call arrives in pieces. Emulated: it arrives at once. Absent: a stream holds no calls, so
    with tools the model is asked for a whole reply."""
    supports_parallel_tool_calls: Support = NATIVE
    """Absent: the calls of one message are sent one after another, each with its result."""
    supports_prompt_caching: Support = ABSENT
    """Whether the provider caches a prompt up to places that a request marks."""
    supports_system_messages_in_list: Support = NATIVE
    """False if leading system messages move out of the list."""
    max_context_tokens: int = 8192
    """Prompt and reply together."""
    max_output_tokens: int = 4096
    """The most tokens of one reply."""
    accepted_image_media_types: tuple[str, ...] = ()
    """IANA types of images; an empty list accepts any."""
    supports_batch_api: Support = ABSENT
    """Whether the provider answers many requests later, at a lower price."""

    # Messages and their roles.

    supports_mid_conversation_system: Support = NATIVE
    """Whether instructions may come between turns. Absent: late ones are sent as the user's words."""
    supports_developer_role: Support = ABSENT
    """Whether the wire has a role for developers. Absent: their messages are sent as system ones."""
    supports_prefill: Support = ABSENT
    """Whether the last message of a request may be the assistant's."""
    supports_neighbours: Support = ABSENT
    """Whether consecutive messages of the assistant count as one turn, so that results may follow the last one."""
    supports_empty_text: Support = NATIVE
    """Whether a block of text may be empty or blank."""
    channels: tuple[str, ...] = ()
    """The channels of the assistant's messages that the wire supports."""
    thinking_policy: ThinkingPolicy = Field(default_factory=ThinkingPolicy)
    """What becomes of thinking in the history."""
    native_from: tuple[str, ...] = ()
    """Other providers whose native blocks this one reads."""

    # Media besides images.

    supports_audio: Support = ABSENT
    """Whether messages may hold sound."""
    supports_video: Support = ABSENT
    """Whether messages may hold video."""
    supports_documents: Support = ABSENT
    """Whether messages may hold documents, such as PDF files."""
    supports_media_urls: Support = NATIVE
    """Whether the provider fetches media from an address."""
    supports_tool_result_media: Support = ABSENT
    """Emulated: media in a tool's result is sent in a user message directly after it."""
    accepted_media_types: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """IANA types by type of block, for the other media; a type that is not listed accepts any."""
    media_sources: dict[str, tuple[str, ...]] = Field(default_factory=dict)
    """Kinds of source (base64, url, text, file_id) by type of block; a type that is not listed accepts any."""
    media_roles: tuple[str, ...] = ("user", "assistant", "developer")
    """The roles whose messages may hold media."""

    # Tools and schemas.

    tool_id_rule: ToolIdRule = Field(default_factory=ToolIdRule)
    """The ids of calls that the provider accepts."""
    tool_name_rule: ToolNameRule = Field(default_factory=ToolNameRule)
    """The names of tools that the provider accepts."""
    tool_schemas: SchemaRule = Field(default_factory=SchemaRule)
    """The part of JSON Schema that the wire supports."""
    forced_tool_choice: Literal["allowed", "without_reasoning", "never"] = "allowed"
    """Whether a request may force a call: always, only without reasoning, or never."""
    output_schemas: SchemaRule = Field(default_factory=SchemaRule)
    """The part of JSON Schema that the wire supports for answers."""
    structured_output_by: Literal["native", "tool", "prompt"] = "native"
    """How the answer is made to follow a schema. ``tool``: the model is forced to call a tool whose input is the
    answer, if the request has no other tools. ``prompt``: the prompt asks for it, without any guarantee."""
    structured_output_with_tools: Support = NATIVE
    """Emulated: in a request with tools, the prompt asks for the schema."""

    # Options.

    sampling: Literal["allowed", "without_reasoning", "never"] = "allowed"
    """Whether temperature, top_p and top_k may be set: always, only without reasoning, or never."""
    thinking_off: Support = NATIVE
    """Whether reasoning can be switched off."""
    max_stop_sequences: int | None = None
    """How many stop sequences a request may hold; 0 if the model takes none, None if no limit is known."""

    # The model itself, and what is known of it.

    deprecated: bool = False
    """Whether the provider advises against the model."""
    retires_on: date | None = None
    """The day on which the provider stops to serve the model; None if none is known."""
    token_estimate: TokenEstimate = Field(default_factory=TokenEstimate)
    """Overrides of tokenizers.toml for token estimates."""
    wire: dict[str, Any] = Field(default_factory=dict)
    """Facts that only this adapter's encoder reads, e.g. the name of a field."""
    evidence: dict[str, str] = Field(default_factory=dict)
    """The source of a declaration: a cassette, or a provider's page."""

    def default_output_limit(self, *, stream: bool) -> int:
        """Return the output limit of a request whose options set none: the adapter's default, or all that the model
        writes.
        """
        limit = int(self.wire.get("default_max_tokens", self.max_output_tokens))
        if not stream:
            limit = min(limit, int(self.wire.get("default_max_tokens_unstreamed", limit)))
        return min(limit, self.max_output_tokens)


MAX_KNOWN_MODELS = 512
"""How many models keep their facts in memory. The clients of a server may name any number of models."""


FactsT = TypeVar("FactsT", bound=FrozenModel)


class FactTable(ABC, Generic[FactsT]):
    """A file of facts: defaults, then rows whose ``match`` globs select models; later rows override earlier ones."""

    file: ClassVar[str]
    """The name of the file in the package of an adapter."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._default: dict[str, Any] = data.get("default", {})
        self._rows: list[dict[str, Any]] = data.get("model", [])
        self._known = lru_cache(MAX_KNOWN_MODELS)(self._find)

    @classmethod
    def of(cls, package: str, *names: str) -> Self:
        """Load the table of an adapter's package, or the named files of it; later ones override earlier ones."""
        default: dict[str, Any] = {}
        rows: list[dict[str, Any]] = []
        for name in names or (cls.file,):
            data = read_toml(package, name)
            default = deep_merge(default, data.get("default", {}))
            rows += data.get("model", [])
        return cls({"default": default, "model": rows})

    def capabilities(self, model: str) -> FactsT:
        """Return the declarations for a model."""
        return self._known(model)

    @abstractmethod
    def _find(self, model: str) -> FactsT:
        """Read the declarations for a model, which are then kept."""

    @property
    def listed(self) -> tuple[str, ...]:
        """The models that the table lists, for `dragoman models`."""
        return tuple(name for row in self._rows for name in row.get("listed", ()))


class ModelTable(FactTable[AdapterCapabilities]):
    """models.toml, whose rows select models by their names without the provider."""

    file = "models.toml"
    _prefix = ""

    def _find(self, model: str) -> AdapterCapabilities:
        own_name = re.sub(f"^(?:{self._prefix})", "", model) if self._prefix else model
        found = merge_rows(self._default, self._rows, *dict.fromkeys((own_name, model)))
        policy = found.get("thinking_policy", {})
        if "reads_from" in policy:
            vendor = model.partition("/")[0]
            reads = [pattern.replace("{vendor}", vendor) for pattern in policy["reads_from"]]
            found["thinking_policy"] = {**policy, "reads_from": reads}
        return AdapterCapabilities.model_validate(found)

    def extend(self, default: Mapping[str, Any], rows: Sequence[Mapping[str, Any]] = ()) -> "ModelTable":
        """Return a table with more defaults, which override these, and more rows, which come after these."""
        table = ModelTable({"default": deep_merge(self._default, default), "model": [*self._rows, *rows]})
        table._prefix = self._prefix
        return table

    def with_prefix(self, pattern: str) -> "ModelTable":
        """Return a table whose rows find a model without this part of its name as well, such as a host's ``openai.``;
        ``pattern`` is a regular expression."""
        table = self.extend({})
        table._prefix = pattern
        return table

    @property
    def is_empty(self) -> bool:
        """Whether the table declares nothing."""
        return not (self._default or self._rows)


def deep_merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables at any depth; values of ``over`` take precedence."""
    found = dict(base)
    for key, value in over.items():
        old = found.get(key)
        found[key] = deep_merge(old, value) if isinstance(old, dict) and isinstance(value, dict) else value
    return found


def merge_rows(default: Mapping[str, Any], rows: Sequence[Mapping[str, Any]], *names: str) -> dict[str, Any]:
    """Merge the defaults and the rows whose ``match``, a glob or a list of globs, fits one of the names."""
    found = dict(default)
    for row in rows:
        patterns = [row["match"]] if isinstance(row["match"], str) else row["match"]
        if any(fnmatchcase(name, pattern) for name in names for pattern in patterns):
            found = deep_merge(found, {key: row[key] for key in row if key not in ("match", "listed")})
    return found


UPDATED_FIELDS = ("max_context_tokens", "max_output_tokens", "deprecated", "retires_on")

_rows: dict[str, Sequence[Mapping[str, Any]]] = {}
_revision = 0


def limits_revision() -> int:
    """Return a number that changes with each update: what was derived from limits before it may be out of date."""
    return _revision


def set_limit_updates(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> None:
    """Replace the updates: for each provider, rows with ``match`` globs and fields of AdapterCapabilities."""
    global _revision
    _rows.clear()
    _rows.update(rows)
    _changes.cache_clear()
    _revision += 1


def with_updates(declared: Callable[[Any], AdapterCapabilities]) -> property:
    """Return the property ``capabilities`` of an adapter class, in which the updates override what is declared."""

    def capabilities(adapter: Any) -> AdapterCapabilities:
        found = declared(adapter)
        if adapter.provider not in _rows:
            return found
        changes = _changes(adapter.provider, adapter.model)
        return found.model_copy(update=changes) if changes else found

    return property(capabilities, doc=declared.__doc__)


@lru_cache(MAX_KNOWN_MODELS)
def _changes(provider: str, model: str) -> dict[str, Any]:
    changes: dict[str, Any] = {}
    for row in _rows[provider]:
        if any(fnmatchcase(model, pattern) for pattern in row["match"]):
            changes |= {name: row[name] for name in UPDATED_FIELDS if name in row}
    return changes
