"""How one attempt of a request ends: `Replied`, `Failed`, `Broken` or `Abandoned`."""

from dataclasses import dataclass

from dragoman.canonical.message import Message
from dragoman.effects.response import ResponseDetails


@dataclass(frozen=True, slots=True)
class Replied:
    """The whole reply. ``response`` is None if a middleware provided the reply and nothing was sent."""

    message: Message
    """The complete reply."""
    response: ResponseDetails | None = None


@dataclass(frozen=True, slots=True)
class Failed:
    """The attempt gave no reply: the request could not be sent, or the provider refused it."""

    error: Exception
    """Why there is no reply: a DragomanError, or what a middleware raised."""


@dataclass(frozen=True, slots=True)
class Broken:
    """A reply began and cannot be used. ``partial`` is what had arrived; ``seen`` says whether the caller saw any of
    that."""

    error: Exception
    """Why the reply broke off, such as StreamTruncatedError."""
    partial: Message | None
    seen: bool
    response: ResponseDetails | None = None
    """Status, headers and times; None if nothing of the response is known."""


@dataclass(frozen=True, slots=True)
class Abandoned:
    """The caller left. ``partial`` is what had arrived, with status cancelled.

    If no content can be kept, ``billed`` is a message with the usage of the reply. ``sent`` is False if nothing was
    sent yet.
    """

    partial: Message | None = None
    billed: Message | None = None
    response: ResponseDetails | None = None
    """Status, headers and times; None if no response had arrived."""
    sent: bool = True


SendOutcome = Replied | Failed | Broken | Abandoned
