"""A runtime that writes what a test gives it, instead of openvino-genai: no model is loaded."""

import sys
from collections.abc import Callable
from enum import Enum, auto
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dragoman.local import model
from dragoman.local.model import PRECISION_VARIABLE, THREADS_VARIABLE

Written = tuple[str, bool]
"""A text, and whether the limit cut it there."""


class _Status(Enum):
    RUNNING = auto()
    CANCEL = auto()


class _Form:
    """A form of the output of the runtime: here, its name and what it is made of."""

    def __init__(self, *parts: Any, **fields: Any) -> None:
        self.parts, self.fields = parts, fields


class _Forms(_Form):
    JSONSchema = Tag = Union = TriggeredTags = TagsWithSeparator = _Form


class ScriptedRuntime:
    """The names of openvino-genai that are used. Each generation writes the next text, in pieces of three characters.

    ``properties`` are those that a pipeline was made with, ``configs`` the limits of each generation, and ``prompts``
    what it read. A word is a token. ``window`` is the model's, to which the tokenizer truncates each text.
    """

    StreamingStatus = _Status
    GenerationFinishReason = SimpleNamespace(LENGTH="length", STOP="stop")
    StructuredOutputConfig = _Forms

    def __init__(self, *written: str | Written, window: int | None = None) -> None:
        self._window = window
        self._written = [(each, False) if isinstance(each, str) else each for each in written]
        self.properties: list[dict[str, Any]] = []
        self.configs: list[Any] = []
        self.prompts: list[str] = []

    def LLMPipeline(self, path: str, device: str, **properties: Any) -> "ScriptedRuntime":  # noqa: N802 - their name
        self.properties.append(properties)
        return self

    def get_tokenizer(self) -> "ScriptedRuntime":
        return self

    def get_vocab(self) -> dict[bytes, int]:
        return {b"<|im_start|>": 1, b"<|im_end|>": 2, b"<div": 3, b"word": 4}

    def decode(self, tokens: list[int]) -> str:
        return "" if tokens[0] < 3 else "text"

    def apply_chat_template(self, messages: list[dict[str, str]], *, add_generation_prompt: bool) -> str:
        return "\n".join(f"{each['role']}: {each['content']}" for each in messages)

    def encode(self, text: str, *, add_special_tokens: bool) -> Any:
        self.prompts.append(text)
        return SimpleNamespace(input_ids=SimpleNamespace(shape=(1, len(text.split()[: self._window]))))

    def get_generation_config(self) -> Any:
        return SimpleNamespace(validate=lambda: None)

    def generate(self, tokens: Any, config: Any, on_text: Callable[[str], _Status]) -> Any:
        self.configs.append(config)
        text, cut = self._written.pop(0)
        pieces = [text[start : start + 3] for start in range(0, len(text), 3)]
        count = 0
        for piece in pieces:
            count += 1
            if on_text(piece) is _Status.CANCEL:
                break
        return SimpleNamespace(
            finish_reasons=["length" if cut else "stop"],
            perf_metrics=SimpleNamespace(
                get_num_input_tokens=lambda: tokens.shape[1], get_num_generated_tokens=lambda: count
            ),
        )

    def install(self, monkeypatch: pytest.MonkeyPatch, folder: Path) -> None:
        """Make it the runtime of every model that is loaded from now on."""
        path = folder / "handwritten.gguf"
        path.write_bytes(b"GGUF" + bytes(20))
        monkeypatch.setitem(sys.modules, "openvino_genai", self)
        monkeypatch.setattr(model, "model_file", lambda name: path)
        monkeypatch.setattr(model, "_models", model._Models())
        monkeypatch.setattr(model, "context_length", lambda path: self._window)
        for name in (PRECISION_VARIABLE, THREADS_VARIABLE):
            monkeypatch.delenv(name, raising=False)
