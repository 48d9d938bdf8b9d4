"""`dragoman gateway …`: virtual keys, what they may spend, and what they spent. Only `create` and `rotate` show a key,
once."""

import json
from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Annotated, Any

import typer
from sqlalchemy import select

from dragoman.errors import ConfigurationError
from dragoman_gateway.configuration import read_settings
from dragoman_gateway.database import Database
from dragoman_gateway.database.tables import spend as spend_table
from dragoman_gateway.keys.amounts import Period, parse_budget, parse_concurrency, parse_end, parse_limit
from dragoman_gateway.keys.key_store import KeyStore
from dragoman_gateway.keys.records import Allowance, VirtualKey

app = typer.Typer(help="Keys of the gateway, and what they may spend.", no_args_is_help=True)
keys = typer.Typer(help="Create, list, revoke and rotate keys, and show what they spent.", no_args_is_help=True)
limits = typer.Typer(help="Budgets and limits of users and teams.", no_args_is_help=True)
app.add_typer(keys, name="keys")
app.add_typer(limits, name="limits")

Config = Annotated[Path | None, typer.Option(help="The configuration file; by default the one that applies.")]
Key = Annotated[str, typer.Argument(help="The id or the name of the key.")]
Budgets = Annotated[
    list[str] | None, typer.Option("--budget", help="50/month, 5, or '1000000 tokens/day'; may be repeated.")
]
Limits = Annotated[
    list[str] | None,
    typer.Option("--limit", help="100/minute, '40000 tokens/minute', or either after 'anthropic:*='; may be repeated."),
]
Concurrent = Annotated[
    str | None, typer.Option("--concurrency", help="How many requests may run at the same time, such as 8.")
]
AllowUnpriced = Annotated[bool, typer.Option(help="Models without a known price cost nothing under the budgets.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@keys.command()
def create(
    name: Annotated[str | None, typer.Option(help="A name for the key.")] = None,
    team: Annotated[str | None, typer.Option(help="The team that the key belongs to.")] = None,
    user: Annotated[str | None, typer.Option(help="The user that the key belongs to.")] = None,
    roles: Annotated[
        list[str] | None, typer.Option("--role", help="A role that plugins of a policy see; may be repeated.")
    ] = None,
    permissions: Annotated[
        list[str] | None,
        typer.Option("--permission", help="A permission that object profiles may require; may be repeated."),
    ] = None,
    budget: Budgets = None,
    limit: Limits = None,
    concurrency: Concurrent = None,
    models: Annotated[
        list[str] | None, typer.Option(help="A pattern of the models that it may use, such as 'anthropic:*'.")
    ] = None,
    endpoints: Annotated[list[str] | None, typer.Option(help="An endpoint that it may use, such as messages.")] = None,
    expires: Annotated[str | None, typer.Option(help="When it ends: 30d, 12h, or a date.")] = None,
    allow_unpriced: AllowUnpriced = False,
    admin: Annotated[bool, typer.Option(help="The key can see what others spent, and cannot call models.")] = False,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Creates a key and prints it once. The key itself is not stored."""
    now = datetime.now(UTC)
    key, secret = _store(config).create(
        name=name,
        user=user,
        team=team,
        roles=tuple(roles or ()),
        permissions=tuple(permissions or ()),
        models=tuple(models or ()),
        endpoints=tuple(endpoints or ()),
        allowance=_allowance(budget, limit, concurrency, allow_unpriced=allow_unpriced),
        admin=admin,
        expires_at=None if expires is None else parse_end(expires, now),
    )
    _print_secret(key, secret, as_json=as_json)


@keys.command("list")
def list_(config: Config = None, as_json: AsJson = False) -> None:
    """Lists all keys, without their secrets."""
    now = datetime.now(UTC)
    rows = [_describe(key, now) for key in _store(config).all()]
    _print_rows(rows, ("id", "name", "team", "user", "state", "models", "budgets", "limits"), as_json=as_json)


@keys.command()
def revoke(key: Key, config: Config = None) -> None:
    """Revokes a key for good. Every replica refuses it within five seconds."""
    typer.echo(f"{_store(config).revoke(key).id} is revoked")


@keys.command()
def rotate(
    key: Key,
    grace: Annotated[str | None, typer.Option(help="How long the old key works as well: 30m, 12h, 7d.")] = None,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Gives a key a new secret, and prints it once. Its budgets, and what it spent, stay."""
    until = None if grace is None else parse_end(grace, datetime.now(UTC))
    _print_secret(*_store(config).rotate(key, grace_until=until), as_json=as_json)


@keys.command()
def spend(
    key: Annotated[str | None, typer.Argument(help="The id or the name of a key, or team:NAME, user:NAME.")] = None,
    period: Annotated[Period, typer.Option(help="The current day, week or month, or the total.")] = Period.MONTH,
    config: Config = None,
    as_json: AsJson = False,
) -> None:
    """Shows what keys, users and teams have spent."""
    database = _database(config)
    scope = None if key is None else key if ":" in key else f"key:{KeyStore(database).find(key).id}"
    query = select(spend_table).where(spend_table.c.day >= max(1, period.first_day(datetime.now(UTC))))
    if scope is not None:
        query = query.where(spend_table.c.scope == scope)
    found: dict[str, tuple[Decimal, int, int]] = {}
    for row in database.run(lambda connection: connection.execute(query).all(), writes=False):
        usd, tokens, requests = found.get(row.scope, (Decimal(0), 0, 0))
        found[row.scope] = (usd + row.usd, tokens + row.tokens, requests + row.requests)
    rows = [
        {"scope": name, "usd": format(usd, "f"), "tokens": tokens, "requests": requests}
        for name, (usd, tokens, requests) in sorted(found.items())
    ]
    _print_rows(rows, ("scope", "usd", "tokens", "requests"), as_json=as_json)


@limits.command("set")
def set_limits(
    scope: Annotated[str, typer.Argument(help="team:NAME, user:NAME, or each of them with team:* and user:*.")],
    budget: Budgets = None,
    limit: Limits = None,
    concurrency: Concurrent = None,
    allow_unpriced: AllowUnpriced = False,
    config: Config = None,
) -> None:
    """Sets the budgets and limits of a user or a team, in place of those that it had."""
    allowance = _allowance(budget, limit, concurrency, allow_unpriced=allow_unpriced)
    if not allowance.to_json():
        raise ConfigurationError(
            "name a --budget, a --limit or a --concurrency; dragoman gateway limits remove removes all"
        )
    _store(config).set_allowance(scope, allowance)
    typer.echo(f"{scope}: {', '.join([*map(str, allowance.budgets), *allowance.describe_limits()])}")


@limits.command("list")
def list_limits(config: Config = None, as_json: AsJson = False) -> None:
    """Lists the budgets and limits of users and teams."""
    rows = [
        {"scope": scope, "budgets": list(map(str, each.budgets)), "limits": each.describe_limits()}
        for scope, each in _store(config).allowances().items()
    ]
    _print_rows(rows, ("scope", "budgets", "limits"), as_json=as_json)


@limits.command("remove")
def remove_limits(
    scope: Annotated[str, typer.Argument(help="team:NAME, user:NAME, team:* or user:*.")], config: Config = None
) -> None:
    """Removes the budgets and limits of a user or a team."""
    _store(config).set_allowance(scope, None)
    typer.echo(f"{scope} has no budgets and limits")


def _database(config: Path | None) -> Database:
    return Database(str(read_settings(config).database), timeout=10)


def _store(config: Path | None) -> KeyStore:
    return KeyStore(_database(config))


def _allowance(
    budgets: Sequence[str] | None, limits: Sequence[str] | None, concurrency: str | None, *, allow_unpriced: bool
) -> Allowance:
    return Allowance(
        tuple(parse_budget(each, allow_unpriced=allow_unpriced) for each in budgets or ()),
        tuple(map(parse_limit, limits or ())),
        None if concurrency is None else parse_concurrency(concurrency),
    )


def _describe(key: VirtualKey, now: datetime) -> dict[str, Any]:
    state = "revoked" if key.revoked_at else "active" if key.is_active(now) else "expired"
    return {
        "id": key.id,
        "name": key.name,
        "team": key.team,
        "user": key.user,
        "roles": list(key.roles),
        "permissions": list(key.permissions),
        "state": "admin" if key.admin and state == "active" else state,
        "models": list(key.models),
        "endpoints": list(key.endpoints),
        "budgets": list(map(str, key.allowance.budgets)),
        "limits": key.allowance.describe_limits(),
        "created_at": key.created_at.isoformat(),
        "expires_at": None if key.expires_at is None else key.expires_at.isoformat(),
    }


def _print_secret(key: VirtualKey, secret: str, *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps({"id": key.id, "key": secret}))
        return
    typer.echo(secret)
    typer.echo(f"{key.id}: keep the key now, it is shown only once", err=True)


def _print_rows(rows: Sequence[dict[str, Any]], columns: Sequence[str], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json.dumps(rows))
        return
    texts = [[_cell(row[column]) for column in columns] for row in rows]
    widths = [max(map(len, column)) for column in zip(columns, *texts, strict=True)]
    for line in [list(columns), *texts]:
        typer.echo("  ".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True)).rstrip())


def _cell(value: Any) -> str:
    return ", ".join(value) if isinstance(value, list) else "" if value is None else str(value)
