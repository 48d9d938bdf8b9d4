"""Stored keys: for their user alone, the last place that is searched, and never shown."""

import json
import os
import pickle
import stat
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from dragoman import get_adapter
from dragoman.adapter.errors import ConfigurationError, MissingKeyError
from dragoman.credentials import stored_keys
from dragoman.credentials.contract import ApiKey
from dragoman.credentials.stored_keys import StoredKeys
from dragoman.credentials.target import TargetFinder
from tests.unit.transport.drivers import ADAPTER

SECRET = "canary-key-of-a-user"


@pytest.fixture(autouse=True)
def keys_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The user's configuration folder, without a keyring."""
    monkeypatch.setattr("platformdirs.user_config_path", lambda name: tmp_path / "config" / name)
    monkeypatch.setattr(stored_keys, "find_spec", lambda name: None)
    yield tmp_path / "config" / "dragoman" / "keys.json"
    stored_keys._read_keyring.cache_clear()


def reveal(key: ApiKey | None) -> str | None:
    return None if key is None else key.reveal()


def library_frames(error: BaseException) -> str:
    """The traceback below this test, with the variables of each frame."""
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    frames = [frame for frame in shown.stack if frame.filename != __file__]
    assert frames
    return "".join(f"{frame.name} {frame.locals}" for frame in frames)


def test_a_key_is_stored_replaced_and_removed(keys_file: Path) -> None:
    """In one file; other keys stay."""
    assert StoredKeys().get("plain") is None
    assert not StoredKeys().remove("plain")
    assert not keys_file.exists()
    assert StoredKeys().set("plain", ApiKey("first-key")) == str(keys_file)
    StoredKeys().set("other", ApiKey("another-key"))
    StoredKeys().set("plain", ApiKey(SECRET))
    assert reveal(StoredKeys().get("plain")) == SECRET
    assert StoredKeys().places() == {"other": str(keys_file), "plain": str(keys_file)}
    assert StoredKeys().remove("plain")
    assert StoredKeys().get("plain") is None
    assert SECRET not in keys_file.read_text()
    assert reveal(StoredKeys().get("other")) == "another-key"
    assert sorted(path.name for path in keys_file.parent.iterdir()) == ["keys.json", "keys.lock"]


def test_two_keys_that_are_stored_at_once_are_both_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second change waits until the first one is written: it would overwrite what it has not read."""
    write = stored_keys._write_file
    second = threading.Thread(target=lambda: StoredKeys().set("other", ApiKey("another-key")))

    def write_slowly(path: Path, content: Any) -> str | None:
        monkeypatch.setattr(stored_keys, "_write_file", write)
        second.start()
        second.join(timeout=0.3)
        return write(path, content)

    monkeypatch.setattr(stored_keys, "_write_file", write_slowly)
    StoredKeys().set("plain", ApiKey(SECRET))
    second.join(timeout=60)
    assert set(StoredKeys().places()) == {"other", "plain"}


@pytest.mark.skipif(os.name != "posix", reason="permissions of POSIX")
def test_only_the_user_can_read_the_file(keys_file: Path) -> None:
    """A file that others can read is refused, with the command that changes it."""
    StoredKeys().set("plain", ApiKey(SECRET))
    assert stat.S_IMODE(keys_file.stat().st_mode) == 0o600
    assert stat.S_IMODE(keys_file.parent.stat().st_mode) == 0o700
    for mode in (0o644, 0o640, 0o604, 0o620):
        keys_file.chmod(mode)
        for use in (lambda: StoredKeys().get("plain"), lambda: StoredKeys().set("other", ApiKey("another-key"))):
            with pytest.raises(ConfigurationError, match=r"others can read.*run chmod 600") as refused:
                use()
            assert SECRET not in str(refused.value)
    keys_file.chmod(0o600)
    assert reveal(StoredKeys().get("plain")) == SECRET


def test_the_environment_comes_first_and_the_stored_key_last(monkeypatch: pytest.MonkeyPatch) -> None:
    """An argument precedes both. An environment of the caller's own has no stored keys."""
    for variable in ADAPTER.endpoint.key_variables:
        monkeypatch.delenv(variable, raising=False)
    with pytest.raises(MissingKeyError, match=r"PLAIN_KEY.*api_key=.*dragoman keys set plain"):
        TargetFinder().target(ADAPTER)
    StoredKeys().set("plain", ApiKey(SECRET))
    assert reveal(TargetFinder().target(ADAPTER).key) == SECRET
    with pytest.raises(MissingKeyError):
        TargetFinder(environ={}).target(ADAPTER)
    monkeypatch.setenv("PLAIN_KEY", "of-the-environment")
    assert reveal(TargetFinder().target(ADAPTER).key) == "of-the-environment"
    assert reveal(TargetFinder("given").target(ADAPTER).key) == "given"


