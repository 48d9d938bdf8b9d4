"""Redaction: replaces secrets and personal data in every text when it arrives."""

import hmac
import re
from collections.abc import Iterable
from hashlib import sha256

from dragoman.adapter.errors import ConfigurationError
from dragoman.policy.labels import with_labels
from dragoman.policy.plugin import Hook, Mode, Plugin, PluginResult
from dragoman.policy.plugins.finding import Find, findings, personal_data, secrets
from dragoman.policy.plugins.rewrite import rewrite_block
from dragoman.policy.step import Step

_DIGITS = 8
"""The length of a digest: enough to distinguish the values of a conversation."""
_PLACEHOLDER = re.compile(rf"\[[\w.-]+(?: [0-9a-f]{{{_DIGITS}}})?\]")
"""The text that replaces a value; a finder may take it for a value."""


class Redaction(Plugin):
    """Replaces findings with ``[email]`` and the like.

    The same text always gives the same result, and redacted text stays unchanged. With a ``key``, a digest of the value
    follows the word, ``[email 3f2a9c01]``, so that a model can distinguish two values and nobody without the
    key can guess them. Values in ``keep`` are not redacted. Messages with a finding get the ``label``, if there is one.

    It reads the user's messages, the model's replies, and the results of tools, resources and prompts; in JSON also
    keys and whole numbers. Images, recordings and PDFs are not read. A model's signed reasoning that holds a finding
    becomes invalid, and is handled as the pipeline's ``signed`` says.

    ``window`` is how much of a streamed reply is held back: by default the longest finding of any finder, and
    everything if a finder does not declare one.
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
        self._finders: tuple[Find, ...] = (secrets(), personal_data()) if finders is None else _as_finders(finders)
        self._key = key
        self._keep = frozenset((keep,) if isinstance(keep, str) else keep)
        self._label = label
        lengths = [getattr(finder, "max_length", None) for finder in self._finders]
        known = [length for length in lengths if length is not None]
        self.window = window or (max(known) if known and len(known) == len(lengths) else None)

    def redact(self, text: str) -> str:
        """Return the text with its findings replaced."""
        pieces, position = [], 0
        for found in findings(text, self._finders):
            value = text[found.start : found.end]
            if value not in self._keep and not _PLACEHOLDER.fullmatch(value):
                pieces += [text[position : found.start], self._placeholder(found.kind, value)]
                position = found.end
        return "".join([*pieces, text[position:]]) if pieces else text

    def check(self, step: Step) -> PluginResult | None:
        message = step.message
        content = tuple(rewrite_block(part, self.redact) for part in message.content)
        if content == message.content:
            return None
        labelled = None if self._label is None else with_labels(step.extensions, {self._label})
        return PluginResult(message=message.model_copy(update={"content": content}), extensions=labelled)

    def _placeholder(self, kind: str, value: str) -> str:
        if self._key is None:
            return f"[{kind}]"
        return f"[{kind} {hmac.new(self._key, value.encode(), sha256).hexdigest()[:_DIGITS]}]"


def _as_finders(finders: Iterable[Find]) -> tuple[Find, ...]:
    """Return a tuple of finders; a single finder is accepted."""
    found = (finders,) if callable(finders) else tuple(finders)
    for finder in found:
        if not callable(finder):
            raise ConfigurationError(
                f"a finder must be a function from a text to findings, not a {type(finder).__name__}"
            )
    return found
