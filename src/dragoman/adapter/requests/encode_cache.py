"""The settled part of a history: projected and encoded once, and sent again as the bytes that it became.

A session sends a history that only grows, so that a turn need cost no more than what is new in it. What comes before
the last place where the assistant's side and the other's change is settled: whatever is said later, its turns, its
items on the wire and its losses stay what they are (the prefix law, DESIGN section 5).
"""

from collections.abc import Hashable, Mapping, Sequence
from copy import deepcopy
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any

from dragoman.adapter import wirejson
from dragoman.adapter.losses import Loss
from dragoman.adapter.requests.pairing import CallKeys
from dragoman.adapter.requests.prefix_ledger import has_prefix_note
from dragoman.adapter.requests.tool_ids import ToolIdMap
from dragoman.adapter.requests.turns import SYNTHETIC, Turn
from dragoman.canonical.blocks import TextBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role

INSTRUCTION_ROLES = (Role.SYSTEM, Role.DEVELOPER)


@dataclass(frozen=True, slots=True)
class EncodedPrefix:
    """What is settled for one target: messages, what they lost, and their items as JSON, in runs without brackets."""

    tool_ids: ToolIdMap | None = None
    options: Any = None
    messages: tuple[Message, ...] = ()
    json_chunks: tuple[bytes, ...] = ()
    losses: tuple[Loss, ...] = ()
    keys: CallKeys = field(default_factory=CallKeys)
    with_prefix_note: tuple[Message, ...] = ()
    """Those of the messages that the prefix ledger has a note on."""
    encoder_state: Mapping[str, Any] = field(default_factory=dict)
    """What the adapter must know of these messages when it encodes later ones."""

    def extend(
        self, messages: Sequence[Message], items: list[Any], losses: Sequence[Loss], encoder_state: Mapping[str, Any]
    ) -> "EncodedPrefix":
        """With what follows: messages, their items and losses, and all that is to be known by then."""
        return replace(
            self,
            messages=(*self.messages, *messages),
            json_chunks=(*self.json_chunks, *encode_chunk(items)),
            losses=(*self.losses, *losses),
            keys=self.keys.with_calls(
                block.id
                for message in messages
                if message.role is Role.ASSISTANT
                for block in message.content
                if isinstance(block, ToolUseBlock)
            ),
            with_prefix_note=(*self.with_prefix_note, *filter(has_prefix_note, messages)),
            encoder_state=deepcopy(encoder_state),
        )


EMPTY_PREFIX = EncodedPrefix()


class EncodeCache:
    """What is settled, by target: a model, and whoever writes for it, because two APIs of one provider have items of
    different forms. Lives as long as a session; a session's id map must be the same throughout."""

    def __init__(self) -> None:
        self._prefixes: dict[Hashable, EncodedPrefix] = {}

    def find(self, target: Hashable, fallback: EncodedPrefix, messages: Sequence[Message]) -> EncodedPrefix:
        """What is settled of ``said``, the history behind its leading instructions, or ``empty`` where nothing is.

        The very same message objects count, not equal ones: to compare would cost as much as to encode.
        """
        found = self._prefixes.get(target)
        if (
            found is not None
            and found.tool_ids is fallback.tool_ids
            and len(found.messages) < len(messages)
            and found.options == fallback.options
            and all(map(is_, found.messages, messages))
        ):
            return found
        return fallback

    def store(self, target: Hashable, prefix: EncodedPrefix) -> None:
        self._prefixes[target] = prefix


@dataclass(slots=True)
class EncodedHistory:
    """A list of a body: the JSON of the items that stand in front, and those that were encoded just now."""

    prefix_chunks: tuple[bytes, ...]
    """Runs of items as JSON."""
    new_items: list[Any]

    def __bool__(self) -> bool:
        return bool(self.prefix_chunks or self.new_items)

    def json_chunks(self) -> tuple[bytes, ...]:
        """The JSON of all items; a comma belongs between each two runs."""
        return (*self.prefix_chunks, *encode_chunk(self.new_items))


def encode_chunk(items: list[Any]) -> tuple[bytes, ...]:
    """The JSON of items without brackets, as one run; none where there is no item."""
    return (wirejson.dumps(items)[1:-1],) if items else ()


def find_boundary(messages: Sequence[Message]) -> int:
    """The last message that may begin what is not settled yet: where the side that speaks changes. 0 where none."""
    for index in range(len(messages) - 1, 0, -1):
        role, previous = messages[index].role, messages[index - 1].role
        if role is Role.USER and previous is Role.ASSISTANT and not messages[index - 1].tool_uses:
            return index
        if role is Role.ASSISTANT and previous in (Role.USER, Role.TOOL):
            return index
    return 0


def find_first_turn(message: Message, turns: Sequence[Turn]) -> int:
    """Where the message's turns begin, provided that it is sent as itself and behind one of the other side; else 0.

    Both must say something: a wire may leave out a turn without words, and what is around it then stands together.
    """
    for index in range(len(turns) - 1, 0, -1):
        turn, previous = turns[index], turns[index - 1]
        if turn.message is message and previous.message is not message:
            unchanged = turn.role is message.role and SYNTHETIC not in turn.origins[:1]
            separated = (
                _is_assistant(turn.role) != _is_assistant(previous.role)
                and _has_content(turn)
                and _has_content(previous)
            )
            return index if unchanged and separated else 0
    return 0


def _is_assistant(role: Role) -> bool:
    return role is Role.ASSISTANT


def _has_content(turn: Turn) -> bool:
    return any(not isinstance(block, TextBlock) or block.text for block in turn.blocks)
