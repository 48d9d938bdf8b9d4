"""`dragoman policy`: ready policies for dragoman.toml, with tests."""

import os
import tomllib
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.markup import escape

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.names import nearest_name
from dragoman.cli.io.console import console, show_line
from dragoman.policy.plugins.presets import PRESETS, preset_texts, read_test_header

app = typer.Typer(no_args_is_help=True, help="Ready policies: list them, and write them into dragoman.toml.")

_EXTRAS = {"redaction": ("datafog", "kingfisher_sdk")}
"""The modules of each extra."""


@app.command("list")
def list_presets() -> None:
    """Lists the ready policies."""
    for name, text in preset_texts().items():
        needs = f" (needs dragoman\\[{text.extra}])" if text.extra else ""
        console().print(f"[bold]{name}[/]{needs}: {show_line(text.summary)}", soft_wrap=True)


@app.command()
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
    chosen = _choose(presets or ())
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
    texts = preset_texts()
    section = "\n".join(texts[name].section.strip() + "\n" for name in chosen)
    file.write_text((before.rstrip("\n") + "\n\n" if before else "") + section, encoding="utf-8")
    functions = "\n\n".join(texts[name].test.strip() + "\n" for name in chosen)
    relative = Path(os.path.relpath(file.resolve(), tests.parent.resolve())).as_posix()
    header = read_test_header().strip().replace('"dragoman.toml"', f'"{relative}"')
    tests.write_text(f"{header}\n\n\n{functions}", encoding="utf-8")
    lines = [f"{file}: {', '.join(chosen)}", f"{tests}: run it with pytest {tests}"]
    lines.append(f"commands use the file after: dragoman config trust {file}")
    console().print(escape("\n".join(lines)), soft_wrap=True)


def _choose(names: Sequence[str]) -> tuple[str, ...]:
    if not names:
        return tuple(
            name
            for name, text in preset_texts().items()
            if all(find_spec(module) is not None for module in _EXTRAS.get(text.extra or "", ()))
        )
    for name in names:
        if name not in PRESETS:
            raise ConfigurationError(f"no policy {name!r:.60}{nearest_name(name, PRESETS)}: see dragoman policy list")
    return tuple(dict.fromkeys(names))
