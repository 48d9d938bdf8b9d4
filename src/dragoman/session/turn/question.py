"""One question, in a session of its own."""

from typing import Any, Unpack, overload

from typing_extensions import TypeForm

from dragoman.session.config import OutputT, SessionSettings, UserInput
from dragoman.session.replies.reply import Reply
from dragoman.session.session import Session
from dragoman.transport.settings import seal_keys


@overload
def ask(
    model: str | None,
    prompt: UserInput,
    *,
    system: str | None = None,
    **settings: Unpack[SessionSettings],
) -> Reply[str]: ...


@overload
def ask(
    model: str | None,
    prompt: UserInput,
    *,
    output: TypeForm[OutputT],
    output_retries: int = 1,
    system: str | None = None,
    **settings: Unpack[SessionSettings],
) -> Reply[OutputT]: ...


def ask(
    model: str | None,
    prompt: UserInput,
    *,
    output: Any = None,
    output_retries: int = 1,
    system: str | None = None,
    **settings: Unpack[SessionSettings],
) -> Reply[Any]:
    """Return the answer to one question, in a new session that is closed afterwards. ``output`` is as in `Session.ask`,
    and ``settings`` are those of `Session`."""
    settings = seal_keys(settings)  # type: ignore[assignment]  # the same settings, before anything can fail
    with Session(model, system=system, **settings) as session:
        return session.ask(prompt, output=output, output_retries=output_retries)
