"""Names that callers write: hints for those that are misspelt or come from another library, and aliases of models.

foreign_names.toml, which is read only for an error, maps names of other libraries to ours; aliases.toml has aliases.
"""

import difflib
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from importlib.metadata import entry_points
from os import PathLike
from typing import Any

from dragoman.adapter.errors import ConfigurationError

_SIMILAR = 0.7
"""How similar a name has to be: below, it is another word, such as max_rounds for max_tokens."""


def nearest_name(name: str, known: Iterable[str]) -> str:
    """Return a hint for an unknown name: ours for one of another library, the most similar name, or all known names."""
    names = list(known)
    ours = _table()["arguments"].get(name)
    found = [ours] if ours in names else difflib.get_close_matches(name, names, n=1, cutoff=_SIMILAR)
    return f"; did you mean {found[0]!r}?" if found else f"; known are {', '.join(names)}"


def foreign_value(name: str, value: Any, known: Collection[str] = ()) -> str:
    """Return a hint that says what to write, if the value of an argument of ours is as another library takes it; else
    an empty text."""
    written = write_instead(name, value, known or (name,))
    return f"; write {written}{say_modules(written)}" if written and written != f"{name}=..." else ""


def foreign_attribute(name: str) -> str:
    """Return a hint for an attribute that the replies of another library have, or an empty text."""
    if name.startswith("_"):  # looked up by Python itself
        return ""
    written = _table()["attributes"].get(name)
    return f"; write {written}" if written else ""


def check_names(
    arguments: Mapping[str, Any], known: Collection[str], kind: str, *, provider: str | None = None
) -> None:
    """Raise ConfigurationError if an argument is unknown. It says what to write for a name of another library, and for
    one of ours that belongs elsewhere; otherwise it has the nearest name. ``provider`` is that of the call's model."""
    unknown = [name for name in arguments if name not in known]
    if not unknown:
        return
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


_WORDS = re.compile(r"[\w.-]{1,40}")
"""A value that an error may show: it is not a prompt, and with no key among the options not a secret."""
_KINDS: Mapping[str, Any] = {"class": type, "mapping": Mapping, "list": (list, tuple), "text": str, "path": PathLike}
_ANYWHERE = frozenset({"prompt", "model"})
"""Parameters that are not among the settings of a call."""
_OF_A_TURN = frozenset({"output", "output_schema", "output_retries"})


def write_instead(name: str, value: Any, known: Collection[str], *, provider: str = "openai") -> str | None:
    """Return the expression to write in place of ``name=value`` in a call that takes the ``known`` arguments: an empty
    text if the argument has to be left out, and None if the name means nothing.

    Values are shown if they are numbers, classes and short words of options. Any other is ``...``, or the foreign name
    if only a part of it is meant.
    """
    table = _table()
    row = table["arguments"].get(name)
    fitting = [each["write"] for each in row if _fits(each, value)] if isinstance(row, list) else []
    if fitting:
        expression = fitting[0].format(name=name, provider=provider, value=_show(name, value), model=_model(value))
        if not expression or not re.match(r"\w+=", expression):
            return str(expression)
        target = expression.partition("=")[0]
    else:
        target = row if isinstance(row, str) else name
        own = {*table["provider_settings"], *table["session_settings"], *table["turn_options"], *_OF_A_TURN}
        if target == name and (name in known or name not in own):
            return None
        expression = f"{target}={_show(target, value)}"
    return _place(target, expression, known, table, provider)


def say_modules(expression: str) -> str:
    """Return where the names of an expression are, in brackets; an empty text if `dragoman` itself has them."""
    modules = _table()["modules"]
    found = [f"{name} is in {modules[name]}" for name in modules if re.search(rf"\b{name}\(", expression)]
    return f" ({', '.join(found)})" if found else ""


def model_instead(name: str) -> str | None:
    """Return the likely model id for a name of another library, such as ``openai/gpt-4o``; None if there is none."""
    table = _table()
    bare = name.removeprefix("models/")
    for separator in ("/", ":"):
        head, found, rest = bare.partition(separator)
        provider = table["providers"].get(head.lower(), head)
        # Not asked of the registry, which needs this module for its errors.
        is_installed = found and rest and entry_points(group="dragoman.adapters", name=provider)
        if is_installed and f"{provider}:{rest}" != name:
            return f"{provider}:{rest}"
    families = table["families"]
    fitting = [start for start in families if bare.lower().startswith(start)]
    return f"{families[max(fitting, key=len)]}:{bare}" if fitting and "/" not in bare else None


def _place(target: str, expression: str, known: Collection[str], table: Mapping[str, Any], provider: str) -> str | None:
    """Return the expression as the call takes it: the argument itself, or the one that holds it."""
    if target in known or target in _ANYWHERE:
        return expression
    if target in table["provider_settings"]:
        name, _, value = expression.partition("=")
        nested = f"providers={{{provider!r}: {{{name!r}: {value}}}}}"
        return nested if "providers" in known else f"Session(..., {nested})"
    if target in _OF_A_TURN:
        return f"session.ask(..., {expression})"
    if target in table["turn_options"]:
        return f"options=AdapterOptions({expression})" if "options" in known else None
    return f"Session(..., {expression})"


def _fits(row: Mapping[str, Any], value: Any) -> bool:
    if "is" in row:
        return bool(value == row["is"])
    if row.get("kind") == "false":
        return value is False
    if "kind" in row:
        return isinstance(value, _KINDS[row["kind"]])
    if "has" in row:
        return _has(value, row["has"])
    if "first" in row:
        return isinstance(value, Sequence) and bool(value) and _has(value[0], row["first"])
    return True


def _has(value: Any, items: Mapping[str, Any]) -> bool:
    """Whether a mapping has these items; an empty text stands for any value."""
    return isinstance(value, Mapping) and all(
        key in value and (not wanted or value[key] == wanted) for key, wanted in items.items()
    )


def _show(name: str, value: Any) -> str:
    if value is None or isinstance(value, (bool, int, float)):
        return repr(value)
    if isinstance(value, type):
        return value.__name__
    may_show = name in _table()["turn_options"] and name != "user"
    return repr(value) if may_show and isinstance(value, str) and _WORDS.fullmatch(value) else "..."


def _model(value: Any) -> str:
    first = value[0] if isinstance(value, (list, tuple)) and value else value
    if not isinstance(first, str) or len(first) >= 100 or not first.isprintable() or " " in first:
        return "..."
    return repr(model_instead(first) or first)


def _table() -> dict[str, Any]:
    from dragoman.adapter.package_data import read_toml  # imported late: only errors read the table

    return read_toml(__package__, "foreign_names.toml")


def bundled_aliases() -> Mapping[str, str]:
    """Return the model ids by alias, in lower case."""
    from dragoman.adapter.package_data import read_toml  # imported late: most programs name their models in full

    found: dict[str, str] = read_toml(__package__, "aliases.toml")["aliases"]
    return found


def full_name(model: str) -> str:
    """Return the model id of a bundled alias. Any other text is returned unchanged."""
    return model if ":" in model else bundled_aliases().get(model.lower(), model)
