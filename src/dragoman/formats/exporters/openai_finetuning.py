"""One row of OpenAI's files for fine-tuning: a line with ``messages`` as Chat Completions has them."""

from collections.abc import Sequence

from pydantic_core import to_json

from dragoman.canonical.message import Message
from dragoman.formats.conversion import Conversion
from dragoman.formats.native import to_native


def to_openai_finetuning(messages: Sequence[Message]) -> Conversion[str]:
    """Write a history as one line of JSON lines; the definitions of its tools, and weights, are the caller's to add.

    The losses are those of a list of Chat Completions. Raises CriticalLossError if a critical block would be lost.
    """
    written = to_native("openai-chat", messages)
    return Conversion(to_json({"messages": written.data}).decode() + "\n", written.losses, written.labels)
