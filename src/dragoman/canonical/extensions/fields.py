"""Field types of the extensions: deeply frozen, with sets serialized in sorted order."""

from typing import Annotated

from pydantic import AfterValidator, PlainSerializer

from dragoman.canonical.frozen import freeze
from dragoman.canonical.guard import JsonObject, Text

Names = Annotated[list[Text], AfterValidator(freeze)]
"""A frozen list of words."""

NameSet = Annotated[frozenset[Text], PlainSerializer(sorted, return_type=list[str], when_used="json")]
"""A set of words, sorted in JSON so that the same set gives the same bytes in any process."""

TextMap = Annotated[dict[Text, Text], AfterValidator(freeze)]
"""A frozen mapping from text to text."""

FrozenObject = Annotated[JsonObject, AfterValidator(freeze)]
"""A deeply frozen JSON object."""

FrozenObjects = Annotated[list[FrozenObject], AfterValidator(freeze)]
