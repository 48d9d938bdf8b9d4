"""The three body formats of Bedrock's runtime. The fields of a body show its format.

All models support Converse, which is the default. The other two are bodies of InvokeModel: Anthropic's Messages,
requested with the field ``anthropic_version``, and Nova's, whose messages are Converse's own, requested with
``schemaVersion``.
"""

from collections.abc import Mapping
from dataclasses import replace
from enum import StrEnum
from typing import Any
from urllib.parse import quote, unquote

from dragoman.adapter.errors import RequestError
from dragoman.adapter.losses import LossKind
from dragoman.adapter.requests.block_fields import field_losses
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import Turn
from dragoman.canonical.blocks import ProviderBlock

PROVIDER = "bedrock"


class BodyFormat(StrEnum):
    CONVERSE = "converse"
    MESSAGES = "messages"
    NOVA = "nova"


_FOREIGN_FIELDS = {
    "inputText": "Titan",
    "prompt": "Llama, Mistral, Cohere, AI21 or Claude 2",
    "message": "Cohere",
    "max_tokens": "AI21 or Mistral",
}
"""Fields of other vendors' bodies, none of which Converse has (docs/reference/wires/bedrock.md#endpoints)."""


def detect_format(body: Mapping[str, Any]) -> BodyFormat:
    """Return the format of a request body, or of the caller's extra fields.

    Raises RequestError for a body of another vendor's model, which Converse serves.
    """
    if "anthropic_version" in body:
        return BodyFormat.MESSAGES
    if "schemaVersion" in body:
        return BodyFormat.NOVA
    if (name := next(filter(body.__contains__, _FOREIGN_FIELDS), None)) is not None:
        raise RequestError(
            f"{name} belongs to a body of InvokeModel for {_FOREIGN_FIELDS[name]}: Converse serves these models, so"
            " send messages, and the model's own fields in additionalModelRequestFields; an imported model that"
            " Converse does not serve is bedrock-invoke:MODEL"
        )
    return BodyFormat.CONVERSE


def request_path(model: str, form: BodyFormat, *, stream: bool) -> str:
    """Return the path of a request. Names may be ARNs, with colons and slashes; one that is already quoted stays so.

    Raises RequestError for a name that no encoding can write.
    """
    try:
        name = quote(unquote(model), safe="")
    except UnicodeEncodeError:
        raise RequestError(f"{model!r:.80} is not a model name: it holds a lone surrogate") from None
    if form is BodyFormat.CONVERSE:
        return f"/model/{name}/{'converse-stream' if stream else 'converse'}"
    return f"/model/{name}/{'invoke-with-response-stream' if stream else 'invoke'}"


def drop_other_formats(request: RequestBuilder, form: BodyFormat) -> None:
    """Drop what belongs to another format: notes, native blocks, sources."""
    is_messages = form is BodyFormat.MESSAGES
    turns: list[Turn] = []
    for turn in request.turns:
        if not turn.is_simple(PROVIDER):
            turn = _drop_unreadable_blocks(request, turn, is_messages=is_messages)
            # Converse's notes name their form; those of Anthropic's are from its own adapter.
            if (raw := turn.raw(PROVIDER)) and (raw.get("form") != BodyFormat.CONVERSE) is not is_messages:
                request.losses += field_losses(turn.message, "its form of Bedrock's")
                metadata = turn.message.metadata.model_copy(update={"provider_raw": None})
                message = turn.message.model_copy(update={"metadata": metadata})
                turn = replace(turn, message=message, notes=None)
        if turn.blocks:
            turns.append(turn)
    request.turns = tuple(turns)


def _drop_unreadable_blocks(request: RequestBuilder, turn: Turn, *, is_messages: bool) -> Turn:
    """Drop the native blocks of another form. Those of Anthropic's have a type, those of Converse have one key."""
    indexes: list[int] = []
    for index, block in enumerate(turn.blocks):
        if not isinstance(block, ProviderBlock) or ("type" in block.data) is is_messages:
            indexes.append(index)
        else:
            request.record_block_loss(turn, index, LossKind.NATIVE_BLOCK, "the block is of another of Bedrock's forms")
    if len(indexes) == len(turn.blocks):
        return turn
    return replace(
        turn, blocks=tuple(turn.blocks[at] for at in indexes), origins=tuple(turn.origins[at] for at in indexes)
    )
