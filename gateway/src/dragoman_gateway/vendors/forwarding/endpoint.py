"""Forwards a request to its vendor as it is, under the key of the gateway, and the reply to the client."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from starlette.routing import Match, Route
from starlette.types import Scope

from dragoman import Adapter, Usage, WireRequest, get_adapter
from dragoman.answers import Upload, forward
from dragoman.errors import MalformedReplyError, NotFoundError
from dragoman.messages import CostStatus
from dragoman.transport import AsyncStreamedReply
from dragoman_gateway.access import Caller
from dragoman_gateway.access.page_rules import is_json
from dragoman_gateway.access.wire_fields import check_spelling, wire_objects
from dragoman_gateway.bodies.read import parse_object, read_body
from dragoman_gateway.endpoints.endpoint import Endpoint, Exchange
from dragoman_gateway.errors import DeniedError, ModelDeniedError
from dragoman_gateway.json import dumps, loads
from dragoman_gateway.keys.access import presented_secret
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.running.services import check_caller
from dragoman_gateway.turn.replies import REQUEST_ID, DisconnectWatcher, Headers
from dragoman_gateway.vendors.embedding import ENDPOINT as EMBEDDINGS
from dragoman_gateway.vendors.forwarding.body import FormBody
from dragoman_gateway.vendors.forwarding.costs import Cost
from dragoman_gateway.vendors.forwarding.form import BatchFile, form_fields
from dragoman_gateway.vendors.forwarding.ids import KIND, ForwardedIds, address_here, begun_upload, upload_of
from dragoman_gateway.wires import ALL_WIRES, matches
from dragoman_gateway.wires.forwarded import Address, Vendor, addressed, addresses, is_client_of

_PARAMETER = re.compile(r"\{\w+\}")
_PASSED = ("accept",)
_REPLY_HEADERS = ("content-type", "content-disposition")
_MAX_READ = 16 * 1024 * 1024
"""Bytes of a reply that is read for its ids."""
_SERVED = {**{each.path: each.name for each in ALL_WIRES}, "/v1/embeddings": EMBEDDINGS}
"""The addresses that the gateway answers itself, with their names for a key's rights."""


@dataclass(slots=True, kw_only=True)
class _Asked:
    """What a request asks its vendor. ``form`` is its body, if that is streamed."""

    ids: dict[str, str]
    body: bytes = field(default=b"", repr=False)
    form: FormBody | None = None
    model: str = ""
    fields: dict[str, Any] = field(default_factory=dict, repr=False)


