"""Short names for models that a program adds to the bundled ones, or puts in their place."""

import re
from collections.abc import Mapping

from dragoman.adapter.aliases import bundled_aliases
from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.registry import parse_model
from dragoman.canonical.ids import ModelId

ALIAS = r"[A-Za-z][A-Za-z0-9_.-]{0,63}"
_ALIAS = re.compile(ALIAS)


class Aliases:
    """Case-insensitive names without a colon, for model ids.

    Raises ConfigurationError for an invalid name, and for a value that is not a model id.
    """

    def __init__(self, custom: Mapping[str, str] | None = None) -> None:
        self.custom: dict[str, str] = {}
        """The aliases that are not bundled, in lower case."""
        for name, model in (custom or {}).items():
            if not (isinstance(name, str) and _ALIAS.fullmatch(name)):
                raise ConfigurationError(
                    f"{name!r:.80} is not a valid alias: use letters, digits, '-', '_' and '.', starting with a letter"
                )
            self.custom[name.lower()] = _model_id(name, model)

    def __contains__(self, name: str) -> bool:
        return name.lower() in self.custom or name.lower() in bundled_aliases()

    def resolve(self, name: str) -> str:
        """Return the model id of an alias; a model id is returned unchanged.

        Raises UnknownProviderError, with the nearest names, for anything else.
        """
        return str(parse_model(name, self.custom))


def _model_id(name: str, model: str) -> str:
    try:
        return str(ModelId.parse(model))
    except (ValueError, AttributeError):
        raise ConfigurationError(f"the alias {name!r} stands for {model!r:.80}, which is not a model id") from None
