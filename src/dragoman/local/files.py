"""Finds a local model's file: in an installed package, in our cache folder, or at a given path."""

import hashlib
import importlib.util
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import platformdirs

from dragoman.adapter.errors import ConfigurationError, MissingExtraError, NotFoundError

_SUFFIX = ".gguf"


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
        return _resolve_path(name)
    candidates = [
        path for path in (_find_in_package(known), cache_folder() / known.file) if path is not None and path.is_file()
    ]
    for path in candidates:
        if has_digest(path, known.sha256):
            return path
    if candidates:
        raise ConfigurationError(f"{candidates[0]} is damaged: download it again with `dragoman local install`")
    raise MissingExtraError(f"the file of {name} is not installed: download it with `dragoman local install`")


def _resolve_path(name: str) -> Path:
    path = Path(name).expanduser()
    if path.suffix != _SUFFIX:
        names = ", ".join(known_models())
        raise NotFoundError(f"no local model {name!r}: name one of {names}, or the path of a {_SUFFIX} file")
    if not path.is_file():
        raise NotFoundError(f"there is no file {path}")
    return path


def _find_in_package(known: KnownModel) -> Path | None:
    spec = importlib.util.find_spec(known.package)
    for folder in (spec.submodule_search_locations or ()) if spec is not None else ():
        return Path(folder) / known.file
    return None


def has_digest(path: Path, sha256: str) -> bool:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest() == sha256
