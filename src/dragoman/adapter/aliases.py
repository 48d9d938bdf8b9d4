"""Short names for models, which every call takes in place of a model id; aliases.toml has them."""

from collections.abc import Mapping
from functools import cache


@cache
def bundled_aliases() -> Mapping[str, str]:
    """Return the model ids by alias, in lower case."""
    import tomllib  # imported late: most programs name their models in full
    from importlib.resources import files

    text = files(__package__).joinpath("aliases.toml").read_text(encoding="utf-8")
    found: dict[str, str] = tomllib.loads(text)["aliases"]
    return found


def full_name(model: str) -> str:
    """Return the model id of a bundled alias. Any other text is returned unchanged."""
    return model if ":" in model else bundled_aliases().get(model.lower(), model)
