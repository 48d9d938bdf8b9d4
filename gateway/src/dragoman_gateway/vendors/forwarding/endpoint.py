"""Forwards a request to its vendor as it is, under the key of the gateway, and the reply to the client."""

import asyncio
import re
from collections.abc import AsyncIterator
from contextlib import suppress
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from functools import partial
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

from dragoman import Adapter, Usage, WireRequest, get_adapter
from dragoman.answers import Upload, forward
from dragoman.errors import InvalidRequestError, MalformedReplyError, NotFoundError
from dragoman.limits import MaxUsage
from dragoman.messages import CostStatus, TokenUsage
from dragoman.transport import AsyncStreamedReply
from dragoman_gateway.access import Caller
from dragoman_gateway.access.page_rules import is_json
from dragoman_gateway.access.spelling import check_spelling
from dragoman_gateway.access.wire_fields import wire_objects
from dragoman_gateway.bodies.read import parse_object, read_body
from dragoman_gateway.database import DatabaseUnavailableError
from dragoman_gateway.endpoints.endpoint import Endpoint
from dragoman_gateway.endpoints.exchange import Exchange
from dragoman_gateway.errors import DeniedError, ModelDeniedError, UnavailableError
from dragoman_gateway.json import dumps, loads
from dragoman_gateway.running.generation import Gateway
from dragoman_gateway.running.services import check_caller
from dragoman_gateway.turn.replies import REQUEST_ID, DisconnectWatcher, Headers
from dragoman_gateway.vendors.forwarding.body import FormBody
from dragoman_gateway.wires import ALL_WIRES
from dragoman_gateway.wires.forwarded import Address

_ID = re.compile(r"(?!\.+$)[A-Za-z0-9._:~-]{1,190}")
_PASSED = ("accept",)
_REPLY_HEADERS = ("content-type", "content-disposition")
_PAGE_FIELDS = ("object", "has_more", "nextPageToken")
_MAX_READ = 16 * 1024 * 1024
"""Bytes of a reply that is read for its ids."""
_SELF = "local:forwarded"
"""A model without a price of its own, for the reservation of what costs nothing."""


