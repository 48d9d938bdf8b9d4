"""The addresses of the page, and who may see it."""

import asyncio
import base64
import binascii
from contextlib import suppress
from functools import partial
from ipaddress import ip_address
from typing import Any
from urllib.parse import parse_qs

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response
from starlette.routing import Route

from dragoman.errors import DragomanError, InvalidRequestError, PermissionDeniedError
from dragoman.store import SessionNotFoundError, Store, StoreError
from dragoman.view import page as conversation_page
from dragoman_gateway.access import Access, OpenAccess
from dragoman_gateway.access.page_rules import PAGE_HEADERS
from dragoman_gateway.bodies.read import read_headers
from dragoman_gateway.endpoints.dashboard import render
from dragoman_gateway.endpoints.dashboard.report import make_report
from dragoman_gateway.errors import ClientError
from dragoman_gateway.keys.access import presented_secret
from dragoman_gateway.log import logger
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.settings import LOOPBACK

PATH = "/gateway/"
_MAX_FORM = 4096
_HEADERS = {
    "cache-control": "no-store",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_CONVERSATION_POLICY = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The page of a conversation names what it loads itself."""
COOKIE = "dragoman_gateway_key"
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")


def routes(gateway: Gateway) -> list[Route]:  # noqa: C901  # each function inside is a page
    async def overview(request: Request) -> Response:
        if (refusal := await _refuse(gateway, request)) is not None:
            return refusal
        days = request.query_params.get("days", "")
        span = int(days) if days in map(str, render.SPANS) else 7
        try:
            report = await make_report(gateway, span, request.query_params.get("after"))
        except StoreError as error:
            return _unread(error)
        return _html(render.render_report(report, signed_in=COOKIE in request.cookies))

    async def conversation(request: Request) -> Response:
        if (refusal := await _refuse(gateway, request)) is not None:
            return refusal
        store = gateway.current.client.config.store
        if not isinstance(store, Store):
            return _html(render.render_message("This gateway has no store."), 404)
        try:
            stored = await asyncio.to_thread(store.load, request.path_params["session_id"])
            title = stored.record.title or stored.id
            render_stored = partial(conversation_page, title=title, attempts=stored.attempts, raw=False)
            text = await asyncio.to_thread(render_stored, stored.messages)
        except SessionNotFoundError:
            return _html(render.render_message("There is no such conversation."), 404)
        except DragomanError as error:
            return _unread(error)
        return _html(text, policy=_CONVERSATION_POLICY)

    async def sign_in(request: Request) -> Response:
        """Keep the key of the form in a cookie that no script and no other site can use."""
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > _MAX_FORM:
                return _html(render.render_sign_in(refused="That is not a key."), 413)
        key = parse_qs(body.decode("latin-1")).get("key", [""])[0].strip()
        request.cookies[COOKIE] = key  # `_refuse` checks this one
        if (refusal := await _refuse(gateway, request)) is not None:
            return refusal
        reply = RedirectResponse(PATH, 303, _HEADERS)
        reply.set_cookie(
            COOKIE, key, path="/gateway", httponly=True, samesite="strict", secure=request.url.scheme == "https"
        )
        return reply

    async def sign_out(request: Request) -> Response:
        reply = RedirectResponse(PATH, 303, _HEADERS)
        reply.delete_cookie(COOKIE, path="/gateway", httponly=True, samesite="strict")
        return reply

    async def add_slash(request: Request) -> Response:
        return RedirectResponse(PATH, 307)

    return [
        Route("/gateway", add_slash, methods=["GET"]),
        Route(PATH, overview, methods=["GET"]),
        Route("/gateway/sign-in", sign_in, methods=["POST"]),
        Route("/gateway/sign-out", sign_out, methods=["POST"]),
        Route("/gateway/conversations/{session_id:path}", conversation, methods=["GET"]),
    ]


async def _check_admin(access: Access, request: Request) -> None:
    """Let a holder of an admin key in, or anyone at this computer while the gateway has no keys. Raises
    AuthenticationError without a valid key, PermissionDeniedError, and InvalidRequestError or ClientError for two."""
    sent = read_headers(request.scope)
    scheme, _, value = sent.get("authorization", "").partition(" ")
    secret = None
    if scheme.lower() == "basic":
        with suppress(binascii.Error, UnicodeDecodeError):
            secret = base64.b64decode(value, validate=True).decode().partition(":")[2]  # any name may stand before it
    secret = secret or presented_secret(sent) or request.cookies.get(COOKIE)
    headers = {name: sent[name] for name in PAGE_HEADERS if name in sent}  # a page of another site is refused
    caller = await access.authenticate({**headers, "x-api-key": secret} if secret else headers)
    if isinstance(access, OpenAccess) and caller.key_id is None:
        # The host is checked because any web site can give its own name this computer's address.
        is_local = False
        if request.client is not None and not any(name in request.headers for name in _FORWARDED):
            with suppress(ValueError):
                is_local = ip_address(request.client.host).is_loopback and request.url.hostname in LOOPBACK
        if not is_local:
            raise PermissionDeniedError("without keys, this page is for this computer alone", status=403)
    elif not caller.admin:
        raise PermissionDeniedError("this page needs an admin key", status=403)


async def _refuse(gateway: Gateway, request: Request) -> Response | None:
    """Return the answer to a request without an admin key; None if it has one."""
    try:
        await _check_admin(gateway.current.access, request)
    except PermissionDeniedError as error:
        return _html(render.render_sign_in(refused=f"{str(error).capitalize()}."), 403)
    except (ClientError, InvalidRequestError) as error:  # such as two keys
        return _html(render.render_message(f"{str(error).capitalize()}."), error.status or 400)
    except DragomanError as error:
        status = getattr(error, "status", None) or 401
        if status >= 500:  # keys cannot be checked
            return _html(render.render_message("Keys cannot be checked at the moment."), 503)
        tried = COOKIE in request.cookies or "authorization" in request.headers
        refused = "That key is missing or invalid." if tried else ""
        return _html(render.render_sign_in(refused=refused), 401, {"www-authenticate": 'Bearer realm="gateway"'})
    return None


def _unread(error: Exception) -> Response:
    logger.warning("the page could not be made: %s", error)
    return _html(render.render_message("The store cannot be read at the moment."), 503)


def _html(text: str, status: int = 200, more: dict[str, Any] | None = None, *, policy: str | None = None) -> Response:
    policy = policy or render.content_security_policy()
    return HTMLResponse(text, status, {**_HEADERS, "content-security-policy": policy, **(more or {})})
