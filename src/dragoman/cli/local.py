"""`dragoman local install`: downloads the embedded model."""

from enum import StrEnum
from typing import Annotated

import typer

from dragoman.cli.io.console import console, show_line


class Action(StrEnum):
    INSTALL = "install"


def local(action: Annotated[Action, typer.Argument(help="install downloads the file of the embedded model.")]) -> None:
    """Manages the embedded model, which needs the extra `local` and one file of 98 MB."""
    from dragoman.transport.local.install import install

    assert action is Action.INSTALL  # the only one so far
    path = install()
    console().print(
        f"the embedded model is at {show_line(str(path))}; try it: dragoman ask local:smollm2-135m 'Hello!'"
    )
