"""Bedrock without an API key, through a client of the caller's own that signs. Needs the extra ``bedrock``.

Without a client, Dragoman finds the credentials itself; see `dragoman.credentials.aws`::

    client = httpx.Client(auth=SigV4Auth("eu-central-1"))
    Session("bedrock:eu.anthropic.claude-sonnet-4-6", providers={"bedrock": {"client": client}})
"""

import asyncio
from collections.abc import AsyncGenerator, Generator
from typing import Any

import httpx

from dragoman.adapter.errors import ConfigurationError, MissingExtraError
from dragoman.credentials.aws import DEFAULT_SERVICE, region_of, sign
from dragoman.credentials.contract import SignableRequest


class SigV4Auth(httpx.Auth):
    """Signs every request, so that refreshed credentials are used and a retry has the right date.

    ``region`` defaults to the one in the address. ``session`` is a botocore or boto3 session, for a profile or a role.
    Raises MissingExtraError if botocore is not installed, and, at the first request, ConfigurationError if there are no
    credentials or no region.
    """

    requires_request_body = True
    """True: a signature covers the body, so httpx reads it first."""

    def __init__(self, region: str | None = None, *, session: Any = None) -> None:
        if session is None:
            try:
                from botocore.session import Session
            except ImportError:
                raise MissingExtraError('signing needs botocore: pip install "dragoman[bedrock]"') from None
            session = Session()
        self._region = region
        self._session = session

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        """Yield the signed request. httpx calls this for a sync client."""
        request.read()
        yield self._sign(request, self._credentials())

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
        """Yield the signed request; credentials are fetched outside the event loop. httpx calls this for an async
        client."""
        await request.aread()
        # Fetching credentials may block, so it runs outside the event loop.
        yield self._sign(request, await asyncio.to_thread(self._credentials))

    def _credentials(self) -> Any:
        credentials = self._session.get_credentials()
        if credentials is None:
            raise ConfigurationError(
                "no AWS credentials to sign with: set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, name a profile in "
                "AWS_PROFILE, or use an API key of Bedrock's in AWS_BEARER_TOKEN_BEDROCK"
            )
        return credentials.get_frozen_credentials()

    def _sign(self, request: httpx.Request, credentials: Any) -> httpx.Request:
        region = self._region or region_of(str(request.url))
        if region is None:
            raise ConfigurationError(f"the address {request.url.host} names no AWS region: pass one to SigV4Auth")
        signable = SignableRequest(request.method, str(request.url), request.headers, request.content)
        request.headers.update(sign(credentials, DEFAULT_SERVICE, region, signable))
        return request
