"""Extensions: the context that travels with a message. Source: docs/reference/cmf.md#extensions.

`dragoman.policy.slots` says who may see and change which slot.
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.extensions.slots import BaseAgentExtension, BaseExtensions
from dragoman.canonical.frozen import FrozenList, Names, freeze
from dragoman.canonical.guard import Text
from dragoman.canonical.message import Message

MAX_HISTORY = 100
"""The maximum number of messages in a conversation window."""


class ConversationContext(FrozenModel):
    """A window on the earlier conversation: at most 100 messages."""

    history: Annotated[list[Message], Field(max_length=MAX_HISTORY), AfterValidator(freeze)] = Field(
        default_factory=FrozenList
    )
    """The last messages, oldest first."""
    summary: Text | None = None
    """A text in place of what came before ``history``."""
    topics: Names = Field(default_factory=FrozenList)
    """What the conversation is about, in the host's own words."""


class AgentExtension(BaseAgentExtension):
    """The agent, the session and the turn that a message belongs to. ``input`` is the user's original request. ``turn``
    counts from 0."""

    conversation: ConversationContext | None = None
    """The earlier conversation, as far as the host shows it."""


class Extensions(BaseExtensions):
    """The slots. All are optional, and deeply frozen except ``custom``, which belongs to the plugins.

    Raises pydantic.ValidationError for an unknown slot or field, and for a word outside a closed list.
    """

    agent: AgentExtension | None = None
    """Which agent, session and turn the message belongs to, with the conversation. Seen with ``read_agent``."""