class ForwardingEndpoint(Endpoint):
    def __init__(self, gateway: Gateway, address: Address) -> None:
        super().__init__(gateway, next(wire for wire in ALL_WIRES if wire.name == address.vendor.wire))
        self._address = address

    async def respond(self, exchange: Exchange) -> None:
        """Answer a request. Raises what its client gets as an error, before the reply has begun."""
        address, record = self._address, exchange.record
        caller = await exchange.authenticate(any_type=True)
        check_caller(caller, address.kind)
        await self._check_bounds(exchange, caller)
        await exchange.generation.access.check(caller, exchange.generation.prices)
        ids = {name: str(value) for name, value in exchange.scope["path_params"].items()}
        named = {address.full_id(name, ids[name]): kind for name, kind in address.kinds.items()}
        await self._check_ids(exchange, caller, named, ids)
        body, form, model = b"", None, ""
        sends_json = is_json(exchange.headers.get("content-type", ""))
        if address.body == "json" or (address.body == "form" and sends_json):
            body, model = await self._read_json(exchange, caller)
        elif address.body is not None:
            form = FormBody(
                exchange.receive,
                exchange.headers,
                exchange.generation.settings,
                refuses_ids=caller.key_id is not None,
            )
        adapter = get_adapter(f"{address.vendor.provider}:{model or address.kind}")
        record.model = record.asked = str(adapter.model_id)
        await self._forward(exchange, caller, adapter, self._request(exchange, ids, body, form), form)

    async def _forward(
        self, exchange: Exchange, caller: Caller, adapter: Adapter, request: WireRequest, form: FormBody | None
    ) -> None:
        generation, record, departure = exchange.generation, exchange.record, DisconnectWatcher(exchange.receive)
        governor = generation.access.governor_for(caller, generation.prices)
        client = generation.callers.client_for(generation.client, await generation.access.limits_for(caller))
        usage = Usage(cost_status=CostStatus.UNPRICED)
        if self._address.cost == "free":
            usage = generation.prices.price(_SELF, TokenUsage(), datetime.now(UTC))
        asked = _SELF if self._address.cost == "free" else str(adapter.model_id)
        if form is None:
            departure.watch()  # a form is read to its end before the client can be seen to leave
        has_begun = False
        try:
            async with forward(
                client.config,
                adapter,
                request,
                governors=() if governor is None else (governor,),
                measure=lambda: MaxUsage(asked, TokenUsage()),
                used=lambda: usage,
            ) as reply:
                if form is not None:
                    departure.watch()
                read = await self._read_reply(exchange, caller, reply)
                record.usages = (usage,)
                has_begun = True
                await self._send(exchange, reply, read)
        except asyncio.CancelledError:
            record.broken = True
            if not departure.seen:
                raise
        except Exception as error:
            if not has_begun:
                raise (error if form is None or form.error is None else form.error) from None
            record.broken, record.error = True, type(error).__name__  # the server breaks the connection off
        finally:
            departure.stop()

    async def _check_bounds(self, exchange: Exchange, caller: Caller) -> None:
        """Raise DeniedError if a budget, a policy or the models of the key need to know what is not known here."""
        address, generation = self._address, exchange.generation
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

    async def _check_ids(
        self, exchange: Exchange, caller: Caller, named: dict[str, str], ids: dict[str, str] | None = None
    ) -> None:
        """Raise NotFoundError for an id that the key did not make, as for one that does not exist."""
        for each in (ids or {}).values():
            if not _ID.fullmatch(each):
                raise NotFoundError(f"there is no {self._address.kind[:-1]} {each!r:.120}", status=404)
        if caller.key_id is None:
            return
        owned = self._gateway.services.owned
        try:
            await owned.check(caller, owned.unshared(named))
        except DatabaseUnavailableError:
            raise UnavailableError("ids cannot be checked at the moment: try again", retry_after=5) from None
        except InvalidRequestError as error:
            raise NotFoundError(error.message, status=404) from None

    async def _read_json(self, exchange: Exchange, caller: Caller) -> tuple[bytes, str]:
        """Return the body, within the limits of all requests, and the model that it names, if it names one."""
        address, share, headers = self._address, exchange.share, exchange.headers
        body = await read_body(exchange.receive, headers, exchange.generation.settings, share)
        if not body and address.model == "none" and not address.names:
            return body, ""
        fields = await share.work(len(body), lambda: parse_object(body, headers))
        if caller.key_id is not None:
            await share.work(len(body), partial(check_spelling, fields, self._wire.name))
            named = await share.work(len(body), lambda: self._gateway.services.owned.find(fields, fields.get("items")))
            named |= {each: kind for name, kind in address.names.items() for each in _texts(fields.get(name))}
            await self._check_ids(exchange, caller, named)
        model = fields.get("model") if address.model == "body" else None
        model = exchange.generation.known_name(model) if isinstance(model, str) else ""
        provider = address.vendor.provider
        if caller.models and address.model == "body":
            names = (model, f"{provider}:{model}")
            if not any(fnmatchcase(each, pattern) for pattern in caller.models for each in names):
                raise ModelDeniedError(f"{model!r:.120}")
        return body, model

    def _request(self, exchange: Exchange, ids: dict[str, str], body: bytes, form: FormBody | None) -> WireRequest:
        """Return the request as the vendor gets it: the body as it is, and the headers that are known here."""
        address, sent = self._address, exchange.headers
        query = parse_qsl(exchange.scope["query_string"].decode("latin-1"), keep_blank_values=True)
        path = address.path.removeprefix(address.vendor.strip).format(**ids)
        if kept := urlencode([each for each in query if each[0] != "key"]):
            path = f"{path}?{kept}"
        headers = self._wire.headers.to_provider(sent)
        headers |= {name: sent[name] for name in _PASSED if name in sent}
        if "content-type" in sent and address.body is not None:
            headers["content-type"] = sent["content-type"]
        upload = None if form is None else Upload(form.pieces(), form.size)
        return WireRequest(address.method, path, body, headers, stream=True, upload=upload)

    async def _read_reply(self, exchange: Exchange, caller: Caller, reply: AsyncStreamedReply) -> bytes | None:
        """Return the whole reply if it has ids to note, rows of others to leave out, or an address to change.

        Raises MalformedReplyError for one that cannot be read."""
        address = self._address
        if not (address.makes or address.yields or address.lists or address.relative):
            return None
        pieces, size = [], 0
        async for piece in reply.chunks:
            size += len(piece)
            if size > _MAX_READ:
                raise MalformedReplyError(f"the reply is larger than {_MAX_READ} bytes")
            pieces.append(piece)
        body = b"".join(pieces)
        try:
            fields = await exchange.share.work(len(body), lambda: loads(body))
        except ValueError:
            raise MalformedReplyError("the reply is not JSON") from None
        if not isinstance(fields, dict):
            raise MalformedReplyError("the reply is not a JSON object")
        if caller.key_id is not None:
            if address.lists is not None:
                fields = await self._own_rows(caller, fields, address.lists)
                body = dumps(fields)
            else:
                await self._note_ids(caller, fields)
        if address.relative and any(_relate(each, address.relative) for each in wire_objects(fields)):
            body = dumps(fields)
        return body

    async def _own_rows(self, caller: Caller, fields: dict[str, Any], name: str) -> dict[str, Any]:
        """Return a list without the rows of other keys, and without anything that reveals them."""
        rows = fields.get(name)
        if not isinstance(rows, list):
            raise MalformedReplyError("the reply is not a list")
        field = self._address.vendor.id_field
        ids = [each[field] for each in rows if isinstance(each, dict) and isinstance(each.get(field), str)]
        try:
            own = await self._gateway.services.owned.owned(caller, ids)
        except DatabaseUnavailableError:
            raise UnavailableError("ids cannot be checked at the moment: try again", retry_after=5) from None
        kept = [each for each in rows if isinstance(each, dict) and each.get(field) in own]
        found: dict[str, Any] = {each: fields[each] for each in _PAGE_FIELDS if each in fields}
        for end, place in (("first_id", 0), ("last_id", -1)):
            if end in fields:
                found[end] = kept[place]["id"] if kept else None
        return {**found, name: kept}

    async def _note_ids(self, caller: Caller, fields: dict[str, Any]) -> None:
        """Note the ids that the reply names as those of the key, before the key can use them."""
        address, found = self._address, {}
        if address.makes is not None:
            found.update(dict.fromkeys(_texts(fields.get(address.vendor.id_field)), address.makes))
        for name, kind in address.yields.items():
            found.update(dict.fromkeys(_texts(fields.get(name)), kind))
        try:
            await self._gateway.services.owned.record(caller, found)
        except DatabaseUnavailableError:
            self._gateway.services.owned.dropped += len(found)

    async def _send(self, exchange: Exchange, reply: AsyncStreamedReply, read: bytes | None) -> None:
        """Send the reply as it arrives. A client that reads nothing for too long is disconnected."""
        headers: Headers = [(REQUEST_ID, exchange.request_id.encode()), *self._wire.headers.to_client(reply.headers)]
        headers += [
            (name.encode(), reply.headers[name].encode("latin-1")) for name in _REPLY_HEADERS if name in reply.headers
        ]
        if read is not None:
            headers.append((b"content-length", str(len(read)).encode()))
        record, seconds = exchange.record, exchange.generation.settings.reader_seconds
        record.status = reply.status
        await exchange.send({"type": "http.response.start", "status": reply.status, "headers": headers})
        async for piece in _pieces(reply, read):
            async with asyncio.timeout(seconds):
                await exchange.send({"type": "http.response.body", "body": piece, "more_body": True})
        await exchange.send({"type": "http.response.body", "body": b""})


async def _pieces(reply: AsyncStreamedReply, read: bytes | None) -> AsyncIterator[bytes]:
    if read is not None:
        yield read
        return
    async for piece in reply.chunks:
        yield piece


def _texts(value: Any) -> list[str]:
    """Return the ids of a field: a text, an object with an id, or a list of them."""
    values = value if isinstance(value, list) else [value]
    ids = [each.get("id") if isinstance(each, dict) else each for each in values]
    return [each for each in ids if isinstance(each, str) and each]


def _relate(fields: dict[str, Any], names: tuple[str, ...]) -> bool:
    """Make addresses of the vendor relative: a client has no key for the vendor itself. Return whether one was."""
    changed = False
    for name in names:
        if isinstance(fields.get(name), str):
            with suppress(ValueError):
                fields[name], changed = urlsplit(fields[name]).path, True
    return changed
