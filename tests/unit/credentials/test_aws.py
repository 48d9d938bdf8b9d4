"""AWS: what botocore finds signs requests to Bedrock. STS, SSO and the metadata services are servers on loopback."""

import asyncio
import hashlib
import json
import re
import threading
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from dragoman import AsyncClient, Client, DragomanError
from dragoman.adapter.errors import (
    AuthenticationError,
    ConfigurationError,
    CredentialsError,
    MissingKeyError,
    NetworkError,
    RequestTimeoutError,
    ServerError,
)
from tests.unit.credentials.servers import CONVERSE_REPLY, Answer, Received, Server

MODEL = "bedrock:amazon.nova-lite-v1:0"
SECRET = "wJalrXUtnFEMIcanary/bPxRfiCYEXAMPLEKEY"
TOKEN = "canary-session-token-2281"
ROLE = "arn:aws:iam::123456789012:role/asker"
_SCOPE = re.compile(r"AWS4-HMAC-SHA256 Credential=(\w+)/\d{8}/([\w-]+)/([\w-]+)/aws4_request, ")


def soon(seconds: float = 3600.0) -> str:
    return (datetime.now(UTC) + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ")


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable and no file of AWS but the test's own."""
    import os

    for name in list(os.environ):
        if name.startswith("AWS_"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_REGION", "eu-central-1")


@pytest.fixture
def bedrock() -> Iterator[Server]:
    with Server(lambda _: Answer(200, CONVERSE_REPLY)) as server:
        yield server


def write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o600)


def signed_by(received: Received) -> tuple[str, str, str]:
    """The access key, the region and the service of a signature."""
    match = _SCOPE.match(received.headers["authorization"])
    assert match is not None
    return match[1], match[2], match[3]


def ask(server: Server, **settings: Any) -> Received:
    with Client(providers={"bedrock": {"base_url": server.url, "max_retries": 0, **settings}}) as client:
        assert client.ask(MODEL, "Hi").text == "Yes."
    return server.requests[-1]


def sts(answer: Callable[[dict[str, str]], str | Answer] | None = None) -> Server:
    """Plays STS: each call gets keys of its own."""
    count = [0]

    def rule(received: Received) -> Answer:
        form = {name: values[0] for name, values in parse_qs(received.body.decode()).items()}
        given = None if answer is None else answer(form)
        if isinstance(given, Answer):
            return given
        count[0] += 1
        action = form["Action"]
        body = (
            f'<{action}Response xmlns="https://sts.amazonaws.com/doc/2011-06-15/"><{action}Result><Credentials>'
            f"<AccessKeyId>ASIASTS{count[0]}</AccessKeyId><SecretAccessKey>{SECRET}</SecretAccessKey>"
            f"<SessionToken>{TOKEN}</SessionToken><Expiration>{given or soon()}</Expiration></Credentials>"
            f"<AssumedRoleUser><AssumedRoleId>A:b</AssumedRoleId><Arn>{ROLE}</Arn></AssumedRoleUser>"
            f"</{action}Result></{action}Response>"
        )
        return Answer(200, body, {"content-type": "text/xml"})

    return Server(rule)


def test_variables(bedrock: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The session token goes along. A change of the variables counts at once."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAVARIABLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    received = ask(bedrock)
    assert signed_by(received) == ("AKIAVARIABLE", "eu-central-1", "bedrock")
    assert "x-amz-security-token" not in received.headers
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "ASIAVARIABLE")
    monkeypatch.setenv("AWS_SESSION_TOKEN", TOKEN)
    received = ask(bedrock)
    assert signed_by(received)[0] == "ASIAVARIABLE"
    assert received.headers["x-amz-security-token"] == TOKEN


def test_a_profile_and_its_region(bedrock: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The profile of the settings wins over the variable; so does its region over none."""
    monkeypatch.delenv("AWS_REGION")
    keys = f"aws_secret_access_key = {SECRET}\n"
    write(
        tmp_path / ".aws/credentials",
        f"[work]\naws_access_key_id = AKIAWORK\n{keys}[home]\naws_access_key_id = AKIAHOME\n{keys}",
    )
    write(tmp_path / ".aws/config", "[profile work]\nregion = us-west-2\n[profile home]\nregion = eu-west-3\n")
    monkeypatch.setenv("AWS_PROFILE", "home")
    assert signed_by(ask(bedrock)) == ("AKIAHOME", "eu-west-3", "bedrock")
    assert signed_by(ask(bedrock, profile="work")) == ("AKIAWORK", "us-west-2", "bedrock")
    assert signed_by(ask(bedrock, profile="work", region="ap-south-1")) == ("AKIAWORK", "ap-south-1", "bedrock")


def test_a_role_of_the_settings(bedrock: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is assumed with what is found, and once for all requests until it ends."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAVARIABLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with sts() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        for _ in range(3):
            assert signed_by(ask(bedrock, role_arn=ROLE))[0] == "ASIASTS1"
        assert len(server.requests) == 1
        assert parse_qs(server.requests[0].body.decode())["RoleArn"] == [ROLE]
        assert signed_by(server.requests[0])[0] == "AKIAVARIABLE"


def test_a_role_of_a_profile(bedrock: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / ".aws/credentials", f"[base]\naws_access_key_id = AKIABASE\naws_secret_access_key = {SECRET}\n")
    write(tmp_path / ".aws/config", f"[profile asker]\nrole_arn = {ROLE}\nsource_profile = base\n")
    with sts() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        assert signed_by(ask(bedrock, profile="asker"))[0] == "ASIASTS1"


def test_a_web_identity(bedrock: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path / "token", "canary.web.identity")
    monkeypatch.setenv("AWS_WEB_IDENTITY_TOKEN_FILE", str(tmp_path / "token"))
    monkeypatch.setenv("AWS_ROLE_ARN", ROLE)
    with sts() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        assert signed_by(ask(bedrock))[0] == "ASIASTS1"
        form = parse_qs(server.requests[0].body.decode())
        assert form["Action"] == ["AssumeRoleWithWebIdentity"]
        assert form["WebIdentityToken"] == ["canary.web.identity"]


def sso_profile(home: Path, expires: str) -> None:
    write(
        home / ".aws/config",
        "[profile dev]\nsso_session = corp\nsso_account_id = 123456789012\nsso_role_name = asker\nregion = eu-west-1\n"
        "[sso-session corp]\nsso_region = eu-west-1\nsso_start_url = https://corp.awsapps.com/start\n",
    )
    cache = {"accessToken": "canary-sso-token", "expiresAt": expires, "region": "eu-west-1"}
    name = hashlib.sha1(b"corp").hexdigest()
    write(home / ".aws/sso/cache" / f"{name}.json", json.dumps(cache))


def test_sso(bedrock: Server, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The portal gives keys of the role. Without a valid login, the error says what to run."""
    given = {"accessKeyId": "ASIASSO", "secretAccessKey": SECRET, "sessionToken": TOKEN}
    given_until = int(datetime.now(UTC).timestamp() + 3600) * 1000
    sso_profile(tmp_path, soon())
    cache = str(tmp_path / ".aws/sso/cache")
    monkeypatch.setattr("botocore.tokens.SSOTokenProvider._SSO_TOKEN_CACHE_DIR", cache)  # read when it was imported
    with Server(lambda _: Answer(200, {"roleCredentials": {**given, "expiration": given_until}})) as portal:
        monkeypatch.setenv("AWS_ENDPOINT_URL_SSO", portal.url)
        assert signed_by(ask(bedrock, profile="dev"))[0] == "ASIASSO"
        assert portal.requests[0].headers["x-amz-sso_bearer_token"] == "canary-sso-token"
        portal.rule = lambda _: Answer(401, {"message": "Session token not found or invalid"})
        monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / ".aws/config"))  # nothing is known of these settings
        with pytest.raises(CredentialsError, match="run aws sso login --profile dev") as caught:
            ask(bedrock, profile="dev")
        assert "canary" not in str(caught.value)
    sso_profile(tmp_path, soon(-60))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    with pytest.raises(CredentialsError, match="run aws sso login --profile dev"):
        ask(bedrock, profile="dev")


