"""Extensions: the context that travels with a message. Source: docs/reference/cmf.md#extensions.

`dragoman.policy.slots` says who may see and change which slot.
"""

from typing import Annotated

from pydantic import AfterValidator, Field

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.extensions.fields import Names
from dragoman.canonical.extensions.slots import BaseAgentExtension, BaseExtensions
from dragoman.canonical.frozen import FrozenList, freeze
from dragoman.canonical.guard import Text
from dragoman.canonical.message import Message

MAX_HISTORY = 100
"""The maximum number of messages in a conversation window."""


class ConversationContext(FrozenModel):
    """A window on the earlier conversation: at most 100 messages."""

    history: Annotated[list[Message], Field(max_length=MAX_HISTORY), AfterValidator(freeze)] = Field(
        default_factory=FrozenList
    )
    summary: Text | None = None
    topics: Names = Field(default_factory=FrozenList)


class AgentExtension(BaseAgentExtension):
    """``input`` is the user's original request. ``turn`` counts from 0."""

    conversation: ConversationContext | None = None


class Extensions(BaseExtensions):
    """The slots. All are optional, and deeply frozen except ``custom``, which belongs to the plugins.

    Raises pydantic.ValidationError for an unknown slot or field, and for a word outside a closed list.
    """

    agent: AgentExtension | None = None
