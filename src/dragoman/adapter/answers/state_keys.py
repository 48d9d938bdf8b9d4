"""Keys that seal state of providers, and a store of state in memory (docs/answers.md#state).

`StateKeys` needs the package ``cryptography``, which the extra ``sealed`` installs.
"""

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Mapping

from dragoman.adapter.errors import ConfigurationError, MissingExtraError

KEY_BYTES = 64
"""The length of a key: AES-256-SIV has one for the encryption and one for the authentication."""

_FORMAT = 1
_MAX_KEY_ID = 255


class StateKeys:
    """Seals state with the first key, and opens what any of the keys sealed. Implements `StateSealer`.

    ``keys`` are 64 random bytes each, by an id of at most 255 bytes. To rotate, put a new key first and keep the old
    one until no conversation has its envelopes. All processes need the same keys.

    Sealing is deterministic (AES-SIV, RFC 5297): the same state, binding and key give the same bytes in every process.
    The key's id is authenticated, and readable.

    Raises ConfigurationError for a key of another length, and MissingExtraError without ``cryptography``.
    """

    def __init__(self, keys: Mapping[str, bytes]) -> None:
        if not keys:
            raise ConfigurationError("state needs at least one key: 64 random bytes, such as os.urandom(64)")
        try:
            from cryptography.hazmat.primitives.ciphers.aead import AESSIV
        except ImportError:
            message = "sealed state needs the package cryptography: pip install 'dragoman[sealed]'"
            raise MissingExtraError(message) from None
        self._ciphers: dict[bytes, AESSIV] = {}
        for name, key in keys.items():
            key_id = name.encode()
            if not 0 < len(key_id) <= _MAX_KEY_ID or len(key) != KEY_BYTES:
                raise ConfigurationError(
                    f"the key {name[:40]!r} has {len(key)} bytes: a key has {KEY_BYTES}, and an id of 1 to"
                    f" {_MAX_KEY_ID} bytes"
                )
            self._ciphers[key_id] = AESSIV(key)
        self._current = next(iter(self._ciphers))

    def __repr__(self) -> str:
        return f"StateKeys({', '.join(key_id.decode() for key_id in self._ciphers)})"

    def seal(self, state: bytes, binding: bytes) -> bytes:
        """Encrypt state. The binding is authenticated with it, and not part of the result."""
        head = bytes((_FORMAT, len(self._current))) + self._current
        return head + self._ciphers[self._current].encrypt(state, [head, binding])

    def open(self, sealed: bytes, binding: bytes) -> bytes:
        """Decrypt state. Raises ValueError if no key of ours sealed it, or if it was sealed for another binding."""
        from cryptography.exceptions import InvalidTag

        if len(sealed) < 2 or sealed[0] != _FORMAT:
            raise ValueError("it has a format that this version does not know")
        end = 2 + sealed[1]
        cipher = self._ciphers.get(sealed[2:end])
        if cipher is None:
            raise ValueError("it was sealed with a key that is not here")
        try:
            return cipher.decrypt(sealed[end:], [sealed[:end], binding])
        except InvalidTag:
            raise ValueError("it was changed, or it was sealed for another team or another conversation") from None


class StateMemory:
    """State by tool call in the memory of this process. Implements `StateStore`; safe across threads.

    ``seconds`` is how long an entry is kept after it was last read, and ``max_entries`` how many at most: the one that
    was not read for the longest time leaves first.
    """

    def __init__(
        self, *, seconds: float = 86_400.0, max_entries: int = 10_000, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._seconds = seconds
        self._max_entries = max_entries
        self._clock = clock
        self._entries: OrderedDict[str, tuple[float, bytes]] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._entries)

    def put(self, key: str, state: bytes) -> None:
        """Keep the state of a call, in place of what was kept before. It may drop the entry that was not read for
        longest."""
        with self._lock:
            self._entries[key] = (self._clock() + self._seconds, state)
            self._entries.move_to_end(key)
            while len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)

    def get(self, key: str) -> bytes | None:
        """Return the state of a call and start its time anew, or None if it is gone."""
        now = self._clock()
        with self._lock:
            until, state = self._entries.get(key, (now, b""))
            if until <= now:
                self._entries.pop(key, None)
                return None
            self._entries[key] = (now + self._seconds, state)
            self._entries.move_to_end(key)
            return state
