"""The price table: dated rows by provider, read lazily from the bundled data, with the overlays before them.

Its files are in a folder, in a zip archive of one, or in an adapter's package: the entry-point group
``dragoman.prices`` names the package with the prices of a provider.
"""

import hashlib
import io
import json
import tomllib
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cache, cached_property
from importlib.metadata import entry_points
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, BadZipFile, ZipFile, ZipInfo
from zipfile import Path as ZipPath

from dragoman.adapter.errors import ConfigurationError, RequestError
from dragoman.canonical.log import get_logger
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.pricing.quote import NO_QUOTE, PricedModel, ProviderPrices, apply_quote
from dragoman.pricing.rows import PriceRow, with_dashed_date, without_date

logger = get_logger("dragoman.pricing")

INDEX = "index.toml"
OVERLAY = "overlay.toml"
UPDATE = "update.toml"

_MAX_BYTES = 64 * 1024 * 1024
"""Uncompressed; the bundled table has less than two megabytes."""
_ZIP_TIME = (1980, 1, 1, 0, 0, 0)
"""The time of every file in an archive, so that equal tables are equal archives."""
GROUP = "dragoman.prices"
_BUNDLED = "bundled"
"""The name of the table of this package, which is a function and not a folder."""

# The overlay's own keys; all others are providers.
_OVERLAY_KEYS = ("checked", "accepted")
# Names come from the caller, so the cache is bounded: it is cleared at this size.
_MAX_CACHED_MODELS = 4096

_MAX_DIFFERENCE = Decimal("0.01")
"""The maximum relative difference between a provider's own figure and ours."""


