"""The routes of the dashboard, and who may see it."""

import asyncio
import base64
from contextlib import suppress
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
_DEFAULT_DAYS = 7
_MAX_FORM = 4096
"""The most bytes of a form with a key."""
_HEADERS = {
    "cache-control": "no-store",
    "referrer-policy": "same-origin",
    "x-content-type-options": "nosniff",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}
_CONVERSATION_POLICY = "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
"""The page of a conversation says in a tag what it may load. Who may frame it can be said by a header alone."""
COOKIE = "dragoman_gateway_key"
_FORWARDED = ("forwarded", "x-forwarded-for", "x-forwarded-host", "x-real-ip")
"""Headers of a proxy. If it is at this computer, all its clients seem to be there."""


def routes(gateway: Gateway) -> list[Route]:  # noqa: C901  # each function inside is a page
    async def overview(request: Request) -> Response:
        if (refusal := await _refuse(gateway, request)) is not None:
            return refusal
        spans = {str(days): days for days in render.SPANS}
        days = spans.get(request.query_params.get("days", ""), _DEFAULT_DAYS)
        try:
            report = await make_report(gateway, days, request.query_params.get("after"))
        except StoreError as error:
            return _store_failed(error)
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
            text = await asyncio.to_thread(
                conversation_page, stored.messages, title=title, attempts=stored.attempts, raw=False
            )
        except SessionNotFoundError:
            return _html(render.render_message("There is no such conversation."), 404)
        except DragomanError as error:
            return _store_failed(error)
        return _html(text, policy=_CONVERSATION_POLICY)

    async def sign_in(request: Request) -> Response:
        """Keep the key of the form in a cookie that no script and no other site can use."""
        body = b""
        async for piece in request.stream():
            body += piece
            if len(body) > _MAX_FORM:
                return _html(render.render_sign_in(refused="That is not a key."), 413)
        key = parse_qs(body.decode("latin-1")).get("key", [""])[0].strip()
        if (refusal := await _refuse(gateway, request, secret=key)) is not None:
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


async def _check_admin(access: Access, request: Request, secret: str | None) -> None:
    """Let a holder of an admin key in, or anyone at this computer while the gateway has no keys. ``secret`` is the key
    of a form; None for that of the request. Raises AuthenticationError without a valid key, PermissionDeniedError, and
    InvalidRequestError or ClientError for two different keys in one request."""
    sent = read_headers(request.scope)
    if secret is None:
        scheme, _, value = sent.get("authorization", "").partition(" ")
        if scheme.lower() == "basic":
            with suppress(ValueError):  # it is not base64, or not text
                secret = base64.b64decode(value, validate=True).decode().partition(":")[2]  # after any name
        secret = secret or presented_secret(sent) or request.cookies.get(COOKIE)
    headers = {name: sent[name] for name in PAGE_HEADERS if name in sent}  # they show a page of another site
    caller = await access.authenticate({**headers, "x-api-key": secret} if secret else headers)
    if isinstance(access, OpenAccess) and caller.key_id is None:  # `OpenUntilKeys` has callers with keys
        # The host is checked against DNS rebinding: any web site can give its own name this computer's address.
        is_local = False
        if request.client is not None and not any(name in request.headers for name in _FORWARDED):
            with suppress(ValueError):
                is_local = ip_address(request.client.host).is_loopback and request.url.hostname in LOOPBACK
        if not is_local:
            raise PermissionDeniedError("without keys, this page is for this computer alone", status=403)
    elif not caller.admin:
        raise PermissionDeniedError("this page needs an admin key", status=403)


async def _refuse(gateway: Gateway, request: Request, *, secret: str | None = None) -> Response | None:
    """Return the answer to a request without an admin key; None if it has one. ``secret`` is as in `_check_admin`."""
    try:
        await _check_admin(gateway.current.access, request, secret)
    except PermissionDeniedError as error:
        return _html(render.render_sign_in(refused=_sentence(error)), 403)
    except (ClientError, InvalidRequestError) as error:  # such as two keys
        return _html(render.render_message(_sentence(error)), error.status or 400)
    except DragomanError as error:
        status = getattr(error, "status", None) or 401
        if status >= 500:  # keys cannot be checked
            return _html(render.render_message("Keys cannot be checked at the moment."), 503)
        tried = secret is not None or COOKIE in request.cookies or "authorization" in request.headers
        refused = "That key is missing or invalid." if tried else ""
        return _html(render.render_sign_in(refused=refused), 401, {"www-authenticate": 'Bearer realm="gateway"'})
    return None


def _sentence(error: Exception) -> str:
    text = str(error)  # with names that stay as they are, such as API
    return f"{text[:1].upper()}{text[1:]}."


def _store_failed(error: Exception) -> Response:
    logger.warning("the page could not be made: %s", error)
    return _html(render.render_message("The store cannot be read at the moment."), 503)


def _html(text: str, status: int = 200, more: dict[str, Any] | None = None, *, policy: str | None = None) -> Response:
    policy = policy or render.content_security_policy()
    return HTMLResponse(text, status, {**_HEADERS, "content-security-policy": policy, **(more or {})})
