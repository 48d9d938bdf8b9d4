"""The price table: dated rows by provider, read lazily from the data that comes with the library."""

import hashlib
import json
import tomllib
from collections.abc import Mapping
from datetime import UTC, date, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.bundled import bundled
from dragoman.canonical.usage import TokenUsage, Usage
from dragoman.pricing.cost import bill
from dragoman.pricing.match import with_dashed_date
from dragoman.pricing.provider import ProviderPrices
from dragoman.pricing.quote import NO_QUOTE, PricedModel
from dragoman.pricing.rows import PriceRow

_INDEX = "index.toml"
_OVERLAY = "overlay.toml"
# What an overlay says of itself; everything else in it is a provider.
_ABOUT = ("checked", "accepted")
# Names are the caller's: a program that prices more of them than this starts to remember anew.
_REMEMBERED = 4096


@cache
def price_table() -> "PriceTable":
    """The table that comes with the library. One for the process; nothing is read before the first price."""
    return PriceTable(bundled("pricing"))


class PriceTable:
    """Prices by model and moment. Only the files of the providers that are asked for are read.

    ``overlay`` is a table of your own, in the format of ``pricing/overlay.toml`` (or the path of one): its models
    stand before those of the folder, e.g. for rates that you negotiated.

    Raises ConfigurationError where the folder or the overlay is not as ``pricing/README.md`` describes.
    """

    def __init__(self, folder: Path, overlay: Mapping[str, Any] | Path | None = None) -> None:
        self._folder = folder
        self._overlay = _toml(overlay) if isinstance(overlay, Path) else overlay
        self._providers: dict[str, ProviderPrices] = {}
        self._models: dict[str, PricedModel | None] = {}

    def overlaid(self, overlay: Mapping[str, Any] | Path) -> "PriceTable":
        """The same folder under an overlay. It replaces the one that this table has."""
        return PriceTable(self._folder, overlay)

    @cached_property
    def version(self) -> str:
        """A name for the content: the date of the data and a hash of all of it, e.g. ``2026-11-10+1a2b3c4d``.

        The hash of an overlay follows: ``2026-11-10+1a2b3c4d+5e6f7a8b``.
        """
        content = hashlib.sha256()
        for path in sorted(self._folder.glob("*.toml")):
            text = path.read_bytes().replace(b"\r\n", b"\n")
            content.update(f"{path.name} {len(text)}\n".encode())
            content.update(text)
        base = f"{self.as_of}+{content.hexdigest()[:8]}"
        if self._overlay is None:
            return base
        overlay = json.dumps(self._overlay, sort_keys=True, default=str)
        return f"{base}+{hashlib.sha256(overlay.encode()).hexdigest()[:8]}"

    @property
    def as_of(self) -> date:
        """The day up to which the data is known to be true."""
        day: date = self._index["date"]
        return day

    def price(self, model_id: str, usage: TokenUsage, at: datetime, *, batch: bool = False) -> Usage:
        """The usage with what it cost at that moment.

        Which variant of the prices counts, the reply says (``service_tier``, ``speed``); ``batch`` is for those
        that came out of a batch and do not say so. A model that the table does not know has the cost None.

        Raises RequestError where the moment has no time zone.
        """
        at = _in_utc(at)
        model = self._model(model_id)
        return bill(usage, NO_QUOTE if model is None else model.quote(usage, at, batch), self.version)

    def find(self, model_id: str, at: datetime | None = None) -> PriceRow | None:
        """The standard prices of a model at that moment (now), None where the table has none."""
        model = self._model(model_id)
        return None if model is None else model.row(_in_utc(at or datetime.now(UTC)))

    def variants(self, model_id: str, at: datetime | None = None) -> tuple[PriceRow, ...]:
        """What differs from the standard prices at that moment (now): batch, service tiers, speeds."""
        model = self._model(model_id)
        moment = _in_utc(at or datetime.now(UTC))
        return tuple(row for row in model.rows if row.variant and row.holds(moment)) if model else ()

    def providers(self) -> tuple[str, ...]:
        """The providers with a file, or with the prices of another one."""
        overlaid = {name for layer in self._overlays for name in layer}
        return tuple(sorted({*self._files, *self._same_prices, *overlaid}))

    def models(self, provider: str) -> tuple[str, ...]:
        """The ids of the models whose prices are known; none for an unknown provider."""
        prices = self.provider(provider)
        return prices.models if prices else ()

    def provider(self, name: str) -> ProviderPrices | None:
        """The prices of a provider, read on first use."""
        name = self._same_prices.get(name, name)
        if name not in self._providers:
            layers = [layer[name] for layer in self._overlays if name in layer]
            if name in self._files:
                layers.append(_toml(self._files[name]))
            if not layers:
                return None
            self._providers[name] = ProviderPrices(name, layers)
        return self._providers[name]

    def _model(self, model_id: str) -> PricedModel | None:
        try:
            return self._models[model_id]
        except KeyError:
            if len(self._models) >= _REMEMBERED:
                self._models.clear()
            found = self._models[model_id] = self._search(model_id)
            return found

    def _search(self, model_id: str) -> PricedModel | None:
        """The provider's own models, then those that it sells for others; names with compact dates at the end.

        What one provider asks for another one's variants is not known, so those are left out.
        """
        provider, _, name = model_id.partition(":")
        prices = self.provider(provider)
        if prices is None or not name:
            return None
        lowered = name.lower()
        for spelling in dict.fromkeys((lowered, with_dashed_date(lowered))):
            if found := prices.find(spelling):
                return found
            for other in filter(None, map(self.provider, prices.fallback)):
                if found := other.find(spelling):
                    return PricedModel(found.id, tuple(row for row in found.rows if row.variant is None))
        return None

    @cached_property
    def _files(self) -> dict[str, Path]:
        return {path.stem: path for path in self._folder.glob("*.toml") if path.name not in (_INDEX, _OVERLAY)}

    @cached_property
    def _index(self) -> dict[str, Any]:
        index = _toml(self._folder / _INDEX)
        if "date" not in index:
            raise ConfigurationError(f"{self._folder / _INDEX} has no date: it cannot say which prices these are")
        return index

    @cached_property
    def _same_prices(self) -> dict[str, str]:
        same: dict[str, str] = self._index.get("same_prices", {})
        return same

    @cached_property
    def accepted(self) -> frozenset[str]:
        """The models whose figures look odd and stand nevertheless, as the overlays say."""
        return frozenset(model for overlay in self._raw_overlays for model in overlay.get("accepted", ()))

    @cached_property
    def _raw_overlays(self) -> list[Mapping[str, Any]]:
        """The caller's overlay and the bundled one."""
        path = self._folder / _OVERLAY
        return [self._overlay or {}, _toml(path) if path.exists() else {}]

    @cached_property
    def _overlays(self) -> list[dict[str, dict[str, Any]]]:
        """The overlays by provider."""
        return [self._sections(overlay) for overlay in self._raw_overlays]

    def _sections(self, overlay: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        sections = {name: section for name, section in overlay.items() if name not in _ABOUT}
        for name, section in sections.items():
            if not isinstance(section, dict):
                raise ConfigurationError(f"an overlay has one section a provider; {name!r} is none")
            if name in self._same_prices:
                raise ConfigurationError(f"{name} has the prices of {self._same_prices[name]}: overlay those")
        defaults = {"checked": overlay["checked"]} if "checked" in overlay else {}
        return {name: defaults | section for name, section in sections.items()}


def _in_utc(at: datetime) -> datetime:
    if at.tzinfo is UTC:
        return at
    if at.tzinfo is None:
        raise RequestError("prices depend on the time: give it with a time zone, e.g. datetime.now(timezone.utc)")
    return at.astimezone(UTC)


def _toml(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:  # ValueError: no UTF-8, no TOML, endless integers
        raise ConfigurationError(f"the price table cannot be read: {path}: {error!s:.400}") from None
