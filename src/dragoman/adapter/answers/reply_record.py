"""What the envelopes of one reply contain about its blocks, and which of a client's blocks these are.

A call is known by its id, a text by its digest. A block that the client has changed keeps nothing of its provider's but
a signature of the call; the others keep all. Clients also move, join and split blocks: the places are those of the
original.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import accumulate
from operator import itemgetter
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dragoman.adapter import wirejson
from dragoman.adapter.answers import provider_state
from dragoman.canonical.blocks import (
    Citation,
    ContentBlock,
    RedactedThinkingBlock,
    TextBlock,
    ThinkingBlock,
    ToolUseBlock,
)

State = dict[str, Any]
"""What an envelope holds, in the form of the present version, as `StateWriter` writes it: its version ``v`` and kind
``k``, the provider ``p``, the model ``m`` and the reply ``r``. Thinking has its place ``i``, the digest ``d`` of its
text and its signature or data ``s``; the rest of a reply has what `ReplyRecord` reads."""

_BLOCK: TypeAdapter[ContentBlock] = TypeAdapter(ContentBlock)
_KINDS = ("thinking", "redacted_thinking", "rest")
_THINKING = (ThinkingBlock, RedactedThinkingBlock)
_NO_TEXT = provider_state.digest_text("")


@dataclass(slots=True)
class Piece:
    """A block of a client's copy, and its place in the original; None if that is not known."""

    block: ContentBlock
    place: int | None = None


