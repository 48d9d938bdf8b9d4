"""Keys seal state, open what they sealed, and rotate. The store forgets by age and by number."""

import threading

import pytest

from dragoman.adapter.answers.state_keys import KEY_BYTES, StateKeys, StateMemory
from dragoman.errors import ConfigurationError

KEY, OTHER = bytes(range(KEY_BYTES)), bytes(range(1, KEY_BYTES + 1))


def test_state_opens_with_its_binding_only() -> None:
    """The binding is the team and the conversation."""
    keys = StateKeys({"a": KEY})
    sealed = keys.seal(b"secret state", b"team 1")
    assert b"secret" not in sealed
    assert keys.open(sealed, b"team 1") == b"secret state"
    with pytest.raises(ValueError, match="another team or another conversation"):
        keys.open(sealed, b"team 2")


def test_the_same_state_is_sealed_to_the_same_bytes() -> None:
    """Two replicas with one key write the same reply."""
    assert StateKeys({"a": KEY}).seal(b"state", b"x") == StateKeys({"a": KEY}).seal(b"state", b"x")


def test_a_new_key_seals_and_the_old_one_still_opens() -> None:
    """Rotation: the new key comes first; without the old key its state is lost."""
    old = StateKeys({"2026-10": KEY}).seal(b"state", b"")
    both = StateKeys({"2026-11": OTHER, "2026-10": KEY})
    assert both.open(old, b"") == b"state"
    assert both.seal(b"state", b"") == StateKeys({"2026-11": OTHER}).seal(b"state", b"")
    with pytest.raises(ValueError, match="a key that is not here"):
        StateKeys({"2026-11": OTHER}).open(old, b"")


def test_another_key_of_the_same_name_opens_nothing() -> None:
    sealed = StateKeys({"a": OTHER}).seal(b"state", b"")
    with pytest.raises(ValueError, match="it was changed"):
        StateKeys({"a": KEY}).open(sealed, b"")


@pytest.mark.parametrize("sealed", [b"", b"\x01", b"\x02\x01a", b"\x01\xffa", b"\x01\x01a", b"\x01\x01a" + b"x" * 8])
def test_what_is_no_envelope_is_refused(sealed: bytes) -> None:
    """Nothing but ValueError, whatever the bytes are."""
    with pytest.raises(ValueError, match="it "):
        StateKeys({"a": KEY}).open(sealed, b"")


@pytest.mark.parametrize("keys", [{}, {"a": b"short"}, {"": KEY}, {"x" * 256: KEY}])
def test_unusable_keys_are_refused(keys: dict[str, bytes]) -> None:
    """The message says how long a key is, and does not show it."""
    with pytest.raises(ConfigurationError, match="key") as raised:
        StateKeys(keys)
    assert "short" not in str(raised.value)


def test_the_repr_shows_no_key() -> None:
    assert repr(StateKeys({"2026-11": KEY})) == "StateKeys(2026-11)"


def test_the_memory_forgets_by_age_and_number() -> None:
    """Reading an entry keeps it."""
    now = [0.0]
    memory = StateMemory(seconds=10, max_entries=2, clock=lambda: now[0])
    memory.put("a", b"1")
    memory.put("b", b"2")
    assert memory.get("a") == b"1"
    memory.put("c", b"3")
    assert memory.get("b") is None
    now[0] = 9.0
    assert memory.get("a") == b"1"
    now[0] = 18.0
    assert memory.get("a") == b"1"
    assert memory.get("c") is None
    now[0] = 28.0
    assert memory.get("a") is None
    assert len(memory) == 0


def test_threads_may_share_the_memory() -> None:
    memory = StateMemory(max_entries=50)

    def work(number: int) -> None:
        for turn in range(200):
            memory.put(f"{number}/{turn % 20}", b"x")
            memory.get(f"{number}/{(turn + 7) % 20}")

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(memory) <= 50
