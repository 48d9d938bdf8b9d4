"""Finders: detect secrets and personal data in a text.

A finder is any function from a text to findings. The finders here use libraries that the extra ``redaction``
installs. They work offline, and none downloads a model.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple

from dragoman.adapter.errors import ConfigurationError, MissingExtraError

MAX_SECRET_LENGTH = 8_192
"""Characters: enough for private keys (RSA with 4,096 bits has 3,272) and for long tokens."""
MAX_PERSONAL_DATA_LENGTH = 320
"""Characters: the maximum length of an e-mail address."""

PERSONAL_KINDS = ("email", "phone", "ssn", "credit_card", "ip_address")
"""The default kinds of `personal_data`. The library also knows date and zip_code, which match many harmless numbers."""


Find = Callable[[str], Iterable["Finding"]]


class Finding(NamedTuple):
    """A span of a text, in characters. ``kind`` is a word such as email."""

    start: int
    """The index of the first character."""
    end: int
    """The index after the last character."""
    kind: str


@dataclass(frozen=True, slots=True)
class Finder:
    """A function that finds spans of a text. ``max_length`` is the maximum length of a finding in characters, which is
    how much of a stream must be held back.
    """

    find: Find
    """The function that yields the findings of a text."""
    max_length: int | None = None

    def __call__(self, text: str) -> Iterable[Finding]:
        return self.find(text)


def findings(text: str, finders: Iterable[Find]) -> list[Finding]:
    """Return what all finders find, in order. Overlapping findings become one, with the kind of the longest."""
    joined: list[Finding] = []
    longest_length = 0
    for found in sorted({Finding(*found) for finder in finders for found in finder(text)}):
        if not 0 <= found.start < found.end <= len(text):
            continue
        length = found.end - found.start
        if joined and found.start < joined[-1].end:
            last = joined.pop()
            kind = found.kind if length > longest_length else last.kind
            joined.append(Finding(last.start, max(last.end, found.end), kind))
            longest_length = max(length, longest_length)
        else:
            joined.append(found)
            longest_length = length
    return joined


def secrets(confidence: Literal["low", "medium", "high"] = "medium") -> Finder:
    """Find keys, tokens, private keys and passwords in URLs; the kind is the rule's name, such as github-pat.

    The rules are those of MongoDB's Kingfisher, which runs in this process in linear time. It compiles them once per
    machine, in a few seconds, and stores them in the user's cache folder. Raises MissingExtraError.
    """
    scanner = _scanner(confidence)

    def find(text: str) -> Iterator[Finding]:
        data = text.encode()
        is_ascii = len(text) == len(data)

        def offset(position: int) -> int:
            """Return the number of characters in that many bytes."""
            return position if is_ascii else len(data[:position].decode(errors="ignore"))

        for found in scanner.scan(data):
            start, end = found.location["start_offset"], found.location["end_offset"]
            if data[start:end] != found.secret.encode():
                raise ValueError("the scanner found a secret but not its place")  # it must not pass for that
            yield Finding(offset(start), offset(end), found.rule_id.rpartition(".")[2])
        for match in _URL_PASSWORD.finditer(text):
            yield Finding(*match.span(1), "password")

    return Finder(find, MAX_SECRET_LENGTH)


_URL_PASSWORD = re.compile(r"(?<=://)[^\s/:@]{0,256}:([^\s/@]{1,256})@")
"""Bounded, so that it takes linear time."""


@cache
def _scanner(confidence: Any) -> Any:
    kingfisher = _import_library("kingfisher_sdk", "kingfisher-secret-scanner")
    return kingfisher.Scanner(kingfisher.Rules(confidence=confidence), base64=False)


def personal_data(kinds: Iterable[str] = PERSONAL_KINDS, *, locales: Iterable[str] = ()) -> Finder:
    """Find e-mail addresses, phone numbers, card numbers and the like, with DataFog's patterns.

    ``locales`` adds the numbers of a country, such as ``de`` for its IBAN, tax and passport numbers. Plain digits, as
    in times and counts, are not a phone number or an SSN; a card number must have a valid check digit. Raises
    MissingExtraError, and ConfigurationError for an unknown kind.
    """
    datafog = _import_library("datafog", "datafog")
    selected, countries = {kind.lower() for kind in kinds}, list(locales)
    if unsupported := selected - {name.lower() for name in datafog.get_supported_entities()}:
        raise ConfigurationError(f"{min(unsupported)!r:.80} is not a kind of personal data that DataFog can find")
    prefixes = tuple(f"{country.lower()}_" for country in countries)

    def find(text: str) -> Iterator[Finding]:
        for found in datafog.scan(text, locales=countries or None).entities:
            kind = found.type.lower()
            if (kind in selected or kind.startswith(prefixes)) and _is_plausible(kind, found.text):
                yield Finding(found.start, found.end, kind)

    return Finder(find, MAX_PERSONAL_DATA_LENGTH)


def _is_plausible(kind: str, value: str) -> bool:
    if kind == "credit_card":
        # The check digit of a card number must be valid (ISO/IEC 7812).
        digits = [int(character) for character in value if character.isdecimal()]
        doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
        return (sum(digits[::-2]) + sum(doubled)) % 10 == 0
    return not (kind in ("phone", "ssn") and value.isdigit())


def presidio(
    analyzer: Any,
    *,
    language: str = "en",
    entities: Iterable[str] | None = None,
    max_length: int | None = None,
    **options: Any,
) -> Finder:
    """Find with the program's own Presidio ``AnalyzerEngine``: also names of people, if it has a model for them.

    ``options`` go to its ``analyze``, such as ``score_threshold``. The program must give it an installed model: by
    default it downloads one.
    """
    selected = None if entities is None else list(entities)

    def find(text: str) -> Iterator[Finding]:
        for found in analyzer.analyze(text=text, language=language, entities=selected, **options):
            yield Finding(found.start, found.end, found.entity_type.lower())

    return Finder(find, max_length)


def _import_library(name: str, package: str) -> Any:
    try:
        return import_module(name)
    except ModuleNotFoundError:
        raise MissingExtraError(f"this needs {package}: pip install 'dragoman[redaction]'") from None
