"""The facts of a turn that routing uses: what would be sent, and which models were requested."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple, Protocol

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import RequestError
from dragoman.adapter.facts.capabilities import AdapterCapabilities
from dragoman.adapter.registry import get_adapter
from dragoman.canonical.blocks import ContentBlock, TextBlock, ToolResultBlock
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import SideEffects, ToolDefinition

_SYSTEM = (Role.SYSTEM, Role.DEVELOPER)


class ModelFacts(Protocol):
    """The facts of a model that routing uses; every `Adapter` has them."""

    @property
    def capabilities(self) -> AdapterCapabilities: ...

    @property
    def default_output_tokens(self) -> int: ...


@dataclass(frozen=True, slots=True, kw_only=True)
class RouteRequest:
    """One turn before it has a model. The facts cover everything that would be sent, history included.

    ``override`` is for this turn alone, ``sticky`` is the model that the session is set to, ``delegate`` the one that a
    delegating model requested; each is a model id or an alias. ``estimated_tokens`` is the size of the prompt, as a
    number or as a function of the model id, since models count differently. ``spent_usd`` is what was spent so far, in
    a period that the program defines; None is unknown.
    """

    text: str = ""
    """The user's text in this turn, which may begin with a mention of a model if the router reads mentions."""
    override: str | None = None
    sticky: str | None = None
    delegate: str | None = None
    estimated_tokens: int | Callable[[str], int] = 0
    max_output_tokens: int | None = None
    """The most tokens of the reply; None means the most that the model writes."""
    images: bool = False
    """Whether the request contains images."""
    audio: bool = False
    """Whether the request contains audio."""
    video: bool = False
    """Whether the request contains video."""
    documents: bool = False
    """Whether the request contains documents."""
    tools: bool = False
    """Whether the turn offers tools."""
    side_effects: frozenset[SideEffects] = frozenset()
    """The side effects of the tools that the turn offers."""
    system_prompt: bool = False
    """Whether the request has a system prompt."""
    output_schema: bool = False
    """Whether the reply has to follow a schema."""
    labels: frozenset[str] = frozenset()
    """The security labels of the request."""
    user_id: str | None = None
    """The pseudonymous id of the user, for rules on users."""
    team_id: str | None = None
    """The pseudonymous id of the team, for rules on teams."""
    spent_usd: Decimal | None = None

    @classmethod
    def of(
        cls,
        history: Sequence[Message],
        prompt: Sequence[Message] = (),
        tools: Sequence[ToolDefinition] = (),
        options: AdapterOptions | None = None,
        **fields: Any,
    ) -> "RouteRequest":
        """Return the facts of a turn with ``prompt`` after ``history``; ``fields`` are all other facts."""
        options = options or AdapterOptions()
        messages = [*history, *prompt]
        block_types = {block_type for message in messages for block_type in _block_types(message.content)}
        facts: dict[str, Any] = {
            "text": next((block.text for _, _, block in _user_texts(prompt)), ""),
            "estimated_tokens": lambda model: get_adapter(model).estimate_input_tokens(messages, tools),
            "max_output_tokens": options.max_output_tokens,
            "images": "image" in block_types,
            "audio": "audio" in block_types,
            "video": "video" in block_types,
            "documents": "document" in block_types,
            "tools": not all(tool.RUN_BY_PROVIDER for tool in tools),
            "side_effects": frozenset(tool.side_effects for tool in tools),
            "system_prompt": any(message.role in _SYSTEM for message in messages),
            "output_schema": options.output_schema is not None,
        }
        return cls(**(facts | fields))

    def tokens_on(self, model: str) -> int:
        """Return the size of the prompt as that model counts."""
        return self.estimated_tokens(model) if callable(self.estimated_tokens) else self.estimated_tokens


class Recommendation(NamedTuple):
    """A model, the confidence in it (0 to 1), and the reason as text."""

    model: str
    """A model id or an alias."""
    confidence: float
    """From 0 to 1. Below the router's ``min_confidence``, the recommendation does not count."""
    reason: str
    """One sentence for people."""
    alternatives: tuple[str, ...] = ()
    """The next choices, best first."""


class Recommender(Protocol):
    """Recommends a model for a request, or returns None.

    It ranks below users' choices and rules. It is called at each turn, so that its recommendation is recorded even if
    it is outranked. An exception counts as no recommendation.
    """

    def __call__(self, request: RouteRequest, /) -> Recommendation | tuple[str, float, str] | None: ...


def _block_types(blocks: Iterable[ContentBlock]) -> Iterable[str]:
    for block in blocks:
        yield block.type
        if isinstance(block, ToolResultBlock):
            yield from _block_types(block.content)


def replace_text(prompt: Sequence[Message], text: str) -> tuple[Message, ...]:
    """Return the prompt with its first text replaced, to remove a mention of a model.

    Raises RequestError if nothing is left of a message.
    """
    changed = list(prompt)
    index, place, block = next(_user_texts(prompt), (0, 0, None))
    if block is not None and block.text != text:
        content = list(changed[index].content)
        content[place : place + 1] = [block.model_copy(update={"text": text})] if text else []
        if not content:
            raise RequestError("the message holds only the mention of a model")
        changed[index] = changed[index].model_copy(update={"content": tuple(content)})
    return tuple(changed)


def _user_texts(prompt: Sequence[Message]) -> Iterator[tuple[int, int, TextBlock]]:
    """Yield the user's text blocks, with the indices of message and block; an image may precede them."""
    for index, message in enumerate(prompt):
        for block_index, block in enumerate(message.content):
            if message.role is Role.USER and isinstance(block, TextBlock):
                yield index, block_index, block