@dataclass(slots=True)
class ReplyRecord:
    """The rest of a reply: the entries of its blocks by place, and its adapter's notes on all of it. `arrange` tells
    from the client's copy whether it is changed and whole."""

    entries: dict[int, dict[str, Any]] = field(default_factory=dict)
    """What is known of each block: its type ``t``; of a text its digest ``d`` and its sources ``src``; of a call its
    ``name``, the canonical id ``call`` as clients return it, the digest ``a`` of all of it, and the provider's ``id``.
    ``n`` is the adapter's note, and ``start`` the one on the item that begins with the block. ``block`` is a whole
    block that the client did not get, and ``spare`` one that it got and may leave out."""
    notes: dict[str, Any] = field(default_factory=dict)
    lengths: Sequence[int] = ()
    """The lengths of the texts, which some wires join."""
    digest: str | None = None
    """The digest of the whole reply, of version 1: its texts are not known by digests of their own."""
    is_changed: bool = False
    """Whether the client has changed a block on which the provider has a note."""
    is_whole: bool = True
    """Whether each call that the client has is known, and none that the provider noted something on is missing."""

    @classmethod
    def of(cls, states: Iterable[State], issuer: str) -> "ReplyRecord":
        """Return the record of a reply from all its states. Those of other issuers do not count."""
        record = cls()
        for state in states:
            if state["k"] == "rest" and state["p"] == issuer:
                record.entries |= {int(place): entry for place, entry in state["b"].items()}
                record.notes |= state.get("raw") or {}
                record.lengths = state.get("lengths") or record.lengths
                record.digest = state.get("d") or record.digest
        return record

    def arrange(self, pieces: list[Piece], has_id: Mapping[str, bool]) -> list[Piece]:
        """Return the blocks in the order of the original, with those that the client did not get.

        ``has_id`` tells of each call whether the client named it.
        """
        if not self.entries:
            self.is_whole = not has_id
            return pieces
        taken = {piece.place for piece in pieces}
        self._place_calls(pieces, taken, has_id)
        pieces = self._place_texts(pieces, taken)
        if not any(piece.place is not None and isinstance(piece.block, _THINKING) for piece in pieces):
            # The client has left out the thinking, or sent it back without its state.
            pieces = self._add_blocks("spare", pieces, taken)
        for piece in pieces:  # other blocks, such as images, are in their order
            if piece.place is None and not isinstance(piece.block, (TextBlock, ToolUseBlock)):
                piece.place = next(iter(self._free(piece.block.type, taken)), None)
                taken.add(piece.place)
        pieces = self._add_blocks("block", pieces, taken)
        missing = [entry for place, entry in self.entries.items() if place not in taken and "n" in entry]
        calls = [piece for piece in pieces if isinstance(piece.block, ToolUseBlock)]
        self.is_whole = all(entry["t"] != "tool_use" for entry in missing) and all(
            each.place is not None for each in calls
        )
        self.is_changed = bool(missing)
        keyed: list[tuple[int, Piece]] = []
        for piece in pieces:  # a block of the client's own follows the one before it
            before = keyed[-1][0] if keyed else -1
            keyed.append((before if piece.place is None else piece.place, piece))
        ordered = [piece for _, piece in sorted(keyed, key=itemgetter(0))]
        if self.digest is not None:
            digest = provider_state.digest_content(piece.block for piece in ordered).hex()
            self.is_changed = self.is_changed or digest != self.digest
        return ordered

    def finish(self, ordered: list[Piece]) -> tuple[list[ContentBlock], dict[str, Any], dict[str, str]]:
        """Return the blocks, the adapter's notes on them, and the provider's ids by those of the calls."""
        blocks: list[ContentBlock] = []
        notes: dict[str, Any] = {}
        starts: dict[str, Any] = {}
        ids: dict[str, str] = {}
        for piece in ordered:
            block, entry = piece.block, {} if piece.place is None else self.entries.get(piece.place, {})
            index = str(len(blocks))
            if note := self._note_on(block, entry):
                notes[index] = note
            if "start" in entry:
                starts[index] = entry["start"]
            if isinstance(block, ToolUseBlock) and entry.get("id"):
                ids[block.id] = entry["id"]
            if isinstance(block, TextBlock) and (block.citations or entry.get("src")):
                sources = tuple(Citation(**source) for source in entry.get("src") or ())
                block = TextBlock(text=block.text, citations=sources)
            blocks.append(block)
        raw = {**self.notes, **({"blocks": notes} if notes else {}), **({"items": starts} if starts else {})}
        return blocks, raw, ids

    def _note_on(self, block: ContentBlock, entry: Mapping[str, Any]) -> dict[str, Any] | None:
        """Return the adapter's note on a block: only a signature if it is a call that the client has changed."""
        note: dict[str, Any] | None = entry.get("n")
        if note is None:
            return None
        if isinstance(block, ToolUseBlock):
            same = provider_state.digest_content((block,)).hex() == entry["a"] if "a" in entry else not self.is_changed
            if same:
                return note
            kept = note.get("set") or {}
            return {"set": {name: kept[name] for name in kept.keys() & provider_state.SIGNATURE_FIELDS}}
        return None if self.digest is not None and self.is_changed else note

    def _free(self, kind: str, taken: set[int | None]) -> list[int]:
        """Return the places of a type of block that no block of the client has."""
        found = (place for place, entry in self.entries.items() if entry["t"] == kind and "block" not in entry)
        return sorted(place for place in found if place not in taken)

    def _place_calls(self, pieces: Iterable[Piece], taken: set[int | None], has_id: Mapping[str, bool]) -> None:
        """Place the calls by their ids. Those of a client without ids have the names and the order of the original."""
        calls = [(piece, piece.block) for piece in pieces if isinstance(piece.block, ToolUseBlock)]
        by_id = {self.entries[place].get("call"): place for place in self._free("tool_use", taken)}
        for piece, call in calls:
            if call.id in by_id:
                piece.place = by_id.pop(call.id)
                taken.add(piece.place)
        for piece, call in calls:
            if piece.place is not None:
                continue
            for place in self._free("tool_use", taken):
                entry = self.entries[place]
                if ("call" not in entry or not has_id[call.id]) and entry.get("name", call.name) == call.name:
                    piece.place = place
                    taken.add(place)
                    break

    def _place_texts(self, pieces: list[Piece], taken: set[int | None]) -> list[Piece]:
        """Place the texts by their digests, and split those that the client's wire has joined."""
        pieces = [piece for piece in pieces if not (isinstance(piece.block, TextBlock) and not piece.block.text)]
        texts = [piece for piece in pieces if isinstance(piece.block, TextBlock)]
        free = self._free("text", taken)
        for piece in texts:
            digest = provider_state.digest_text(_text(piece))
            found = next((place for place in free if self.entries[place].get("d") == digest), None)
            if found is not None:
                piece.place = found
                taken.add(found)
                free.remove(found)
        if left := [piece for piece in texts if piece.place is None]:
            split = self._split(left, [place for place in free if self.entries[place].get("d") != _NO_TEXT])
            taken.update(piece.place for piece in split)
            first = next(index for index, piece in enumerate(pieces) if piece is left[0])
            rest = [piece for piece in pieces[first:] if not any(piece is each for each in left)]
            pieces = [*pieces[:first], *split, *rest]
        unplaced = self._free("text", taken)
        if any(self.entries[place].get("d", _NO_TEXT) != _NO_TEXT for place in unplaced):
            return pieces
        taken.update(unplaced)  # clients leave out empty texts
        return [*pieces, *(Piece(TextBlock(text=""), place) for place in unplaced)]

    def _split(self, texts: list[Piece], places: list[int]) -> list[Piece]:
        """Return the texts at their places: joined and split again if the client has done the other."""
        known = [place for place, entry in sorted(self.entries.items()) if entry["t"] == "text"]
        joined = "".join(map(_text, texts))
        if len(self.lengths) == len(known) and len(places) > 1:
            lengths = [self.lengths[known.index(place)] for place in places]
            if sum(lengths) == len(joined):
                ends = list(accumulate(lengths))
                parts = [joined[end - length : end] for end, length in zip(ends, lengths, strict=True)]
                if all(map(self._says, places, parts)):
                    return [Piece(TextBlock(text=part), place) for part, place in zip(parts, places, strict=True)]
        if len(places) == 1 and len(texts) > 1 and self._says(places[0], joined):
            return [Piece(TextBlock(text=joined), places[0])]
        if self.digest is not None:  # of version 1: in order
            return [Piece(piece.block, place) for piece, place in zip(texts, [*places, *[None] * len(texts)])]  # noqa: B905  # the places may be more
        return texts

    def _says(self, place: int, text: str) -> bool:
        digest = self.entries[place].get("d")
        return digest is None or digest == provider_state.digest_text(text)

    def _add_blocks(self, name: str, pieces: list[Piece], taken: set[int | None]) -> list[Piece]:
        """Add the blocks that the entries hold under a name. Their thinking counts instead of what has no place."""
        added: list[Piece] = []
        for place, entry in self.entries.items():
            if (found := entry.get(name)) and place not in taken:
                with suppress(ValidationError):
                    added.append(Piece(_BLOCK.validate_python(found), place))
                    taken.add(place)
        if any(isinstance(each.block, _THINKING) for each in added):
            pieces = [each for each in pieces if not (each.place is None and isinstance(each.block, ThinkingBlock))]
        return [*pieces, *added]


