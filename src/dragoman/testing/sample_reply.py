"""Sample replies for tests: the content of one reply, independent of any wire."""

from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class SampleCall:
    """A tool call. Joined, ``pieces`` are the JSON text of ``input``, split as a provider would stream it."""

    id: str
    """The provider's own id of the call."""
    name: str
    """The name of the tool."""
    input: dict[str, Any]
    pieces: tuple[str, ...]

    @property
    def arguments(self) -> str:
        """The JSON text of the input, as one piece."""
        return "".join(self.pieces)


@dataclass(frozen=True, slots=True)
class SampleReply:
    """A reply: thinking, then text, then calls, each optional.

    ``thinking`` and ``text`` have the pieces in which they are streamed. The counts are tokens; ``input_tokens`` does
    not include the cached ones.
    """

    thinking: tuple[str, ...]
    text: tuple[str, ...]
    calls: tuple[SampleCall, ...]
    """The tool calls, in order."""
    truncated: bool
    """Whether the model reached its output limit."""
    input_tokens: int
    cached_tokens: int
    """Tokens of the prompt that the provider read from its cache."""
    output_tokens: int
    """Tokens of the reply, thinking included."""

    @property
    def content(self) -> tuple[str, str, tuple[tuple[str, Any], ...]]:
        """The text, the thinking, and the name and input of each call."""
        calls = tuple((call.name, call.input) for call in self.calls)
        return "".join(self.text), "".join(self.thinking), calls


_RM = SampleCall("id0", "rm", {"path": "/tmp/é"}, ('{"path": "/t', 'mp/é"}'))

SHORT = SampleReply(("So",), ("\u2028 is", " it 😀"), (_RM, SampleCall("id1", "stop", {}, ("{}",))), False, 20, 0, 9)
"""A reply with every part: two calls, one of them without arguments."""

SHORTEST = SampleReply((), ("\u2028 😀",), (_RM,), False, 20, 0, 9)
"""The shortest reply that can be cut inside a character and inside a call."""

PLAIN = SampleReply((), ("It rains", " in Bern."), (), False, 1200, 0, 35)
CACHED = SampleReply((), ("Still", " raining."), (), False, 700, 1024, 12)
CUT = SampleReply((), ("It rains and",), (), True, 40, 0, 3)
