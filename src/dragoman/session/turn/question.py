"""One question, in a session of its own."""

from typing import Any, Unpack, overload

from typing_extensions import TypeForm

from dragoman.session.config import OutputT, QuestionSettings, UserInput, split_question
from dragoman.session.replies.reply import Reply
from dragoman.session.session import Session
from dragoman.transport.settings import seal_keys


@overload
def ask(model: str | None, prompt: UserInput | None = None, **settings: Unpack[QuestionSettings]) -> Reply[str]: ...


@overload
def ask(
    model: str | None,
    prompt: UserInput | None = None,
    *,
    output: TypeForm[OutputT],
    **settings: Unpack[QuestionSettings],
) -> Reply[OutputT]: ...


def ask(
    model: str | None, prompt: UserInput | None = None, *, output: Any = None, **settings: Unpack[QuestionSettings]
) -> Reply[Any]:
    """Return the answer to one question, in a new session that is closed afterwards.

    ``settings`` are those of `Session`, such as ``system`` and ``tools``, and the options of its turn, such as
    ``max_output_tokens``. ``output`` is as in `Session.ask`. Without a prompt, ``messages`` end with what the model
    answers. Raises ConfigurationError, and what `Session.ask` raises.
    """
    settings = seal_keys(settings)  # type: ignore[assignment]  # the same settings, before anything can fail
    given, options = split_question(model, settings)
    with Session(model, **given) as session:
        return session.ask(prompt, output=output, **options)
