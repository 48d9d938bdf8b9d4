"""Searches data for secrets before it is written: by shape, by field name, and by known values.

A finding has the kind and the place of a secret, never a part of it. The shapes and names are in ``secrets.toml``.
"""

import logging
import os
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Any
from urllib.parse import parse_qsl, unquote_plus

from dragoman.adapter import wirejson
from dragoman.adapter.errors import ConfigurationError, MalformedReplyError

MASK = "***"
_MAX_FINDINGS_SHOWN = 8
_MAX_NESTING = 4
_MIN_KNOWN_LENGTH = 8
_MIN_SUBSTRING_LENGTH = 16
"""A known value up to this length must match a whole text: it may be a common word."""
_CREDENTIAL_HEADERS = frozenset(
    {"authorization", "proxy-authorization", "x-api-key", "api-key", "x-goog-api-key", "x-amz-security-token", "cookie"}
)
_SECRET_VARIABLE = re.compile(r"(?i)(?:key|token|secret|password|credentials?)$")


@dataclass(frozen=True, slots=True)
class SecretFinding:
    """``what`` is the shape or the name, ``where`` a path such as ``request $.messages[0].content``."""

    what: str
    where: str

    def __str__(self) -> str:
        return f"{self.where}: {self.what}"


class SecretFoundError(ConfigurationError):
    """A recording would hold a secret. Nothing was written. ``findings`` have the kind and place of each secret, never
    its text."""

    def __init__(self, findings: Iterable[SecretFinding]) -> None:
        self.findings = tuple(findings)
        lines = [str(finding) for finding in self.findings[:_MAX_FINDINGS_SHOWN]]
        more = len(self.findings) - len(lines)
        super().__init__(
            "the cassette is not written, because it would hold what looks like a secret:\n  "
            + "\n  ".join(lines)
            + (f"\n  and {more} more" if more else "")
            + "\nRemove it from the request, or record with a key that is no longer valid."
        )


@dataclass(frozen=True, slots=True)
class _Rules:
    shapes: re.Pattern[str]
    names_of_shapes: dict[str, str]
    secret: re.Pattern[str]
    doubtful: re.Pattern[str]
    min_length: int
    min_doubtful_length: int
    placeholder: re.Pattern[str]
    max_digits: int


@cache
def _rules() -> _Rules:
    table = tomllib.loads(files("dragoman.testing.cassettes").joinpath("secrets.toml").read_text(encoding="utf-8"))
    named = {f"s{number}": (name, shape) for number, (name, shape) in enumerate(table["shapes"].items())}
    any_shape = "|".join(f"(?P<{group}>{shape})" for group, (_, shape) in named.items())
    names, placeholders = table["names"], table["placeholders"]
    return _Rules(
        shapes=re.compile(rf"(?a)(?<![A-Za-z0-9])(?:{any_shape})"),
        names_of_shapes={group: name for group, (name, _) in named.items()},
        secret=re.compile(names["secret"]),
        doubtful=re.compile(names["doubtful"]),
        min_length=names["least"],
        min_doubtful_length=names["least_doubtful"],
        placeholder=re.compile(placeholders["words"]),
        max_digits=placeholders["digits"],
    )


