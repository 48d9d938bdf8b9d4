"""Google Cloud: google-auth finds the credentials and gets tokens. Needs the extra ``google``.

It knows service accounts, user credentials of gcloud, workload identities, impersonation and the metadata server.
"""

import json
import os
from collections.abc import Mapping
from datetime import UTC
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from dragoman.adapter.errors import (
    ConfigurationError,
    CredentialsError,
    DragomanError,
    MissingKeyError,
    NetworkError,
    ServerError,
)
from dragoman.credentials.cached import CachedCredentials
from dragoman.credentials.clouds import CLOUDS, check_place
from dragoman.credentials.contract import Authorization
from dragoman.credentials.functions import read_result
from dragoman.private_files import read_secret

DEFAULT_SCOPE = "https://www.googleapis.com/auth/cloud-platform"
_SECONDS = 15
_LOGIN = "run gcloud auth application-default login"
_READERS = {
    "service_account": ("google.oauth2.service_account", "from_service_account_info"),
    "authorized_user": ("google.oauth2.credentials", "from_authorized_user_info"),
    "external_account": ("google.auth.identity_pool", "from_info"),
    "impersonated_service_account": (
        "google.auth.impersonated_credentials", "from_impersonated_service_account_info",
    ),
}  # fmt: skip
"""The module and the method for each type of file. google-auth's own function for all types is deprecated."""
_VARIABLE = "GOOGLE_APPLICATION_CREDENTIALS"


def credentials(scope: str, settings: Mapping[str, Any], given: Any = None) -> CachedCredentials:
    """Return the credentials for a scope. ``given`` is an object of google-auth."""
    return CachedCredentials(
        partial(_fetch, scope or DEFAULT_SCOPE, settings, given), "Google Cloud", explain=partial(_explain, settings)
    )


def _fetch(scope: str, settings: Mapping[str, Any], given: Any, renew: bool) -> Authorization:
    import requests
    from google.auth.transport.requests import Request

    found, project, source = _load(scope, settings, given)
    if target := settings.get("impersonate"):
        impersonated: Any = import_module("google.auth.impersonated_credentials")
        found = impersonated.Credentials(source_credentials=found, target_principal=target, target_scopes=[scope])
        source = f"the service account {target}"
    with requests.Session() as session:
        if given is None or renew or not found.valid:
            found.refresh(partial(Request(session), timeout=_SECONDS))
    read_result(found.token, "Google Cloud")  # raises for what cannot be a token
    headers: dict[str, str] = {}
    found.apply(headers)
    project = settings.get("project") or project
    return Authorization(
        headers={name.lower(): value for name, value in headers.items()},
        expires_at=None if found.expiry is None else found.expiry.replace(tzinfo=UTC),
        variables={"GOOGLE_CLOUD_PROJECT": check_place("project", project)} if project else {},
        source=source,
    )


def _load(scope: str, settings: Mapping[str, Any], given: Any) -> tuple[Any, str | None, str]:
    """Return google-auth's credentials, the project that they name, and where they are from."""
    if given is not None:
        return given, getattr(given, "project_id", None), f"an object of the class {type(given).__name__}"
    if path := settings.get("credentials_file"):
        return *_read(Path(path), scope), f"the file {path}"
    if path := os.environ.get(_VARIABLE, "").strip():
        return *_read(Path(path), scope), f"the file {path} of {_VARIABLE}"
    import google.auth

    found, project = google.auth.default(scopes=[scope])
    kind = type(found).__module__
    source = "the metadata server" if "compute_engine" in kind else "gcloud's application default credentials"
    return found, project, source


def _read(path: Path, scope: str) -> tuple[Any, str | None]:
    """Return the credentials of a file, by its type."""
    try:
        content = json.loads(read_secret(path))
        kind = content["type"]
    except (ValueError, KeyError, TypeError):
        raise ConfigurationError(f"{path} is not a file with credentials of Google Cloud") from None
    if kind not in _READERS:
        raise ConfigurationError(f"{path} has credentials of the type {kind!r:.60}, which is not known")
    module, method = _READERS[kind]
    source = content.get("credential_source")
    if kind == "external_account" and isinstance(source, dict):
        if "environment_id" in source:
            module = "google.auth.aws"
        elif "executable" in source:  # it runs nothing unless a variable allows it
            module = "google.auth.pluggable"
    found = getattr(import_module(module).Credentials, method)(content, scopes=[scope])
    return found, content.get("project_id") or content.get("quota_project_id")


def _explain(settings: Mapping[str, Any], raised: Exception) -> DragomanError | None:
    """Return the error of an exception of google-auth, without what a server has answered: that may hold a token."""
    names = {kind.__name__ for kind in type(raised).__mro__ if kind.__module__.startswith("google.")}
    file = settings.get("credentials_file") or os.environ.get(_VARIABLE, "").strip()
    if "TransportError" in names or type(raised).__module__.startswith(("requests", "urllib3")):
        return NetworkError("Google Cloud: the server of the credentials cannot be reached, or did not answer in time")
    if "MalformedError" in names or (isinstance(raised, ValueError) and not names):
        return ConfigurationError(f"the file with credentials of Google Cloud cannot be used: {file or 'malformed'}")
    if "DefaultCredentialsError" in names:
        if file:
            return ConfigurationError(f"{file} cannot be used for Google Cloud: it is missing, or is not such a file")
        return MissingKeyError(f"no Google Cloud credentials: {CLOUDS['google'].advice}")
    if "RefreshError" in names:
        if getattr(raised, "retryable", False):
            return ServerError("Google Cloud: the server of the credentials failed")
        # OAuth's code of a refusal, such as invalid_grant.
        codes = (str(each.get("error") or "") for each in raised.args if isinstance(each, dict))
        code = next((each[:80] for each in codes if each.isidentifier()), "")
        advice = f"check the key in {file}, and the clock of this computer" if file else _LOGIN
        return CredentialsError(f"Google Cloud refused the credentials{f' ({code})' if code else ''}: {advice}")
    if names:
        return CredentialsError(f"Google Cloud: {type(raised).__name__}: {CLOUDS['google'].advice}")
    return None
