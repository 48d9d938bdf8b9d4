"""The history as it is sent: a summary stands in the place of the messages that it tells of.

Nothing that was recorded is ever changed. A summary is one more message at the end of the history, whose metadata
names what it stands for (``summary_of``); which messages are sent follows from that alone, in this program and in
every later one that loads the session.

What was kept beside a summary then has another beginning in front of it. Its signed thinking is sent as it is: where
a provider binds signatures to what precedes them, the adapter's prefix ledger names each void one as a loss.
"""

from collections.abc import Sequence

from dragoman.canonical.message import Message


def apply_summaries(history: Sequence[Message]) -> list[Message]:
    """The messages that a request holds. A summary covers only what is recorded before it, and stands where the first
    of that stood."""
    visible: list[Message] = []
    for message in history:
        covered = set(message.metadata.summary_of or ())
        positions = [position for position, earlier in enumerate(visible) if earlier.id in covered] if covered else []
        if positions:
            first = positions[0]
            visible[first:] = [message, *(earlier for earlier in visible[first:] if earlier.id not in covered)]
        else:
            visible.append(message)
    return visible
