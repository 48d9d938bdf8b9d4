"""Names of a package that are imported when they are first used: most programs use few of them."""

from collections.abc import Callable, Iterable, Mapping
from importlib import import_module
from typing import Any


def lazy_names(
    namespace: dict[str, Any], modules: Mapping[str, Iterable[str]]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` for a package.

    ``namespace`` is its ``globals()``; ``modules`` has the names by their module, below `dragoman`.
    """
    module_of = {name: module for module, names in modules.items() for name in names}

    def load(name: str) -> Any:
        if name not in module_of:
            raise AttributeError(f"module {namespace['__name__']!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(f"dragoman.{module_of[name]}"), name)
        return value

    return load, lambda: sorted({*namespace, *namespace["__all__"]})
