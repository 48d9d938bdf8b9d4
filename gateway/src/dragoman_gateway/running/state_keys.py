"""The keys that seal state of a provider for its way through clients of another wire."""

import base64
import binascii
import os
from functools import cache

from dragoman import ConfigurationError
from dragoman.answers import StateKeys

VARIABLE = "DRAGOMAN_GATEWAY_STATE_KEYS"
"""Keys as ``name:base64``, separated by commas; the first one seals, and all of them open."""
_KEY_BYTES = 64


@cache
def state_keys() -> StateKeys:
    """Return the keys of the environment, or new ones that hold until the process ends."""
    return read_state_keys(os.environ.get(VARIABLE, "") or new_state_key())


def new_state_key() -> str:
    """Return a new key in the form of the environment variable."""
    return f"{os.urandom(4).hex()}:{base64.b64encode(os.urandom(_KEY_BYTES)).decode()}"


def read_state_keys(text: str) -> StateKeys:
    """Return the keys of a text. Raises ConfigurationError, whose message shows no part of it."""
    keys = {}
    for each in text.split(","):
        name, _, encoded = each.strip().partition(":")
        try:
            keys[name] = base64.b64decode(encoded, validate=True)
        except binascii.Error:
            raise ConfigurationError(f"{VARIABLE} has a key that is not base64: write name:base64") from None
    return StateKeys(keys)
