"""The names of models, as Ollama's clients write them."""

_TAG = ":latest"


def plain_name(name: str) -> str:
    """Return the name without the tag that some clients add to every name without one."""
    plain = name.removesuffix(_TAG)
    return name if ":" in plain else plain
