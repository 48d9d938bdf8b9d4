"""The kinds of fields that extensions are made of: frozen all the way down, sets written in order."""

from typing import Annotated

from pydantic import AfterValidator, PlainSerializer

from dragoman.canonical.frozen import freeze
from dragoman.canonical.guard import JsonObject, Text

Names = Annotated[list[Text], AfterValidator(freeze)]
"""A list of words that cannot change."""

NameSet = Annotated[frozenset[Text], PlainSerializer(sorted, return_type=list[str], when_used="json")]
"""A set of words; JSON has them sorted, so that the same set gives the same bytes in any process."""

TextMap = Annotated[dict[Text, Text], AfterValidator(freeze)]
"""Texts by name; it cannot change."""

FrozenObject = Annotated[JsonObject, AfterValidator(freeze)]
"""A JSON object that cannot change, at any depth."""

FrozenObjects = Annotated[list[FrozenObject], AfterValidator(freeze)]
