"""The kinds of credentials that a cloud's own library fetches, and the settings of this process for them.

Nothing here imports such a library: each kind has a module that does, when the first request needs it.
"""

import os
import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache, lru_cache
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.canonical.forks import ProcessLock
from dragoman.credentials.contract import CLOUD_IDENTITY, CLOUD_PLACE, CLOUD_SETTINGS

if TYPE_CHECKING:
    from dragoman.credentials.cached import CachedCredentials

_PLACE_NAMES = {
    "region": re.compile(r"[a-z]{2,8}(?:-[a-z]+)+-\d{1,2}"),
    "location": re.compile(r"[a-z](?:[a-z0-9-]{0,62}[a-z0-9])?"),
    "project": re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9.:-]{0,126}[A-Za-z0-9])?"),
}
"""They become a part of the address. The name of a region is so narrow because s3 is one of AWS's hosts, too."""


@dataclass(frozen=True, slots=True)
class Cloud:
    """One kind, a table of clouds.toml."""

    name: str
    library: str
    extra: str
    advice: str
    variables: list[str]
    source_variables: list[str]
    source_files: list[str]
    errors: Mapping[str, list[str]] = field(default_factory=dict)


CLOUDS: Mapping[str, Cloud] = {
    kind: Cloud(**row)
    for kind, row in tomllib.loads(Path(__file__).with_name("clouds.toml").read_text(encoding="utf-8")).items()
}

_lock = ProcessLock()


@cache
def is_installed(kind: str) -> bool:
    """Whether the library of a kind is installed. It is not imported."""
    try:
        return find_spec(CLOUDS[kind].library) is not None
    except ImportError:  # the package above it is missing
        return False


def is_configured(kind: str) -> bool:
    """Whether to ask the library of a kind when there is no key: it is installed, and may find something."""
    if not is_installed(kind):
        return False
    if kind != "anthropic":
        return True
    # Anthropic's library looks for a profile or a workload identity.
    if any(os.environ.get(name) for name in ("ANTHROPIC_PROFILE", "ANTHROPIC_CONFIG_DIR")):
        return True
    if os.environ.get("ANTHROPIC_FEDERATION_RULE_ID") and os.environ.get("ANTHROPIC_ORGANIZATION_ID"):
        return True
    return (Path(os.environ.get("APPDATA") or Path.home() / ".config") / "anthropic" / "configs").is_dir()


def cloud_credentials(kind: str, scope: str, settings: Mapping[str, Any]) -> "CachedCredentials":
    """Return the credentials of a kind, which every request of this process with the same settings shares.

    Raises MissingExtraError without the library.
    """
    cloud = CLOUDS[kind]
    if not is_installed(kind):
        raise MissingExtraError(f'{cloud.name} credentials need a package: pip install "dragoman[{cloud.extra}]"')
    chosen = {name: settings[name] for name in CLOUD_IDENTITY[kind] + CLOUD_PLACE[kind] if settings.get(name)}
    with _lock:  # two threads get the same
        return _shared_credentials(kind, scope, tuple(chosen.items()), tuple(map(os.environ.get, cloud.variables)))


@lru_cache(maxsize=256)
def _shared_credentials(
    kind: str, scope: str, chosen: tuple[tuple[str, Any], ...], _: tuple[str | None, ...]
) -> "CachedCredentials":
    """Return the credentials of a kind for the values of the variables that its library reads."""
    found: CachedCredentials = import_module(f"dragoman.credentials.{kind}").credentials(scope, dict(chosen))
    return found


def address_variables(kind: str | None, settings: Mapping[str, Any], environ: Mapping[str, str]) -> dict[str, str]:
    """Return what settings and variables say about the parts of an address, by their names in it."""
    if kind == "aws":
        region = settings.get("region") or _first(environ, "AWS_REGION", "AWS_DEFAULT_REGION")
        return {"AWS_REGION": check_place("region", region)} if region else {}
    if kind == "google":
        project = settings.get("project") or _first(environ, "GOOGLE_CLOUD_PROJECT", "GCLOUD_PROJECT")
        location = settings.get("location") or _first(environ, "GOOGLE_CLOUD_LOCATION", "GOOGLE_CLOUD_REGION")
        location = check_place("location", location or "global")
        host = f"{location}-aiplatform.googleapis.com"
        if location in ("us", "eu"):
            host = f"aiplatform.{location}.rep.googleapis.com"
        elif location == "global":
            host = "aiplatform.googleapis.com"
        found = {"GOOGLE_CLOUD_LOCATION": location, "VERTEX_HOST": host}
        return found | ({"GOOGLE_CLOUD_PROJECT": check_place("project", project)} if project else {})
    return {}


def find_source(kind: str, settings: Mapping[str, Any], environ: Mapping[str, str]) -> str:
    """Return what settings, variables and files name as the source, in a few words; empty if they name none.

    A machine's own identity is not looked for: that would connect to its metadata service.
    """
    named = [f"{name} {settings[name]}" for name in CLOUD_IDENTITY[kind] if settings.get(name)]
    variables = [name for name in CLOUDS[kind].source_variables if environ.get(name, "").strip()]
    home = Path(environ.get("HOME") or Path.home())
    files = [path for path in CLOUDS[kind].source_files if (home / path).is_file()]
    if kind == "google" and (folder := environ.get("CLOUDSDK_CONFIG")):
        file = Path(folder) / "application_default_credentials.json"
        files = [str(file)] if file.is_file() else []
    parts = [", ".join(named), *(f"variable {name}" for name in variables[:1])]
    parts += [path if Path(path).is_absolute() else f"~/{path}" for path in files[:1]]
    return next((each for each in parts if each), "")


def check_kind(provider: str, kind: str | None, settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return the settings of a cloud among those of a provider. Raises ConfigurationError for those of another one."""
    given = {name: value for name, value in settings.items() if name in CLOUD_SETTINGS and value is not None}
    known = () if kind is None else CLOUD_IDENTITY[kind] + CLOUD_PLACE[kind]
    if strange := sorted(given.keys() - set(known)):
        raise ConfigurationError(f"{provider} has no setting {strange[0]}: it belongs to another cloud")
    return given


def is_place(name: str, value: str) -> bool:
    """Whether a text can be a region, a project or a location, and changes neither the host nor the path."""
    return _PLACE_NAMES[name].fullmatch(value) is not None


def check_place(name: str, value: str) -> str:
    """Return a part of an address. Raises ConfigurationError if it could change the host or the path."""
    if not is_place(name, value):
        raise ConfigurationError(f"{name} is {value!r:.60}, which cannot be one")
    return value


def _first(environ: Mapping[str, str], *names: str) -> str:
    return next((value for name in names if (value := environ.get(name, "").strip())), "")
