"""An API key in memory, which is never shown."""

import re
from typing import NoReturn

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.known_keys import MIN_SECRET_LENGTH, remember_key

UNUSABLE_KEY = "is empty or holds characters that no key can have (blanks, line ends, non-ASCII)"
"""What is wrong with a key that is not usable."""
_PRINTABLE = re.compile(r"[\x21-\x7e]+")


class ApiKey:
    """A key that is not shown in a repr, a log line or a pickle."""

    __slots__ = ("_value",)

    def __init__(self, value: str) -> None:
        self._value = value.strip()
        remember_key(self._value)

    @classmethod
    def wrap(cls, key: "str | ApiKey") -> "ApiKey":
        """Return the key, wrapped if it is a text."""
        return key if isinstance(key, ApiKey) else cls(key)

    @property
    def is_usable(self) -> bool:
        """Whether it has only characters that a key can have."""
        return _PRINTABLE.fullmatch(self._value) is not None

    def reveal(self) -> str:
        """Return the key as text. Only code that writes a request should need it."""
        return self._value

    def mask(self, text: str) -> str:
        """Return the text without the key. Short keys stay, because keys of local servers are often made-up words."""
        return text if len(self._value) < MIN_SECRET_LENGTH else text.replace(self._value, "***")

    def __repr__(self) -> str:
        return "ApiKey(***)"

    def __reduce__(self) -> NoReturn:
        raise TypeError("an API key cannot be pickled: pass it again")


def validate_key(key: ApiKey, source: str) -> ApiKey:
    """Return the key. Raises ConfigurationError, which names its source, if no key can look like that."""
    if not key.is_usable:
        raise ConfigurationError(f"{source} {UNUSABLE_KEY}")
    return key
