"""API keys that `dragoman keys set` stored: in the keyring of the system, or in a file that only the user can read."""

import json
import os
import stat
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from dragoman.adapter.errors import ConfigurationError
from dragoman.credentials.contract import ApiKey, validate_key
from dragoman.private_files import create_private_folder, open_private, replace_file

_FORMAT = 1
_MAX_SIZE = 1 << 20
_SERVICE = "dragoman"
_READABLE_BY_OTHERS = stat.S_IRWXG | stat.S_IRWXO


class _Content(NamedTuple):
    """The keys of the file, and the providers whose keys are in the keyring."""

    keys: Mapping[str, ApiKey]
    in_keyring: frozenset[str]


_NOTHING = _Content({}, frozenset())


class StoredKeys:
    """The keys of the user, by provider. The file also lists the keys in the keyring, so that the keyring is asked for
    those alone.

    All methods raise ConfigurationError if the file cannot be read, or if others can read it too. No error shows a key.
    """

    def __init__(self, path: Path | None = None) -> None:
        if path is None:
            from platformdirs import user_config_path

            path = user_config_path("dragoman") / "keys.json"
        self.path = path

    def get(self, provider: str) -> ApiKey | None:
        content = self._read()
        if provider in content.in_keyring:
            return _read_keyring(provider)
        return content.keys.get(provider)

    def places(self) -> dict[str, str]:
        """Return the place of each key: the file, or the keyring."""
        content = self._read()
        places = dict.fromkeys(content.keys, str(self.path)) | dict.fromkeys(content.in_keyring, "keyring")
        return dict(sorted(places.items()))

    def set(self, provider: str, key: ApiKey) -> str:
        """Store a key, in the keyring if there is one, and return its place."""
        validate_key(key, "the API key")
        with _lock(self.path):
            content = self._read()
            keys = {name: stored for name, stored in content.keys.items() if name != provider}
            if (keyring := _keyring()) is not None:
                _call_keyring(keyring, "set_password", provider, key)
                self._write(_Content(keys, content.in_keyring | {provider}))
            else:
                self._write(_Content(keys | {provider: key}, content.in_keyring - {provider}))
            return self.places()[provider]

    def remove(self, provider: str) -> bool:
        """Remove a key, and return whether there was one."""
        if provider not in self.places():
            return False
        with _lock(self.path):
            content = self._read()
            # Without a keyring, the list in the file is what this program uses.
            if provider in content.in_keyring and (keyring := _keyring()) is not None:
                _call_keyring(keyring, "delete_password", provider)
            keys = {name: key for name, key in content.keys.items() if name != provider}
            self._write(_Content(keys, content.in_keyring - {provider}))
        return True

    def _read(self) -> _Content:
        try:
            status = self.path.stat()
        except (FileNotFoundError, NotADirectoryError):
            return _NOTHING
        except OSError as error:
            raise ConfigurationError(f"the keys file {self.path} cannot be read: {error.strerror}") from None
        if not stat.S_ISREG(status.st_mode):
            raise ConfigurationError(f"the keys file {self.path} is not a file: remove it, and store the keys again")
        if os.name == "posix" and status.st_mode & _READABLE_BY_OTHERS:
            raise ConfigurationError(f"others can read the keys file {self.path}: run chmod 600 '{self.path}'")
        return _parse(self.path, status.st_mtime_ns, status.st_size)

    def _write(self, content: _Content) -> None:
        if failure := _write_file(self.path, content):
            raise ConfigurationError(f"the keys file {self.path} cannot be written: {failure}")
        _parse.cache_clear()
        _read_keyring.cache_clear()


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    """Wait until no other process or thread changes the keys. The system releases the lock when a process ends.

    A folder that cannot be written raises ConfigurationError. A file system without locks is used without one.
    """
    try:
        create_private_folder(path.parent)
        file = open(path.with_suffix(".lock"), "ab", opener=open_private)  # noqa: SIM115
    except OSError as error:
        raise ConfigurationError(f"the keys file {path} cannot be written: {error.strerror}") from None
    with file:
        with suppress(OSError):
            if sys.platform == "win32":
                import msvcrt

                msvcrt.locking(file.fileno(), msvcrt.LK_LOCK, 1)
            else:
                import fcntl

                fcntl.flock(file, fcntl.LOCK_EX)
        yield


@lru_cache(maxsize=4)
def _parse(path: Path, modified: int, size: int) -> _Content:
    """Read the file; its time and size are arguments, so that a changed file is read again."""
    del modified
    content = _read_file(path) if size <= _MAX_SIZE else None
    if content is None:
        raise ConfigurationError(
            f"the keys file {path} cannot be read: remove it, and store the keys again with dragoman keys set"
        )
    return content


def _read_file(path: Path) -> _Content | None:
    """Return None if the file is malformed. It raises nothing: a traceback may show the variables of this function."""
    try:
        data = json.loads(path.read_bytes())
        keys = {str(name): ApiKey(text) for name, text in data["keys"].items()}
        in_keyring = frozenset(map(str, data["keyring"]))
        is_valid = data["format"] == _FORMAT and all(key.is_usable for key in keys.values())
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None
    return _Content(keys, in_keyring) if is_valid else None


def _write_file(path: Path, content: _Content) -> str | None:
    """Replace the file as a whole, readable by this user only. Return the reason if that fails; see `_read_file`."""
    keys = {name: key.reveal() for name, key in sorted(content.keys.items())}
    text = json.dumps({"format": _FORMAT, "keys": keys, "keyring": sorted(content.in_keyring)}, indent=1)
    try:
        replace_file(path, f"{text}\n")
    except OSError as error:
        return error.strerror or type(error).__name__
    return None


def _keyring() -> Any:
    """Return the package keyring, or None if it is not installed or has no place for secrets on this system."""
    if find_spec("keyring") is None:
        return None
    keyring = import_module("keyring")
    try:
        return keyring if keyring.get_keyring().priority > 0 else None
    except Exception:  # a backend that does not work here
        return None


def _call_keyring(keyring: Any, method: str, provider: str, key: ApiKey | None = None) -> Any:
    try:
        # Not in a variable of this function, which a traceback may show.
        return getattr(keyring, method)(_SERVICE, provider, *(() if key is None else (key.reveal(),)))
    except Exception as error:  # of a backend, whose text may show what it was given
        raise ConfigurationError(f"the keyring failed: {type(error).__name__}") from None


@lru_cache(maxsize=64)
def _read_keyring(provider: str) -> ApiKey:
    keyring = _keyring()
    if keyring is None:
        raise ConfigurationError(
            f"the API key for {provider} is in the keyring, which is not available here: pip install "
            f"'dragoman[keyring]', or store the key again with dragoman keys set {provider}"
        )
    found = _call_keyring(keyring, "get_password", provider)
    if found is None:
        raise ConfigurationError(
            f"the keyring no longer has the API key for {provider}: store it again with dragoman keys set {provider}"
        )
    return validate_key(ApiKey(found), f"the API key for {provider} in the keyring")
