"""The command line: `dragoman ask`, `chat`, `convert`, `cost`, `demo`, `models`, `prices`, `local` and `view`."""

import sys


def main() -> None:
    """Runs the command line; without the `cli` extra it says how to install it, and exits with 2."""
    try:
        from dragoman.cli.app import run
    except ModuleNotFoundError as error:
        if error.name not in ("typer", "rich", "yaml"):
            raise
        sys.stderr.write("dragoman: the command line needs its extra: pip install 'dragoman[cli]'\n")
        raise SystemExit(2) from None
    run()
