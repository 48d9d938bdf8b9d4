"""`dragoman store …`: commands for a whole store; `dragoman history` lists the kept conversations."""

import json
from contextlib import closing
from dataclasses import asdict
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from dragoman.adapter.errors import ConfigurationError
from dragoman.cli.io.console import console, print_table, show_line
from dragoman.cli.io.conversations import ConversationLog, own_store, store_url

app = typer.Typer(
    help="Export a store for reports, migrate it, delete data, or distribute it over a cluster.",
    no_args_is_help=True,
)

StoreOption = Annotated[
    str | None, typer.Option("--store", "-s", help="A SQLite file or a database URL; the default is your own store.")
]

_DAY = ["%Y-%m-%d"]


@app.command()
def export(
    folder: Annotated[Path, typer.Argument(help="The folder for the files: FOLDER/day=2026-11-21/part-0.parquet.")],
    store: StoreOption = None,
    since: Annotated[datetime | None, typer.Option(help="The first day, in UTC.", formats=_DAY)] = None,
    until: Annotated[datetime | None, typer.Option(help="The first day after, in UTC.", formats=_DAY)] = None,
    text: Annotated[bool, typer.Option("--text", help="Include the texts.")] = False,
    overwrite: Annotated[bool, typer.Option("--all", help="Also write days that have not changed.")] = False,
) -> None:
    """Writes the usage and cost of each reply as Parquet, one file per day, for `dragoman cost FOLDER`.

    Run it again to update the days that have changed.
    """
    from dragoman.store import Store  # the extra is needed only by this command

    with Store(store_url(store), read_only=True) as opened_store:
        result = opened_store.export_replies(
            folder, since=_day(since), until=_day(until), text=text, overwrite=overwrite
        )
    parts = [
        f"{len(result.written):,} days written, with {result.replies:,} replies",
        f"{len(result.unchanged):,} unchanged",
    ]
    if result.removed:
        parts.append(f"{len(result.removed):,} removed")
    console().print(f"{', '.join(parts)}: {show_line(str(folder))}")


@app.command()
def citus() -> None:
    """Prints the SQL that distributes a store over a Citus cluster: `dragoman store citus | psql URL`."""
    from dragoman.store import citus_statements

    for statement in citus_statements():
        typer.echo(f"{statement};")


@app.command()
def migrate(
    store: StoreOption = None,
    check: Annotated[bool, typer.Option("--check", help="Change nothing; exit with 1 if the store is older.")] = False,
) -> None:
    """Migrates a store to this version of dragoman. Programs of the older version that have it open work on."""
    from dragoman.store import Store
    from dragoman.store.database import Database, default_url, stored_version
    from dragoman.store.schema import HEAD

    url = store_url(store)
    with closing(Database(url or default_url(), timeout=60.0, synchronous="full", pool_size=1, read_only=True)) as old:
        before = stored_version(old)
    if before is None:
        raise ConfigurationError(f"this is not a store of dragoman: {store or 'your own store'}")
    if before == HEAD:
        console().print(f"the store is of version {HEAD} already")
        return
    if check:
        console().print(f"the store is of version {before}; this dragoman has {HEAD}")
        raise typer.Exit(1)
    Store(url).close()
    console().print(f"the store is migrated: {before} -> {HEAD}")


@app.command("delete-user")
def delete_user(
    user: Annotated[str, typer.Argument(help="The user's id, as in the sessions.")],
    store: StoreOption = None,
    reports: Annotated[Path | None, typer.Option(help="A folder of `store export` to bring up to date.")] = None,
    text: Annotated[bool, typer.Option("--text", help="The reports include the texts.")] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Deletes the sessions of a user, and the user's words in the sessions of others. Says what was deleted."""
    from dragoman.store import Store

    if not yes:
        typer.confirm(f"Delete all data of {user!r} from {store or 'your own store'}?", abort=True)
    with Store(store_url(store), migrates=False) as opened_store:
        done = opened_store.delete_user(user, reports=reports, text=text)
    rows = f"{done.messages:,} messages, {done.attempts:,} broken replies, {done.tool_calls:,} tool calls"
    lines = [
        f"deleted: {done.sessions:,} sessions with {rows} and {done.tool_ids:,} tool ids",
        f"erased in sessions of others: the content of {done.erased:,} messages",
        *(f"  {session_id}" for session_id in done.shared_sessions),
    ]
    if done.forks:
        lines += ["left: sessions of others that were forked from deleted ones", *(f"  {name}" for name in done.forks)]
    if done.reports is not None:
        changed = len(done.reports.written) + len(done.reports.removed)
        lines.append(f"reports: {changed:,} days changed in {reports}")
    console().print(escape("\n".join(lines)))


@app.command()
def retention(
    store: StoreOption = None,
    delete: Annotated[
        bool, typer.Option("--delete", help="Delete the sessions with such data, instead of redacting it.")
    ] = False,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Change nothing; say what would be done.")] = False,
    session_days: Annotated[
        float, typer.Option(help="A session is over if it was not used for so many days.", min=0)
    ] = 1.0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object for each session.")] = False,
) -> None:
    """Redacts or deletes the data whose time is over. Run it regularly; the store keeps a record."""
    from dragoman.store import Store

    with Store(store_url(store), migrates=False, read_only=dry_run) as opened_store:
        records = opened_store.enforce_retention(
            action="delete" if delete else "redact", session_idle=timedelta(days=session_days), dry_run=dry_run
        )
    if as_json:
        for record in records:
            typer.echo(json.dumps({**asdict(record), "at": record.at.isoformat()}))
        return
    done = "deleted with their sessions" if delete else "redacted"
    total = sum(record.messages + record.attempts for record in records)
    lines = [
        f"{total:,} messages of {len(records):,} sessions {'would be ' if dry_run else ''}{done}",
        *(f"  {record.session_id}: {record.messages + record.attempts:,}" for record in records),
    ]
    console().print(escape("\n".join(lines)))


def _day(at: datetime | None) -> date | None:
    return None if at is None else at.date()


_WIDTH = 110


def history(
    words: Annotated[str | None, typer.Argument(help="Only conversations that contain this text.")] = None,
    most: Annotated[int, typer.Option("--number", "-n", min=1, help="How many to list, the last used first.")] = 20,
) -> None:
    """Lists the kept conversations. `dragoman chat -r NUMBER` continues one; so does `dragoman ask -r NUMBER`."""
    out = console(min_width=_WIDTH)
    found: list[tuple[int, Any]] = []
    if (url := own_store()) is not None:
        with closing(ConversationLog(url, "history", read_only=True)) as log:
            found = log.find_all(words, most)
    if not found:
        out.print("no kept conversation contains that text" if words else "no conversation is kept")
        return
    rows = []
    for number, record in found:
        used = record.updated_at.astimezone().strftime("%Y-%m-%d %H:%M")
        rows.append((str(number), used, record.model or "-", record.title or record.id))
    print_table(out, ("", "last used", "model", "title"), rows, figures=("",))
