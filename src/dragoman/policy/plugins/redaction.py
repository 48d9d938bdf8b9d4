"""Redaction: replaces secrets and personal data in every text when it arrives.

Every text of a part that people and models read is rewritten. Ids, names, types and URIs do not change.
"""

import base64
import hmac
import re
from collections.abc import Callable, Iterable
from hashlib import sha256
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical import blocks
from dragoman.canonical.message import read_message
from dragoman.canonical.message_view.kinds import is_native_tool
from dragoman.canonical.message_view.parts import UnknownPartError
from dragoman.policy.labels import with_labels
from dragoman.policy.plugin import Hook, Mode, Plugin, PluginResult
from dragoman.policy.plugins.finding import Find, findings, personal_data, secrets
from dragoman.policy.step import Step
from dragoman.policy.texts import decode_text, is_text, without_opaque

Change = Callable[[str], str]
_DIGITS = 8
"""The length of a digest: enough to distinguish the values of a conversation."""
_PLACEHOLDER = re.compile(rf"\[[\w.-]+(?: [0-9a-f]{{{_DIGITS}}})?\]")
"""The text that replaces a value; a finder may take it for a value."""


def rewrite_block(part: blocks.ContentBlock, change: Change) -> blocks.ContentBlock:
    """Return the part with its texts changed, or the same object if none changes.

    Raises UnknownPartError for a part that cannot be read, at any depth, because it must not pass unchanged.
    """
    if isinstance(part, blocks.ProviderBlock) and is_native_tool(part.kind):
        # A plugin may not change a native block (docs/reference/policy.md, L15): a finding in it cannot be removed.
        readable = without_opaque(part.data)
        if rewrite_json(readable, change) != readable:
            raise UnknownPartError(f"a native block of the kind {part.kind!r:.80} holds a text that it cannot lose")
        return part
    fields = _fields(part, change)
    changed = {name: value for name, value in fields.items() if value != getattr(part, name)}
    return part.model_copy(update=changed) if changed else part


def rewrite_json(value: Any, change: Change) -> Any:
    """Return a JSON value with all texts changed, keys too; a whole number whose digits would change becomes text."""
    match value:
        case str():
            return change(value)
        case bool() | None | float():
            return value
        case int():
            text = str(value)
            changed = change(text)
            return value if changed == text else changed
        case list() | tuple():
            return [rewrite_json(item, change) for item in value]
        case _:
            rewritten: dict[str, Any] = {}
            for key, item in value.items():
                new_key = change(key)
                name = new_key
                number = 2
                while name in rewritten:  # two keys may become equal, and no entry may be lost
                    name = f"{new_key} {number}"
                    number += 1
                rewritten[name] = rewrite_json(item, change)
            return rewritten


_FIELDS: dict[type[blocks.ContentBlock] | type[blocks.Citation], tuple[str, ...]] = {
    blocks.TextBlock: ("text",),
    blocks.Citation: ("title", "cited_text", "data"),
    blocks.ThinkingBlock: ("text",),
    blocks.AudioBlock: ("transcript",),
    blocks.ToolUseBlock: ("input", "raw_input"),
    blocks.ResourceBlock: ("content", "description", "annotations"),
    blocks.PromptRequestBlock: ("arguments",),
    blocks.PromptResultBlock: ("content", "error_message"),
    blocks.DocumentBlock: ("title", "context"),
    blocks.ToolResultBlock: (),
    blocks.ImageBlock: (),
    blocks.VideoBlock: (),
    blocks.RedactedThinkingBlock: (),
    blocks.ResourceRefBlock: (),
}
"""The fields that hold a text, or JSON. What else a block holds is in `_fields`."""


def _fields(part: blocks.ContentBlock | blocks.Citation, change: Change) -> dict[str, Any]:
    if (names := _FIELDS.get(type(part))) is None:
        raise UnknownPartError(f"a part of the kind {getattr(part, 'type', '')!r:.80} cannot be read")
    fields: dict[str, Any] = {name: rewrite_json(getattr(part, name), change) for name in names}
    match part:
        case blocks.TextBlock():
            citations = (each.model_copy(update=_fields(each, change)) for each in part.citations)
            fields["citations"] = tuple(citations)
        case blocks.ToolResultBlock():
            fields["content"] = tuple(rewrite_block(block, change) for block in part.content)
        case blocks.ResourceBlock():
            blob = part.blob
            if blob is not None and is_text(part.mime_type):
                blob = _rewrite_base64(blob, change)
            if fields["content"] != part.content or blob != part.blob:
                fields |= {"blob": blob, "size_bytes": None}  # the declared size no longer applies
        case blocks.PromptResultBlock():
            fields["messages"] = tuple(_rewrite_message(index, raw, change) for index, raw in enumerate(part.messages))
        case blocks.DocumentBlock():
            fields["source"] = _rewrite_source(part.source, part.media_type, change)
    return fields


