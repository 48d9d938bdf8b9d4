"""The table of the variables for keys and addresses, and the adapters."""

from importlib.metadata import entry_points
from pathlib import Path

from dragoman.adapter.registry import GROUP, adapter_class

PAGE = Path(__file__).parents[2] / "docs" / "endpoints.md"


def table() -> list[str]:
    """Return a row for each installed provider that takes a key or has an address."""
    rows = []
    for name in sorted(each.name for each in entry_points(group=GROUP)):
        endpoint = adapter_class(name).endpoint
        if not (endpoint.base_url or endpoint.key_variables or endpoint.base_url_variable):
            continue
        keys = ", ".join(f"`{each}`" for each in endpoint.key_variables) or "-"
        variable = f"`{endpoint.base_url_variable}`" if endpoint.base_url_variable else "-"
        rows.append(f"| `{name}` | {keys} | {variable} | {f'`{endpoint.base_url}`' if endpoint.base_url else '-'} |")
    return rows


def test_one_table_has_the_variables_of_every_provider() -> None:
    """In the order of their names, with the address that is used without a variable."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    start = lines.index("| provider | key | address | default address |") + 2
    written = lines[start : lines.index("", start)]
    assert written == table(), "\n".join(["write these rows into docs/endpoints.md:", *table()])
