"""All cells: each road with each of its endings, each way that it can be walked."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tests.attempts.endings import ENDINGS
from tests.attempts.gateway_roads import GATEWAY_ROADS
from tests.attempts.roads import ROADS


@dataclass(frozen=True, slots=True)
class TableCell:
    road: str
    ending: str
    way: str
    walk: Callable[[Path], dict[str, Any]]


def cells() -> dict[str, list[TableCell]]:
    """Return the cells of each road."""
    found = {
        name: [
            TableCell(name, ending.name, way, partial(road.walk, ending, way))
            for ending in ENDINGS.values()
            if ending.name not in road.left_out
            for way in ("sync", "async")
        ]
        for name, road in ROADS.items()
    }
    for name, gateway in GATEWAY_ROADS.items():
        found[name] = [
            TableCell(name, ending.name, "async", partial(gateway.walk, ending, "async"))
            for ending in ENDINGS.values()
            if ending.name not in gateway.left_out
        ]
    return found
