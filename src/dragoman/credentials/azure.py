"""Microsoft Entra: tokens of azure-identity, or of any credential of azure-core. Needs the extra ``azure``."""

import os
import re
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from dragoman.adapter.errors import (
    ConfigurationError,
    CredentialsError,
    DragomanError,
    MissingKeyError,
    NetworkError,
)
from dragoman.credentials.cached import CachedCredentials
from dragoman.credentials.clouds import CLOUDS
from dragoman.credentials.contract import Authorization
from dragoman.credentials.functions import is_async_function, read_result

DEFAULT_SCOPE = "https://cognitiveservices.azure.com/.default"
_NAME = "Microsoft Entra"
_CODE = re.compile(r"AADSTS\d{0,10}")
"""Entra's code of a refusal, such as AADSTS7000215."""


def credentials(scope: str, settings: Mapping[str, Any]) -> CachedCredentials:
    """Return the credentials for a scope, of azure-identity."""
    return CachedCredentials(partial(_fetch, scope or DEFAULT_SCOPE, settings), _NAME, explain=_explain)


def from_credential(credential: Any, scope: str) -> CachedCredentials:
    """Return the credentials of a credential of azure-core, sync or async."""
    get_token = credential.get_token
    scope = scope or DEFAULT_SCOPE

    async def fetch_async(renew: bool) -> Authorization:
        return _authorization(await get_token(scope), type(credential).__name__)

    def fetch(renew: bool) -> Authorization:
        return _authorization(get_token(scope), type(credential).__name__)

    is_async = is_async_function(get_token)
    return CachedCredentials(fetch_async if is_async else fetch, _NAME, explain=_explain, is_async=is_async)


def _fetch(scope: str, settings: Mapping[str, Any], renew: bool) -> Authorization:
    credential = _new_credential(settings)
    with credential:
        tenant = settings.get("tenant")
        return _authorization(
            credential.get_token(scope, **({"tenant_id": tenant} if tenant else {})), type(credential).__name__
        )


def _new_credential(settings: Mapping[str, Any]) -> Any:
    """Return a new credential each time: none keeps a token that a provider has refused."""
    from azure import identity

    client_id = settings.get("client_id")
    if settings.get("managed_identity"):
        return identity.ManagedIdentityCredential(**({"client_id": client_id} if client_id else {}))
    tenant = settings.get("tenant") or os.environ.get("AZURE_TENANT_ID")
    client_id = client_id or os.environ.get("AZURE_CLIENT_ID")
    if (settings.get("tenant") or settings.get("client_id")) and tenant and client_id:
        if secret := os.environ.get("AZURE_CLIENT_SECRET"):
            return identity.ClientSecretCredential(tenant, client_id, secret)
        if path := os.environ.get("AZURE_CLIENT_CERTIFICATE_PATH"):
            password = os.environ.get("AZURE_CLIENT_CERTIFICATE_PASSWORD")
            return identity.CertificateCredential(tenant, client_id, path, password=password)
    given = {
        "managed_identity_client_id": settings.get("client_id"),
        "workload_identity_client_id": settings.get("client_id"),
        "workload_identity_tenant_id": settings.get("tenant"),
    }
    return identity.DefaultAzureCredential(**{name: value for name, value in given.items() if value})


def _authorization(token: Any, source: str) -> Authorization:
    read = read_result(token, _NAME)
    assert read.key is not None
    headers = {"authorization": f"Bearer {read.key.reveal()}"}
    return Authorization(headers=headers, expires_at=read.expires_at, source=source)


def _explain(raised: Exception) -> DragomanError | None:
    """Return the error of an exception of azure-core. Of its text only Entra's code is shown."""
    names = {kind.__name__ for kind in type(raised).__mro__ if kind.__module__.startswith(("azure.", "msal"))}
    if found := _CODE.search(str(raised)):
        return CredentialsError(
            f"{_NAME} refused the credentials ({found[0]}): {CLOUDS['azure'].advice}", code=found[0]
        )
    if any(type(each).__name__ in CLOUDS["azure"].errors["unreachable"] for each in _chain(raised)):
        return NetworkError(f"{_NAME} cannot be reached, or did not answer in time")
    if "CredentialUnavailableError" in names or "Attempted credentials" in str(raised):
        return MissingKeyError(f"no credentials of {_NAME}: {CLOUDS['azure'].advice}")
    if "ClientAuthenticationError" in names or "HttpResponseError" in names:
        status = getattr(getattr(raised, "response", None), "status_code", None)
        if status is not None and status >= 500:
            return NetworkError(f"{_NAME} failed with status {status}")
        return CredentialsError(f"{_NAME} refused the credentials: {CLOUDS['azure'].advice}")
    if isinstance(raised, ValueError):
        return ConfigurationError(f"{_NAME}: tenant, client_id or AZURE_AUTHORITY_HOST cannot be used")
    return CredentialsError(f"{_NAME}: {type(raised).__name__}") if names else None


def _chain(raised: BaseException | None) -> Iterator[BaseException]:
    """Yield an exception and those that it came from: azure-identity hides a broken connection behind its own."""
    for _ in range(10):
        if raised is None:
            return
        yield raised
        raised = raised.__cause__ or raised.__context__
