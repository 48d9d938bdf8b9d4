"""AWS signatures: those of botocore's own client, on our requests."""

import asyncio
import hashlib
import hmac
import sys
from datetime import datetime
from typing import Any

import botocore.auth
import botocore.session
import httpx
import pytest
from botocore.awsrequest import AWSResponse

from dragoman import AdapterOptions, Message
from dragoman.adapter.errors import ConfigurationError, MissingExtraError, MissingKeyError
from dragoman.transport import AsyncHttpTransport, HttpTransport
from dragoman.transport.aws import SigV4Auth
from dragoman_adapters.bedrock.adapter import BedrockAdapter
from tests.unit.adapters.bedrock.wire import CLAUDE, reply

REGION = "eu-central-1"
ENVIRON = {"AWS_REGION": REGION}
NOW = datetime(2026, 11, 21, 12, 0, 0)  # noqa: DTZ001 - as botocore has it
ADAPTER = BedrockAdapter(CLAUDE)
WIRE = ADAPTER.to_wire([Message.user("Grüße")], [], AdapterOptions(max_output_tokens=9))


def session(**keys: str) -> Any:
    made = botocore.session.Session()
    made.set_credentials(
        keys.get("id", "AKIDEXAMPLE"), keys.get("secret", "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"), keys.get("token")
    )
    return made


@pytest.fixture(autouse=True)
def _at_noon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: NOW)


def capture_request(auth: SigV4Auth, **settings: Any) -> httpx.Request:
    """The request as it leaves the transport."""
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=reply({"text": "Hi"}))

    client = httpx.Client(auth=auth, transport=httpx.MockTransport(answer))
    with client:
        got = HttpTransport(client=client, environ=ENVIRON, **settings).send(ADAPTER, WIRE)
    assert got.status == 200
    return seen[0]


def by_botocore(body: bytes, token: str | None) -> dict[str, str]:
    """The headers of the same call by botocore's client."""
    keys = {"token": token} if token else {}
    client = session(**keys).create_client("bedrock-runtime", region_name=REGION)
    seen: list[Any] = []

    def swap(request: Any, **_: Any) -> None:
        request.data = body  # its own JSON has blanks

    def answer(request: Any, **_: Any) -> AWSResponse:
        seen.append(request)
        raw = httpx.Response(200, json=reply({"text": "Hi"}, usage={"inputTokens": 1}))
        return AWSResponse(request.url, 200, {}, _Raw(raw.content))

    client.meta.events.register("before-sign.*", swap)
    client.meta.events.register("before-send.*", answer)
    client.converse(modelId=CLAUDE, messages=[{"role": "user", "content": [{"text": "x"}]}])
    found = {str(name).lower(): value for name, value in seen[0].headers.items()}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in found.items()}


class _Raw:
    def __init__(self, content: bytes) -> None:
        self._content = content

    def stream(self) -> Any:
        yield self._content


@pytest.mark.parametrize("token", [None, "session-token"])
def test_requests_are_signed_as_botocore_signs_them(token: str | None) -> None:
    """The same body to the same model at the same time has the same signature."""
    keys = {"token": token} if token else {}
    request = capture_request(SigV4Auth(session=session(**keys)))
    theirs = by_botocore(WIRE.body, token)
    for name in ("authorization", "x-amz-date", "x-amz-security-token"):
        assert request.headers.get(name) == theirs.get(name), name
    assert str(request.url).endswith("/model/us.anthropic.claude-sonnet-4-5-20250929-v1%3A0/converse")


def test_the_signature_follows_the_specification() -> None:
    """Canonical request, string to sign and derived key were worked out by hand."""
    request = capture_request(SigV4Auth(REGION, session=session()))
    path = "/model/us.anthropic.claude-sonnet-4-5-20250929-v1%253A0/converse"  # quoted once more
    host = f"bedrock-runtime.{REGION}.amazonaws.com"
    headers = f"content-type:application/json\nhost:{host}\nx-amz-date:20261121T120000Z\n"
    digest = hashlib.sha256(WIRE.body).hexdigest()
    canonical = f"POST\n{path}\n\n{headers}\ncontent-type;host;x-amz-date\n{digest}"
    scope = f"20261121/{REGION}/bedrock/aws4_request"
    to_sign = f"AWS4-HMAC-SHA256\n20261121T120000Z\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}"
    key = b"AWS4wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY"
    for part in ("20261121", REGION, "bedrock", "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    signature = hmac.new(key, to_sign.encode(), "sha256").hexdigest()
    assert request.headers["authorization"].endswith(f"Signature={signature}")


def test_async_requests_are_signed_alike() -> None:
    seen: list[httpx.Request] = []

    def answer(request: httpx.Request) -> httpx.Response:
        seen.append(request)
        return httpx.Response(200, json=reply({"text": "Hi"}))

    async def send() -> None:
        async with httpx.AsyncClient(
            auth=SigV4Auth(session=session()), transport=httpx.MockTransport(answer)
        ) as client:
            await AsyncHttpTransport(client=client, environ=ENVIRON).send(ADAPTER, WIRE)

    asyncio.run(send())
    assert seen[0].headers["authorization"] == capture_request(SigV4Auth(session=session())).headers["authorization"]


def test_a_client_with_auth_needs_no_key() -> None:
    """A client without auth needs one; an explicit key takes precedence over the environment's."""
    assert capture_request(SigV4Auth(session=session()))
    with httpx.Client() as plain, pytest.raises(MissingKeyError):
        HttpTransport(client=plain, environ=ENVIRON).send(ADAPTER, WIRE)


def test_the_region_is_given_or_read_from_the_address() -> None:
    """Otherwise it is unknown."""
    local = capture_request(SigV4Auth("us-west-2", session=session()), base_url="http://proxy.test")
    assert "/us-west-2/bedrock/" in local.headers["authorization"]
    with pytest.raises(ConfigurationError, match="no AWS region"):
        capture_request(SigV4Auth(session=session()), base_url="http://proxy.test")


def test_missing_credentials_name_what_to_do() -> None:
    """The message contains no secret."""

    class Empty:
        def get_credentials(self) -> None:
            return None

    with pytest.raises(ConfigurationError, match="AWS_BEARER_TOKEN_BEDROCK"):
        capture_request(SigV4Auth(session=Empty()))


def test_without_botocore_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """The error comes at once, not at the first request; with botocore, a missing session is created."""
    assert SigV4Auth()
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(MissingExtraError, match=r"dragoman\[bedrock\]"):
        SigV4Auth()


def test_dates_are_botocores_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each request is signed with the time at which it is sent."""
    first = capture_request(SigV4Auth(session=session())).headers
    monkeypatch.setattr(botocore.auth, "get_current_datetime", lambda: datetime(2026, 11, 22))  # noqa: DTZ001
    second = capture_request(SigV4Auth(session=session())).headers
    assert (first["x-amz-date"], second["x-amz-date"]) == ("20261121T120000Z", "20261122T000000Z")
    assert first["authorization"] != second["authorization"]
