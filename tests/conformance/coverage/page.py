"""The generated page of the coverage."""

import re
from collections.abc import Mapping
from dataclasses import astuple, dataclass
from pathlib import Path
from typing import Self

from tests.conformance.coverage.evidence import Table
from tests.conformance.coverage.sdks import Sdk

PAGE = Path(__file__).parents[3] / "docs" / "reference" / "coverage.md"
_ROW = re.compile(r"^\| ([a-z-]+) \| (\S+ \S+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \| (\d+) \|", re.MULTILINE)

BEFORE = {
    "anthropic": "79 of 79", "openai": "81 of 82", "openai-chat": "42 of 42", "google": "61 of 61",
    "google-interactions": "69 of 69", "bedrock": "33 of 33", "ollama": "46 of 46", "mistral": "40 of 40",
    "cohere": "25 of 25", "groq": "41 of 41",
}  # fmt: skip
"""What a check of names alone called covered: it could not fail."""


@dataclass(frozen=True, slots=True)
class Row:
    """The counts of one SDK."""

    provider: str
    sdk: str
    typed: int
    extra: int
    absent: int
    read: int
    unread: int

    @classmethod
    def of(cls, sdk: Sdk, table: Table, read: int, unread: int) -> Self:
        counts = (table.count("typed"), table.count("extra"), table.count("absent"))
        return cls(sdk.provider, f"{sdk.package} {sdk.version}", *counts, read, unread)


def read_rows() -> dict[str, Row]:
    """Return the rows of the page as it is."""
    text = PAGE.read_text(encoding="utf-8") if PAGE.is_file() else ""
    return {
        found[0]: Row(found[0], found[1], *map(int, found[2:]))  # type: ignore[call-arg]
        for found in (match.groups() for match in _ROW.finditer(text))
    }


def write_page(rows: Mapping[str, Row], resources: Mapping[str, Mapping[str, bool]] | None) -> str:
    """Return the page. Without resources, those of the page as it is stay."""
    last = PAGE.read_text(encoding="utf-8").partition(_RESOURCES)[2] if resources is None else ""
    lines = [
        f"| {' | '.join(map(str, astuple(row)))} | {BEFORE.get(provider, 'none')} |"
        for provider, row in sorted(rows.items())
    ]
    return _HEAD + "\n".join(lines) + "\n" + _RESOURCES + (last or "\n".join(_resource_lines(resources or {})) + "\n")


def _resource_lines(resources: Mapping[str, Mapping[str, bool]]) -> list[str]:
    lines = []
    for provider, found in resources.items():
        covered = [f"`{name}`" for name, is_covered in found.items() if is_covered]
        whole = {name.rpartition(".")[0] for name, is_covered in found.items() if is_covered}
        left = dict.fromkeys(f"`{name.rpartition('.')[0]}`" for name in found if name.rpartition(".")[0] not in whole)
        lines.append(f"| {provider} | {', '.join(covered)} | {', '.join(left)} |")
    return lines


_HEAD = """# Coverage of the providers' APIs

Read this page when you want to know whether you can ask for something that a provider's own SDK offers.
[Stable](../stability.md).

What a program can ask of a provider, measured against the provider's own SDK. Its types name each parameter, header,
part of a message and tool, down to the fields inside them. The SDK sends samples of all of them to a server on
loopback, and Dragoman's request with the same meaning must have the same value at the same place.

- **typed**: an option, a block or a tool of Dragoman writes it.
- **extra**: `extra`, `headers`, a native block or a `ProviderTool` writes it, at the place where the SDK has it.
- **absent**: a program cannot send it.
- **read**: events, stop reasons and samples of a reply's parts that Dragoman knows with all their fields, and fields of
  a stream's chunks if its events have no names (`openai-chat`, `google`, `ollama`); **unread** ones are
  [reported as drift](../cli.md).

The last column has what an earlier check of names counted as covered. It could not fail: it took made-up names, too.

This page is written by `python -m tests.conformance.coverage`. xAI's SDK speaks gRPC, so nothing on HTTP can be
compared with it.

| provider | SDK | typed | extra | absent | read | unread | before |
| --- | --- | --- | --- | --- | --- | --- | --- |
"""
_RESOURCES = """
## Resources

The SDKs' other methods, by their first request. A method is covered if Dragoman sends the same request. The last column
has the resources of which Dragoman has no method.

| provider | covered | not covered |
| --- | --- | --- |
"""
