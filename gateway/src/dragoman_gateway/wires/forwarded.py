"""The table of addresses that can be forwarded, and those that the operator has opened."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import field
from fnmatch import fnmatchcase
from functools import cache
from typing import Any, Literal

from pydantic import ConfigDict
from pydantic.dataclasses import dataclass

from dragoman_gateway.toml import load_table

_PARAMETER = re.compile(r"\{(\w+)\}")
_CLOSED = ConfigDict(extra="forbid")


@dataclass(frozen=True, slots=True, kw_only=True, config=_CLOSED)
class Vendor:
    """Who answers; forwarded.toml says what each field means."""

    name: str
    provider: str
    wire: str
    strip: str = ""
    client: Mapping[str, str] = field(default_factory=dict)
    ids: tuple[str, ...] = ()
    id_field: Literal["id", "name"] = "id"
    versions: tuple[str, ...] = ()
    headers: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True, config=_CLOSED)
class UsageRule:
    """How a reply states what it used, and what a request may use at most; forwarded_costs.toml says what each field
    means."""

    counts: Mapping[str, Sequence[str]] = field(default_factory=dict)
    units: Mapping[str, Sequence[str]] = field(default_factory=dict)
    other: tuple[str, ...] = ()
    sums: bool = False
    needs: tuple[Mapping[str, Any], ...] = ()
    most: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True, config=_CLOSED)
class Address:
    """One address of a vendor; forwarded.toml says what each field means."""

    vendor: Vendor
    kind: str
    method: str
    path: str
    body: Literal["json", "form", "file"] | None = None
    cost: str = "unknown"
    content: Literal["none", "unseen"] = "none"
    model: Literal["none", "body", "form", "path", "unseen"] = "none"
    makes: str | None = None
    yields: Mapping[str, str] = field(default_factory=dict)
    names: Mapping[str, str] = field(default_factory=dict)
    refuses: Mapping[str, str] = field(default_factory=dict)
    endpoint: str | None = None
    lines: bool = False
    resumes: str | None = None
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

    @property
    def usage(self) -> UsageRule | None:
        """How its replies state what they used; None for what is free, or unknown."""
        return usage_rules().get(self.cost)

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
    found: list[Address] = []
    own = Vendor.__dataclass_fields__.keys()
    for name, fields in load_table("wires/forwarded.toml").items():
        vendor = Vendor(name=name, **{each: fields[each] for each in own & fields.keys()})
        for kind in fields.keys() - own:
            for address, rules in fields[kind].items():
                method, path = address.split(" ")
                for version in vendor.versions or ("",):
                    there = path.replace("{version}", version)
                    found.append(Address(vendor=vendor, kind=kind, method=method, path=there, **rules))
    return tuple(sorted(found, key=lambda each: (each.vendor.name, each.kind)))


@cache
def usage_rules() -> Mapping[str, UsageRule]:
    """Return the costs that replies state, by their names in the table."""
    return {name: UsageRule(**rule) for name, rule in load_table("wires/forwarded_costs.toml").items()}


def forwarded_kinds() -> tuple[str, ...]:
    return tuple(sorted({each.kind for each in addresses()}))


def unknown_names(opened: Sequence[str]) -> list[str]:
    """Return the entries of a setting that open nothing."""
    return [each for each in opened if not any(address.is_open((each,)) for address in addresses())]


def addressed(url: str, vendor: str) -> Address | None:
    """Return the address of a vendor that a request in a batch is for, if it is one of the table."""
    return next((each for each in addresses() if each.vendor.name == vendor and each.name == f"POST {url}"), None)


def is_client_of(vendor: Vendor, headers: Mapping[str, str], ids: Sequence[str]) -> bool:
    """Whether a client is one of this vendor: by a header, else by an id that it alone makes."""
    has_header = any(
        fnmatchcase(headers.get(name, ""), glob) for name, glob in vendor.client.items() if name in headers
    )
    return has_header or any(fnmatchcase(each, glob) for each in ids for glob in vendor.ids)


def field_at(value: Any, path: str) -> Any:
    """Return the field of an object that a path such as ``usage.input_tokens`` names; None if it is absent."""
    for name in path.split("."):
        value = value.get(name) if isinstance(value, Mapping) else None
    return value
