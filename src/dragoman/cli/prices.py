"""`dragoman prices MODEL`: the price of a model today, or by an older table, and its source. `dragoman prices update`
installs newer ones.
"""

from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated
from urllib.parse import urlsplit

import typer
from rich.markup import escape

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.names import full_name
from dragoman.cli.io.console import console, print_table, show_line
from dragoman.cli.io.inputs import check_regular
from dragoman.pricing import (
    PriceTable,
    find_faults,
    install_update,
    list_versions,
    price_table,
    revert_update,
    save_table,
    use_update,
)
from dragoman.pricing.updates import MAX_BYTES, outdated_rows

_MAX_CANDIDATES = 6
_LOOPBACK = ("127.0.0.1", "localhost", "::1")
_TIMEOUT = 30.0
_MAX_NAMED = 5


def prices(
    model: Annotated[
        str,
        typer.Argument(
            help="provider:model; `check` validates the whole table, `versions` lists the available tables,  "
            "`keep` stores it in the folder --kept, `update` installs newer prices and limits from a file or URL."
        ),
    ],
    source: Annotated[str | None, typer.Argument(help="For `update`: a file or an https URL.")] = None,
    at: Annotated[
        datetime | None, typer.Option(help="The day of the prices, e.g. 2026-06-01; the default is today.")
    ] = None,
    version: Annotated[str | None, typer.Option(help="An older price table, named by the version in a usage.")] = None,
    kept: Annotated[Path | None, typer.Option(help="The folder in which you keep older tables.")] = None,
    sha256: Annotated[str | None, typer.Option(help="For `update`: the SHA-256 of the file; a URL needs one.")] = None,
    revert: Annotated[bool, typer.Option("--revert", help="For `update`: go back to the one before.")] = False,
) -> None:
    """Shows a model's prices in US dollars per million tokens."""
    if model == "update":
        _update(source, sha256, revert=revert)
        return
    if source or sha256 or revert:
        raise ConfigurationError("a file, --sha256 and --revert belong to: dragoman prices update")
    table, out = price_table(version, kept), console()
    match model:
        case "check":
            problems = find_faults(table)
            for problem in problems:
                out.print(problem, markup=False)
            out.print(f"{table.version}: {len(problems) or 'no'} problems")
            raise typer.Exit(1 if problems else 0)
        case "versions":
            out.print(escape("\n".join(list_versions(kept))))
            return
        case "keep":
            if kept is None:
                raise ConfigurationError("name the folder: dragoman prices keep --kept FOLDER")
            out.print(show_line(str(save_table(table, kept))))
            return
    moment = (at or datetime.now(UTC)).replace(tzinfo=UTC) if at is None or at.tzinfo is None else at
    _show_price(table, model, moment)


def _show_price(table: PriceTable, model: str, moment: datetime) -> None:
    out = console()
    if ":" not in (model := full_name(model)):
        # Providers with a price for this model name, resellers last. Free providers run models of any name.
        rows = {provider: table.find(f"{provider}:{model}", moment) for provider in table.providers()}
        found = sorted((row.provider != provider, provider) for provider, row in rows.items() if row and not row.free)
        names = [f"{provider}:{model}" for _, provider in found[:_MAX_CANDIDATES]]
        more = f" and {len(found) - _MAX_CANDIDATES} others" if len(found) > _MAX_CANDIDATES else ""
        hint = (
            f"did you mean {', '.join(names)}{more}?" if names else "no provider in the table has a model of that name"
        )
        raise ConfigurationError(f"name the model as provider:model, not {model!r:.80}: {hint}")
    row = table.find(model, moment)
    if row is None:
        reason = table.unpriced.get(model.partition(":")[0])
        raise ConfigurationError(
            f"no price is known for {model!r} on {moment:%Y-%m-%d}" + (f": {reason}" if reason else "")
        )
    out.print(f"[bold]{show_line(model)}[/] as {show_line(f'{row.provider}:{row.model}')}, {moment:%Y-%m-%d}")
    prices_of = []
    for each in (row, *table.variants(model, moment)):
        name = "standard" if each.variant is None else " ".join(each.variant)
        cells = []
        for rate in (each.rates.get(rate_name) for rate_name in row.rates):
            tiers = "" if rate is None else "".join(f"; {amount} over {tokens:,}" for tokens, amount in rate.over)
            cells.append("" if rate is None else f"{rate.amount}{tiers}")
        prices_of.append((name, *cells))
    if row.free:
        out.print("free")
    else:
        print_table(out, ("$ per million tokens", *row.rates), prices_of)
    if row.tools:
        tools = ", ".join(f"{name} ${amount}" for name, amount in row.tools.items())
        out.print(f"per 1,000 calls: {show_line(tools)}")
    out.print(f"[dim]source {show_line(row.source)}, compared {row.checked}; price table {table.version}[/]")


def _update(source: str | None, sha256: str | None, *, revert: bool) -> None:
    """Install newer prices and limits, or revert that. Raises ConfigurationError if anything is wrong; then nothing
    changes."""
    if revert == (source is not None):
        raise ConfigurationError("name a file or a URL, or --revert: dragoman prices update FILE|URL [--sha256 HEX]")
    out, before = console(), price_table().version
    if source is None:
        restored = revert_update()
        use_update()
        what = (
            f"the update of {restored.date} is used again" if restored else "the prices are those of this release again"
        )
        out.print(show_line(f"{what}: price table {price_table().version}"))
        return
    content = _fetch(source, sha256)
    update = install_update(content, source, sha256=sha256)
    use_update()
    out.print(show_line(f"installed the update of {update.date} from {source}"))
    out.print(f"SHA-256 {update.sha256}")
    if outdated := outdated_rows(content):
        named = ", ".join(outdated[:_MAX_NAMED]) + (" …" if len(outdated) > _MAX_NAMED else "")
        out.print(show_line(f"not used, because this release has newer ones: {named}"))
    out.print(f"price table {before} -> {price_table().version}")


def _fetch(source: str, sha256: str | None) -> bytes:
    if "://" not in source:
        check_regular(Path(source))
        with Path(source).open("rb") as file:
            return file.read(MAX_BYTES + 1)
    url = urlsplit(source)
    if url.scheme != "https" and not (url.scheme == "http" and url.hostname in _LOOPBACK):
        raise ConfigurationError(f"{source}: prices are taken from a file or an https URL")
    if sha256 is None:
        raise ConfigurationError("a file from the network needs --sha256, the SHA-256 that its publisher names")
    import httpx  # imported late: a file needs none

    content = bytearray()
    try:
        with httpx.stream("GET", source, timeout=_TIMEOUT, follow_redirects=False) as reply:
            if reply.status_code != httpx.codes.OK:
                raise ConfigurationError(f"{source} answers {reply.status_code}: name the address of the file itself")
            for chunk in reply.iter_bytes():
                content += chunk
                if len(content) > MAX_BYTES:
                    raise ConfigurationError(
                        f"{source} has more than {MAX_BYTES} bytes: it is not an update of the prices"
                    )
    except (httpx.HTTPError, httpx.InvalidURL) as error:
        raise ConfigurationError(f"{source} cannot be read: {type(error).__name__}: {error!s:.200}") from None
    return bytes(content)
