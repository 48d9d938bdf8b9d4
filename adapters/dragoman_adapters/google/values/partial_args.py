"""Arguments of a call that arrive one value at a time, each with its JSON path (Vertex AI)."""

import re
from collections.abc import Mapping
from itertools import pairwise
from typing import Any

_STEP = re.compile(r"""\.(?P<name>[^.\[\]]+)|\[(?P<index>\d+)\]|\[(?P<quote>['"])(?P<quoted>.*?)(?P=quote)\]""")
_VALUES = ("numberValue", "boolValue")


class ArgumentsAccumulator:
    """Builds the arguments from values. Text arrives in pieces, which are joined when the next path begins."""

    def __init__(self) -> None:
        self._root: dict[str, Any] = {}
        self._path: str | None = None
        self._pieces: list[str] = []

    def add(self, native: Mapping[str, Any]) -> None:
        """Add a value. Raises ValueError if its path is invalid or leads nowhere."""
        path = native["jsonPath"]
        if path != self._path:
            self._close_place()
        if isinstance(native.get("stringValue"), str):
            self._path = path
            self._pieces.append(native["stringValue"])
        elif "nullValue" in native:
            self._set(path, None)
        for name in _VALUES:
            if name in native:
                self._set(path, native[name])

    def extend(self, arguments: Mapping[str, Any]) -> None:
        """Add arguments that arrived whole."""
        self._close_place()
        self._root |= arguments

    def current(self) -> dict[str, Any]:
        """Return the arguments so far."""
        if self._path is not None:
            self._set(self._path, "".join(self._pieces))
        return self._root

    def _close_place(self) -> None:
        """Finish the text at the last path: another path follows."""
        self.current()
        self._path = None
        self._pieces.clear()

    def _set(self, path: str, value: Any) -> None:
        steps = _parse_path(path)
        node: Any = self._root
        for step, following in pairwise(steps):
            node = _descend(node, step, [] if isinstance(following, int) else {})
        last = steps[-1]
        if isinstance(node, list) and isinstance(last, int):
            node[last : last + 1] = [value]  # the next item, or one that is repeated
            if last >= len(node):
                raise ValueError(f"the path {path[:80]!r} leaves items out")
        elif isinstance(node, dict) and isinstance(last, str):
            node[last] = value
        else:
            raise ValueError(f"the path {path[:80]!r} leads through a value")


def _parse_path(path: str) -> list[str | int]:
    """Split a path such as ``$.recipe.steps[0]`` into names and numbers."""
    steps: list[str | int] = []
    position = 1
    while path.startswith("$") and (found := _STEP.match(path, position)):
        steps.append(int(found["index"]) if found["index"] else found["name"] or found["quoted"])
        position = found.end()
    if not steps or position != len(path):
        raise ValueError(f"{path[:80]!r} is not a path into the arguments")
    return steps


def _descend(node: Any, step: str | int, fresh: Any) -> Any:
    """Return the value at a step, created if it is missing; list items are created in order only."""
    if isinstance(node, list) and isinstance(step, int):
        if step == len(node):
            node.append(fresh)
        return node[step]
    if isinstance(node, dict) and isinstance(step, str):
        return node.setdefault(step, fresh)
    raise ValueError(f"the step {step!r} leads through a value")
