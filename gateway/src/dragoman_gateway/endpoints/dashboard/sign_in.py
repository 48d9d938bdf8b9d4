"""Decides who may see the page: a holder of an admin key, or anyone at this computer while the gateway has no keys."""

import base64
import binascii
from collections.abc import Mapping
from ipaddress import ip_address

from starlette.requests import Request

from dragoman.errors import PermissionDeniedError
from dragoman_gateway.access import Access, Caller, OpenAccess
from dragoman_gateway.access.page_rules import PAGE_HEADERS
from dragoman_gateway.bodies.read import read_headers
from dragoman_gateway.keys.access import presented_secret
from dragoman_gateway.settings import LOOPBACK

COOKIE = "dragoman_gateway_key"
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


async def check_admin(access: Access, request: Request) -> Caller:
    """Return the caller of a request. Raises AuthenticationError without a valid key, PermissionDeniedError, and
    ClientError for two keys."""
    sent = read_headers(request.scope)
    secret = _password(sent) or presented_secret(sent) or request.cookies.get(COOKIE)
    headers = {name: sent[name] for name in PAGE_HEADERS if name in sent}
    caller = await access.authenticate({**headers, "x-api-key": secret} if secret else headers)
    if isinstance(access, OpenAccess) and caller.key_id is None:
        if not _is_local(request):
            raise PermissionDeniedError("without keys, this page is for this computer alone", status=403)
    elif not caller.admin:
        raise PermissionDeniedError("this page needs an admin key", status=403)
    return caller


def _password(headers: Mapping[str, str]) -> str | None:
    """Return the password of HTTP's basic authentication; the user name may be anything."""
    scheme, _, value = headers.get("authorization", "").partition(" ")
    if scheme.lower() != "basic":
        return None
    try:
        return base64.b64decode(value, validate=True).decode().partition(":")[2] or None
    except (binascii.Error, UnicodeDecodeError):
        return None


def _is_local(request: Request) -> bool:
    """Whether the request came from this computer, and under its own name: the host is checked because any web site can
    give its own name this computer's address."""
    if any(name in request.headers for name in _FORWARDED) or request.client is None:
        return False
    try:
        return ip_address(request.client.host).is_loopback and request.url.hostname in LOOPBACK
    except ValueError:
        return False
