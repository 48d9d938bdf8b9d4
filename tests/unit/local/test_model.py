"""Loading a model: the runtime without its telemetry, and errors that name a way out."""

import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.local.files import known_models
from dragoman.local.model import LocalModel, get_model

TELEMETRY = "openvino_telemetry"


@pytest.fixture
def modules_seen(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """A runtime that loads no file; the list records which telemetry module was installed at its import."""
    found: list[Any] = []

    def refuse(path: str, device: str, **properties: Any) -> None:
        raise RuntimeError("Check 'ctx' failed at /a/b/gguf.cpp:317:\nFailed to open it\nand more")

    def load(name: str) -> Any:
        found.append(sys.modules.get(TELEMETRY, "absent"))
        return SimpleNamespace(LLMPipeline=refuse)

    known_models()  # reading its table imports
    monkeypatch.setattr("importlib.import_module", load)
    monkeypatch.delitem(sys.modules, TELEMETRY, raising=False)
    return found


@pytest.fixture
def handwritten_gguf(tmp_path: Path) -> Path:
    path = tmp_path / "handwritten.gguf"
    path.write_bytes(b"GGUF" + bytes(20))
    return path


def test_a_missing_runtime_names_the_extra(monkeypatch: pytest.MonkeyPatch, handwritten_gguf: Path) -> None:
    """The command is in the error."""
    monkeypatch.setitem(sys.modules, "openvino_genai", None)
    with pytest.raises(MissingExtraError, match=r"pip install 'dragoman\[local\]'"):
        LocalModel(handwritten_gguf)


def test_a_file_that_the_runtime_refuses_is_named_with_the_reason(
    modules_seen: list[Any], handwritten_gguf: Path
) -> None:
    """A file that the runtime refuses is named with the reason in the runtime's words, without places in its source."""
    with pytest.raises(ConfigurationError, match=r"handwritten.gguf cannot be loaded \(Failed to open it\)"):
        LocalModel(handwritten_gguf)


def test_a_file_of_another_format_never_reaches_the_runtime(modules_seen: list[Any], tmp_path: Path) -> None:
    """It might take anything for a model."""
    path = tmp_path / "a.gguf"
    path.write_bytes(b"PK")
    messages: list[str] = []
    with pytest.raises(ConfigurationError, match="not a GGUF file"):
        get_model(str(path), messages.append)
    assert messages == [f"loading {path}, which takes a few seconds"]


def test_the_telemetry_is_hidden_while_the_runtime_is_imported(modules_seen: list[Any], handwritten_gguf: Path) -> None:
    """And only then: the rest of the program may import it."""
    with pytest.raises(ConfigurationError):
        LocalModel(handwritten_gguf)
    assert modules_seen == [None]
    assert TELEMETRY not in sys.modules


def test_telemetry_that_the_program_imported_is_left_alone(
    modules_seen: list[Any], monkeypatch: pytest.MonkeyPatch, handwritten_gguf: Path
) -> None:
    module = ModuleType(TELEMETRY)
    monkeypatch.setitem(sys.modules, TELEMETRY, module)
    with pytest.raises(ConfigurationError):
        LocalModel(handwritten_gguf)
    assert modules_seen == [module]
    assert sys.modules[TELEMETRY] is module