def parse_state(data: bytes) -> State:
    """Return what an envelope holds. Raises ValueError for what this version does not know."""
    state = wirejson.loads_object(data, what="the state")
    if state.get("k") not in _KINDS or not isinstance(state.get("p"), str):
        raise ValueError("it is of a kind that this version does not know")
    return _upgrade(state) if state["k"] == "rest" and "b" not in state else state


def _upgrade(first: Mapping[str, Any]) -> State:
    """Return the rest of a reply as version 1 has it: notes by place, ids in order, and one digest of the whole."""
    raw = dict(first.get("raw") or {})
    notes, starts = raw.pop("blocks", None) or {}, raw.pop("items", None) or {}
    hidden, sources = first.get("blocks") or {}, iter(first.get("sources") or ())
    order = first.get("order") or []
    natives = list((first.get("ids") or {}).items())
    calls = iter(natives if len(natives) == order.count("tool_use") else ())
    entries: dict[str, dict[str, Any]] = {}
    for index, kind in enumerate(order):
        place = str(index)
        entry = entries[place] = {"t": kind}
        if kind == "tool_use" and (named := next(calls, None)) is not None:
            entry |= {"call": provider_state.call_key(named[0]), "id": named[1]}
        if kind == "text":
            entry["src"] = next(sources, ())
        for name, found in (("block", hidden), ("n", notes), ("start", starts)):
            if place in found:
                entry[name] = found[place]
    kept = {name: first[name] for name in ("k", "p", "m", "d", "c", "lengths") if name in first}
    return {**kept, "v": 1, "raw": raw, "b": entries}


def _text(piece: Piece) -> str:
    return piece.block.text if isinstance(piece.block, TextBlock) else ""
