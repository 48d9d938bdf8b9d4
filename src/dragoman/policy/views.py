"""Views: the parts of a message one by one, as policies see them, and the tools that its calls name."""

from dragoman.canonical.message_view.kinds import ViewAction, ViewKind
from dragoman.canonical.message_view.parts import CalledTool, UnknownPartError, called_tools
from dragoman.canonical.message_view.view import MessageView, iter_views
from dragoman.policy.texts import texts_of

__all__ = [
    "CalledTool",
    "MessageView",
    "UnknownPartError",
    "ViewAction",
    "ViewKind",
    "called_tools",
    "iter_views",
    "texts_of",
]
