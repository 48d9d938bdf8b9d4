"""Frozen dicts and lists: they read like plain ones, and no call changes them."""

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import pytest

from dragoman.canonical.frozen import FrozenDict, FrozenList, freeze, thaw
from tests.tables import each_row

PLAIN = {"a": [1, {"b": [2]}], "c": {"d": None}}

ATTACKS: list[Callable[[Any], Any]] = [
    lambda frozen: frozen.__setitem__("a", 0), lambda frozen: frozen.__delitem__("a"), lambda frozen: frozen.clear(),
    lambda frozen: frozen.pop("a"), lambda frozen: frozen.popitem(), lambda frozen: frozen.setdefault("z", 0),
    lambda frozen: frozen.update(a=0), lambda frozen: frozen.__ior__({"a": 0}),
    lambda frozen: frozen["a"].__setitem__(0, 0), lambda frozen: frozen["a"].__delitem__(0),
    lambda frozen: frozen["a"].__iadd__([0]), lambda frozen: frozen["a"].__imul__(2),
    lambda frozen: frozen["a"].append(0), lambda frozen: frozen["a"].clear(), lambda frozen: frozen["a"].extend([0]),
    lambda frozen: frozen["a"].insert(0, 0), lambda frozen: frozen["a"].pop(), lambda frozen: frozen["a"].remove(1),
    lambda frozen: frozen["a"].reverse(), lambda frozen: frozen["a"].sort(), lambda frozen: frozen["c"].clear(),
    lambda frozen: frozen["a"][1]["b"].append(0), lambda frozen: frozen["a"][1].__setitem__("b", 0),
]  # fmt: skip


@each_row("attack", ATTACKS)
def test_frozen_containers_refuse_changes(attack: Callable[[Any], Any]) -> None:
    """At every depth, with an error that suggests an alternative."""
    frozen = freeze(PLAIN)
    with pytest.raises(TypeError, match=r"read-only: change the copy that thaw\(\) returns"):
        attack(frozen)
    assert frozen == PLAIN


def test_calling_init_again_changes_nothing() -> None:
    """For plain dicts and lists it does. Frozen ones have no attributes either."""
    frozen = freeze(PLAIN)
    frozen.__init__({"a": 0})
    frozen["a"].__init__([0])
    assert frozen == PLAIN
    for each in (frozen, frozen["a"]):
        with pytest.raises(AttributeError):
            each.extra = 1


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy, lambda value: pickle.loads(pickle.dumps(value))])
def test_copies_are_frozen_and_equal(copied: Callable[[Any], Any]) -> None:
    for each in (freeze(PLAIN), freeze([1, [2]])):
        assert copied(each) == each
        assert type(copied(each)) is type(each)
    assert type(copied(freeze(PLAIN))["a"]) is FrozenList
    assert type(copied(freeze([[]]))[0]) is FrozenList


def test_frozen_containers_read_like_plain_ones() -> None:
    """In JSON, comparison and iteration; thaw returns plain copies that share nothing."""
    frozen = freeze(PLAIN)
    assert json.dumps(frozen) == json.dumps(PLAIN)
    assert frozen == PLAIN == thaw(frozen)
    thawed = thaw(frozen)
    thawed["a"][1]["b"].append(3)
    assert type(thawed) is dict
    assert frozen == PLAIN
    assert FrozenDict(a=1) | {"b": 2} == {"a": 1, "b": 2}
