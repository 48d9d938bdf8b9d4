"""The exact cost of a reply: dated prices as data, decimal arithmetic, and a version on every figure.

``price_table()`` returns the bundled table, ``price_table(version)`` an older one. `PriceTable.price` adds the cost to
a reply's usage, `PriceTable.find` returns the rates behind it. `cost` does the former in one call, `reprice` for past
replies. `save_table` stores a table, so that its figures can be computed again at any time. `install_update` installs
newer prices and limits than those of the release, and `use_update` makes the process use them.
"""

from dragoman.pricing.reprice import UsageRecord, reprice
from dragoman.pricing.rows import PriceRow, Rate, Window
from dragoman.pricing.table import PriceTable
from dragoman.pricing.updates import PriceUpdate, install_update, revert_update, use_update
from dragoman.pricing.validation import find_faults
from dragoman.pricing.versions import cost, list_versions, price_table, save_table

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
