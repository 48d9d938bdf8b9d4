"""`dragoman doctor`: checks what Dragoman finds on this computer."""

import sys
from collections.abc import Callable
from typing import Annotated, Any

import typer

from dragoman.adapter.errors import DragomanError
from dragoman.cli.doctor import credential_checks, drift_checks, local_checks, network_checks
from dragoman.cli.doctor.findings import Finding, Findings, State, print_finding, show_address
from dragoman.cli.io.console import console, show_line
from dragoman.runtime.configuration import (
    ConfigurationFile,
    build_settings,
    find_configuration,
    is_trusted,
    read_configuration,
)


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

    def report(check: Callable[[], Findings]) -> None:
        nonlocal problems
        try:
            for finding in check():
                print_finding(out, finding)
                problems += finding.state is State.PROBLEM
        except (DragomanError, OSError) as error:
            print_finding(out, Finding(State.PROBLEM, check.__name__.removeprefix("check_"), str(error)))
            problems += 1

    file, wrong = _read_file()
    settings = {} if file is None or wrong else _build(file)
    store: str | None = settings.get("store")
    keeps_log = file is None or bool(file.tables.get("log", True))
    if drift:
        report(lambda: iter(wrong) if wrong else drift_checks.count_drift(store))
        if problems:
            raise typer.Exit(1)
        return
    report(local_checks.check_python)
    report(local_checks.check_extras)
    report(local_checks.check_terminal)
    report(lambda: iter(wrong) if wrong else local_checks.check_configuration(file))
    report(local_checks.check_keys)
    sources = credential_checks.find_sources(settings.get("providers", {}))
    report(lambda: credential_checks.check_sources(sources))
    report(lambda: local_checks.check_proxies(file))
    report(local_checks.check_certificates)
    report(local_checks.check_clock)
    report(lambda: local_checks.check_store(store, keeps_log=keeps_log))
    report(lambda: local_checks.check_databases(file, store))
    report(local_checks.check_embedded_model)
    places, misplaced = network_checks.find_places(settings.get("providers", {}))
    report(lambda: iter(misplaced))
    servers = [url for url in (store, redis) if url is not None and not url.startswith("sqlite")]
    addresses = sorted({show_address(each) for each in (*(place.base_url for place in places), *servers)})
    fetched = [f"for the credentials of {each.provider}" for each in sources]
    if (addresses or sources) and _may_connect(connect, [*addresses, *fetched]):
        report(lambda: network_checks.check_places(places))
        report(lambda: credential_checks.fetch_credentials(sources))
        if store in servers and store is not None:
            report(lambda: network_checks.check_server_store(store))
        if redis is not None:
            report(lambda: network_checks.check_redis(redis))
    elif addresses or sources:
        addresses += fetched
        advice = "dragoman doctor --connect"
        print_finding(out, Finding(State.NOTE, "addresses", f"not checked: {', '.join(addresses)}", advice))
    if problems:
        raise typer.Exit(1)


def _read_file() -> tuple[ConfigurationFile | None, list[Finding]]:
    found = find_configuration()
    if found is None:
        return None, []
    try:
        return read_configuration(*found), []
    except DragomanError as error:
        return None, [Finding(State.PROBLEM, "configuration", str(error), f"correct {found[0]}")]


def _build(file: ConfigurationFile) -> dict[str, Any]:
    """Return the settings of the file; none if it has mistakes, which are reported."""
    try:
        return dict(build_settings(file, trusted=is_trusted(file)))
    except DragomanError:
        return {}


def _may_connect(connect: bool | None, addresses: list[str]) -> bool:
    if connect is not None:
        return connect
    if not _is_interactive():
        return False
    console().print(f"[bold]connects to:[/] {show_line(', '.join(addresses))}", soft_wrap=True)
    return typer.confirm("Connect to these addresses? No key is sent to a provider.", default=True)


def _is_interactive() -> bool:
    return sys.stdin is not None and sys.stdin.isatty() and sys.stdout.isatty()