class Scanner:
    """Scans with the rules and for ``known`` values: keys that were in use during the recording."""

    def __init__(self, known: Iterable[str] = ()) -> None:
        self._known = frozenset(value for value in known if len(value) >= _MIN_KNOWN_LENGTH)

    def __repr__(self) -> str:
        return f"Scanner({len(self._known)} known values)"

    def with_known(self, values: Iterable[str]) -> "Scanner":
        """Return a scanner with more known values."""
        return Scanner(self._known.union(values))

    def scan_text(self, text: str, where: str) -> list[SecretFinding]:
        """Scan a text as it is, percent-decoded, and as JSON if it is JSON."""
        found = [SecretFinding(what, where) for what in self._find_in_text(text)]
        if "%" in text and (plain := unquote_plus(text)) != text:
            found += [SecretFinding(what, where) for what in self._find_in_text(plain)]
        return list(dict.fromkeys(found))

    def scan_json(self, value: Any, where: str, depth: int = 0) -> list[SecretFinding]:
        """Scan the texts, names and named values of a JSON value."""
        if isinstance(value, str):
            found = self.scan_text(value, where)
            # A text may be JSON itself, such as a tool's arguments.
            if depth < _MAX_NESTING and value.lstrip()[:1] in ("{", "["):
                with suppress(MalformedReplyError):
                    found += self.scan_json(wirejson.loads(value), where, depth + 1)
            return found
        if isinstance(value, list):
            return [each for n, item in enumerate(value) for each in self.scan_json(item, f"{where}[{n}]", depth)]
        if not isinstance(value, Mapping):
            return []
        found = []
        for key, item in value.items():
            masked_key = self.mask(key) if len(key) >= _MIN_KNOWN_LENGTH else key
            path = f"{where}.{masked_key}" if masked_key == key else f"{where}.({MASK})"
            if masked_key != key:
                found += [SecretFinding(what, f"{where} (a name)") for what in self._find_in_text(key)]
            if isinstance(item, str) and self.is_secret(key, item):
                found.append(SecretFinding(f"the value of {masked_key!r:.40}", path))
            found += self.scan_json(item, path, depth)
        return found

    def scan_query(self, target: str, where: str) -> list[SecretFinding]:
        """Scan a path with its query."""
        found = self.scan_text(target, where)
        for name, value in parse_qsl(target.partition("?")[2], keep_blank_values=True):
            if self.is_secret(name, value):
                found.append(SecretFinding(f"the value of {self.mask(name)!r:.40}", where))
        return list(dict.fromkeys(found))

    def is_secret(self, name: str, value: str) -> bool:
        """Return whether a field of that name with that value is a secret."""
        rules = _rules()
        if value in self._known:
            return True
        if is_placeholder(value):
            return False
        if rules.secret.fullmatch(name):
            return len(value) >= rules.min_length and not any(map(str.isspace, value.strip()))
        if rules.doubtful.fullmatch(name):
            digits = sum(map(str.isdigit, value))
            return len(value) >= rules.min_doubtful_length and 2 < digits < len(value) and value.isalnum()
        return False

    def places(self, text: str) -> Iterator[tuple[int, int]]:
        """Yield the start and the end of every secret that a text contains literally."""
        for found in _rules().shapes.finditer(text):
            if not is_placeholder(found[0]):
                yield found.span()
        for value in self._known:
            if value in text:
                yield from (found.span() for found in _known_value_pattern(value, text).finditer(text))

    def mask(self, text: str) -> str:
        """Return the text with every secret masked that it contains literally."""
        for value in self._known:
            text = _known_value_pattern(value, text).sub(MASK, text) if value in text else text
        return _rules().shapes.sub(lambda found: found[0] if is_placeholder(found[0]) else MASK, text)

    def scrub(self, value: Any) -> Any:
        """Return a JSON value with everything masked that `scan_json` finds."""
        if isinstance(value, str):
            return self.mask(value)
        if isinstance(value, list):
            return [self.scrub(each) for each in value]
        if isinstance(value, Mapping):
            return {
                self.mask(key): MASK if isinstance(each, str) and self.is_secret(key, each) else self.scrub(each)
                for key, each in value.items()
            }
        return value

    def _find_in_text(self, text: str) -> Iterator[str]:
        rules = _rules()
        for found in rules.shapes.finditer(text):
            if not is_placeholder(found[0]):
                yield f"looks like a secret ({rules.names_of_shapes[found.lastgroup or '']})"
        if any(value in text and _known_value_pattern(value, text).search(text) for value in self._known):
            yield "a key that was in use"


def _known_value_pattern(value: str, text: str) -> re.Pattern[str]:
    ends = "" if len(value) >= _MIN_SUBSTRING_LENGTH else r"\b"
    return re.compile(ends + re.escape(value) + ends)


def is_placeholder(value: str) -> bool:
    """Return whether a value is a placeholder, such as ``sk-MASKED``."""
    rules = _rules()
    return bool(rules.placeholder.search(value)) and sum(map(str.isdigit, value)) <= rules.max_digits


def credentials_of(headers: Mapping[str, str]) -> set[str]:
    """Return the keys and cookies of a request's headers."""
    return {
        part
        for name, value in headers.items()
        if name.lower() in _CREDENTIAL_HEADERS
        for part in value.split()
        if part.lower() not in ("bearer", "basic")
    }


def known_values(environ: Mapping[str, str] = os.environ) -> frozenset[str]:
    """Return the values of environment variables whose names denote secrets."""
    return frozenset(
        value
        for name, value in environ.items()
        if _SECRET_VARIABLE.search(name) and len(value) >= _MIN_SUBSTRING_LENGTH and not is_placeholder(value)
    )


@contextmanager
def mask_logs(scanner: Callable[[], Scanner]) -> Iterator[None]:
    """Mask secrets in all log records of this process.

    Recorders and HTTP libraries log URLs, headers and bodies.
    """
    original_factory = logging.getLogRecordFactory()

    def make_record(*args: Any, **kwargs: Any) -> logging.LogRecord:
        log_record = original_factory(*args, **kwargs)
        try:
            text = log_record.getMessage()
        except Exception:  # a record with wrong arguments is left to the logging module
            return log_record
        if (masked_text := scanner().mask(text)) != text:
            log_record.msg, log_record.args = masked_text, None
        return log_record

    logging.setLogRecordFactory(make_record)
    try:
        yield
    finally:
        logging.setLogRecordFactory(original_factory)
