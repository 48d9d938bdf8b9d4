"""The templates of the page and of notebooks."""

from functools import cache
from importlib.resources import files
from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import MissingExtraError
from dragoman.view import figures

if TYPE_CHECKING:
    from jinja2 import Environment

_FOLDER = "pages"
_CONTROL_PICTURES = {code: 0x2400 + code for code in range(0x20) if chr(code) not in "\t\n\r"} | {0x7F: 0x2421}


def read_asset(name: str) -> str:
    return files("dragoman.view").joinpath(_FOLDER, name).read_text(encoding="utf-8")


@cache
def environment() -> "Environment":
    try:
        from jinja2 import Environment, PackageLoader, StrictUndefined
    except ModuleNotFoundError:
        raise MissingExtraError("a page needs Jinja: pip install 'dragoman[cli]'") from None
    templates = Environment(
        loader=PackageLoader("dragoman.view", _FOLDER),
        autoescape=True,
        undefined=StrictUndefined,
        finalize=show_control_characters,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    templates.filters["cost"] = figures.cost
    templates.filters["plural"] = figures.plural
    templates.filters["number_in"] = lambda message_id, numbers: numbers.get(message_id)
    return templates


def show_control_characters(value: Any) -> Any:
    """Replace control characters with visible symbols: HTML may not contain them, and readers would not see them."""
    return value.translate(_CONTROL_PICTURES) if type(value) is str else value
