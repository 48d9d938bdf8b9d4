"""Other answers of a reply are judged one by one, as the reply itself."""

from collections.abc import Callable, Sequence

from dragoman.canonical.message import Alternative, Message
from dragoman.effects.work import Work


def judge_alternatives(
    reply: Message, alternatives: Sequence[Alternative], judge: Callable[[Message], Work[Message]]
) -> Work[Message]:
    """Return the judged reply with its alternatives as ``judge`` leaves them. If it denies one, the reply is denied."""
    judged: list[Alternative] = []
    for alternative in alternatives:
        answer = _without_alternatives(reply.model_copy(update={"content": alternative.content}))
        kept = yield from judge(answer)
        judged.append(alternative.model_copy(update={"content": kept.content}))
    return _with_alternatives(reply, judged)


def _without_alternatives(message: Message) -> Message:
    """Return the message without the other answers."""
    return message.model_copy(update={"metadata": message.metadata.model_copy(update={"alternatives": None})})


def _with_alternatives(message: Message, alternatives: Sequence[Alternative]) -> Message:
    """Return the message with other answers. If they differ, the provider's raw copy of them is dropped."""
    if tuple(alternatives) == message.alternatives:
        return message
    changes = {"alternatives": tuple(alternatives), "provider_raw": None}
    return message.model_copy(update={"metadata": message.metadata.model_copy(update=changes)})
