"""Bedrock without an API key: requests signed with AWS credentials (Signature Version 4). Needs the extra ``bedrock``.

The signer is botocore's own, and so are the places where it looks for credentials: environment, shared files, SSO,
containers, instances. It is given to the transport as the auth of a client of the caller's own::

    client = httpx.Client(auth=SigV4Auth("eu-central-1"))
    Session("bedrock:eu.anthropic.claude-sonnet-4-6", providers={"bedrock": {"client": client}})
"""

import asyncio
import re
from collections.abc import AsyncGenerator, Generator
from typing import Any

import httpx

from dragoman.adapter.errors import ConfigurationError, MissingExtraError

SERVICE = "bedrock"

_HOST = re.compile(r"bedrock-runtime(?:-fips)?\.([a-z0-9-]+)\.amazonaws\.com(?:\.cn)?")
_SIGNED_HEADERS = ("content-type",)
"""Headers that are signed besides host, date and session token. A proxy may change others."""


class SigV4Auth(httpx.Auth):
    """Signs every request, so that refreshed credentials are used and a retry has the right date.

    ``region`` defaults to the one in the address. ``session`` is a botocore or boto3 session, for a profile or a role.
    Raises MissingExtraError if botocore is not installed, and, at the first request, ConfigurationError if there are no
    credentials or no region.
    """

    requires_request_body = True

    def __init__(self, region: str | None = None, *, session: Any = None) -> None:
        self._region = region
        self._session = session if session is not None else _new_session()

    def sync_auth_flow(self, request: httpx.Request) -> Generator[httpx.Request, httpx.Response, None]:
        request.read()
        yield self._sign(request, self._credentials())

    async def async_auth_flow(self, request: httpx.Request) -> AsyncGenerator[httpx.Request, httpx.Response]:
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
        from botocore.auth import SigV4Auth as Signer
        from botocore.awsrequest import AWSRequest

        aws_request = AWSRequest(
            method=request.method,
            url=str(request.url),
            data=request.content,
            headers={name: request.headers[name] for name in _SIGNED_HEADERS if name in request.headers},
        )
        Signer(credentials, SERVICE, self._find_region(request)).add_auth(aws_request)
        request.headers.update(dict(aws_request.headers.items()))
        return request

    def _find_region(self, request: httpx.Request) -> str:
        if self._region is not None:
            return self._region
        if match := _HOST.fullmatch(request.url.host):
            return match[1]
        raise ConfigurationError(f"the address {request.url.host} names no AWS region: pass one to SigV4Auth")


def _new_session() -> Any:
    try:
        from botocore.session import Session
    except ImportError:
        raise MissingExtraError('signing needs botocore: pip install "dragoman[bedrock]"') from None
    return Session()
