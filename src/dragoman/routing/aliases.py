"""Short names for models. The bundled ones are in aliases.toml; a program's own override them."""

import difflib
import re
import tomllib
from collections.abc import Mapping
from functools import cache
from importlib.resources import files

from dragoman.adapter.errors import ConfigurationError, UnknownProviderError
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
        self._models = {**_bundled_aliases(), **self.custom}

    def __contains__(self, name: str) -> bool:
        return name.lower() in self._models

    def resolve(self, name: str) -> str:
        """Return the model id of an alias; a model id is returned unchanged.

        Raises UnknownProviderError, with the nearest names, for anything else.
        """
        if isinstance(name, str) and (model := self._models.get(name.lower())):
            return model
        try:
            return str(ModelId.parse(name))
        except ValueError:
            raise UnknownProviderError(self._unknown(str(name))) from None

    def _unknown(self, name: str) -> str:
        close = difflib.get_close_matches(name.lower()[:64], sorted(self._models), n=3, cutoff=0.5)
        hint = f"did you mean {' or '.join(map(repr, close))}?" if close else "write it as 'provider:model'"
        return f"{name!r:.80} is neither a model id nor an alias of one: {hint}"


@cache
def _bundled_aliases() -> Mapping[str, str]:
    text = files(__package__).joinpath("aliases.toml").read_text(encoding="utf-8")
    found: dict[str, str] = tomllib.loads(text)["aliases"]
    return found


def _model_id(name: str, model: str) -> str:
    try:
        return str(ModelId.parse(model))
    except (ValueError, AttributeError):
        raise ConfigurationError(f"the alias {name!r} stands for {model!r:.80}, which is not a model id") from None
