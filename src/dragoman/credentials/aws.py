"""AWS: botocore finds the credentials and signs with them (Signature Version 4). Needs the extra ``bedrock``.

botocore looks in variables, profiles, SSO, web identities, containers and instances, and assumes the roles that a
profile names. A new session of botocore is made for each fetch, so that nothing of it is shared by threads or forks.
"""

import os
import re
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from dragoman.adapter.errors import (
    ConfigurationError,
    CredentialsError,
    DragomanError,
    MissingKeyError,
    NetworkError,
    RequestTimeoutError,
    ServerError,
    mask_secrets,
)
from dragoman.adapter.known_keys import remember_key
from dragoman.credentials.cached import CachedCredentials
from dragoman.credentials.clouds import CLOUDS, check_place
from dragoman.credentials.contract import Authorization, SignableRequest
from dragoman.private_files import warn_if_shared

DEFAULT_SERVICE = "bedrock"
_HOST = re.compile(r"[a-z0-9.-]*?\b(?:bedrock|sagemaker)[a-z-]*\.([a-z0-9-]+)\.(?:amazonaws\.com(?:\.cn)?|api\.aws)")
_SIGNED_HEADERS = ("content-type",)
"""Headers that are signed besides host, date and session token. A proxy may change others."""
_CONNECT_SECONDS, _READ_SECONDS = 5, 15
_ROLE_SESSION = "dragoman"


def credentials(scope: str, settings: Mapping[str, Any], session: Any = None) -> CachedCredentials:
    """Return the credentials that sign for a service, by default Bedrock. ``session`` is one of botocore or boto3."""
    profile = settings.get("profile") or os.environ.get("AWS_PROFILE")
    return CachedCredentials(
        partial(_fetch, scope or DEFAULT_SERVICE, settings, session),
        f"AWS{f', profile {profile}' if profile else ''}",
        explain=partial(_explain, profile),
    )


def _fetch(service: str, settings: Mapping[str, Any], given: Any, renew: bool) -> Authorization:
    session, found = _load(settings, given)
    region, keys = session.get_config_variable("region"), found.get_frozen_credentials()
    expires_at = getattr(found, "_expiry_time", None)  # botocore has no public name for it
    source = str(getattr(found, "method", ""))
    if role := settings.get("role_arn"):
        keys, expires_at = _assume(role, session, keys, region)
        source = f"the role {role}"
    for secret in (keys.secret_key, keys.token):
        if secret:
            remember_key(secret)

    def sign_at(request: SignableRequest) -> dict[str, str]:
        # For the region of the address, if it is one of AWS.
        return sign(keys, service, region_of(request.url) or region, request)

    return Authorization(
        sign=sign_at,
        expires_at=expires_at,
        variables={"AWS_REGION": check_place("region", region)} if region else {},
        source=source,
    )


def _load(settings: Mapping[str, Any], given: Any) -> tuple[Any, Any]:
    """Return botocore's session, and the credentials that it found."""
    from botocore.session import Session

    session = given
    if session is None:
        path = Path(os.environ.get("AWS_SHARED_CREDENTIALS_FILE") or Path.home() / ".aws" / "credentials")
        if path.is_file():
            warn_if_shared(path)
        session = Session(profile=settings.get("profile"))
        if region := settings.get("region") or os.environ.get("AWS_REGION"):  # botocore reads AWS_DEFAULT_REGION only
            session.set_config_variable("region", region)
        session.set_default_client_config(_client_config())
    session = getattr(session, "_session", session)  # boto3 keeps botocore's
    if given is None:
        found = session.get_credentials()
    else:  # what the session keeps may be what a provider has refused
        found = session.get_component("credential_provider").load_credentials() or session.get_credentials()
    if found is None:
        raise MissingKeyError(f"no AWS credentials to sign with: {CLOUDS['aws'].advice}")
    return session, found


def _client_config() -> Any:
    from botocore.config import Config

    return Config(connect_timeout=_CONNECT_SECONDS, read_timeout=_READ_SECONDS, retries={"max_attempts": 1})


