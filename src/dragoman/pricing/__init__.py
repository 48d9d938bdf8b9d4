"""The exact cost of a reply: dated prices as data, decimal arithmetic, and a version on every figure.

``price_table()`` returns the bundled table, ``price_table(version)`` an older one. `PriceTable.price` adds the cost to
a reply's usage, `PriceTable.find` returns the rates behind it. `cost` does the former in one call, `reprice` for past
replies. `save_table` stores a table, so that its figures can be computed again at any time. `install_update` installs
newer prices and limits than those of the release, and `use_update` makes the process use them.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from dragoman.pricing.reprice import UsageRecord, reprice
from dragoman.pricing.rows import PriceRow, Rate, Window
from dragoman.pricing.table import PriceTable
from dragoman.pricing.validation import find_faults
from dragoman.pricing.versions import cost, list_versions, price_table, save_table

if TYPE_CHECKING:
    from dragoman.pricing.updates import PriceUpdate, install_update, revert_update, use_update

__all__ = [
    "PriceRow",
    "PriceTable",
    "PriceUpdate",
    "Rate",
    "UsageRecord",
    "Window",
    "cost",
    "find_faults",
    "install_update",
    "list_versions",
    "price_table",
    "reprice",
    "revert_update",
    "save_table",
    "use_update",
]

if not TYPE_CHECKING:  # a type checker would believe that every name exists

    def __getattr__(name: str) -> Any:
        """Load the names of updates when they are used: most programs have none."""
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        value = getattr(import_module("dragoman.pricing.updates"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
