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
from dragoman.adapter.pairing import CallKeys
from dragoman.adapter.prefix_ledger import is_sealed
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.adapter.turns import MADE, Turn
from dragoman.canonical.blocks import TextBlock, ToolUseBlock
from dragoman.canonical.message import Message, Role

INSTRUCTING = (Role.SYSTEM, Role.DEVELOPER)


@dataclass(frozen=True, slots=True)
class Settled:
    """What is settled for one target: messages, what they lost, and their items as JSON, in runs without brackets."""

    tool_ids: ToolIdMap | None = None
    options: Any = None
    messages: tuple[Message, ...] = ()
    runs: tuple[bytes, ...] = ()
    losses: tuple[Loss, ...] = ()
    keys: CallKeys = field(default_factory=CallKeys)
    sealed: tuple[Message, ...] = ()
    """Those of the messages that the prefix ledger has a note on."""
    memory: Mapping[str, Any] = field(default_factory=dict)
    """What the adapter must know of these messages when it encodes later ones."""

    def extended(
        self, messages: Sequence[Message], items: list[Any], losses: Sequence[Loss], memory: Mapping[str, Any]
    ) -> "Settled":
        """With what follows: messages, their items and losses, and all that is to be known by then."""
        return replace(
            self,
            messages=(*self.messages, *messages),
            runs=(*self.runs, *run_of(items)),
            losses=(*self.losses, *losses),
            keys=self.keys.after(
                block.id
                for message in messages
                if message.role is Role.ASSISTANT
                for block in message.content
                if isinstance(block, ToolUseBlock)
            ),
            sealed=(*self.sealed, *filter(is_sealed, messages)),
            memory=deepcopy(memory),
        )


NOTHING = Settled()


class Encodings:
    """What is settled, by target: a model, and whoever writes for it, because two APIs of one provider have items of
    different forms. Lives as long as a session; a session's id map must be the same throughout."""

    def __init__(self) -> None:
        self._settled: dict[Hashable, Settled] = {}

    def find(self, target: Hashable, empty: Settled, said: Sequence[Message]) -> Settled:
        """What is settled of ``said``, the history behind its leading instructions, or ``empty`` where nothing is.

        The very same message objects count, not equal ones: to compare would cost as much as to encode.
        """
        found = self._settled.get(target)
        if (
            found is not None
            and found.tool_ids is empty.tool_ids
            and len(found.messages) < len(said)
            and found.options == empty.options
            and all(map(is_, found.messages, said))
        ):
            return found
        return empty

    def keep(self, target: Hashable, settled: Settled) -> None:
        self._settled[target] = settled


@dataclass(slots=True)
class History:
    """A list of a body: the JSON of the items that stand in front, and those that were encoded just now."""

    before: tuple[bytes, ...]
    """Runs of items as JSON."""
    fresh: list[Any]

    def __bool__(self) -> bool:
        return bool(self.before or self.fresh)

    def runs(self) -> tuple[bytes, ...]:
        """The JSON of all items; a comma belongs between each two runs."""
        return (*self.before, *run_of(self.fresh))


def run_of(items: list[Any]) -> tuple[bytes, ...]:
    """The JSON of items without brackets, as one run; none where there is no item."""
    return (wirejson.dumps(items)[1:-1],) if items else ()


def boundary(said: Sequence[Message]) -> int:
    """The last message that may begin what is not settled yet: where the side that speaks changes. 0 where none."""
    for index in range(len(said) - 1, 0, -1):
        role, before = said[index].role, said[index - 1].role
        if role is Role.USER and before is Role.ASSISTANT and not said[index - 1].tool_uses:
            return index
        if role is Role.ASSISTANT and before in (Role.USER, Role.TOOL):
            return index
    return 0


def first_turn_of(message: Message, turns: Sequence[Turn]) -> int:
    """Where the message's turns begin, provided that it is sent as itself and behind one of the other side; else 0.

    Both must say something: a wire may leave out a turn without words, and what is around it then stands together.
    """
    for index in range(len(turns) - 1, 0, -1):
        turn, before = turns[index], turns[index - 1]
        if turn.message is message and before.message is not message:
            as_itself = turn.role is message.role and MADE not in turn.origins[:1]
            parted = _side(turn.role) != _side(before.role) and _speaks_up(turn) and _speaks_up(before)
            return index if as_itself and parted else 0
    return 0


def _side(role: Role) -> bool:
    return role is Role.ASSISTANT


def _speaks_up(turn: Turn) -> bool:
    return any(not isinstance(block, TextBlock) or block.text for block in turn.blocks)
