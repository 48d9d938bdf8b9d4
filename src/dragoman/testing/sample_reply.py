"""What a model says in one reply, before any wire has written it: what replies are made of in tests."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SampleCall:
    """A tool call. ``pieces`` join to the JSON text of ``input``, cut as a provider would stream it."""

    id: str
    name: str
    input: dict[str, Any]
    pieces: tuple[str, ...]

    @property
    def arguments(self) -> str:
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class SampleReply:
    """A reply: thinking, then text, then calls, each of which may be missing. ``thinking`` and ``text`` come in the
    pieces in which they are streamed. The counts are tokens, those of the prompt without the cached ones.
    """

    thinking: tuple[str, ...]
    text: tuple[str, ...]
    calls: tuple[SampleCall, ...]
    truncated: bool
    """Whether the model ran into its limit."""
    input_tokens: int
    cached_tokens: int
    output_tokens: int

    @property
    def content(self) -> tuple[str, str, tuple[tuple[str, Any], ...]]:
        """The text, the thinking, and the name and input of each call."""
        calls = tuple((call.name, call.input) for call in self.calls)
        return "".join(self.text), "".join(self.thinking), calls


_RM = SampleCall("id0", "rm", {"path": "/tmp/é"}, ('{"path": "/t', 'mp/é"}'))

SHORT = SampleReply(("So",), ("\u2028 is", " it 😀"), (_RM, SampleCall("id1", "stop", {}, ("{}",))), False, 20, 0, 9)
"""A bit of everything: two calls, one of them without arguments."""

SHORTEST = SampleReply((), ("\u2028 😀",), (_RM,), False, 20, 0, 9)
"""The least that can be cut into half a character and half a call."""

PLAIN = SampleReply((), ("It rains", " in Bern."), (), False, 1200, 0, 35)
CACHED = SampleReply((), ("Still", " raining."), (), False, 700, 1024, 12)
CUT = SampleReply((), ("It rains and",), (), True, 40, 0, 3)