def _assume(role: str, session: Any, keys: Any, region: str | None) -> tuple[Any, Any]:
    """Return the keys of a role, and until when they are valid."""
    from botocore.credentials import ReadOnlyCredentials

    client = session.create_client(
        "sts",
        region_name=region or "us-east-1",
        aws_access_key_id=keys.access_key,
        aws_secret_access_key=keys.secret_key,
        aws_session_token=keys.token,
        config=_client_config(),
    )
    try:
        got = client.assume_role(RoleArn=role, RoleSessionName=_ROLE_SESSION)["Credentials"]
    finally:
        client.close()
    keys = ReadOnlyCredentials(got["AccessKeyId"], got["SecretAccessKey"], got["SessionToken"])
    return keys, got["Expiration"]


def sign(keys: Any, service: str, region: str | None, request: SignableRequest) -> dict[str, str]:
    """Return the headers that sign a request with botocore's frozen credentials. Raises ConfigurationError without a
    region."""
    from botocore.auth import SigV4Auth
    from botocore.awsrequest import AWSRequest

    if region is None:
        raise ConfigurationError(
            f"the address {urlsplit(request.url).hostname} names no AWS region: set region, or AWS_REGION"
        )
    aws_request = AWSRequest(
        method=request.method,
        url=request.url,
        data=request.body,
        headers={name: request.headers[name] for name in _SIGNED_HEADERS if name in request.headers},
    )
    SigV4Auth(keys, service, region).add_auth(aws_request)
    return {name.lower(): value for name, value in aws_request.headers.items() if name.lower() not in _SIGNED_HEADERS}


def region_of(url: str) -> str | None:
    """Return the region in an address of AWS."""
    match = _HOST.fullmatch(urlsplit(url).hostname or "")
    return match[1] if match else None


def _explain(profile: str | None, raised: Exception) -> DragomanError | None:
    """Return the error of an exception of botocore. Its texts are not shown where they repeat what a program or a
    server has printed."""
    names = {kind.__name__ for kind in type(raised).__mro__ if kind.__module__.partition(".")[0] == "botocore"}
    if not names:
        return None
    suffix = f" --profile {profile}" if profile else ""
    kind, errors = type(raised).__name__, CLOUDS["aws"].errors
    if not names.isdisjoint(errors["login"]):
        return CredentialsError(f"the AWS session has expired or is missing ({kind}): run aws sso login{suffix}")
    if not names.isdisjoint(errors["settings"]):
        advice = f"check the profile {profile} in ~/.aws/config" if profile else "check ~/.aws/config"
        return ConfigurationError(f"AWS: {mask_secrets(str(raised))}: {advice}")
    if not names.isdisjoint(errors["late"]):
        return RequestTimeoutError(f"AWS: {_endpoint_of(raised)} did not answer in time")
    if not names.isdisjoint(errors["unreachable"]):
        return NetworkError(f"AWS: {_endpoint_of(raised)} cannot be reached, or answered with something else ({kind})")
    if "ClientError" in names:
        return _refused(raised, suffix)
    return CredentialsError(f"AWS: {kind}: {CLOUDS['aws'].advice}")


def _refused(raised: Any, suffix: str) -> DragomanError:
    """Return the error of a refusal of STS or SSO."""
    response = getattr(raised, "response", {})
    code = str(response.get("Error", {}).get("Code", ""))
    status = response.get("ResponseMetadata", {}).get("HTTPStatusCode")
    operation = getattr(raised, "operation_name", "a request")
    if status not in (400, 401, 403, 404):
        return ServerError(f"AWS: {operation} failed{f' with status {status}' if status else ''}")
    advice = "check which role and which policy allow it"
    if "Expired" in code or status == 401:
        advice = f"run aws sso login{suffix}, or renew the credentials"
    return CredentialsError(f"AWS: {operation} was refused ({code:.80}): {advice}", code=code[:80])


def _endpoint_of(raised: Any) -> str:
    """Return scheme and host of the address that failed."""
    url = urlsplit(str(getattr(raised, "kwargs", {}).get("endpoint_url", "")))
    return f"{url.scheme}://{url.netloc}" if url.netloc and "@" not in url.netloc else "the server of the credentials"
