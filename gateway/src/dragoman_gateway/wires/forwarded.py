"""The table of addresses that can be forwarded, and those that the operator has opened."""

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from typing import Literal

_PARAMETER = re.compile(r"\{(\w+)\}")
_OWN = frozenset(("provider", "wire", "strip", "header", "id_prefixes", "id_field"))


@dataclass(frozen=True, slots=True, kw_only=True)
class Vendor:
    """The vendor that answers. ``strip`` is the start of each path that the base URL of the provider has already.
    ``header`` and ``id_prefixes`` distinguish its clients and its ids from those of another vendor with the same path.
    ``id_field`` has the id in its replies."""

    name: str
    provider: str
    wire: str
    strip: str = ""
    header: str | None = None
    id_prefixes: tuple[str, ...] = ()
    id_field: Literal["id", "name"] = "id"


@dataclass(frozen=True, slots=True, kw_only=True)
class Address:
    """One address of a vendor; forwarded.toml says what each field means."""

    vendor: Vendor
    kind: str
    method: str
    path: str
    body: Literal["json", "form", "file"] | None = None
    cost: Literal["free", "unknown"] = "unknown"
    content: Literal["none", "unseen"] = "none"
    model: Literal["none", "body", "unseen"] = "none"
    makes: str | None = None
    yields: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    lists: str | None = None
    stores: bool = False
    relative: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.method} {self.path}"

    @property
    def kinds(self) -> Mapping[str, str]:
        """The ids in the path that a key must have made, each with its kind."""
        return {each: each.replace("_", " ") for each in _PARAMETER.findall(self.path) if not each.startswith("_")}

    def full_id(self, parameter: str, value: str) -> str:
        """Return an id of the path as replies have it: a name has the part of the path before it too."""
        if self.vendor.id_field == "id":
            return value
        return f"{self.path.partition(f'/{{{parameter}}}')[0].rpartition('/')[2]}/{value}"

    def is_open(self, opened: Sequence[str]) -> bool:
        """Whether it is among what the operator has opened: addresses, kinds, and kinds of one vendor."""
        return any(each in opened for each in (self.name, self.kind, f"{self.vendor.name}.{self.kind}"))


@cache
def addresses() -> tuple[Address, ...]:
    """Return the whole table."""
    table = tomllib.loads(files("dragoman_gateway.wires").joinpath("forwarded.toml").read_text("utf-8"))
    found: list[Address] = []
    for name, fields in table.items():
        own = {each: fields[each] for each in _OWN & fields.keys()}
        vendor = Vendor(name=name, **{**own, "id_prefixes": tuple(own.get("id_prefixes", ()))})
        for kind in fields.keys() - _OWN:
            for address, rules in fields[kind].items():
                method, path = address.split(" ")
                rules = {**rules, "relative": tuple(rules.get("relative", ()))}
                found.append(Address(vendor=vendor, kind=kind, method=method, path=path, **rules))
    return tuple(sorted(found, key=lambda each: (each.vendor.name, each.kind)))


def forwarded_kinds() -> tuple[str, ...]:
    return tuple(sorted({each.kind for each in addresses()}))


def unknown_names(opened: Sequence[str]) -> list[str]:
    """Return the entries of a setting that open nothing."""
    return [each for each in opened if not any(address.is_open((each,)) for address in addresses())]