class PriceTable:
    """Prices by model and time. Only the files of the providers in use are read.

    ``folder`` holds the files, or is a zip archive of them. ``overlay`` is your own table, in the format of
    ``pricing/overlay.toml`` (or its path). Its models take precedence over those of the folder, for example for
    negotiated rates. ``update`` is a file with newer prices and limits (`install_update`): for each model, the newer
    row of the folder and of the update counts. A folder may hold one itself.

    Raises ConfigurationError if the folder, the update or the overlay does not follow ``pricing/README.md``.
    """

    def __init__(
        self, folder: Path, overlay: Mapping[str, Any] | str | Path | None = None, *, update: Path | None = None
    ) -> None:
        self._path = folder
        self._update_path = update
        self._overlay = _read_toml(Path(overlay)) if isinstance(overlay, (str, Path)) else overlay
        if not (self._overlay is None or isinstance(self._overlay, Mapping)):
            raise ConfigurationError(f"an overlay must be a dict or the path of a file, not a {type(overlay).__name__}")
        self._providers: dict[str, ProviderPrices] = {}
        self._models: dict[str, PricedModel | None] = {}
        self._installed: dict[str, str] = {}
        """The digests of prices that an adapter's package brings, by provider: the version of such a cost names it."""
        self._warned: set[str] = set()

    def with_overlay(self, overlay: Mapping[str, Any] | str | Path) -> "PriceTable":
        """Return a table of the same folder with this overlay, which replaces the current one.

        The whole overlay is read at once, so that its faults are found before any reply is paid for. Raises
        ConfigurationError.
        """
        table = PriceTable(self._path, overlay, update=self._update_path)
        for name, section in table._sections(table._overlay or {}).items():
            list(ProviderPrices(name, [section]).all_models())
        return table

    @cached_property
    def version(self) -> str:
        """An identifier of the content: the date of the data and a hash of all of it, such as ``2026-11-10+1a2b3c4d``.

        The hash of an overlay follows: ``2026-11-10+1a2b3c4d+5e6f7a8b``. Source: docs/reference/pricing.md#versions.
        """
        if self._overlay is None:
            return self.base_version
        overlay = json.dumps(self._overlay, sort_keys=True, default=str)
        return f"{self.base_version}+{hashlib.sha256(overlay.encode()).hexdigest()[:8]}"

    @cached_property
    def base_version(self) -> str:
        """The version without the caller's overlay."""
        digest = hashlib.sha256()
        for name, text in self._contents.items():
            digest.update(f"{name} {len(text)}\n".encode())
            digest.update(text)
        return f"{self.as_of}+{digest.hexdigest()[:8]}"

    def pack(self) -> bytes:
        """Return the files of the table as a zip archive, from which the same version can be loaded. The
        same files give the same bytes."""
        archive = io.BytesIO()
        with ZipFile(archive, "w") as writer:
            for name, data in sorted(self._contents.items()):
                info = ZipInfo(name, _ZIP_TIME)
                info.compress_type = ZIP_DEFLATED
                writer.writestr(info, data)
        return archive.getvalue()

    @property
    def as_of(self) -> date:
        """The day up to which the data is known to be correct."""
        day: date = self._index["date"]
        if self._update is None:
            return day
        from dragoman.pricing.update_rows import update_date  # imported late, as below: most tables have no update

        return max(day, update_date(self._update))

    @property
    def limits(self) -> Mapping[str, list[dict[str, Any]]]:
        """The limits of models in the update that are newer than the table, by provider; see `use_update`."""
        if self._update is None:
            return {}
        from dragoman.pricing.update_rows import newer_limits

        return newer_limits(self._update, self._index["date"])

    def price(self, model_id: str, usage: TokenUsage, at: datetime, *, batch: bool = False) -> Usage:
        """Return the usage with its cost at that time.

        The reply says which variant of the prices applies (``service_tier``, ``speed``); ``batch`` is for replies
        of a batch that do not say so. For an unknown model the cost is None.

        For such a model of a provider with known prices, the logger ``dragoman.pricing`` warns once.

        The provider's own figure is kept alongside ours. If they differ by more than one percent, the logger
        ``dragoman.pricing`` warns once: when a reply gets its first price.

        Raises RequestError if the time has no zone. Source: docs/reference/pricing.md#cost.
        """
        priced = self.reprice(model_id, usage, at, batch=batch)
        if self._models[model_id] is None and model_id not in self._warned:
            provider = model_id.partition(":")[0]
            if provider not in self.unpriced and self.provider(provider) is not None:
                if len(self._warned) >= _MAX_CACHED_MODELS:
                    self._warned.clear()
                self._warned.add(model_id)
                logger.warning(
                    "%s is not in the price table %s: its limits are those of its family, and its usage is unpriced. "
                    "dragoman prices update installs newer rows",
                    model_id, self.version,
                )  # fmt: skip
        is_first = not isinstance(usage, Usage) or usage.pricing_version is None
        if is_first and usage.reported_cost_usd is not None:
            _warn_of_difference(model_id, priced)
        return priced

    def reprice(
        self, model_id: str, usage: TokenUsage, at: datetime, *, batch: bool = False, standard: bool = False
    ) -> Usage:
        """As `price`, but without a warning about the provider's own figure; a batch stays a batch.

        ``standard`` ignores tier and speed: it is for replies of another provider, whose words for these differ.
        """
        at = at if at.tzinfo is UTC else _to_utc(at)
        batch = batch or usage.service_tier == "batch" or (isinstance(usage, Usage) and usage.pricing_mode == "batch")
        model = self._models.get(model_id) or self._model(model_id)
        quote = NO_QUOTE if model is None else model.quote(_STANDARD_USAGE if standard else usage, at, batch)
        version = self.version
        if self._installed and (digest := self._installed.get(model_id.partition(":")[0])):
            version = f"{version}+{digest}"
        return apply_quote(usage, quote, version, batch=batch)

    def find(self, model_id: str, at: datetime | None = None) -> PriceRow | None:
        """Return the standard prices of a model at that time (default: now), or None if the table has none."""
        model = self._model(model_id)
        return None if model is None else model.row(_to_utc(at or datetime.now(UTC)))

    def variants(self, model_id: str, at: datetime | None = None) -> tuple[PriceRow, ...]:
        """Return the variants of the standard prices at that time (default: now): batch, service tiers, speeds."""
        model = self._model(model_id)
        moment = _to_utc(at or datetime.now(UTC))
        return tuple(row for row in model.rows if row.variant and row.is_active(moment)) if model else ()

    def providers(self) -> tuple[str, ...]:
        """Return the providers with a file, here or in an adapter's package, or with the prices of others."""
        with_overlay = {name for layer in self._overlays for name in layer}
        return tuple(sorted({*self._files, *self._same_prices, *self._routers, *with_overlay, *installed_folders()}))

    @cached_property
    def unpriced(self) -> Mapping[str, str]:
        """The providers that intentionally have no prices, with the reason."""
        return dict(self._index["unpriced"])

    def models(self, provider: str) -> tuple[str, ...]:
        """Return the ids of the models with known prices; none for an unknown provider."""
        prices = self.provider(provider)
        return prices.models if prices else ()

    def provider(self, name: str) -> ProviderPrices | None:
        """Return the prices of a provider, read on first use."""
        name = self._same_prices.get(name, name)
        if name not in self._providers:
            layers = [layer[name] for layer in self._overlays if name in layer]
            if name in self._files:
                layers.append(_read_toml(self._files[name]))
            elif (installed := _installed_file(name)) is not None:
                layers.append(_read_toml(installed))
                self._installed[name] = hashlib.sha256(_read_content(installed)).hexdigest()[:8]
            if not layers:
                return None
            self._providers[name] = ProviderPrices(name, layers)
        return self._providers[name]

    def _model(self, model_id: str) -> PricedModel | None:
        try:
            return self._models[model_id]
        except KeyError:
            if len(self._models) >= _MAX_CACHED_MODELS:
                self._models.clear()
            found = self._models[model_id] = self._search(model_id)
            return found

    def _search(self, model_id: str) -> PricedModel | None:
        """Search the provider's own models, then those that it resells; for each, a name with a compact date comes
        after the name as it is, and the name without its date last.
        """
        provider, _, name = model_id.partition(":")
        if provider in self._routers and ":" in name:
            name, _, served_by = name.rpartition(":")
            provider = self._routers[provider].format(served_by.lower())
        prices = self.provider(provider)
        if prices is None or not name:
            return None
        lowered = name.lower()
        for spelling in dict.fromkeys((lowered, with_dashed_date(lowered), without_date(lowered))):
            if found := prices.find(spelling):
                return found
            for other in filter(None, map(self.provider, prices.fallback)):
                if found := other.find(spelling):
                    return prices.sell(found)
        return None

    @cached_property
    def _folder(self) -> dict[str, Traversable]:
        """The files by name, in alphabetical order."""
        update = {} if self._update_path is None else {UPDATE: self._update_path}
        return dict(sorted({**_list_files(self._path), **update}.items()))

    @cached_property
    def _contents(self) -> dict[str, bytes]:
        return {name: _read_content(path) for name, path in self._folder.items()}

    @cached_property
    def _files(self) -> dict[str, Traversable]:
        """The files by provider."""
        return {
            name[: -len(".toml")]: path for name, path in self._folder.items() if name not in (INDEX, OVERLAY, UPDATE)
        }

    @cached_property
    def _index(self) -> dict[str, Any]:
        if INDEX not in self._folder:
            raise ConfigurationError(f"{self._path} has no {INDEX}: it is not a price table")
        index = _read_toml(self._folder[INDEX])
        if not isinstance(index.get("date"), date):
            raise ConfigurationError(f"{self._path / INDEX} has no date: the version of the prices is unknown")
        return {"unpriced": {}, "routers": {}, "same_prices": {}, **index}

    @cached_property
    def _routers(self) -> dict[str, str]:
        """Providers whose model names end with a colon and the serving provider, and a pattern for the provider with
        the prices.
        """
        return dict(self._index["routers"])

    @cached_property
    def _same_prices(self) -> dict[str, str]:
        return dict(self._index["same_prices"])

    @cached_property
    def accepted(self) -> frozenset[str]:
        """The models whose figures look wrong, but were verified: the overlays list them."""
        return frozenset(model for overlay in self._raw_overlays for model in overlay.get("accepted", ()))

    @cached_property
    def _raw_overlays(self) -> list[Mapping[str, Any]]:
        """The caller's overlay, the rows of the update that are newer than the table's, and the bundled overlay.

        Rows of the update for models that the bundled overlay does not have come after it: it corrects what the source
        of the other rows gets wrong, by rules that match their names.
        """
        if self._update is None:
            return [self._overlay or {}, self._bundled_overlay]
        from dragoman.pricing.update_rows import newer_prices, split_by_model

        newer = newer_prices(self._update, self.days)
        corrected, others = split_by_model(newer, self._bundled_overlay)
        return [self._overlay or {}, corrected, self._bundled_overlay, others]

    @cached_property
    def _bundled_overlay(self) -> dict[str, Any]:
        return _read_toml(self._folder[OVERLAY]) if OVERLAY in self._folder else {}

    @cached_property
    def _update(self) -> dict[str, Any] | None:
        return _read_toml(self._folder[UPDATE]) if UPDATE in self._folder else None

    def days(self, provider: str) -> dict[str, date]:
        """Return the day of each model of a provider in the table itself."""
        layers = [{"checked": self._bundled_overlay.get("checked"), **self._bundled_overlay.get(provider, {})}]
        if provider in self._files:
            layers.append(_read_toml(self._files[provider]))
        days: dict[str, date] = {}
        for layer in layers:
            for model in layer.get("model", ()):
                day = model.get("checked", layer.get("checked"))
                if isinstance(day, date):
                    days.setdefault(model["id"], day)
        return days

    @cached_property
    def _overlays(self) -> list[dict[str, dict[str, Any]]]:
        """The overlays by provider."""
        return [self._sections(overlay) for overlay in self._raw_overlays]

    def _sections(self, overlay: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
        sections = {name: section for name, section in overlay.items() if name not in _OVERLAY_KEYS}
        for name, section in sections.items():
            if not isinstance(section, dict):
                raise ConfigurationError(f"an overlay has one section for each provider; {name!r} is not a section")
            if name in self._same_prices:
                raise ConfigurationError(f"{name} has the prices of {self._same_prices[name]}: put the overlay there")
        defaults = {"checked": overlay["checked"]} if "checked" in overlay else {}
        return {name: defaults | section for name, section in sections.items()}


def _to_utc(at: datetime) -> datetime:
    if at.tzinfo is None:
        raise RequestError("a time needs a time zone, because prices depend on it: e.g. datetime.now(timezone.utc)")
    return at.astimezone(UTC)


_STANDARD_USAGE = TokenUsage()
"""The usage of a reply that does not state how it was served."""


def _warn_of_difference(model_id: str, priced: Usage) -> None:
    """Warn if the provider's own figure differs from ours. A partial cost is a lower bound, so a higher figure is
    expected.
    """
    difference = priced.cost_discrepancy
    if difference is None or (priced.cost_status is CostStatus.PARTIAL and difference > 0):
        return
    if abs(difference) > _MAX_DIFFERENCE:
        logger.warning(
            "%s: the provider charges $%s for a reply, but price table %s says $%s",
            model_id, priced.reported_cost_usd, priced.pricing_version, priced.cost_usd,
        )  # fmt: skip


def _list_files(path: Path) -> dict[str, Traversable]:
    """Return the TOML files of a folder, or of an archive, which is read whole, by name. Raises ConfigurationError."""
    folder: Traversable = path
    try:
        if path.is_file():
            archive = ZipFile(io.BytesIO(path.read_bytes()))
            if sum(info.file_size for info in archive.infolist()) > _MAX_BYTES:
                raise ConfigurationError(f"{path} holds more than {_MAX_BYTES} bytes: it is not a price table")
            archive.filename = str(path)
            folder = ZipPath(archive)
        return {file.name: file for file in folder.iterdir() if file.name.endswith(".toml")}
    except (OSError, BadZipFile, NotImplementedError) as error:
        raise _unreadable(path, error) from None


def _read_content(path: Traversable) -> bytes:
    """Return the bytes of a file, with the line ends that it was published with."""
    try:
        return path.read_bytes().replace(b"\r\n", b"\n")
    except (OSError, BadZipFile, EOFError, NotImplementedError, RuntimeError) as error:
        raise _unreadable(path, error) from None


def _read_toml(path: Traversable) -> dict[str, Any]:
    """Parse a file. Raises ConfigurationError."""
    try:
        return tomllib.loads(_read_content(path).decode())
    except (ValueError, RecursionError) as error:  # invalid UTF-8, invalid TOML, integers with too many digits
        raise _unreadable(path, error) from None


def _unreadable(path: object, error: Exception) -> ConfigurationError:
    return ConfigurationError(f"the price table cannot be read: {path}: {error!s:.400}")


@cache
def installed_folders() -> dict[str, str]:
    """Return the packages with prices by provider."""
    return {entry.name: entry.value for entry in entry_points(group=GROUP) if entry.name != _BUNDLED}


def _installed_file(provider: str) -> Traversable | None:
    """Return the provider's file in its package, which is named after the provider; None if no package has one.

    Raises ConfigurationError if a package promises the file and does not hold it.
    """
    package = installed_folders().get(provider)
    if package is None:
        return None
    try:
        path = files(package).joinpath(f"{provider}.toml")
        is_there = path.is_file()
    except (ImportError, TypeError, ValueError) as error:
        raise ConfigurationError(f"the prices of {provider!r} ({package}) cannot be loaded: {error}") from error
    if not is_there:
        raise ConfigurationError(f"{package}, installed with the prices of {provider!r}, holds no {provider}.toml")
    return path
