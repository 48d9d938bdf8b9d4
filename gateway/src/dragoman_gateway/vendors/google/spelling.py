"""Google reads its fields in camelCase and in snake_case, and clients write both."""

import re
from collections.abc import Mapping
from typing import Any

_CAPITAL = re.compile(r"(?<!^)[A-Z]")


def get_field(fields: Mapping[str, Any], name: str) -> Any:
    """Return the value of a field by its name in camelCase; None if it is absent in both spellings."""
    if (found := fields.get(name)) is not None:
        return found
    return fields.get(_CAPITAL.sub(lambda letter: f"_{letter[0].lower()}", name))
