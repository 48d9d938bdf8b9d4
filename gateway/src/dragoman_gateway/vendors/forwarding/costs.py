"""What a forwarded request costs: the most that is reserved for it, and what its reply states."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from dragoman import Usage
from dragoman.errors import InvalidRequestError
from dragoman.limits import MaxUsage
from dragoman.messages import CostStatus, TokenUsage
from dragoman_gateway.access import Prices
from dragoman_gateway.json import loads
from dragoman_gateway.wires.forwarded import UsageRule, field_at

FREE = "local:forwarded"
"""A model whose price is 0, for what costs nothing."""
_LONG = re.compile(rb"[A-Za-z0-9+/=_-]{512,}")
"""A text in base64, such as an image. It says nothing of the use."""
_MAX_KEPT = 8 * 1024 * 1024
_MOST = 10**9


@dataclass(slots=True, eq=False)
class Cost:
    """The cost of one request. ``rule`` says how its reply states its use; None if it is free, or unknown. ``fields``
    are those of the request, and ``size`` the bytes of its body."""

    prices: Prices
    model: str
    rule: UsageRule | None
    free: bool
    fields: Mapping[str, Any]
    size: int
    _kept: list[bytes] = field(default_factory=list)
    _kept_size: int = 0
    _reserved: MaxUsage | None = None
    _is_stream: bool = False
    _found: tuple[int, TokenUsage | None] = (-1, None)
    """What was read last, and of how many bytes: a long reply is parsed once."""

    def check_stated(self) -> None:
        """Raise InvalidRequestError for a request whose reply would not state its use."""
        for need in () if self.rule is None else self.rule.needs:
            if "when" in need and _word(field_at(self.fields, need["when"])) != "true":
                continue
            if _word(field_at(self.fields, need["field"])) not in need["values"]:
                allowed = " or ".join(each for each in need["values"] if each)
                raise InvalidRequestError(
                    f"{need['field']} must be {allowed} for a key with a budget: without it the reply does not state"
                    " what it used",
                    status=400,
                )

    def measure(self) -> MaxUsage:
        """Return the most that the request may use: in tokens or units, whichever the model has a price for."""
        if self._reserved is None:
            found = [TokenUsage()] if self.rule is None else list(_most(self.rule, self.fields, self.size))
            priced = (each for each in found if self._price(each).cost_status in (CostStatus.PRICED, CostStatus.FREE))
            most = next(priced, found[0])
            inputs = most.model_copy(update={"output_tokens": 0})
            self._reserved = MaxUsage(
                FREE if self.free else self.model,
                inputs,
                output_tokens=most.output_tokens,
                tool_calls=most.server_tools,
            )
        return self._reserved

    def begin(self, content_type: str, model: str) -> None:
        """Begin with the reply of a model, which a form may have named on its way."""
        self.model = model
        self._is_stream = content_type.partition(";")[0].strip().lower() == "text/event-stream"

    def feed(self, piece: bytes) -> None:
        """Keep what may state the use."""
        if self.rule is None or self._kept_size > _MAX_KEPT:
            return
        piece = _LONG.sub(b"", piece)
        self._kept.append(piece)
        self._kept_size += len(piece)

    def used(self) -> Usage:
        """Return what the attempt is charged. If the reply states nothing, the cost is unknown, and the use is what was
        reserved."""
        stated = self.stated()
        if stated is not None or self._reserved is None:
            return stated or Usage(cost_status=CostStatus.UNPRICED)
        return Usage.model_validate({**self._reserved.total.model_dump(), "cost_status": CostStatus.UNPRICED})

    def stated(self) -> Usage | None:
        """Return what the reply states of its use, with its price; None if it states nothing."""
        rule = self.rule
        if self.free:
            return self._price(TokenUsage())
        if rule is None or self._kept_size > _MAX_KEPT:
            return None
        size, found = self._found
        if size != self._kept_size:
            texts, found = [b"".join(self._kept)], None
            if self._is_stream:
                texts = [each.removeprefix(b"data:") for each in texts[0].splitlines() if each.startswith(b"data:")]
            for text in texts:
                with suppress(ValueError):
                    if (read := _stated(rule, loads(text))) is not None:
                        found = _sum(found, read) if rule.sums and found is not None else read
            self._found = self._kept_size, found
        return None if found is None else self._price(found)

    def _price(self, usage: TokenUsage) -> Usage:
        return self.prices.price(FREE if self.free else self.model, usage, datetime.now(UTC))


def _stated(rule: UsageRule, reply: Any) -> TokenUsage | None:
    """Return the use that a reply, or an event of one, states; None if it states none."""
    unread = [each for each in rule.other if field_at(reply, each) is not None]
    counts: dict[str, int] = {}
    units: dict[str, int] = {}
    for into, table in ((counts, rule.counts), (units, rule.units)):
        for name, paths in table.items():
            stated = ((path, field_at(reply, path)) for path in paths)
            path, value = next((each for each in stated if each[1] is not None), ("", None))
            if value is None:
                continue
            if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 <= value <= _MOST:
                unread.append(path)
            else:
                into[name] = math.ceil(value)
    if not counts and not units:
        return None
    counts["input_tokens"] = max(0, counts.get("input_tokens", 0) - counts.get("cached_input_tokens", 0))
    return TokenUsage.model_validate({**counts, "server_tools": units, "unread": tuple(unread)})


def _sum(one: TokenUsage, other: TokenUsage) -> TokenUsage:
    names = ("input_tokens", "output_tokens", "cached_input_tokens", "image_input_tokens", "image_output_tokens")
    sums = {name: (getattr(one, name) or 0) + (getattr(other, name) or 0) for name in names}
    return TokenUsage(**sums, unread=tuple(dict.fromkeys((*one.unread, *other.unread))))


def _most(rule: UsageRule, fields: Mapping[str, Any], size: int) -> Iterator[TokenUsage]:
    """Yield the most that a request may use: in tokens, and in units."""
    most = rule.most
    if rule.counts:
        times = max([1, *(_number(fields.get(each), 1) for each in most.get("times", ()))])
        prompts = fields.get(most.get("each", ""))
        if isinstance(prompts, list) and prompts and not isinstance(prompts[0], int):  # one prompt may be a list of ids
            times *= len(prompts)
        output = _number(fields.get(most.get("output_field", "")), most.get("output", 0)) * times
        given = min(math.ceil(size / most.get("input_bytes", 1)), most.get("input_max", _MOST))
        yield TokenUsage(input_tokens=given, output_tokens=min(output, _MOST))
    if rule.units:
        items = fields.get(most.get("items", ""))
        count = len(items) if isinstance(items, list) and items else most.get("items_default", 0)
        count += size / most["unit_bytes"] if "unit_bytes" in most else 0
        name = next(iter(rule.units))
        yield TokenUsage(server_tools={name: max(1, math.ceil(count / most.get("unit_of", 1)))})


def _number(value: Any, default: int) -> int:
    """Return a number of a request: one of a form is a text."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value[:10])
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else default


def _word(value: Any) -> str:
    return "" if value is None else value if isinstance(value, str) else json.dumps(value)
