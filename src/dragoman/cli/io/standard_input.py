"""The standard input of a command. A program without one has None, and some never end."""

import sys

from dragoman.adapter.errors import ConfigurationError

MAX_BYTES = 20 * 1024 * 1024
"""Bytes that are read, of a file too."""


def is_terminal() -> bool:
    """Whether nothing is piped into the command."""
    return sys.stdin is None or sys.stdin.isatty()


def read_all() -> bytes:
    """Return the whole input, whatever its encoding. Raises ConfigurationError if it is too long."""
    content = b"" if sys.stdin is None else sys.stdin.buffer.read(MAX_BYTES + 1)
    if len(content) > MAX_BYTES:
        raise ConfigurationError(f"the standard input is larger than {MAX_BYTES:,} bytes")
    return content


def read_line() -> str:
    """Return the next line. Raises EOFError at the end, and ConfigurationError if it is too long or not in UTF-8."""
    line = b"" if sys.stdin is None else sys.stdin.buffer.readline(MAX_BYTES + 1)
    if not line:
        raise EOFError
    if len(line) > MAX_BYTES:
        raise ConfigurationError(f"a line of the standard input is longer than {MAX_BYTES:,} bytes")
    return decode(line)


def decode(content: bytes) -> str:
    """Return the text. Raises ConfigurationError if it is not in UTF-8."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ConfigurationError(
            "the standard input is not text in UTF-8: convert it, or attach it with -a - if it is an image or the like"
        ) from None