def test_a_key_that_is_stored_for_a_sibling_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both names have the same variable and the same key, but a stored key is used for its own name only."""
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    StoredKeys().set("openai", ApiKey(SECRET))
    with pytest.raises(MissingKeyError, match=r"dragoman keys set openai-chat \(one is stored for openai, ") as caught:
        TargetFinder().target(get_adapter("openai-chat:m"))
    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "content",
    [
        b"", b"{", b"[]", b"\xff\xfe", b"null", b'{"format": 1}', b'{"format": 2, "keys": {}, "keyring": []}',
        b'{"format": 1, "keys": {"plain": 7}, "keyring": []}', b'{"format": 1, "keys": ["plain"], "keyring": []}',
        json.dumps({"format": 1, "keys": {"plain": f"{SECRET} {SECRET}"}, "keyring": []}).encode(),
        json.dumps({"format": 1, "keys": {"plain": SECRET}, "keyring": []}).encode()[:-3],
        b"[" * 100_000, b" " * (1 << 21),
    ],
    ids=range(13),
)  # fmt: skip
def test_a_malformed_file_is_refused_without_its_content(keys_file: Path, content: bytes) -> None:
    """Half-written, of another format, or enormous; nothing is overwritten."""
    keys_file.parent.mkdir(parents=True)
    keys_file.write_bytes(content)
    keys_file.chmod(0o600)
    for use in (lambda: StoredKeys().get("plain"), lambda: StoredKeys().set("plain", ApiKey("new-key"))):
        with pytest.raises(ConfigurationError, match="cannot be read: remove it") as refused:
            use()
        assert SECRET not in library_frames(refused.value)
    assert keys_file.read_bytes() == content


def test_what_is_no_file_is_refused(keys_file: Path, tmp_path: Path) -> None:
    """A folder or a pipe is refused in place of the file, and a file in place of the folder."""
    keys_file.mkdir(parents=True)
    with pytest.raises(ConfigurationError, match="is not a file"):
        StoredKeys().get("plain")
    blocked = StoredKeys(tmp_path / "taken" / "keys.json")
    (tmp_path / "taken").write_text("a file")
    assert blocked.get("plain") is None
    with pytest.raises(ConfigurationError, match="cannot be written") as refused:
        blocked.set("plain", ApiKey(SECRET))
    assert SECRET not in library_frames(refused.value)


@pytest.mark.parametrize("bad", ["", " ", "two words", "line\nend", "schlüssel"])
def test_an_impossible_key_is_not_stored(keys_file: Path, bad: str) -> None:
    with pytest.raises(ConfigurationError, match="characters that no key can have"):
        StoredKeys().set("plain", ApiKey(bad))
    assert not keys_file.exists()


def test_a_key_is_never_shown() -> None:
    """A key is never shown, neither in a repr nor in a pickle."""
    StoredKeys().set("plain", ApiKey(SECRET))
    key = StoredKeys().get("plain")
    shown = (key, StoredKeys(), StoredKeys().places(), StoredKeys()._read())
    assert SECRET not in f"{shown!r} {key!s}"
    with pytest.raises(TypeError, match="cannot be pickled"):
        pickle.dumps(key)


class TestKeyring:
    """A scripted keyring: the package is not a dependency."""

    @pytest.fixture(autouse=True)
    def passwords(self, monkeypatch: pytest.MonkeyPatch) -> dict[tuple[str, str], str]:
        kept: dict[tuple[str, str], str] = {}
        module = ModuleType("keyring")
        module.__dict__.update(
            get_keyring=lambda: SimpleNamespace(priority=5),
            get_password=lambda service, name: kept.get((service, name)),
            set_password=lambda service, name, password: kept.update({(service, name): password}),
            delete_password=lambda service, name: kept.pop((service, name)),
        )
        monkeypatch.setitem(__import__("sys").modules, "keyring", module)
        monkeypatch.setattr(stored_keys, "find_spec", lambda name: name)
        return kept

    def test_the_keyring_holds_the_key(self, keys_file: Path, passwords: dict[tuple[str, str], str]) -> None:
        """The file only says that it does."""
        assert StoredKeys().set("plain", ApiKey(SECRET)) == "keyring"
        assert passwords == {("dragoman", "plain"): SECRET}
        assert SECRET not in keys_file.read_text()
        assert reveal(StoredKeys().get("plain")) == SECRET
        assert StoredKeys().get("other") is None
        assert StoredKeys().remove("plain")
        assert passwords == {}
        assert StoredKeys().places() == {}

    def test_a_key_moves_into_the_keyring(self, keys_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """If it is stored again after keyring was installed."""
        with monkeypatch.context() as without:
            without.setattr(stored_keys, "find_spec", lambda name: None)
            StoredKeys().set("plain", ApiKey("first-key"))
        assert StoredKeys().set("plain", ApiKey(SECRET)) == "keyring"
        assert "first-key" not in keys_file.read_text()

    def test_a_missing_keyring_is_named(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """And a key that was removed there by other means."""
        StoredKeys().set("plain", ApiKey(SECRET))
        with monkeypatch.context() as without:
            without.setattr(stored_keys, "find_spec", lambda name: None)
            with pytest.raises(ConfigurationError, match="keyring, which is not available here"):
                StoredKeys().get("plain")

    def test_a_failing_keyring_shows_no_key(
        self, passwords: dict[tuple[str, str], str], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        StoredKeys().set("plain", ApiKey(SECRET))
        passwords.clear()
        with pytest.raises(ConfigurationError, match="no longer has the API key"):
            StoredKeys().get("plain")

        def fail(*given: str) -> None:
            raise RuntimeError(f"locked: {given}")

        for name in ("get_password", "set_password", "delete_password"):
            monkeypatch.setattr(f"keyring.{name}", fail)
        keys = StoredKeys()
        for use in (lambda: keys.get("plain"), lambda: keys.set("other", ApiKey(SECRET)), lambda: keys.remove("plain")):
            with pytest.raises(ConfigurationError, match=r"^the keyring failed: RuntimeError$"):
                use()

    def test_a_keyring_without_a_backend_is_none(self, keys_file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """The file is used."""
        monkeypatch.setattr("keyring.get_keyring", lambda: SimpleNamespace(priority=0))
        assert StoredKeys().set("plain", ApiKey(SECRET)) == str(keys_file)
