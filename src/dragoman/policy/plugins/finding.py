"""Finding what must not pass on: secrets and personal data in a text.

A finder is any function from a text to findings. Those here stand on libraries of others, which the extra ``redaction``
installs; they work offline, and none downloads a model.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from typing import Any, Literal, NamedTuple

from dragoman.adapter.errors import ConfigurationError, MissingExtraError

MAX_SECRET_LENGTH = 8_192
"""Characters: room for private keys (one of RSA with 4,096 bits has 3,272) and for long tokens."""
MAX_PERSONAL_DATA_LENGTH = 320
"""Characters: the longest address of an e-mail that there can be."""

PERSONAL_KINDS = ("email", "phone", "ssn", "credit_card", "ip_address")
"""What `personal_data` looks for by itself. The library knows date and zip_code too, as which harmless numbers pass."""


Find = Callable[[str], Iterable["Finding"]]


class Finding(NamedTuple):
    """A place in a text, in characters; ``kind`` says of what, in a word such as email."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class Finder:
    """``longest`` is how many characters a finding has at most, which is how much of a stream has to be held back."""

    find: Find
    max_length: int | None = None

    def __call__(self, text: str) -> Iterable[Finding]:
        return self.find(text)


def findings(text: str, finders: Iterable[Find]) -> list[Finding]:
    """What all of them find, in order. Where findings overlap they count as one, of the kind of the longest."""
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
    """Keys, tokens, private keys and passwords in URLs; the kind is the rule's name, such as github-pat.

    The rules are those of MongoDB's Kingfisher, which runs in this process in linear time. It compiles them once for a
    machine, in some seconds, and then keeps them in the user's cache folder. Raises MissingExtraError.
    """
    scanner = _scanner(confidence)

    def find(text: str) -> Iterator[Finding]:
        data = text.encode()
        offset = _character_offsets(text, data)
        for found in scanner.scan(data):
            start, end = found.location["start_offset"], found.location["end_offset"]
            if data[start:end] != found.secret.encode():
                raise ValueError("a secret was found, and not where it is")  # it must not pass for that
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


def _character_offsets(text: str, data: bytes) -> Callable[[int], int]:
    """From a place in bytes to one in characters."""
    if len(text) == len(data):
        return lambda position: position
    return lambda position: len(data[:position].decode(errors="ignore"))


def personal_data(kinds: Iterable[str] = PERSONAL_KINDS, *, locales: Iterable[str] = ()) -> Finder:
    """E-mail addresses, phone numbers, cards and the like, as DataFog's patterns know them.

    ``locales`` adds the numbers of a country, such as ``de`` for its IBAN, tax and passport numbers. Digits alone, as
    in times and counts, are no phone number and no SSN; a card has the check digit of one. Raises MissingExtraError,
    and ConfigurationError on a kind that is none.
    """
    datafog = _import_library("datafog", "datafog")
    selected, countries = {kind.lower() for kind in kinds}, list(locales)
    if wrong := selected - {name.lower() for name in datafog.get_supported_entities()}:
        raise ConfigurationError(f"{min(wrong)!r:.80} is no kind of personal data that can be found")
    prefixes = tuple(f"{country.lower()}_" for country in countries)

    def find(text: str) -> Iterator[Finding]:
        for found in datafog.scan(text, locales=countries or None).entities:
            kind = found.type.lower()
            if (kind in selected or kind.startswith(prefixes)) and _is_plausible(kind, found.text):
                yield Finding(found.start, found.end, kind)

    return Finder(find, MAX_PERSONAL_DATA_LENGTH)


def _is_plausible(kind: str, value: str) -> bool:
    if kind == "credit_card":
        return _has_valid_luhn(value)
    return not (kind in ("phone", "ssn") and value.isdigit())


def _has_valid_luhn(value: str) -> bool:
    """Whether the last digit of a card's number follows from the others (ISO/IEC 7812)."""
    digits = [int(character) for character in value if character.isdecimal()]
    doubled = [sum(divmod(2 * digit, 10)) for digit in digits[-2::-2]]
    return (sum(digits[::-2]) + sum(doubled)) % 10 == 0


def presidio(
    analyzer: Any,
    *,
    language: str = "en",
    entities: Iterable[str] | None = None,
    max_length: int | None = None,
    **options: Any,
) -> Finder:
    """What a Presidio ``AnalyzerEngine`` of the program's own finds: people's names too, if it has a model for them.

    ``more`` goes to its ``analyze``, such as ``score_threshold``. The program gives it models that are there: by itself
    it downloads one.
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
