"""Text completions: one prompt in, its continuation out, for servers that have nothing else.

The wire is that of Chat Completions with a ``prompt`` in place of the messages and a ``text`` in place of the answer
(https://platform.openai.com/docs/api-reference/completions), so the decoders of that wire read its replies. It has no
roles: the prompt is a transcript, whose format is data.
"""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import RequestError
from dragoman.adapter.losses import LossKind, Severity
from dragoman.adapter.requests.request_builder import RequestBuilder
from dragoman.adapter.requests.turns import Turn
from dragoman.adapter.wire import WireResponse
from dragoman.canonical.blocks import FrozenModel, TextBlock, text_block
from dragoman.canonical.events import StreamEvent
from dragoman.canonical.message import Role
from dragoman.canonical.tools import ToolDefinition
from dragoman_adapters.openai_chat.adapter import ChatAdapter
from dragoman_adapters.openai_chat.dialect import Dialect
from dragoman_adapters.openai_chat.options import decode_options, encode_options
from dragoman_adapters.openai_chat.stream import ChatStreamDecoder

if TYPE_CHECKING:
    from dragoman.adapter.requests.request_reader import HistoryReader

_PROMPT_NOTE = "prompt"
"""The note of a user's message that was read from a request: its text is a prompt as it is."""
_TEXT = "{text}"


class PromptFormat(FrozenModel):
    """How turns become a prompt, ``wire.prompt`` in a model's row: each has ``{text}`` where its text goes.

    The default is the one of Vercel's AI SDK. With ``{text}`` alone everywhere, and neither ``reply`` nor ``stop``, the
    model continues the bare texts.
    """

    system: str = "{text}\n\n"
    user: str = "user:\n{text}\n\n"
    assistant: str = "assistant:\n{text}\n\n"
    reply: str = "assistant:\n"
    """What follows the last turn, unless it is the assistant's: the model continues that."""
    stop: tuple[str, ...] = ("\nuser:",)
    """Stop sequences in addition to the caller's: without them a model writes the user's next words as well."""

    def write(self, turns: Sequence[Turn]) -> str:
        """Return the prompt."""
        forms = {Role.USER: self.user, Role.ASSISTANT: self.assistant}
        prompt = after = ""
        for turn in turns:
            before, _, behind = forms.get(turn.role, self.system).partition(_TEXT)
            prompt += f"{after}{before}{_join_texts(turn)}"
            after = behind
        return prompt if turns and turns[-1].role is Role.ASSISTANT else f"{prompt}{after}{self.reply}"


class TextCompletionAdapter(ChatAdapter):
    """An endpoint whose row has ``completions`` as its only API. It reads requests, and writes no replies to
    clients."""

    client_wire: ClassVar[str] = ""
    decoder_at: ClassVar[str] = "dragoman_adapters.openai_chat.text_completions:TextStreamDecoder"
    encode_reply_at: ClassVar[str] = ""
    encode_error_at: ClassVar[str] = ""
    reply_encoder_at: ClassVar[str] = ""

    def encode_body(self, request: RequestBuilder, tools: Sequence[ToolDefinition]) -> dict[str, Any]:
        request.usable_tools(tools)
        encoded = {"model": request.target.model, **encode_options(request, self.dialect, tools=False)}
        for turn in request.turns:
            for index in range(len(turn.blocks)):
                request.record_field_losses(turn, index, "citations")
                if index:
                    reason = "texts of one message are sent as one"
                    request.record_block_loss(turn, index, LossKind.FLATTENED, reason, Severity.INFO)
        if len(request.turns) == 1 and request.turns[0].raw(self.provider).get(_PROMPT_NOTE):
            return {**encoded, "prompt": _join_texts(request.turns[0])}
        form = PromptFormat.model_validate(request.target.capabilities.wire.get("prompt", {}))
        if form.stop:
            encoded["stop"] = [*encoded.get("stop", ()), *form.stop]
            request.own_defaults.add("stop")
        return {**encoded, "prompt": form.write(request.turns)}

    def parse_reply(self, response: WireResponse) -> dict[str, Any]:
        return _as_chat(super().parse_reply(response), "message")

    def decode_request(
        self, native: dict[str, Any], reader: "HistoryReader"
    ) -> tuple[list[ToolDefinition], AdapterOptions]:
        prompt = native["prompt"]
        (prompt,) = prompt if isinstance(prompt, list) and len(prompt) == 1 else (prompt,)
        if not isinstance(prompt, str):
            raise RequestError("prompt is one text: several prompts, or tokens, are requests of their own")
        reader.add(Role.USER, [text_block(prompt)], {_PROMPT_NOTE: True})
        options = {name: value for name, value in native.items() if name != "prompt"}
        covered = ("model", "messages", "tools", "functions")
        return [], decode_options(options, self.target, reader.context, covered, self.dialect)


class TextStreamDecoder(ChatStreamDecoder):
    """Decodes the stream of text completions as one of Chat Completions."""

    text_frame = None

    def _chunk(self, chunk: dict[str, Any]) -> Iterator[StreamEvent]:
        return super()._chunk(_as_chat(chunk, "delta"))


def text_dialect(dialect: Dialect) -> Dialect:
    """Return the dialect of an endpoint for its text completions, which have another path and count of
    probabilities."""
    own = {"path": "/completions", "logprobs": False, "options": {**dialect.options, "logprobs": "logprobs"}}
    return Dialect.model_validate({**dialect.model_dump(exclude_unset=True), **own})


def _as_chat(native: dict[str, Any], place: str) -> dict[str, Any]:
    """Return a reply or a chunk in the form of Chat Completions: the text is the content of ``place``."""
    choices = [
        {**{name: value for name, value in choice.items() if name != "text"}, place: {"content": choice["text"]}}
        for choice in native.get("choices") or ()
    ]
    return {**native, "choices": choices} if choices else native


def _join_texts(turn: Turn) -> str:
    return "\n".join(block.text for block in turn.blocks if isinstance(block, TextBlock))
