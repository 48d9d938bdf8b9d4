"""``python -m tests.gateway.vendors.address_page``: writes the table of docs/gateway-forwarding.md from the data."""

from pathlib import Path

from dragoman_gateway.wires.forwarded import Address, addresses

PAGE = Path(__file__).parents[3] / "docs" / "gateway-forwarding.md"
_BEGIN, _END = "<!-- addresses -->\n", "<!-- end of addresses -->\n"


def table() -> str:
    """Return the table, one row an address."""
    rows = ["| kind | address | cost | content | model | ids | stores |", "| --- | --- | --- | --- | --- | --- | --- |"]
    return "\n".join([*rows, *map(_row, addresses())]) + "\n"


def render(page: str) -> str:
    """Return the page with the present table."""
    before, rest = page.split(_BEGIN)
    return f"{before}{_BEGIN}\n{table()}\n{_END}{rest.split(_END)[1]}"


def _row(address: Address) -> str:
    reads = [*address.kinds.values(), *address.names.values()]
    reads += ["the lines of a batch"] if address.lines else []
    makes = [*([address.makes] if address.makes else ()), *address.yields.values()]
    ids = [f"reads {each}" for each in dict.fromkeys(reads)] + [f"makes {each}" for each in dict.fromkeys(makes)]
    listed = [*ids, "lists the key's own"] if address.lists else ids
    cells = (
        f"{address.vendor.name}.{address.kind}",
        f"`{address.name}`",
        address.cost,
        address.content,
        {"none": "-", "unseen": "unseen"}.get(address.model, "known"),
        ", ".join(listed) or "-",
        "yes" if address.stores else "-",
    )
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    PAGE.write_text(render(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
