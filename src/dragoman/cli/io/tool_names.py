"""Tools on the command line: --tool MODULE:function."""

import sys
from collections.abc import Iterable
from difflib import get_close_matches
from importlib import import_module
from pathlib import Path
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.tools.tool import Tool


def load_tools(names: Iterable[str]) -> list[Any]:
    """Return the functions that ``MODULE:function`` names. A module may be in the working folder.

    Raises ConfigurationError if one cannot be imported or does not exist.
    """
    return [_load_tool(name) for name in names]


def _load_tool(name: str) -> Any:
    module_name, separator, attribute = name.partition(":")
    if not (module_name and separator and attribute):
        raise ConfigurationError(f"--tool {name!r:.80} is not of the form MODULE:function, such as mytools:add")
    folder = str(Path.cwd())
    sys.path.insert(0, folder)
    try:
        module = import_module(module_name)
    except (Exception, SystemExit) as error:  # the module is the user's own, and may raise anything
        raise ConfigurationError(f"--tool {name}: the import fails with {type(error).__name__}: {error}") from None
    finally:
        # The module may import others of this folder later. They do not hide installed ones, which come first now.
        sys.path.remove(folder)
        sys.path.append(folder)
    found = getattr(module, attribute, None)
    if not isinstance(found, Tool) and not callable(found):
        near = get_close_matches(attribute, [each for each in vars(module) if not each.startswith("_")], n=1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ConfigurationError(f"--tool {name}: the module {module_name} has no such function{hint}")
    return found
