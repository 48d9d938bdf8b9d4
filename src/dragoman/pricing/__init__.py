"""The exact cost of a reply: dated prices as data, decimal arithmetic, and a version on every figure.

``price_table()`` returns the bundled table, ``price_table(version)`` an older one. `PriceTable.price` adds the cost to
a reply's usage, `PriceTable.find` returns the rates behind it. `cost` does the former in one call, `reprice` for past
replies. `save_table` stores a table, so that its figures can be computed again at any time. `install_update` installs
newer prices and limits than those of the release, and `use_update` makes the process use them.
"""

from typing import TYPE_CHECKING

from dragoman.lazy_names import lazy_names
from dragoman.pricing.rows import PriceRow, Rate, Window
from dragoman.pricing.table import PriceTable
from dragoman.pricing.versions import UsageRecord, cost, list_versions, price_table, reprice, save_table

if TYPE_CHECKING:
    from dragoman.pricing.updates import PriceUpdate, install_update, revert_update, use_update
    from dragoman.pricing.validation import find_faults

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

_LOADED_ON_USE = {
    "pricing.updates": ("PriceUpdate", "install_update", "revert_update", "use_update"),
    "pricing.validation": ("find_faults",),
}
"""What few programs use, by its module."""

if not TYPE_CHECKING:  # a type checker would believe that every name exists
    __getattr__, __dir__ = lazy_names(globals(), _LOADED_ON_USE)
