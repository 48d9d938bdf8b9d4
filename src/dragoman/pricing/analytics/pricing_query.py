"""The SQL that multiplies counts by the rates of a sheet, as `billing` does: integers only, nothing rounded.

Each stage is a query over the one before: ``used`` has the usages in one form, ``rates`` the sheet, ``rated`` both
joined, ``split`` the buckets without their subsets, ``summed`` the units and the gaps, ``priced`` the status too.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from dragoman.adapter.errors import RequestError
from dragoman.pricing.analytics.rate_sheet import FIRST, LAST, MONDAY, PARTS, WEEK, RateLine, RateSheet, ReplyKind
from dragoman.pricing.analytics.usage_columns import TOOL, UsageColumns, quote_identifier, quote_literal

_BITS = 62
_MAX_GAPS = 120
"""A gap is one binary digit of a HUGEINT."""
CUT_OFF_GAP = "output_tokens"
"""The uncertain count of an interrupted reply, even if all its tokens have a price."""
_REQUIRED_COUNTS = ("input_tokens", "output_tokens")
"""A row without one of these has an unknown count. The other counts are missing if there is no cache."""
UNREAD = "unread"
"""The column of ``priced`` with the invalid counts of the usages, if they have one; it is one digit of the gaps."""
_TOOLS = "tools by name"
_PROMPT = [bucket for bucket in PARTS if bucket != "output_tokens"]

_COMPLETE = "quoted AND gaps = 0"
_STATUS = f"""CASE
    WHEN {_COMPLETE} THEN CASE WHEN free AND units = 0 THEN 'free' WHEN broken THEN 'partial' ELSE 'priced' END
    WHEN known OR unknown IS NOT NULL THEN 'partial'
    ELSE 'unpriced' END"""
CUT_OFF = f"(cost_status = 'partial' AND {_COMPLETE})"
"""A condition on ``priced``: the row has a price, which is a lower bound."""


@dataclass(frozen=True)
class PricingQuery:
    """Everything that the SQL depends on. ``raw_fields``: fields of the usage object; ``terms`` of the request;
    ``tools``: names of tools.

    ``wide`` computes with 128 bits instead of 64. The database checks both: too large a figure is an error.
    """

    columns: UsageColumns
    sheet: RateSheet
    kinds: Sequence[ReplyKind]
    raw_fields: Sequence[str] = ()
    terms: Sequence[str] = ()
    tools: Sequence[str] = ()
    wide: bool = True

    def __post_init__(self) -> None:
        if len(self.gaps) > _MAX_GAPS:
            raise RequestError(
                f"the usages name {len(self.tools)} tools of providers, which is too many for one report"
            )

    @cached_property
    def gaps(self) -> tuple[str, ...]:
        """What may have no price or no count; each is a binary digit of the column ``gaps``."""
        return (*self._rated, *_REQUIRED_COUNTS, *((UNREAD,) if self.columns.unread() is not None else ()))

    def sql(self, extra_columns: Mapping[str, str]) -> str:
        """Return the stages up to ``priced``, to be followed by a SELECT. ``priced`` has the extra columns (expressions
        over the usages, by name), the four buckets, ``prompt``, ``units``, ``known``, ``gaps``, ``unread``,
        ``unknown``, ``broken`` and ``cost_status``.
        """
        stages = {
            "used": f"SELECT {_alias_columns({**extra_columns, **self._usage_columns()})} FROM usages",
            "rates": self._rates(),
            "rated": f"SELECT * FROM used JOIN rates ON {' AND '.join(self._conditions())}",
            "split": f"SELECT *, {_alias_columns(self._charged_columns())} FROM rated",
            "summed": f"SELECT *, {_alias_columns(self._sum_columns())} FROM split",
            # If nothing is missing, a usage of zeros costs 0, and the cost is known.
            "priced": f"SELECT * REPLACE (known OR ({_COMPLETE}) AS known), {_STATUS} AS cost_status FROM summed",
        }
        return "WITH " + ",\n".join(f"{name} AS ({query})" for name, query in stages.items()) + "\n"

    def unpriced(self) -> str:
        """Over ``priced``: the list of names as in `Usage.unpriced`."""
        lists = [
            UNREAD if name == UNREAD else _list_if(f"(gaps // {1 << place}) % 2 = 1", quote_literal(name))
            for place, name in enumerate(self.gaps)
        ]
        return " || ".join(
            (*lists, _list_if("unknown IS NOT NULL", "unknown"), _list_if(CUT_OFF, quote_literal(CUT_OFF_GAP)))
        )

    def uncounted(self) -> str:
        """Over ``priced``: the condition that the provider reported no tokens of a reply."""
        return f"(gaps // {1 << len(self._rated)}) % 4 = 3"  # the two places of the required counts

    def gap_counts(self) -> dict[str, str]:
        """Over ``priced``: a condition for each gap, by name. The names inside ``unread`` are not included."""
        conditions_by_name: dict[str, list[str]] = {CUT_OFF_GAP: [CUT_OFF]}
        for place, name in enumerate(self.gaps):
            if name != UNREAD:
                conditions_by_name.setdefault(name, []).append(f"(gaps // {1 << place}) % 2 = 1")
        for unknown in sorted({line.unknown for line in self.sheet.lines if line.unknown is not None}):
            conditions_by_name.setdefault(unknown, []).append(f"unknown = {quote_literal(unknown)}")
        if UNREAD in self.gaps:
            for name, conditions in conditions_by_name.items():
                conditions.append(f"list_contains({UNREAD}, {quote_literal(name)})")
        return {name: f"coalesce({' OR '.join(conditions)}, false)" for name, conditions in conditions_by_name.items()}

    @cached_property
    def _split(self) -> Mapping[str, tuple[str, ...]]:
        """The buckets that have columns, with the subsets for which any line has a rate.

        A bucket without a column is 0: a subset of it is a contradiction.
        """
        rated = {name for line in self.sheet.lines for name in line.rates}
        split = {
            bucket: tuple(part for part in parts if part in self.columns and part in rated)
            for bucket, parts in PARTS.items()
        }
        return {bucket: parts for bucket, parts in split.items() if parts or bucket in self.columns}

    @cached_property
    def _fields(self) -> tuple[str, ...]:
        return tuple(name for bucket, parts in self._split.items() for name in (*parts, bucket))

    @cached_property
    def _rated(self) -> tuple[str, ...]:
        """Everything that has a rate, or should have one."""
        return (*self._fields, *(TOOL + name for name in self.tools))

    def _cast(self, count: str) -> str:
        return f"CAST({count} AS {self._number})"

    @property
    def _number(self) -> str:
        return "HUGEINT" if self.wide else "BIGINT"

    @cached_property
    def _sheet(self) -> Mapping[str, str]:
        """The columns of the sheet that are needed here, with their types."""
        spans = {
            name: "BIGINT"
            for name, whole in _SPANS.items()
            if any(getattr(line, name) != whole for line in self.sheet.lines)
        }
        keys = {f"of_{name}": "BOOLEAN" if name == "batch" else "VARCHAR" for name in self._keys}
        rates = dict.fromkeys((*(f"rate {name}" for name in self._rated), "request"), self._number)
        return {**keys, **spans, **rates, "quoted": "BOOLEAN", "free": "BOOLEAN", "unknown": "VARCHAR"}

    def _rates(self) -> str:
        """Return the sheet as one JSON text, because the database would take long to parse an expression for each
        value."""
        lines = quote_literal(json.dumps([self._line(line) for line in self.sheet.lines]))
        columns = {name: f"CAST(line[{at}] AS {kind})" for at, (name, kind) in enumerate(self._sheet.items(), 1)}
        return f"""SELECT {_alias_columns(columns)} FROM (SELECT unnest(from_json({lines}, '[["VARCHAR"]]')) AS line)"""

    def _line(self, line: RateLine) -> list[str | None]:
        kind = self.kinds[line.kind]
        values: list[object] = []
        for name in self._sheet:
            if name.startswith("of_"):
                values.append(_value_of(kind, name[len("of_") :]))
            elif name.startswith("rate "):
                values.append(line.rates.get(name[len("rate ") :]))
            else:
                values.append(getattr(line, name))
        return [None if value is None else str(value) for value in values]

    @cached_property
    def _keys(self) -> tuple[str, ...]:
        """The columns that distinguish the kinds of replies."""
        names = (
            "model", "service_tier", "speed", "batch",
            *(f"word_{raw_field}" for raw_field in self.raw_fields), *(f"term_{term}" for term in self.terms),
        )  # fmt: skip
        return tuple(name for name in names if len({_value_of(kind, name) for kind in self.kinds}) > 1)

    def _usage_columns(self) -> dict[str, str]:
        columns = self.columns
        columns_of_kind = kind_columns(columns, self.raw_fields, self.terms)
        used = {f"is_{name}": columns_of_kind[name] for name in self._keys}
        if {"since", "until", "week_since", "week_until"} & self._sheet.keys():
            used["moment"] = columns.moment()
        used |= {name: self._cast(columns.count(name)) for name in self._fields}
        used["prompt"] = " + ".join(self._cast(columns.count(name)) for name in _PROMPT if name in columns)
        used |= {f"no {name}": f"{quote_identifier(name)} IS NULL" for name in _REQUIRED_COUNTS}
        if self.tools and (tools := columns.tools()) is not None:
            used[_TOOLS] = tools
        used |= {TOOL + name: self._cast(columns.tool(name, quote_identifier(_TOOLS))) for name in self.tools}
        if (unread := columns.unread()) is not None:
            used[UNREAD] = unread
        return {**used, "broken": columns.broken()}

    def _conditions(self) -> Iterator[str]:
        for name in self._keys:
            equals = "=" if name in ("model", "batch") else "IS NOT DISTINCT FROM"
            yield f"{quote_identifier(f'is_{name}')} {equals} {quote_identifier(f'of_{name}')}"
        spans = self._sheet.keys() & _SPANS.keys()
        week = f"((moment - ({MONDAY})) % {WEEK})"
        for prefix, value in (("", "moment"), ("week_", week), ("prompt_", "prompt")):
            if f"{prefix}since" in spans:
                yield f"{value} >= {prefix}since"
            if f"{prefix}until" in spans:
                yield f"{value} < {prefix}until"
        if not self._keys and not spans:
            yield "true"

    def _charged_columns(self) -> dict[str, str]:
        """Return the charged part of each subset, and the remainder of the bucket."""
        pieces: dict[str, str] = {}
        for bucket, parts in self._split.items():
            remainder = quote_identifier(bucket)
            for part in parts:
                rate, count = quote_identifier(f"rate {part}"), quote_identifier(part)
                pieces[f"charged {part}"] = f"CASE WHEN {rate} IS NULL THEN 0 ELSE least({count}, {remainder}) END"
                remainder = f"({remainder} - {quote_identifier(f'charged {part}')})"
            pieces[f"charged {bucket}"] = remainder
        return pieces

    def _sum_columns(self) -> dict[str, str]:
        products, known, gaps = ["coalesce(request, 0)"], ["request IS NOT NULL"], []
        for name in self._rated:
            rate, count = quote_identifier(f"rate {name}"), quote_identifier(name)
            charged = count if name.startswith(TOOL) else quote_identifier(f"charged {name}")
            products.append(f"coalesce({rate}, 0) * {charged}")
            if name in PARTS or name.startswith(TOOL):
                known.append(f"({charged} > 0 AND {rate} IS NOT NULL)")
                gaps.append(f"{charged} > 0 AND {rate} IS NULL")
            else:
                known.append(f"({count} > 0 AND {rate} IS NOT NULL)")
                gaps.append(f"{rate} IS NOT NULL AND {charged} < {count}")
        gaps += [quote_identifier(f"no {name}") for name in _REQUIRED_COUNTS]
        if UNREAD in self.gaps:
            gaps.append(f"len({UNREAD}) > 0")
        number = "BIGINT" if len(gaps) < _BITS else "HUGEINT"
        digits = [f"CASE WHEN {gap} THEN {1 << place} ELSE 0 END::{number}" for place, gap in enumerate(gaps)]
        return {"units": " + ".join(products), "known": " OR ".join(known), "gaps": " + ".join(digits)}


_SPANS = {
    "since": FIRST, "until": LAST, "week_since": 0, "week_until": WEEK, "prompt_since": 0, "prompt_until": LAST,
}  # fmt: skip
"""The bounds of a line that has none."""


def kind_columns(columns: UsageColumns, raw_fields: Sequence[str], terms: Sequence[str]) -> dict[str, str]:
    """Return the fields of `ReplyKind` as SQL expressions."""
    columns_of_kind = {
        "model": columns.model(),
        "service_tier": columns.text("service_tier"),
        "speed": columns.text("speed"),
        "batch": columns.batch(),
    }
    columns_of_kind |= {f"word_{raw_field}": columns.raw_field(raw_field) for raw_field in raw_fields}
    return columns_of_kind | {f"term_{term}": columns.term(term) for term in terms}


def _value_of(kind: ReplyKind, name: str) -> str | bool | None:
    if name.startswith("word_"):
        return kind.raw_fields.get(name.removeprefix("word_"))
    if name.startswith("term_"):
        return kind.terms.get(name.removeprefix("term_"))
    value: str | bool | None = getattr(kind, name)
    return value


def _alias_columns(columns: Mapping[str, str]) -> str:
    return ", ".join(f"{expression} AS {quote_identifier(name)}" for name, expression in columns.items())


def _list_if(condition: str, item: str) -> str:
    return f"CASE WHEN {condition} THEN [{item}] ELSE [] END"
