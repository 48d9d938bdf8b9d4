"""The API keys that this process used last, so that no error repeats one.

A provider may repeat a key in its reply: in an error, in a stream that began well, in a header. Its form alone does not
always show that it is a key.
"""

from dragoman.canonical.forks import ProcessLock

MIN_SECRET_LENGTH = 8
"""The minimum length in characters of a key that counts as a secret. Keys of local servers are often made-up words."""
_MAX_KEYS = 1024
"""The most keys that are kept, because each message is searched for all of them. A program for many tenants has many
keys."""

_keys: dict[str, None] = {}
_lock = ProcessLock()


def remember_key(key: str) -> None:
    """Mask this key in all later errors."""
    if len(key) < MIN_SECRET_LENGTH:
        return
    with _lock:
        _keys.pop(key, None)
        _keys[key] = None
        if len(_keys) > _MAX_KEYS:
            del _keys[next(iter(_keys))]


def mask_known_keys(text: str) -> str:
    """Return the text without the keys."""
    for key in tuple(_keys):
        text = text.replace(key, "***")
    return text