def test_a_container_role(bedrock: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    given = {"AccessKeyId": "ASIATASK", "SecretAccessKey": SECRET, "Token": TOKEN, "Expiration": soon()}
    with Server(lambda _: Answer(200, given)) as server:
        monkeypatch.setenv("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{server.url}/task")
        assert signed_by(ask(bedrock))[0] == "ASIATASK"


def instance(received: Received, expires: str) -> Answer:
    if received.method == "PUT":
        return Answer(200, "imds-token")
    if received.path.endswith("/security-credentials/"):
        return Answer(200, "asker")
    given = {"AccessKeyId": "ASIAINSTANCE", "SecretAccessKey": SECRET, "Token": TOKEN, "Expiration": expires}
    return Answer(200, {"Code": "Success", **given})


def test_an_instance_role(bedrock: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    with Server(lambda received: instance(received, soon())) as server:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url)
        assert signed_by(ask(bedrock))[0] == "ASIAINSTANCE"


@pytest.mark.parametrize(("status", "body"), [(500, ""), (200, "<html>login</html>"), (404, "")])
def test_a_metadata_service_that_fails(
    bedrock: Server, monkeypatch: pytest.MonkeyPatch, status: int, body: str
) -> None:
    """It counts as none: the error says what to set, and nothing is sent."""
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "false")
    with Server(lambda _: Answer(status, body)) as server:
        monkeypatch.setenv("AWS_EC2_METADATA_SERVICE_ENDPOINT", server.url)
        with pytest.raises(MissingKeyError, match="AWS_PROFILE"):
            ask(bedrock)
    assert not bedrock.requests


