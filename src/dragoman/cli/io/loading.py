"""Loads a model in this process before the first request, and shows progress."""

import time
from contextlib import ExitStack

from rich.console import Console

from dragoman.adapter.registry import get_adapter
from dragoman.cli.io.console import show_line


def load_local(out: Console, model: str) -> None:
    """Loads the model if it runs in this process and is not loaded yet, and prints how long that took.

    Meanwhile a terminal shows a spinner; other outputs get a line of text. Raises as a request to that model does.
    """
    adapter = get_adapter(model)
    if adapter.transport != "local":
        return
    from dragoman.local.model import get_model  # most commands use a provider

    took_time = False
    began = time.monotonic()
    with ExitStack() as spinner:

        def show(text: str) -> None:
            nonlocal took_time
            took_time = True
            if out.is_interactive:
                spinner.enter_context(out.status(show_line(text)))
            else:
                out.print(show_line(text), soft_wrap=True)

        get_model(adapter.model, show)
    if took_time:
        out.print(f"loaded {show_line(adapter.model)} in {time.monotonic() - began:.1f} s", soft_wrap=True)
