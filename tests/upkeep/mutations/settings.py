"""`mutations.toml`: which tests concern which file, and which surviving mutants are explained."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tests.upkeep.mutations.operators import Mutant

SOURCE = Path(__file__).with_name("mutations.toml")


@dataclass(frozen=True, slots=True)
class Settings:
    """``tests`` by file. ``explained``: the reason by file, function and change; it names no line, since lines move."""

    source: str
    tests: Mapping[str, tuple[str, ...]]
    explained: Mapping[tuple[str, str, str], str]

    def explains(self, path: str, mutant: Mutant) -> bool:
        return (path, mutant.where, mutant.change) in self.explained


def read_settings() -> Settings:
    raw = tomllib.loads(SOURCE.read_text(encoding="utf-8"))
    return Settings(
        SOURCE.name,
        {path: tuple(group["tests"]) for group in raw["group"] for path in group["files"]},
        {(entry["file"], entry["where"], entry["change"]): entry["reason"] for entry in raw.get("explained", ())},
    )
