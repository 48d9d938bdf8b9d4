"""Updates: newer prices and limits of models than those of the installed release.

An update is one file (pricing/README.md). It is installed only explicitly, checked whole before that, kept under its
SHA-256, and can be reverted. A program uses it only if it asks, with `use_update`; the command line does by itself.
"""

import hashlib
import os
import tomllib
from dataclasses import dataclass
from datetime import date
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError

from dragoman.adapter.errors import ConfigurationError
from dragoman.adapter.facts.capabilities import set_limit_updates
from dragoman.bundled import bundled_path
from dragoman.pricing.table import PriceTable
from dragoman.pricing.update_rows import newer_limits, newer_prices, read_sections, row_names, update_date
from dragoman.pricing.versions import set_update

MAX_BYTES = 16 * 1024 * 1024

POINTER = "installed.json"


@dataclass(frozen=True, slots=True, kw_only=True)
class PriceUpdate:
    """An update: its day, its SHA-256 and where it came from. ``version`` is that of the price table with it."""

    date: date
    """The day of the prices."""
    sha256: str
    """The digest of the update's file, in hexadecimal."""
    source: str
    """The URL or path that the update was read from."""
    version: str


@dataclass(frozen=True, slots=True)
class _State:
    """The content of the pointer: the installed update, and the one before."""

    current: PriceUpdate | None = None
    previous: PriceUpdate | None = None


_STATE = TypeAdapter(_State)


def update_folder() -> Path:
    """Return the folder of installed updates, beside the user's configuration."""
    from platformdirs import user_config_path

    return user_config_path("dragoman") / "prices"


def install_update(
    content: bytes, source: str, *, sha256: str | None = None, folder: Path | None = None
) -> PriceUpdate:
    """Check an update, and install it for this user. The one before can be restored with `revert_update`.

    Raises ConfigurationError if its SHA-256 is another one, if any row is faulty, or if a newer update is installed;
    then nothing changes.
    """
    digest = hashlib.sha256(content).hexdigest()
    if sha256 is not None and sha256.strip().lower() != digest:
        raise ConfigurationError(
            f"{source} has the SHA-256 {digest}, not {sha256:.80}: it is not the file that was meant"
        )
    folder = folder or update_folder()
    day = update_date(_parse(content, source))
    state = _read_state(folder)
    if state.current and state.current.date > day:
        raise ConfigurationError(
            f"{source} is of {day}, and the installed update of {state.current.date}: revert that one first"
        )
    path = _write(folder / f"{digest}.toml", content)
    try:
        table = _load(path)
    except ConfigurationError:
        if digest not in _digests(state):
            path.unlink()
        raise
    update = PriceUpdate(date=day, sha256=digest, source=source, version=table.version)
    if not (state.current and state.current.sha256 == digest):
        _write_state(folder, _State(update, state.current))
    return update


def revert_update(folder: Path | None = None) -> PriceUpdate | None:
    """Restore the update before the installed one, and return it; None if there was none.

    An update that cannot be read is removed. Raises ConfigurationError if none is installed.
    """
    folder = folder or update_folder()
    try:
        state = _read_state(folder)
    except ConfigurationError:
        _write_state(folder, _State())
        return None
    if not state.current:
        raise ConfigurationError("no update of the prices is installed")
    _write_state(folder, _State(state.previous))
    return state.previous


def installed_update(folder: Path | None = None) -> PriceUpdate | None:
    """Return the installed update; None if there is none. Raises ConfigurationError if it cannot be read."""
    return _read_state(folder or update_folder()).current


def use_update(folder: Path | None = None) -> PriceUpdate | None:
    """Make `price_table()` and all adapters of this process use the installed update; None if there is none.

    Costs that are computed from now on have the version of the updated table. Raises ConfigurationError if the update
    cannot be read, or was changed since it was installed.
    """
    folder = folder or update_folder()
    update = installed_update(folder)
    if update is None:
        set_update(None)
        set_limit_updates({})
        return None
    path = folder / f"{update.sha256}.toml"
    try:
        is_unchanged = hashlib.sha256(path.read_bytes()).hexdigest() == update.sha256
    except OSError as error:
        raise _damaged(f"{path}: {error.strerror}") from None
    if not is_unchanged:
        raise _damaged(f"{path} was changed since")
    set_limit_updates(_load(path).limits)
    set_update(path)
    return update


def outdated_rows(content: bytes) -> tuple[str, ...]:
    """Return the rows of an update that the bundled table has in a newer form, as ``provider:id``."""
    update, bundled = _parse(content, "the update"), PriceTable(bundled_path("pricing"))
    prices = newer_prices(update, bundled.days)
    limits = newer_limits(update, bundled.as_of)
    used = {
        *row_names(prices.items()),
        *row_names((provider, {"limits": rows}) for provider, rows in limits.items()),
    }
    return tuple(name for name in row_names(read_sections(update)) if name not in used)


def _load(path: Path) -> PriceTable:
    """Return the bundled table with an update, of which every row is read."""
    table = PriceTable(bundled_path("pricing"), update=path)
    _ = table.limits
    for provider in table.providers():
        if (prices := table.provider(provider)) is not None:
            list(prices.all_models())
    return table


def _parse(content: bytes, source: str) -> dict[str, Any]:
    if len(content) > MAX_BYTES:
        raise ConfigurationError(f"{source} has more than {MAX_BYTES} bytes: it is not an update of the prices")
    try:
        return tomllib.loads(content.decode())
    except (ValueError, RecursionError) as error:
        raise ConfigurationError(f"{source} is not an update of the prices: {error!s:.400}") from None


def _read_state(folder: Path) -> _State:
    try:
        return _STATE.validate_json((folder / POINTER).read_bytes())
    except FileNotFoundError:
        return _State()
    except OSError as error:
        raise _damaged(f"{folder / POINTER}: {error!s:.200}") from None
    except ValidationError as error:  # without the content: a source may be an address with a key
        reason = error.errors(include_url=False, include_input=False)[0]["msg"]
        raise _damaged(f"{folder / POINTER}: {reason:.200}") from None


def _write_state(folder: Path, state: _State) -> None:
    _write(folder / POINTER, _STATE.dump_json(state, indent=1))
    for path in folder.glob("*.toml"):
        if path.stem not in _digests(state):
            path.unlink()


def _digests(state: _State) -> set[str]:
    return {each.sha256 for each in (state.current, state.previous) if each}


def _write(path: Path, content: bytes) -> Path:
    """Replace a file as a whole."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        temporary.write_bytes(content)
        temporary.replace(path)
    except OSError as error:
        raise ConfigurationError(f"{path} cannot be written: {error.strerror}") from None
    return path


def _damaged(reason: str) -> ConfigurationError:
    return ConfigurationError(
        f"the installed update of the prices cannot be read: {reason}. Install it again, or run "
        "dragoman prices update --revert"
    )
