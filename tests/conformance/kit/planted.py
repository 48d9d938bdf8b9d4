"""Plants bugs in copies of our adapters, one edit each: `planted_bugs.toml` lists them."""

import importlib
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from dragoman.adapter.contract import Adapter

_HERE = Path(__file__).parent
_ADAPTERS = _HERE.parents[2] / "adapters" / "dragoman_adapters"


@dataclass(frozen=True, slots=True)
class Planted:
    """A copy of the adapter of a wire. ``old`` in its ``file`` becomes ``new``; without an ``old``, it is unchanged."""

    wire: str
    package: str
    adapter: str
    model: str
    name: str = "nothing"
    file: str = "adapter.py"
    old: str = ""
    new: str = ""
    law: str = ""

    def build(self, folder: Path) -> Adapter:
        """Write the copy into the folder, which must be on the path, and return its adapter."""
        copied = f"planted_{self.wire}_{self.name}"
        original = f"dragoman_adapters.{self.package}"
        for path in (_ADAPTERS / self.package).iterdir():
            if path.suffix not in (".py", ".toml"):
                continue
            text = path.read_text(encoding="utf-8")
            if path.name == self.file and self.old:
                if text.count(self.old) != 1:
                    raise ValueError(
                        f"{self.wire}, {self.name}: {self.file} has {text.count(self.old)} of {self.old!r}"
                    )
                text = text.replace(self.old, self.new)
            for before, after in (("from ", " "), ("from ", "."), ('"', ".")):  # the last is a part that is loaded late
                text = text.replace(f"{before}{original}{after}", f"{before}{copied}{after}")
            (folder / copied).mkdir(exist_ok=True)
            (folder / copied / path.name).write_text(text, encoding="utf-8")
        importlib.invalidate_caches()
        found: type[Adapter] = getattr(importlib.import_module(f"{copied}.adapter"), self.adapter)
        return found(self.model)


def planted_bugs() -> Iterator[Planted]:
    for wire, row in tomllib.loads((_HERE / "planted_bugs.toml").read_text(encoding="utf-8")).items():
        bugs = row.pop("bugs")
        yield Planted(wire, **row)
        for name, bug in bugs.items():
            yield Planted(wire, **{**row, "name": name, **bug})
