"""`dragoman doctor`: checks what Dragoman finds on this computer."""

import sys
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Annotated, Any

import typer

from dragoman.adapter.errors import DragomanError
from dragoman.adapter.replies.drift import drift_of
from dragoman.cli.doctor import local_checks, network_checks
from dragoman.cli.doctor.local_checks import Findings, State, note, ok, print_finding, problem, show_address
from dragoman.cli.io.console import console, show_line
from dragoman.configuration.file import (
    ConfigurationFile,
    build_settings,
    find_configuration,
    is_trusted,
    read_configuration,
)

_REPORT = "report the line at https://github.com/dragoman-sdk/dragoman/issues"


def doctor(
    connect: Annotated[
        bool | None,
        typer.Option(
            "--connect/--no-connect",
            help="Whether to connect to the addresses of providers and servers, without a key, and to fetch "
            "credentials; asked by default.",
        ),
    ] = None,
    redis: Annotated[
        str | None, typer.Option(metavar="URL", help="Also check the Redis server that your limits share.")
    ] = None,
    drift: Annotated[
        bool,
        typer.Option(
            "--drift",
            help="Count the fields, events and stop reasons in the kept replies that this version does not know, and "
            "check nothing else.",
        ),
    ] = False,
) -> None:
    """Checks what Dragoman finds on this computer, and says what to do. It changes nothing.

    The exit code is 1 if there is a problem.
    """
    out, problems = console(), 0

    def report(check: Callable[..., Findings], *arguments: Any, **options: Any) -> None:
        nonlocal problems
        try:
            for finding in check(*arguments, **options):
                print_finding(out, finding)
                problems += finding.state is State.PROBLEM
        except (DragomanError, OSError) as error:
            print_finding(out, problem(check.__name__.removeprefix("check_"), str(error)))
            problems += 1

    file: ConfigurationFile | None = None
    configuration = ok("configuration", "there is no dragoman.toml: the commands use their defaults")
    settings: dict[str, Any] = {}
    if (place := find_configuration()) is not None:
        advice = f"correct {place[0]}"
        try:
            file = read_configuration(*place)
            advice = f"dragoman config check {file.path}"
            settings = dict(build_settings(file, trusted=is_trusted(file)))
            configuration = ok("configuration", str(file.path))
        except DragomanError as error:
            configuration = problem("configuration", str(error), advice)
    store: str | None = settings.get("store")
    keeps_log = file is None or bool(file.tables.get("log", True))
    if drift and place is not None and file is None:
        report(iter, [configuration])
    elif drift:
        report(_count_drift, store)
    else:
        report(local_checks.check_python)
        report(local_checks.check_extras)
        report(local_checks.check_terminal)
        report(iter, [configuration])
        report(local_checks.check_keys)
        sources = network_checks.find_sources(settings.get("providers", {}))
        report(network_checks.check_sources, sources)
        report(local_checks.check_proxies, file)
        report(local_checks.check_certificates)
        report(local_checks.check_clock)
        report(local_checks.check_store, store, keeps_log=keeps_log)
        report(local_checks.check_databases, file, store)
        report(local_checks.check_embedded_model)
        _check_addresses(report, connect, settings, sources, store, redis)
    if problems:
        raise typer.Exit(1)


def _check_addresses(
    report: Callable[..., None],
    connect: bool | None,
    settings: Mapping[str, Any],
    sources: Sequence[network_checks.CredentialSource],
    store: str | None,
    redis: str | None,
) -> None:
    """Connect to the providers and servers that are used here, if the user agrees; otherwise name them."""
    places, misplaced = network_checks.find_places(settings.get("providers", {}))
    report(iter, misplaced)
    servers = [url for url in (store, redis) if url is not None and not url.startswith("sqlite")]
    addresses = sorted({show_address(each) for each in (*(place.base_url for place in places), *servers)})
    fetched = [f"for the credentials of {each.provider}" for each in sources]
    if (addresses or sources) and _may_connect(connect, [*addresses, *fetched]):
        report(network_checks.check_places, places)
        report(network_checks.fetch_credentials, sources)
        if store in servers:
            report(network_checks.check_server_store, store)
        if redis is not None:
            report(network_checks.check_redis, redis)
    elif addresses or sources:
        named = ", ".join([*addresses, *fetched])
        report(iter, [note("addresses", f"not checked: {named}", "dragoman doctor --connect")])


def _may_connect(connect: bool | None, addresses: list[str]) -> bool:
    if connect is not None:
        return connect
    if not _is_interactive():
        return False
    console().print(f"[bold]connects to:[/] {show_line(', '.join(addresses))}")
    return typer.confirm("Connect to these addresses? No key is sent to a provider.", default=True)


def _is_interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()


def _count_drift(url: str | None) -> Findings:
    """Count the unknown names of each provider in the store. It is opened for reading."""
    from sqlalchemy import make_url

    from dragoman.store import Store
    from dragoman.store.database import default_url

    place = default_url(create_folder=False) if url is None else make_url(url)
    if place.drivername.startswith("sqlite") and not Path(place.database or "").is_file():
        yield ok("drift", "no conversation is kept yet")
        return
    replies = 0
    found: Counter[tuple[str, str, str]] = Counter()
    with Store(place, read_only=True) as store:
        for reply in store.billed_replies():
            replies += 1
            found.update(drift_of(reply))
    for (provider, kind, name), count in sorted(found.items()):
        line = (
            f"{provider} {kind.replace('_', ' ')} {name}: {count} of {replies} replies, dragoman {version('dragoman')}"
        )
        yield note("drift", line, _REPORT)
    if not found:
        yield ok("drift", f"{replies} kept replies hold nothing that this version does not know")
