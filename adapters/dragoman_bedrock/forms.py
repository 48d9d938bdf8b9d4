"""The three forms in which Bedrock's runtime is spoken to. A body says itself which of them it is.

Converse is the form that all models share, and the one that is written unless the caller asks for another. The
other two are bodies of InvokeModel: Anthropic's Messages, asked for with the field ``anthropic_version``, and that of
Nova, whose messages are Converse's own, asked for with ``schemaVersion``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any
from urllib.parse import quote, unquote

from dragoman.adapter.losses import LossKind
from dragoman.adapter.outgoing import Outgoing
from dragoman.adapter.turns import Turn
from dragoman.canonical.blocks import ContentBlock, ProviderBlock

PROVIDER = "bedrock"


class Form(StrEnum):
    CONVERSE = "converse"
    MESSAGES = "messages"
    NOVA = "nova"


_OPERATIONS = {Form.CONVERSE: ("converse", "converse-stream")}
_INVOKE = ("invoke", "invoke-with-response-stream")


def form_of(body: Mapping[str, Any]) -> Form:
    """The form of a request body, or of the fields that a caller wants in one."""
    if "anthropic_version" in body:
        return Form.MESSAGES
    return Form.NOVA if "schemaVersion" in body else Form.CONVERSE


def path(model: str, form: Form, *, stream: bool) -> str:
    """Where a request goes. Names may be ARNs, with colons and slashes; one that is quoted already stays so."""
    return f"/model/{quote(unquote(model), safe='')}/{_OPERATIONS.get(form, _INVOKE)[stream]}"


def fit(request: Outgoing, form: Form) -> None:
    """Leaves out of the request what another form has noted: notes, native blocks and sources are told in its words."""
    request.turns = tuple(_fitted(request, turn, form is Form.MESSAGES) for turn in request.turns)


def _fitted(request: Outgoing, turn: Turn, as_messages: bool) -> Turn:
    kept = [index for index, block in enumerate(turn.blocks) if _speaks(block, as_messages)]
    if len(kept) < len(turn.blocks):
        for index in set(range(len(turn.blocks))) - set(kept):
            request.lose_block(turn, index, LossKind.NATIVE_BLOCK, "the block is of another of Bedrock's forms")
        turn = replace(
            turn, blocks=tuple(turn.blocks[at] for at in kept), origins=tuple(turn.origins[at] for at in kept)
        )
    raw = turn.raw(PROVIDER)
    if raw and ("converse" in raw) is as_messages:
        metadata = turn.message.metadata.model_copy(update={"provider_raw": None})
        turn = replace(turn, message=turn.message.model_copy(update={"metadata": metadata}))
    return turn


def _speaks(block: ContentBlock, as_messages: bool) -> bool:
    """Whether a native block is of the form: Anthropic's have a type, Converse's the name of their kind as only key."""
    return not isinstance(block, ProviderBlock) or ("type" in block.data) is as_messages


def event(data: Mapping[str, Any]) -> tuple[str, Any]:
    """A streamed chunk of Nova's as Converse would send it: the name of the event and what it holds."""
    return next(_named(data))


def _named(data: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    for name, value in data.items():
        if not name.startswith("amazon-bedrock-"):
            yield name, value
    yield "", {}
