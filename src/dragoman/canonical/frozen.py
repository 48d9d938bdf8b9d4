"""Immutable dicts and lists that compare, print, pickle and serialize like the plain ones, and fields made of them."""

import copy
from typing import Annotated, Any, NoReturn

from pydantic import AfterValidator

from dragoman.canonical.guard import JsonObject, Text


def _refuse(self: object, *_: Any, **__: Any) -> NoReturn:
    kind = "dict" if isinstance(self, dict) else "list"
    raise TypeError(f"this {kind} is read-only: change the copy that thaw() returns")


class FrozenDict(dict[str, Any]):
    """An immutable dict. Its values are frozen too if `freeze` created it."""

    __slots__ = ()

    def __new__(cls, *items: Any, **more: Any) -> "FrozenDict":
        frozen = super().__new__(cls)
        dict.update(frozen, *items, **more)
        return frozen

    def __init__(self, *_: Any, **__: Any) -> None:
        """Do nothing: ``__new__`` fills the dict, and a second call must not change it."""

    __setitem__ = __delitem__ = __ior__ = _refuse
    clear = pop = popitem = setdefault = update = _refuse

    def __reduce__(self) -> Any:
        return type(self), (dict(self),)

    def __copy__(self) -> "FrozenDict":
        return type(self)(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "FrozenDict":
        return type(self)({key: copy.deepcopy(value, memo) for key, value in self.items()})


class FrozenList(list[Any]):
    """An immutable list. Its items are frozen too if `freeze` created it."""

    __slots__ = ()

    def __new__(cls, items: Any = ()) -> "FrozenList":
        frozen = super().__new__(cls)
        list.extend(frozen, items)
        return frozen

    def __init__(self, *_: Any) -> None:
        """Do nothing: ``__new__`` fills the list, and a second call must not change it."""

    __setitem__ = __delitem__ = __iadd__ = __imul__ = _refuse
    append = clear = extend = insert = pop = remove = reverse = sort = _refuse

    def __reduce__(self) -> Any:
        return type(self), (list(self),)

    def __copy__(self) -> "FrozenList":
        return type(self)(self)

    def __deepcopy__(self, memo: dict[int, Any]) -> "FrozenList":
        return type(self)([copy.deepcopy(value, memo) for value in self])


def freeze(value: Any) -> Any:
    """Return a copy of a value in which every dict and list is frozen; everything else is shared."""
    if isinstance(value, dict):
        return FrozenDict({key: freeze(item) for key, item in value.items()})
    if isinstance(value, (list, tuple)):
        return FrozenList([freeze(item) for item in value])
    return value


def thaw(value: Any) -> Any:
    """Return a copy of a value in which every dict and list is a plain one."""
    if isinstance(value, dict):
        return {key: thaw(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [thaw(item) for item in value]
    return value


Names = Annotated[list[Text], AfterValidator(freeze)]
"""A frozen list of words."""

TextMap = Annotated[dict[Text, Text], AfterValidator(freeze)]
"""A frozen mapping from text to text."""

FrozenObject = Annotated[JsonObject, AfterValidator(freeze)]
"""A deeply frozen JSON object."""

FrozenObjects = Annotated[list[FrozenObject], AfterValidator(freeze)]
