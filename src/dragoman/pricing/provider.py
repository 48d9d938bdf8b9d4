"""The prices of one provider: its file, preceded by the overlays."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import date
from decimal import Decimal
from typing import Any

from dragoman.adapter.errors import ConfigurationError
from dragoman.pricing.match import matches, read_rule
from dragoman.pricing.quote import PricedModel
from dragoman.pricing.rows import FORMAT_ERRORS, PriceRow, Surcharge, read_amounts, read_row, read_surcharge

_PROVIDER_KEYS = {"provider", "source", "checked", "origin", "fallback", "tools", "surcharge", "model"}
_MODEL_KEYS = {"id", "match", "source", "checked", "prices", "variants"}


class ProviderPrices:
    """Models in the order of their rules: the first match wins. Rows are read on a match.

    ``layers`` are parsed files, the highest precedence first. Raises ConfigurationError if one does not follow
    ``pricing/README.md``.
    """

    def __init__(self, name: str, layers: Sequence[Mapping[str, Any]]) -> None:
        self.name = name
        self.fallback: tuple[str, ...] = ()
        self._models: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._tools: dict[str, Decimal] = {}
        surcharges: list[Surcharge] = []
        try:
            for layer in layers:
                if unknown := layer.keys() - _PROVIDER_KEYS:
                    raise ValueError(f"unknown: {', '.join(sorted(unknown))}")
                self.fallback = self.fallback or tuple(layer.get("fallback", ()))
                self._tools = {**read_amounts(layer.get("tools", {})), **self._tools}
                surcharges += map(read_surcharge, layer.get("surcharge", ()))
                defaults = {key: layer[key] for key in ("source", "checked") if key in layer}
                for model in layer.get("model", ()):
                    if unknown := model.keys() - _MODEL_KEYS:
                        raise ValueError(f"{model.get('id')}: unknown: {', '.join(sorted(unknown))}")
                    if not isinstance(model.get("id"), str) or not isinstance(model.get("match"), dict):
                        raise ValueError(f"every model needs an id and a match: {model.get('id')!r}")
                    self._models.append((read_rule(model["match"]), defaults | model))
        except FORMAT_ERRORS as error:
            raise ConfigurationError(f"the prices of {name}: {error!s:.400}") from None
        self.surcharges = tuple(surcharges)

    @property
    def models(self) -> tuple[str, ...]:
        """The ids of all models, in the order of their rules."""
        return tuple(raw["id"] for _, raw in self._models)

    def find(self, name: str) -> PricedModel | None:
        """Return the model that matches a name in lower case."""
        for rule, raw in self._models:
            if matches(rule, name):
                return self._read(raw)
        return None

    def sell(self, model: PricedModel) -> PricedModel:
        """Return a model of another provider as this one sells it: tools that it prices itself cost its price, and its
        own surcharges apply. Its prices for the variants are unknown, so they are left out."""
        standard = (row for row in model.rows if row.variant is None)
        rows = tuple(replace(row, tools={**row.tools, **self._tools}) if self._tools else row for row in standard)
        return PricedModel(model.id, rows, self._surcharges_of(model.id))

    def all_models(self) -> Iterator[PricedModel]:
        """Yield every model with its rows."""
        return (self._read(raw) for _, raw in self._models)

    def _read(self, raw: Mapping[str, Any]) -> PricedModel:
        try:
            return PricedModel(raw["id"], tuple(self._rows(raw)), self._surcharges_of(raw["id"]))
        except FORMAT_ERRORS as error:
            raise ConfigurationError(f"the prices of {self.name}:{raw['id']}: {error!s:.400}") from None

    def _surcharges_of(self, model_id: str) -> tuple[Surcharge, ...]:
        return tuple(filter(None, (each.of_model(model_id.lower()) for each in self.surcharges)))

    def _rows(self, raw: Mapping[str, Any]) -> Iterator[PriceRow]:
        source, checked = raw.get("source"), raw.get("checked")
        if not isinstance(source, str) or checked is None:
            raise ValueError("name the source of the figures (source) and the day of the comparison (checked)")
        if not isinstance(checked, date):
            raise ValueError("checked must be a date: in TOML without quotes, in Python date(2026, 11, 1)")
        common = {"provider": self.name, "model": raw["id"], "source": source, "checked": checked}
        for row in raw.get("prices", ()):
            yield read_row(row, self._tools, **common)
        for row in raw.get("variants", ()):
            yield read_row(row, {}, **common)
