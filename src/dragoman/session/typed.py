"""The check of a typed answer, and the schema that the model receives for it."""

from dataclasses import replace
from typing import Any

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import RequestError
from dragoman.output.answer_type import AnswerForm, AnswerJson, AnswerType
from dragoman.output.check import AnswerCheck, check_output_retries
from dragoman.session.config import TurnOptions


def new_check(
    options: AdapterOptions, overrides: TurnOptions, output: Any, *, early: bool
) -> tuple[AdapterOptions, AnswerCheck[Any] | None]:
    """Return the options with the schema of the answer, and its check, if it has one. ``options`` are those of the
    turn, ``overrides`` included, and ``output`` is a type, what was made of one, or None.

    A plain text has no check. ``early`` is as for `AnswerCheck`. Raises RequestError, OutputTypeError among them.
    """
    form: AnswerForm[Any]
    if output is None:
        schema = options.output_schema
        if schema is None:
            return options, None
        form = AnswerJson(schema)
    elif overrides.get("output_schema") is not None:
        raise RequestError("output and output_schema are two ways to say what the answer is: give one")
    elif output is str:
        return replace(options, output_schema=None), None
    else:
        form = output if isinstance(output, (AnswerType, AnswerJson)) else AnswerType(output)
        options = replace(options, output_schema=form.schema)
    retries = check_output_retries(overrides.get("output_retries", 1))
    return options, AnswerCheck(form, retries, partial_strings=overrides.get("partial_strings", False), early=early)
