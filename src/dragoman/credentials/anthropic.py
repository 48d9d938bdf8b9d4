"""Anthropic's profiles and workload identities: the package anthropic reads and exchanges them."""

from collections.abc import Mapping
from functools import partial
from typing import Any

from dragoman.adapter.errors import CredentialsError, DragomanError, MissingKeyError, NetworkError, ServerError
from dragoman.credentials.cached import CachedCredentials
from dragoman.credentials.clouds import CLOUDS
from dragoman.credentials.contract import Authorization, SignableRequest
from dragoman.credentials.functions import read_result

_NAME = "Anthropic"
_BETA = "oauth-2025-04-20"
"""The beta of requests with a token in place of a key (anthropic.lib.credentials)."""


def credentials(scope: str, settings: Mapping[str, Any]) -> CachedCredentials:
    """Return the credentials for an address of Anthropic's API, which ``scope`` is."""
    return CachedCredentials(partial(_fetch, scope), _NAME, explain=_explain)


def _fetch(base_url: str, renew: bool) -> Authorization:
    from anthropic.lib.credentials import default_credentials

    found = default_credentials(base_url=base_url)
    if found is None:
        raise MissingKeyError(f"no profile of {_NAME}: {CLOUDS['anthropic'].advice}")
    provider: Any = found.provider
    try:
        token = read_result(provider(force_refresh=renew), _NAME)
    finally:
        if hasattr(provider, "close"):
            provider.close()
    assert token.key is not None
    headers = {name.lower(): value for name, value in found.extra_headers.items()}
    headers["authorization"] = f"Bearer {token.key.reveal()}"

    def sign(request: SignableRequest) -> dict[str, str]:
        betas = [each.strip() for each in request.headers.get("anthropic-beta", "").split(",") if each.strip()]
        return {**headers, "anthropic-beta": ",".join(betas if _BETA in betas else [*betas, _BETA])}

    return Authorization(sign=sign, expires_at=token.expires_at, source=type(provider).__name__)


def _explain(raised: Exception) -> DragomanError | None:
    names = {kind.__name__ for kind in type(raised).__mro__ if kind.__module__.partition(".")[0] == "anthropic"}
    if not names:
        return None
    status = getattr(raised, "status_code", None)
    if isinstance(status, int) and (status >= 500 or status == 429):
        return ServerError(f"{_NAME}: the exchange of the token failed with status {status}")
    if raised.__cause__ is not None and type(raised.__cause__).__module__.partition(".")[0] in ("httpx", "httpx2"):
        return NetworkError(f"{_NAME}: the exchange of the token failed: {type(raised.__cause__).__name__}")
    at = f" with status {status}" if status else ""
    return CredentialsError(f"{_NAME}: the profile or workload identity was refused{at}: {type(raised).__name__}")
