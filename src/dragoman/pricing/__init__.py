"""What a reply cost, exactly or not at all: dated prices as data, decimal arithmetic, a version on every figure.

``price_table()`` is the table that comes with the library, ``price_table(version)`` an older one; `PriceTable.price`
puts the cost on a reply's usage, `PriceTable.find` shows the rates behind it, `cost` does the first in one call and
`reprice` for the past. `keep` stores a table, so that its figures can be computed again for ever.
"""

from dragoman.pricing.reprice import UsageRecord, reprice
from dragoman.pricing.rows import PriceRow, Rate, Window
from dragoman.pricing.table import PriceTable
from dragoman.pricing.validation import find_faults
from dragoman.pricing.versions import cost, list_versions, price_table, save_table

__all__ = [
    "PriceRow",
    "PriceTable",
    "Rate",
    "UsageRecord",
    "Window",
    "cost",
    "find_faults",
    "list_versions",
    "price_table",
    "reprice",
    "save_table",
]