class ForwardingEndpoint(Endpoint):
    def __init__(self, gateway: Gateway, address: Address) -> None:
        super().__init__(gateway, next(wire for wire in ALL_WIRES if wire.name == address.vendor.wire))
        self._address = address
        self._ids = ForwardedIds(gateway.services.owned, address)

    async def respond(self, exchange: Exchange) -> None:
        """Answer a request. Raises what its client gets as an error, before the reply has begun."""
        address, record, generation = self._address, exchange.record, exchange.generation
        caller = await self._authenticate(exchange)
        check_caller(caller, address.kind)
        has_budget = await self._check_bounds(exchange)
        await generation.access.check(caller, generation.prices)
        asked = _Asked(ids={name: str(value) for name, value in exchange.scope["path_params"].items()})
        await self._ids.check(caller, self._ids.named_in_path(asked.ids))
        await self._read(exchange, asked, whole=has_budget or bool(caller.models))
        adapter = get_adapter(f"{address.vendor.provider}:{asked.model or address.kind}")
        record.model = record.asked = str(adapter.model_id)
        size = len(asked.body) if asked.form is None else asked.form.size or 0
        cost = Cost(
            generation.prices,
            str(adapter.model_id),
            address.usage,
            free=address.cost == "free",
            fields=asked.fields,
            size=size,
        )
        if has_budget:
            cost.check_stated()
        await self._forward(exchange, adapter, asked, cost)

    async def _forward(self, exchange: Exchange, adapter: Adapter, asked: _Asked, cost: Cost) -> None:
        generation, caller, record, form = exchange.generation, exchange.caller, exchange.record, asked.form
        governor = generation.access.governor_for(caller, generation.prices)
        client = generation.callers.client_for(generation.client, await generation.access.limits_for(caller))
        has_begun = False
        # A form is read to its end before the client can be seen to leave.
        with DisconnectWatcher(exchange.receive, 0.0 if form is None else None) as departure:
            try:
                async with forward(
                    client.config,
                    adapter,
                    self._request(exchange, asked),
                    governors=() if governor is None else (governor,),
                    measure=cost.measure,
                    used=cost.used,
                ) as reply:
                    if form is not None:
                        departure.watch()
                    read = await self._read_reply(exchange, reply)
                    has_begun = True
                    if form is not None and form.model is not None:
                        record.model = f"{self._address.vendor.provider}:{form.model}"
                    cost.begin(reply.headers.get("content-type", ""), record.model)
                    await self._send(exchange, reply, read, cost)
            except asyncio.CancelledError:
                record.broken = True
                raise
            except Exception as error:
                if not has_begun:
                    raise (error if form is None or form.error is None else form.error) from None
                record.broken, record.error = True, type(error).__name__  # the server breaks the connection off
            finally:
                if has_begun:
                    record.usages = (cost.stated() or Usage(cost_status=CostStatus.UNPRICED),)

    async def _authenticate(self, exchange: Exchange) -> Caller:
        """Return the caller. An upload goes on for the key that began it, whose clients may send no key with it.

        Raises NotFoundError for an upload that another key began.
        """
        upload = self._upload(exchange)
        owner = None if upload is None else await exchange.gateway.services.owned.owner_of(upload)
        resumed = owner if presented_secret(exchange.headers) is None else None
        caller = await exchange.authenticate(any_type=True, resumed=resumed)
        if upload is not None and caller.key_id is not None and caller.key_id != owner:
            raise NotFoundError("there is no such upload", status=404)
        return caller

    def _upload(self, exchange: Exchange) -> str | None:
        """Return the upload that a request goes on with."""
        query = exchange.scope["query_string"].decode("latin-1")
        return None if self._address.resumes is None else upload_of(query)

    async def _check_bounds(self, exchange: Exchange) -> bool:
        """Return whether a budget counts what the caller spends. Raises DeniedError if a budget, a policy or the models
        of the key need to know what is not known here."""
        address, generation, caller = self._address, exchange.generation, exchange.caller
        config, bounds = generation.client.config, await generation.access.limits_for(caller)
        has_budget = generation.has_budget(bounds, generation.access.governor_for(caller, generation.prices))
        if has_budget and address.cost == "unknown":
            raise DeniedError(f"{address.name} is not for a key with a budget: its cost is not known here")
        if config.policy is not None and address.content == "unseen":
            raise DeniedError(
                f"{address.name} is closed under the policy of this gateway, which cannot see its content"
            )
        if caller.models and address.model == "unseen":
            raise DeniedError(f"{address.name} is not for a key with restricted models: its model is not known here")
        if has_budget or config.policy is not None:
            self._wire.headers.check_betas(exchange.headers)
        return has_budget

    async def _read(self, exchange: Exchange, asked: _Asked, *, whole: bool) -> None:
        """Read the body. ``whole``: a form is read too, because its model counts."""
        address, headers, has_key = self._address, exchange.headers, exchange.caller.key_id is not None
        if address.model == "path":
            asked.model = self._check_model(exchange, asked.ids["_model"])
        if address.body is None:
            return
        goes_on = self._upload(exchange) is not None  # with bytes, whatever their type is said to be
        sends_json = is_json(headers.get("content-type", "")) and not goes_on
        if address.body == "json" or (address.body == "form" and sends_json):
            await self._read_json(exchange, asked)
            return
        batch = None
        if address.lines and has_key:
            check = partial(self._check_lines, exchange)
            batch = BatchFile(headers.get("content-type", ""), check, exchange.generation.settings.body_cap)
        form = FormBody(exchange, refuses_ids=has_key and not goes_on, batch=batch)
        if address.model != "form" or not whole:
            asked.form = form
            return
        asked.body = body = await form.read()
        asked.fields = dict(
            await exchange.share.work(len(body), lambda: form_fields(headers.get("content-type", ""), body, "model"))
        )
        asked.model = self._check_model(exchange, asked.fields.get("model"))

    async def _check_lines(self, exchange: Exchange, lines: list[dict[str, Any]]) -> None:
        """Raise what is wrong with the requests of a batch: an address that the key may not use, an id of another."""
        for line in lines:
            check_spelling(line, self._wire.name)
            if (url := line.get("url")) is not None:
                self._check_url(exchange, url)
        await self._ids.check(exchange.caller, self._ids.named_in_lines(lines))

    def _check_url(self, exchange: Exchange, url: Any) -> None:
        """Raise DeniedError if the key may not send a request to this address: a batch sends it for the key."""
        found = addressed(str(url), self._address.vendor.name)
        is_open = found is not None and found.is_open(exchange.generation.settings.forward)
        endpoint = _SERVED.get(str(url)) or (found.kind if found is not None and is_open else None)
        if endpoint is None:
            raise DeniedError(f"a batch cannot use {url!r:.120}: it is not an address that is open here")
        check_caller(exchange.caller, endpoint)

    def _check_model(self, exchange: Exchange, named: Any) -> str:
        """Return the model of a request. Raises ModelDeniedError if the key may not use it."""
        model = exchange.generation.known_name(named) if isinstance(named, str) else ""
        names = (model, f"{self._address.vendor.provider}:{model}")
        patterns = exchange.caller.models
        if patterns and not any(fnmatchcase(each, pattern) for pattern in patterns for each in names):
            raise ModelDeniedError(f"{model!r:.120}")
        return model

    async def _read_json(self, exchange: Exchange, asked: _Asked) -> None:
        """Read the body, within the limits of all requests, and the model that it names, if it names one."""
        address, caller, share, headers = self._address, exchange.caller, exchange.share, exchange.headers
        asked.body = body = await read_body(exchange.receive, headers, exchange.generation.settings, share)
        if not body and address.model in ("none", "path") and not address.names:
            return
        asked.fields = fields = await share.work(len(body), lambda: parse_object(body, headers))
        if caller.key_id is not None:
            await share.work(len(body), partial(check_spelling, fields, self._wire.name))
            await self._ids.check(caller, await share.work(len(body), lambda: self._ids.named_in_body(fields)))
            if address.endpoint is not None:
                self._check_url(exchange, fields.get(address.endpoint))
        if address.model in ("body", "form"):
            asked.model = self._check_model(exchange, fields.get("model"))

    def _request(self, exchange: Exchange, asked: _Asked) -> WireRequest:
        """Return the request as the vendor gets it: the body as it is, and the headers that are known here."""
        address, sent, form = self._address, exchange.headers, asked.form
        query = parse_qsl(exchange.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        path = address.path.removeprefix(address.vendor.strip).format(**asked.ids)
        if kept := urlencode([each for each in query if each[0] != "key"]):
            path = f"{path}?{kept}"
        headers = self._wire.headers.to_provider(sent)
        headers |= {name: sent[name] for name in sent if name in _PASSED or matches(name, address.vendor.headers)}
        if "content-type" in sent and address.body is not None:
            headers["content-type"] = sent["content-type"]
        upload = None if form is None else Upload(form.pieces(), form.size)
        return WireRequest(address.method, path, asked.body, headers, stream=True, upload=upload)

    async def _read_reply(self, exchange: Exchange, reply: AsyncStreamedReply) -> bytes | None:
        """Return the whole reply if it has ids to note, rows of others to leave out, or an address to change.

        Raises MalformedReplyError for one that cannot be read."""
        address, caller = self._address, exchange.caller
        if address.resumes is not None and (begun := begun_upload(reply.headers)) is not None:
            await exchange.gateway.services.owned.record(caller, {begun: KIND})
        if not (address.makes or address.yields or address.lists or address.relative):
            return None
        body = await _whole_body(reply)
        if not body and address.resumes is not None:
            return body
        try:
            fields = await exchange.share.work(len(body), lambda: loads(body))
        except ValueError:
            raise MalformedReplyError("the reply is not JSON") from None
        if not isinstance(fields, dict):
            raise MalformedReplyError("the reply is not a JSON object")
        if caller.key_id is not None:
            if address.lists is not None:
                fields = await self._ids.own_rows(caller, fields)
                body = dumps(fields)
            else:
                await self._ids.note(caller, fields)
        if address.relative and any(_relate(each, address.relative) for each in wire_objects(fields)):
            body = dumps(fields)
        return body

    async def _send(self, exchange: Exchange, reply: AsyncStreamedReply, read: bytes | None, cost: Cost) -> None:
        """Send the reply as it arrives. A client that reads nothing for too long is left."""
        headers: Headers = [(REQUEST_ID, exchange.request_id.encode()), *self._wire.headers.to_client(reply.headers)]
        headers += [
            (name.encode(), reply.headers[name].encode("latin-1")) for name in _REPLY_HEADERS if name in reply.headers
        ]
        # Only the client itself reads the address, so it may say what stands before the gateway.
        scheme = "https" if exchange.headers.get("x-forwarded-proto") == "https" else exchange.scope["scheme"]
        base = f"{scheme}://{exchange.headers.get('host', '')}{exchange.scope['path']}"
        for name, value in reply.headers.items():
            if matches(name, self._address.vendor.headers) and (here := address_here(name, value, base)) is not None:
                headers.append((name.encode(), here.encode("latin-1")))
        if read is not None:
            headers.append((b"content-length", str(len(read)).encode()))
        record, seconds = exchange.record, exchange.generation.settings.reader_seconds
        record.status = reply.status
        await exchange.send({"type": "http.response.start", "status": reply.status, "headers": headers})
        async for piece in _pieces(reply, read):
            cost.feed(piece)
            async with asyncio.timeout(seconds):
                await exchange.send({"type": "http.response.body", "body": piece, "more_body": True})
        await exchange.send({"type": "http.response.body", "body": b""})


async def _whole_body(reply: AsyncStreamedReply) -> bytes:
    pieces, size = [], 0
    async for piece in reply.chunks:
        size += len(piece)
        if size > _MAX_READ:
            raise MalformedReplyError(f"the reply is larger than {_MAX_READ} bytes")
        pieces.append(piece)
    return b"".join(pieces)


async def _pieces(reply: AsyncStreamedReply, read: bytes | None) -> AsyncIterator[bytes]:
    if read is not None:
        yield read
        return
    async for piece in reply.chunks:
        yield piece


def _relate(fields: dict[str, Any], names: tuple[str, ...]) -> bool:
    """Make addresses of the vendor relative: a client has no key for the vendor itself. Return whether one was."""
    changed = False
    for name in names:
        if isinstance(fields.get(name), str):
            with suppress(ValueError):
                fields[name], changed = urlsplit(fields[name]).path, True
    return changed


class _OpenRoute(Route):
    """A route that exists while its address is open, for the clients of its vendor."""

    def __init__(self, gateway: Gateway, address: Address, others: tuple[Vendor, ...]) -> None:
        """``others`` are further vendors with the same address."""
        super().__init__(address.path, ForwardingEndpoint(gateway, address), methods=[address.method])
        self._gateway = gateway
        self._address = address
        self._others = others

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not self._address.is_open(self._gateway.current.settings.forward):
            return Match.NONE, {}
        match, child = super().matches(scope)
        if match is Match.NONE or not self._others:
            return match, child
        # A client is one of this vendor by a header, else by an id that only one vendor makes.
        vendor, ids = self._address.vendor, tuple(map(str, child["path_params"].values()))
        headers = {name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]}
        if b"key=" in scope["query_string"]:  # where Google's clients may write it
            headers.setdefault("x-goog-api-key", "")
        if vendor.client:
            is_ours = is_client_of(vendor, headers, ids)
        else:
            is_ours = not any(is_client_of(each, headers, ids) for each in self._others)
        return (match, child) if is_ours else (Match.NONE, {})


def routes(gateway: Gateway) -> list[Route]:
    """Return the routes of all addresses of the table."""
    found: list[Route] = []
    for address in addresses():
        same = (each.vendor for each in addresses() if _shape(each) == _shape(address))
        found.append(_OpenRoute(gateway, address, tuple(each for each in same if each is not address.vendor)))
    return found


def _shape(address: Address) -> tuple[str, str]:
    return address.method, _PARAMETER.sub("{}", address.path)
