"""The command line. `dragoman --help` lists its commands."""

import sys


def main() -> None:
    """Runs the command line; without the `cli` extra it says how to install it, and exits with 2."""
    try:
        from dragoman.cli.app import run

        run()
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "yaml"):
            raise
        sys.stderr.write("dragoman: the command line needs its extra: pip install 'dragoman[cli]'\n")
        raise SystemExit(2) from None
