"""Hints for names that a caller has misspelt or knows from another library."""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from dragoman.adapter.errors import ConfigurationError

_SIMILAR = 0.7
"""How similar a name has to be: below, it is another word, such as max_rounds for max_tokens."""


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: ours for one of another library, the most similar name, or all known names."""
    from dragoman.adapter.foreign_names import renamed

    names = list(known)
    ours = renamed(name)
    found = [ours] if ours in names else difflib.get_close_matches(name, names, n=1, cutoff=_SIMILAR)
    return f"; did you mean {found[0]!r}?" if found else f"; known are {', '.join(names)}"


def foreign_value(name: str, value: Any, known: Collection[str] = ()) -> str:
    """Return a hint that says what to write, if the value of an argument of ours is as another library takes it; else
    an empty text."""
    from dragoman.adapter.foreign_names import say_modules, write_instead

    written = write_instead(name, value, known or (name,))
    return f"; write {written}{say_modules(written)}" if written and written != f"{name}=..." else ""


def foreign_attribute(name: str) -> str:
    """Return a hint for an attribute that the replies of another library have, or an empty text."""
    if name.startswith("_"):  # looked up by Python itself
        return ""
    from dragoman.adapter.foreign_names import attribute_instead

    written = attribute_instead(name)
    return f"; write {written}" if written else ""


def check_names(
    arguments: Mapping[str, Any], known: Collection[str], kind: str, *, provider: str | None = None
) -> None:
    """Raise ConfigurationError if an argument is unknown. It says what to write for a name of another library, and for
    one of ours that belongs elsewhere; otherwise it has the nearest name. ``provider`` is that of the call's model."""
    unknown = [name for name in arguments if name not in known]
    if not unknown:
        return
    from dragoman.adapter.foreign_names import say_modules, write_instead

    model = {} if provider is None else {"provider": provider}
    written = {name: write_instead(name, arguments[name], known, **model) for name in unknown}
    names = ", ".join(f"{name!r:.60}" for name in unknown)
    if all(each is None for each in written.values()):
        raise ConfigurationError(f"unknown {kind}: {names}{nearest_name(unknown[0], known)}")
    left_out = [name for name, each in written.items() if each == ""]
    hints = [f"leave out {', '.join(left_out)}"] if left_out else []
    if expressions := [each for each in written.values() if each]:
        written_out = ", ".join(_merge(expressions))
        hints.append(f"write {written_out}{say_modules(written_out)}")
    others = [f"{name!r:.60}{nearest_name(name, known)[1:]}" for name, each in written.items() if each is None]
    raise ConfigurationError("; ".join([f"unknown {kind}: {names}", *others, *hints]))


def _merge(expressions: Iterable[str]) -> list[str]:
    """Return the expressions, with one for all that go into the same argument."""
    merged: dict[str, list[str]] = {}
    for each in expressions:
        found = next((start for start in (_OPTIONS, *_PROVIDERS.findall(each)) if each.startswith(start)), "")
        key, inner = (found, each[len(found) : -1 if found == _OPTIONS else -2]) if found else (each, "")
        merged.setdefault(key, []).append(inner)
    ends = {_OPTIONS: ")"}
    return [key + ", ".join(inner) + (ends.get(key, "}}") if any(inner) else "") for key, inner in merged.items()]


_OPTIONS = "options=AdapterOptions("
_PROVIDERS = re.compile(r"providers=\{'[^']*': \{")