def test_a_session_of_the_programs_own(bedrock: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    from botocore.session import Session

    session = Session()
    session.set_credentials("AKIAMINE", SECRET)
    session.set_config_variable("region", "us-east-2")
    assert signed_by(ask(bedrock, credentials=session))[:2] == ("AKIAMINE", "us-east-2")


def test_what_bedrock_refuses_is_renewed_once(bedrock: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS refuses expired credentials with 403 and a code."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAVARIABLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    refusal = Answer(
        403,
        {"message": "The security token included in the request is expired"},
        {"x-amzn-errortype": "ExpiredTokenException"},
    )
    bedrock.rule = lambda got: refusal if signed_by(got)[0] == "ASIASTS1" else Answer(200, CONVERSE_REPLY)
    with sts() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        assert signed_by(ask(bedrock, role_arn=f"{ROLE}-2"))[0] == "ASIASTS2"
    assert [signed_by(each)[0] for each in bedrock.requests] == ["ASIASTS1", "ASIASTS2"]


def test_a_wrong_clock_is_named(bedrock: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS refuses a signature whose time differs; the error says by how much."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAVARIABLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    refusal = {"message": "Signature expired: 20261128T010000Z is now earlier than 20261128T020000Z"}
    past = (datetime.now(UTC) - timedelta(hours=2)).strftime("%a, %d %b %Y %H:%M:%S GMT")
    bedrock.rule = lambda _: Answer(403, refusal, {"x-amzn-errortype": "InvalidSignatureException", "Date": past})
    with pytest.raises(AuthenticationError, match=r"the clock of this computer is 7,\d{3} seconds ahead of the server"):
        ask(bedrock)


def test_a_hundred_requests_share_one_role(bedrock: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred requests share one role in threads and in tasks, with two clients."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAVARIABLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    settings = {"bedrock": {"base_url": bedrock.url, "role_arn": f"{ROLE}-3"}}

    async def main() -> None:
        async with AsyncClient(providers=settings) as client:
            await asyncio.gather(*(client.ask(MODEL, "Hi") for _ in range(50)))

    with sts() as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        with Client(providers=settings) as client:
            threads = [threading.Thread(target=lambda: client.ask(MODEL, "Hi")) for _ in range(50)]
            threads.append(threading.Thread(target=lambda: asyncio.run(main())))
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join(60)
        assert len(server.requests) == 1
    assert {signed_by(each)[0] for each in bedrock.requests} == {"ASIASTS1"}
    assert len(bedrock.requests) == 100


ERROR = "<ErrorResponse><Error><Code>{code}</Code><Message>canary {secret}</Message></Error></ErrorResponse>"
STS_FAILURES: dict[str, tuple[Answer, type[DragomanError], str]] = {
    "500": (Answer(500, ""), ServerError, "AssumeRole failed with status 500"),
    "HTML": (Answer(200, "<html>canary login</html>"), DragomanError, "AWS"),
    "refused": (
        Answer(403, ERROR.format(code="AccessDenied", secret=SECRET), {"content-type": "text/xml"}),
        CredentialsError,
        r"AssumeRole was refused \(AccessDenied\)",
    ),
    "expired": (
        Answer(403, ERROR.format(code="ExpiredToken", secret=SECRET), {"content-type": "text/xml"}),
        CredentialsError,
        "run aws sso login",
    ),
}


@pytest.mark.parametrize("case", STS_FAILURES)
def test_an_sts_that_fails(case: str, bedrock: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A typed error without a secret; nothing is sent to the provider."""
    answer, kind, message = STS_FAILURES[case]
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAVARIABLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with sts(lambda _: answer) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        with pytest.raises(kind, match=message) as caught:
            ask(bedrock, role_arn=f"{ROLE}-{case}")
    assert caught.value.sent is False
    assert "canary" not in str(caught.value)
    assert not bedrock.requests


def test_an_sts_that_hangs_or_is_not_there(bedrock: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """The time limit of the call holds."""
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAVARIABLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    gate = threading.Event()

    def hang(_: dict[str, str]) -> str:
        gate.wait(20)
        return soon()

    with sts(hang) as server:
        monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
        with pytest.raises(RequestTimeoutError, match="no credentials in time"):
            ask(bedrock, role_arn=f"{ROLE}-hangs", timeout=0.5)
        gate.set()
    monkeypatch.setenv("AWS_ENDPOINT_URL_STS", server.url)
    with pytest.raises(NetworkError, match=f"http://{server.host}") as caught:
        ask(bedrock, role_arn=f"{ROLE}-gone")
    assert caught.value.sent is False
    assert not bedrock.requests


FILES: dict[str, tuple[str, str, type[DragomanError], str]] = {
    "no such profile": ("", "", ConfigurationError, "check the profile work"),
    "malformed": ("canary = [", "", ConfigurationError, "check the profile work"),
    "half a key": (
        "[work]\naws_access_key_id = AKIA\n", "", ConfigurationError, "check the profile work",
    ),
    "an unknown source": (
        "", f"[profile work]\nrole_arn = {ROLE}\nsource_profile = gone\n", ConfigurationError, "check the profile work",
    ),
    "a process that fails": (
        "", "[profile work]\ncredential_process = false\n", CredentialsError, "CredentialRetrievalError",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", FILES)
def test_files_that_cannot_be_used(case: str, bedrock: Server, tmp_path: Path) -> None:
    keys, config, kind, message = FILES[case]
    write(tmp_path / ".aws/credentials", keys)
    write(tmp_path / ".aws/config", config)
    with pytest.raises(kind, match=message) as caught:
        ask(bedrock, profile="work")
    assert "canary" not in str(caught.value)
    assert not bedrock.requests


def test_a_file_that_others_can_read(
    bedrock: Server, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is used, with one warning."""
    path = tmp_path / "shared-credentials"
    write(path, f"[default]\naws_access_key_id = AKIASHARED\naws_secret_access_key = {SECRET}\n")
    path.chmod(0o644)
    tmp_path.chmod(0o755)
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(path))
    assert signed_by(ask(bedrock))[0] == "AKIASHARED"
    assert caplog.text.count("other users can read") == 1
    assert SECRET not in caplog.text


def test_nothing_at_all(bedrock: Server) -> None:
    """The error names the key's variable, AWS's own, and what to run."""
    with pytest.raises(MissingKeyError, match=r"AWS_BEARER_TOKEN_BEDROCK.*AWS_ACCESS_KEY_ID.*aws sso login"):
        ask(bedrock)
    assert not bedrock.requests


def test_without_a_region_the_error_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("AWS_REGION")
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIAVARIABLE")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", SECRET)
    with pytest.raises(ConfigurationError, match="set AWS_REGION, or pass region="), Client() as client:
        client.ask(MODEL, "Hi")
