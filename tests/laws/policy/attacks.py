"""Every immutable field attacked by every path: `python -m tests.laws.policy.attacks` prints a table, and exits with 1
if one got through.

A plugin is shown a copy of extensions in which every field is filled. Each attack changes one field of that copy, in
its own way; the result is merged. It may have no effect except new labels.
"""

import copy
import pickle
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import cache
from typing import Any, NamedTuple

from pydantic import ValidationError

from dragoman.canonical.blocks import FrozenModel
from dragoman.canonical.message import Message
from dragoman.policy import Capability, Extensions, TierViolation
from dragoman.policy.extensions import filter_extensions, merge_extensions
from tests.unit.canonical.extensions.samples import full

Path = tuple[Any, ...]
Value = Callable[[Any], Any]
Attack = Callable[[Extensions, Path, Value], Any]

EVERYTHING = tuple(Capability)
READERS = tuple(name for name in Capability if name.startswith("read_"))


class Agreeable:
    """Claims to equal everything."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        return True

    def __ne__(self, other: object) -> bool:
        return False


class Explosive:
    """Cannot be compared, read or iterated."""

    __hash__ = object.__hash__

    def __eq__(self, other: object) -> bool:
        raise RuntimeError

    def __getattr__(self, name: str) -> Any:
        raise RuntimeError

    def __iter__(self) -> Iterator[Any]:
        raise RuntimeError


def _another(value: Any) -> Any:
    """Another value of the same kind."""
    for kind, other in ((bool, not value), (str, "EVIL"), ((int, float), 99), (frozenset, frozenset({"EVIL"}))):
        if isinstance(value, kind):
            return other
    if isinstance(value, dict):
        return {"EVIL": "EVIL"}
    return ["EVIL"] if isinstance(value, list) else ("EVIL",) if isinstance(value, tuple) else "EVIL"


VALUES: dict[str, Value] = {
    "another": _another,
    "none": lambda _: None,
    "agreeable": lambda _: Agreeable(),
    "explosive": lambda _: Explosive(),
}


def value_at(value: Any, path: Path) -> Any:
    """The value at a path: steps are fields of models, keys and indexes."""
    for step in path:
        value = getattr(value, step) if isinstance(value, FrozenModel) else value[step]
    return value


def _holder(shown: Extensions, path: Path, value: Value) -> tuple[Any, Any, Any]:
    holder = value_at(shown, path[:-1])
    return holder, path[-1], value(value_at(shown, path))


def _set(shown: Extensions, path: Path, value: Value) -> Any:
    holder, name, new = _holder(shown, path, value)
    if isinstance(holder, FrozenModel):
        setattr(holder, name, new)
    else:
        holder[name] = new
    return shown


def _delete(shown: Extensions, path: Path, value: Value) -> Any:
    holder, name, _ = _holder(shown, path, value)
    if isinstance(holder, FrozenModel):
        holder.__dict__.pop(name)
    elif isinstance(holder, dict):
        dict.pop(holder, name)
    else:
        list.pop(holder, name)
    return shown


def _force_attribute(shown: Extensions, path: Path, value: Value) -> Any:
    """Bypasses the guards of models and containers."""
    holder, name, new = _holder(shown, path, value)
    if isinstance(holder, FrozenModel):
        object.__setattr__(holder, name, new)
    elif isinstance(holder, dict):
        dict.__setitem__(holder, name, new)
    else:
        list.__setitem__(holder, name, new)
    return shown


def _dict(shown: Extensions, path: Path, value: Value) -> Any:
    holder, name, new = _holder(shown, path, value)
    (holder.__dict__ if isinstance(holder, FrozenModel) else holder).update({name: new})
    return shown


def _state(shown: Extensions, path: Path, value: Value) -> Any:
    """As unpickling does."""
    holder, name, new = _holder(shown, path, value)
    state = holder.__getstate__()
    state["__dict__"] = {**state["__dict__"], name: new}
    holder.__setstate__(state)
    return shown


def _rebuild(build: Callable[[FrozenModel, dict[str, Any]], Any]) -> Attack:
    """Rebuilds every model on the path, with the change inside."""

    def attack(shown: Extensions, path: Path, value: Value) -> Any:
        new = value(value_at(shown, path))
        for length in range(len(path) - 1, -1, -1):
            holder, name = value_at(shown, path[:length]), path[length]
            if isinstance(holder, FrozenModel):
                new = build(holder, {name: new})
            elif isinstance(holder, dict):
                new = {**holder, name: new}
            else:
                new = [new if place == name else item for place, item in enumerate(holder)]
        return new

    return attack


def _unfreeze(shown: Extensions, path: Path, value: Value) -> Any:
    """Replaces every model on the path by one of a mutable class."""

    def build(holder: FrozenModel, change: dict[str, Any]) -> Any:
        loose: Any = type("Loose", (type(holder),), {"model_config": {"frozen": False}, "__module__": __name__})
        return loose.model_construct(**{**holder.__dict__, **change})

    return _rebuild(build)(shown, path, value)


def _copy(shown: Extensions, path: Path, value: Value) -> Any:
    return _force_attribute(copy.deepcopy(shown), path, value)


def _pickle(shown: Extensions, path: Path, value: Value) -> Any:
    return pickle.loads(pickle.dumps(_force_attribute(pickle.loads(pickle.dumps(shown)), path, value)))


ATTACKS: dict[str, Attack] = {
    "setattr": _set,
    "delete": _delete,
    "object.__setattr__": _force_attribute,
    "__dict__": _dict,
    "__setstate__": _state,
    "model_copy": _rebuild(lambda holder, change: holder.model_copy(update=change)),
    "model_construct": _rebuild(lambda holder, change: type(holder).model_construct(**{**holder.__dict__, **change})),
    "unfrozen subclass": _unfreeze,
    "deepcopy": _copy,
    "pickle": _pickle,
}

_WRITABLE: frozenset[Path] = frozenset({("http",), ("http", "headers"), ("custom",)})


@cache
def places() -> tuple[Path, ...]:
    """Every field of every model and every entry of every container, except those that a capability lets one write."""
    return tuple(path for path in _places(full(), ()) if not any(path[: len(free)] == free for free in _WRITABLE))


def _places(value: Any, path: Path) -> Iterator[Path]:
    if isinstance(value, FrozenModel):
        steps: Iterable[Any] = type(value).model_fields
    elif isinstance(value, dict):
        steps = value
    else:
        steps = range(len(value)) if isinstance(value, (list, tuple)) else ()
    for step in steps:
        inner = value_at(value, (step,))
        yield (*path, step)
        if not isinstance(inner, Message):
            yield from _places(inner, (*path, step))


class Breach(NamedTuple):
    attack: str
    value: str
    path: Path
    capabilities: tuple[Capability, ...]


def run_attacks(
    paths: Iterable[Path], capabilities: tuple[Capability, ...], outcomes: Counter[tuple[str, str]]
) -> list[Breach]:
    """The breaches; ``outcomes`` counts how each attack ended."""
    original = full()
    breaches: list[Breach] = []
    for path in paths:
        for attack_name, attack in ATTACKS.items():
            for value_name, value in VALUES.items():
                shown = filter_extensions(original, capabilities)
                assert shown is not None
                outcome = _outcome(original, shown, attack, path, value, capabilities)
                if original != full():
                    outcome, original = "breach", full()
                outcomes[attack_name, outcome] += 1
                if outcome == "breach":
                    breaches.append(Breach(attack_name, value_name, path, capabilities))
    return breaches


def _outcome(
    original: Extensions,
    shown: Extensions,
    attack: Attack,
    path: Path,
    value: Value,
    capabilities: tuple[Capability, ...],
) -> str:
    try:
        returned = attack(shown, path, value)
    except (ValidationError, TypeError, AttributeError, KeyError, RuntimeError, pickle.PicklingError):
        returned, outcome = shown, "refused at once"
    else:
        outcome = "no change"
    try:
        merged = merge_extensions(original, returned, capabilities, plugin="spy")
    except TierViolation:
        return "TierViolation"
    return outcome if merged is original else "breach"


def main() -> int:
    outcomes: Counter[tuple[str, str]] = Counter()
    breaches = [
        breach for capabilities in (READERS, EVERYTHING) for breach in run_attacks(places(), capabilities, outcomes)
    ]
    kinds = ("refused at once", "TierViolation", "no change", "breach")
    print("| attack | " + " | ".join(kinds) + " |\n|" + " --- |" * (len(kinds) + 1))
    for name in ATTACKS:
        print(f"| {name} | " + " | ".join(f"{outcomes[name, kind]:,}" for kind in kinds) + " |")
    print(f"\n{len(places())} places, {sum(outcomes.values()):,} attacks, {len(breaches)} breaches")
    for breach in breaches[:20]:
        print(f"breach: {breach.attack} with {breach.value} at {'.'.join(map(str, breach.path))}")
    return 1 if breaches else 0


if __name__ == "__main__":
    sys.exit(main())
