"""The tools of a request as its wire writes them.

An agent sends the same ones with every request: their JSON is written once for each list of definitions, and kept as
long as they live.
"""

from collections.abc import Callable, Sequence
from typing import Any
from weakref import ref

from dragoman.adapter import wirejson
from dragoman.canonical.tools import ToolDefinition

EncodeTool = Callable[[ToolDefinition, str], dict[str, Any]]

_MOST_LISTS, _MOST_TOOLS = 64, 256
"""Lists that are kept, and tools of each."""


class EncodedTools(list[dict[str, Any]]):
    """The tools of one request, which may still be changed on their way."""

    __slots__ = ("_key", "_owners")

    def __init__(self, definitions: Sequence[ToolDefinition], encode: EncodeTool, provider: str) -> None:
        """``encode`` writes one tool; none of the definitions has notes of a provider."""
        super().__init__([encode(definition, provider) for definition in definitions])
        self._owners = definitions
        self._key = (encode, *map(id, definitions))

    @property
    def pieces(self) -> tuple[bytes]:
        """The JSON of the list as it is now, as one piece of the body.

        Schemas may be changed in place. To compare the list with what the JSON says takes a quarter of the time.
        """
        kept = _KEPT.get(self._key)
        if kept is not None and kept[0] == self:
            return (kept[1],)
        dumped = wirejson.dumps(list(self))
        if len(self) <= _MOST_TOOLS:
            if len(_KEPT) >= _MOST_LISTS:
                _KEPT.clear()
            key = self._key

            def forget(_: Any) -> None:  # another definition may get the identity of one that is no more
                _KEPT.pop(key, None)

            _KEPT[key] = _copy(self), dumped, [ref(each, forget) for each in self._owners]
        return (dumped,)


def _copy(value: Any) -> Any:
    """Copy lists and objects. The texts stay the same objects, so that a comparison need not read them."""
    if isinstance(value, dict):
        return {name: _copy(inner) for name, inner in value.items()}
    return [_copy(inner) for inner in value] if isinstance(value, list) else value


_KEPT: dict[tuple[Any, ...], tuple[Any, bytes, list["ref[ToolDefinition]"]]] = {}
"""The lists that were written lately, by their encoder and the identities of their definitions: what the JSON says, the
JSON, and the definitions."""
