"""What an embedding model can do (docs/reference/contract.md#embeddings). The declarations are data."""

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from importlib.resources import files
from typing import Any, Literal

from pydantic import Field

from dragoman.adapter.facts.capabilities import ABSENT, MAX_KNOWN_MODELS, Support, deep_merge, merge_rows
from dragoman.canonical.blocks import FrozenModel

Purpose = Literal["query", "document"]
"""The purpose of a vector: to search, or to be found."""
Truncate = Literal["end", "start"]
"""Which part of an input that is too long is left out."""


class EmbeddingCapabilities(FrozenModel):
    """One model's abilities and limits. None is unknown."""

    dimensions: int | None = None
    """The length of a vector if a request asks for no other."""
    dimension_range: tuple[int, int] | None = None
    """The shortest and the longest vector that a request may ask for."""
    dimension_choices: tuple[int, ...] = ()
    """The lengths that a request may ask for, if only some are allowed."""
    max_input_tokens: int | None = None
    """The most tokens of one input."""
    max_inputs: int = Field(default=1, ge=1)
    """The most inputs of one request."""
    max_images: int | None = None
    """The most images of one request, if fewer than inputs."""
    max_request_tokens: int | None = None
    """The most tokens of all inputs of one request."""
    purposes: dict[Purpose, str] = Field(default_factory=dict)
    """The provider's words for the purposes."""
    prefixes: dict[Purpose, str] = Field(default_factory=dict)
    """The prefix of a text for each purpose, for models that read the purpose from the text."""
    default_purpose: Purpose | None = None
    """The purpose to send if the caller names none and the wire requires one."""
    media: tuple[Literal["text", "image"], ...] = ("text",)
    """What the model takes as an input."""
    image_types: tuple[str, ...] = ("image/png", "image/jpeg", "image/webp", "image/gif")
    """The IANA types of images that the model takes, if it takes images."""
    normalized: Literal["always", "full_length", "never"] | None = None
    """Whether vectors have the length 1; ``full_length``: unless they are shortened."""
    truncates: tuple[Truncate, ...] = ()
    """Where the provider cuts inputs that are too long, if it is asked to."""
    refuses_long_inputs: Support = ABSENT
    """Whether the provider refuses an input that is too long; some cut it silently."""
    wire: dict[str, Any] = Field(default_factory=dict)
    """Facts that only this adapter's encoder reads, e.g. the name of a field."""
    evidence: dict[str, str] = Field(default_factory=dict)
    """The source of a declaration."""

    @property
    def can_shorten(self) -> bool:
        """Whether a request may ask for another length than ``dimensions``."""
        return bool(self.dimension_choices) or self.dimension_range is not None

    def accepts_dimensions(self, dimensions: int) -> bool:
        """Whether a request may ask for that length. A model of unknown dimensions accepts any."""
        if self.dimension_choices:
            return dimensions in self.dimension_choices
        if self.dimension_range is not None:
            return self.dimension_range[0] <= dimensions <= self.dimension_range[1]
        return self.dimensions in (None, dimensions)

    def is_normalized(self, dimensions: int) -> bool | None:
        """Whether vectors of that length have the length 1; None is unknown."""
        if self.normalized == "full_length":
            return dimensions == self.dimensions
        return None if self.normalized is None else self.normalized == "always"


class EmbeddingTable:
    """embeddings.toml: defaults, then rows whose ``match`` globs select models by their whole id, ``provider:name``;
    later rows override earlier ones."""

    def __init__(self, data: Mapping[str, Any]) -> None:
        self._default: dict[str, Any] = data.get("default", {})
        self._rows: list[dict[str, Any]] = data.get("model", [])
        self._known = lru_cache(MAX_KNOWN_MODELS)(self._find)

    @classmethod
    def of(cls, package: str, *names: str) -> "EmbeddingTable":
        """Load the table of an adapter's package: embeddings.toml, or the named files; later ones override earlier
        ones."""
        default: dict[str, Any] = {}
        rows: list[dict[str, Any]] = []
        for name in names or ("embeddings.toml",):
            data = tomllib.loads(files(package).joinpath(name).read_text(encoding="utf-8"))
            default = deep_merge(default, data.get("default", {}))
            rows += data.get("model", [])
        return cls({"default": default, "model": rows})

    def capabilities(self, model_id: str) -> EmbeddingCapabilities:
        """Return the declarations for ``provider:name``."""
        return self._known(model_id)

    def _find(self, model_id: str) -> EmbeddingCapabilities:
        return EmbeddingCapabilities.model_validate(merge_rows(self._default, self._rows, model_id))

    @property
    def listed(self) -> tuple[str, ...]:
        """The models that the table lists, as ``provider:name``."""
        return tuple(name for row in self._rows for name in row.get("listed", ()))
