"""`dragoman config` shows, checks and trusts dragoman.toml; `dragoman policy` writes ready policies into it."""

import os
import tomllib
from collections.abc import Callable
from functools import partial
from importlib.metadata import entry_points
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Any

import typer
from rich.markup import escape

from dragoman.adapter.errors import ConfigurationError, mask_secrets
from dragoman.adapter.names import nearest_name
from dragoman.cli.io.console import console, show_line
from dragoman.configuration.file import (
    ConfigurationFile,
    Origin,
    build_settings,
    find_configuration,
    is_trusted,
    read_configuration,
)
from dragoman.configuration.file import trust as trust_file
from dragoman.policy.plugins.presets import PRESETS, preset_texts, read_test_header

app = typer.Typer(no_args_is_help=True, help="The configuration file dragoman.toml: show, check and trust it.")

_PATH = Annotated[
    Path | None, typer.Argument(help="The file; by default the one that the commands use in this folder.")
]
CHECKS = "dragoman.configuration"
"""The entry-point group of other distributions that read a table of the file: each name is that of a table, and what it
loads takes the file, and raises ConfigurationError with every mistake in the table."""
_HIDDEN = frozenset({"proxy"})
"""Settings whose value may hold a password."""
_ORIGINS = {
    Origin.NAMED: "named by you",
    Origin.PROJECT: "of this project",
    Origin.USER: "in your configuration folder",
}


@app.command()
def show(path: _PATH = None) -> None:
    """Shows each setting and its line. Values that may hold secrets are masked."""
    file, out = _find(path), console()
    trusted = "trusted" if is_trusted(file) else f"not trusted: dragoman config trust {file.path}"
    out.print(f"[bold]{show_line(str(file.path))}[/] {show_line(f'({_ORIGINS[file.origin]}, {trusted})')}")
    for place, value in _flatten((), file.tables):
        shown = "***" if place[-1] in _HIDDEN or "headers" in place[:-1] else mask_secrets(repr(value))
        out.print(
            f"{show_line('.'.join(map(str, place)))} = {show_line(shown)} [dim]line {file.line_of(place)}[/]",
            soft_wrap=True,
        )


@app.command()
def check(path: _PATH = None) -> None:
    """Checks the whole file, and lists every mistake with its line. The exit code is 2 if there is one."""
    file = _find(path)
    checks: list[Callable[[ConfigurationFile], object]] = [partial(build_settings, trusted=True)]
    checks += [entry.load() for entry in entry_points(group=CHECKS) if entry.name in file.tables]
    problems = []
    for each in checks:
        try:
            each(file)
        except ConfigurationError as error:
            problems.append(str(error))
    if problems:
        raise ConfigurationError("\n".join(problems))
    console().print(f"{show_line(str(file.path))} has no mistakes")
    if not is_trusted(file):
        build_settings(file, trusted=False)


@app.command()
def trust(path: Annotated[Path, typer.Argument(help="The file to trust, as it is now.")]) -> None:
    """Lets a project's file set addresses, proxies, certificates, credentials and plugins, until it changes."""
    file = read_configuration(path, Origin.PROJECT)
    build_settings(file, trusted=True)
    trust_file(file)
    console().print(f"{show_line(str(file.path))} is trusted until it changes")


def _find(path: Path | None) -> ConfigurationFile:
    if path is not None:
        return read_configuration(path)
    found = find_configuration()
    if found is None:
        raise ConfigurationError(
            "there is no configuration: write dragoman.toml in this folder or in your configuration folder, or name a "
            "file in DRAGOMAN_CONFIG"
        )
    return read_configuration(*found)


def _flatten(place: tuple[str | int, ...], value: Any) -> list[tuple[tuple[str | int, ...], Any]]:
    """Return each value of nested tables with its place."""
    if isinstance(value, dict):
        return [each for name, inner in value.items() for each in _flatten((*place, name), inner)]
    if isinstance(value, list) and any(isinstance(inner, dict) for inner in value):
        return [each for index, inner in enumerate(value) for each in _flatten((*place, index), inner)]
    return [(place, value)]


policy = typer.Typer(no_args_is_help=True, help="Ready policies: list them, and write them into dragoman.toml.")

_EXTRAS = {"redaction": ("datafog", "kingfisher_sdk")}
"""The modules of each extra."""


@policy.command("list")
def list_presets() -> None:
    """Lists the ready policies."""
    for name, text in preset_texts().items():
        needs = f" (needs dragoman\\[{text.extra}])" if text.extra else ""
        console().print(f"[bold]{name}[/]{needs}: {show_line(text.summary)}")


@policy.command()
def init(
    presets: Annotated[
        list[str] | None,
        typer.Argument(help="The policies, of `dragoman policy list`; by default all whose extra is installed."),
    ] = None,
    file: Annotated[Path, typer.Option(help="The configuration file; a section is added to it.")] = Path(
        "dragoman.toml"
    ),
    tests: Annotated[Path, typer.Option(help="The file of tests.")] = Path("test_policy.py"),
) -> None:
    """Writes a commented section of dragoman.toml, and tests of it for pytest. It overwrites nothing."""
    texts = preset_texts()
    installed = (
        name
        for name, text in texts.items()
        if all(find_spec(module) is not None for module in _EXTRAS.get(text.extra or "", ()))
    )
    chosen = tuple(dict.fromkeys(presets or installed))
    for name in chosen:
        if name not in PRESETS:
            raise ConfigurationError(f"no policy {name!r:.60}{nearest_name(name, PRESETS)}: see dragoman policy list")
    try:
        before = file.read_text(encoding="utf-8") if file.exists() else ""
        known: dict[str, list[dict[str, object]]] = tomllib.loads(before)
    except tomllib.TOMLDecodeError as error:
        raise ConfigurationError(f"{file} is not valid TOML: {error}") from None
    configured = {str(table.get("name")) for table in known.get("plugins", ())}
    if repeated := [name for name in chosen if name in configured]:
        raise ConfigurationError(f"{file} has the plugin {repeated[0]} already: change it there")
    if tests.exists():
        raise ConfigurationError(f"{tests} exists: name another file with --tests")
    section = "\n".join(texts[name].section.strip() + "\n" for name in chosen)
    file.write_text((before.rstrip("\n") + "\n\n" if before else "") + section, encoding="utf-8")
    functions = "\n\n".join(texts[name].test.strip() + "\n" for name in chosen)
    relative = Path(os.path.relpath(file.resolve(), tests.parent.resolve())).as_posix()
    header = read_test_header().strip().replace('"dragoman.toml"', f'"{relative}"')
    tests.write_text(f"{header}\n\n\n{functions}", encoding="utf-8")
    lines = [f"{file}: {', '.join(chosen)}", f"{tests}: run it with pytest {tests}"]
    lines.append(f"commands use the file after: dragoman config trust {file}")
    console().print(escape("\n".join(lines)))