def _rewrite_source(source: blocks.MediaSource, media_type: str | None, change: Change) -> blocks.MediaSource:
    data = source.data
    if source.kind == "text":
        data = change(data)
    elif source.kind == "base64" and is_text(media_type):
        data = _rewrite_base64(data, change)
    return source if data == source.data else source.model_copy(update={"data": data})


def _rewrite_base64(data: str, change: Change) -> str:
    """Rewrite base64 of a text; other data is returned unchanged, whatever its declared type."""
    text = decode_text(data)
    if text is None:
        return data
    new = change(text)
    return data if new == text else base64.b64encode(new.encode()).decode()


def _rewrite_message(index: int, raw: dict[str, Any], change: Change) -> dict[str, Any]:
    where = f"messages[{index}] of the prompt result"
    try:
        message = read_message(raw)
    except ValueError:
        raise UnknownPartError(f"{where} is not a canonical message: deny it") from None
    if not message.role.is_known:
        raise UnknownPartError(f"{where} is not a canonical message: its role is unknown")
    content = tuple(rewrite_block(block, change) for block in message.content)
    if content == message.content:
        return raw
    return raw | {"content": [block.model_dump(mode="json", exclude_none=True) for block in content]}


class Redaction(Plugin):
    """Replaces findings with ``[email]`` and the like.

    The same text always gives the same result, and redacted text stays unchanged. With a ``key``, a digest of the value
    follows the word, ``[email 3f2a9c01]``, so that a model can distinguish two values and nobody without the
    key can guess them. Values in ``keep`` are not redacted. Messages with a finding get the ``label``, if there is one.

    It reads the user's messages, the model's replies, and the results of tools, resources and prompts; in JSON also
    keys and whole numbers. Images, recordings and PDFs are not read. A model's signed reasoning that holds a finding
    becomes invalid, and is handled as the pipeline's ``signed`` says.

    ``window`` is how many characters of a streamed reply are held back: by default those of the longest finding of any
    finder, and everything if a finder does not declare one.
    """

    name = "redaction"
    mode = Mode.TRANSFORM
    hooks: Iterable[Hook | str] = (
        Hook.LLM_INPUT, Hook.LLM_OUTPUT, Hook.TOOL_POST_INVOKE, Hook.PROMPT_POST_FETCH, Hook.RESOURCE_POST_FETCH,
        Hook.EVALUATE,
    )  # fmt: skip

    def __init__(
        self,
        finders: Iterable[Find] | None = None,
        *,
        key: bytes | None = None,
        keep: Iterable[str] = (),
        label: str | None = None,
        window: int | None = None,
    ) -> None:
        """By default, the finders are `secrets` and `personal_data`. Raises MissingExtraError for these, and
        ConfigurationError for an empty key and an invalid finder.
        """
        if key is not None and not (key and isinstance(key, bytes)):
            raise ConfigurationError(
                "the key of a redaction must be non-empty bytes: otherwise anyone can guess the values"
            )
        if finders is None:
            finders = (secrets(), personal_data())
        self._finders: tuple[Find, ...] = (finders,) if callable(finders) else tuple(finders)
        for finder in self._finders:
            if not callable(finder):
                raise ConfigurationError(
                    f"a finder must be a function from a text to findings, not a {type(finder).__name__}"
                )
        self._key = key
        self._keep = frozenset((keep,) if isinstance(keep, str) else keep)
        self._label = label
        lengths: list[Any] = [getattr(finder, "max_length", None) for finder in self._finders]
        if window is None and lengths and None not in lengths:
            window = max(lengths)
        self.window = window

    def redact(self, text: str) -> str:
        """Return the text with its findings replaced."""
        pieces: list[str] = []
        position = 0
        for found in findings(text, self._finders):  # in order, and they do not overlap
            value = text[found.start : found.end]
            if value not in self._keep and not _PLACEHOLDER.fullmatch(value):
                word = found.kind
                if self._key is not None:
                    word += f" {hmac.new(self._key, value.encode(), sha256).hexdigest()[:_DIGITS]}"
                pieces += [text[position : found.start], f"[{word}]"]
                position = found.end
        return "".join([*pieces, text[position:]]) if pieces else text

    def check(self, step: Step) -> PluginResult | None:
        message = step.message
        content = tuple(rewrite_block(part, self.redact) for part in message.content)
        if content == message.content:
            return None
        labelled = None if self._label is None else with_labels(step.extensions, {self._label})
        return PluginResult(message=message.model_copy(update={"content": content}), extensions=labelled)
