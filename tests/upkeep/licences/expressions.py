"""The license of a package as an SPDX expression, and whether it is allowed."""

import re
from collections.abc import Collection, Mapping

from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

from tests.upkeep.licences.requirements import Package

_CLASSIFIER = "License :: OSI Approved :: "
_TOKEN = re.compile(r"[()]|[^\s()]+")


def license_of(package: Package, names: Mapping[str, str], read: Mapping[str, str]) -> str | None:
    """Return the expression that the package states, or None. ``read`` has what people read in its license file."""
    if package.name in read:
        return read[package.name]
    metadata = package.installed.metadata
    classifiers = [line.removeprefix(_CLASSIFIER) for line in metadata.get_all("Classifier") or ()]
    stated = [metadata.get("License-Expression"), metadata.get("License"), *classifiers]
    for text in filter(None, stated):
        try:
            return str(canonicalize_license_expression(names.get(text, text)))
        except InvalidLicenseExpression:
            continue
    return None


def is_allowed(expression: str, allowed: Collection[str]) -> bool:
    """Whether a program may use it: one side of each OR, and both of each AND. ``a WITH b`` needs its own entry."""
    tokens = _TOKEN.findall(expression)
    verdict = _either(tokens, allowed)
    if tokens:
        raise ValueError(f"{expression} is not an SPDX expression")
    return verdict


def _either(tokens: list[str], allowed: Collection[str]) -> bool:
    verdict = _both(tokens, allowed)
    while tokens and tokens[0] == "OR":
        tokens.pop(0)
        verdict = _both(tokens, allowed) or verdict
    return verdict


def _both(tokens: list[str], allowed: Collection[str]) -> bool:
    verdict = _one(tokens, allowed)
    while tokens and tokens[0] == "AND":
        tokens.pop(0)
        verdict = _one(tokens, allowed) and verdict
    return verdict


def _one(tokens: list[str], allowed: Collection[str]) -> bool:
    name = tokens.pop(0)
    if name == "(":
        verdict = _either(tokens, allowed)
        tokens.pop(0)
        return verdict
    if tokens and tokens[0] == "WITH":
        name = f"{name} WITH {tokens[1]}"
        del tokens[:2]
    return name in allowed
