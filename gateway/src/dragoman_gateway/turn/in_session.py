"""A session asks: under a client's policy, budgets, limits and store, and with all that only a session does."""

import asyncio
from collections.abc import AsyncGenerator, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial
from typing import Any

from dragoman import Adapter, AsyncClient, AsyncReplyStream, AsyncSession, Loss, Message, Usage, WireResponse
from dragoman.answers import Relay
from dragoman.blocks import TextBlock
from dragoman.errors import AuthenticationError, InvalidRequestError, TurnLimitError
from dragoman.events import MessageComplete, ToolUseStart
from dragoman.policy import Hook, PolicyDeniedError
from dragoman.session.effects import Failed, Perform, RunTools, Send, intercept
from dragoman_gateway.errors import ModelDeniedError
from dragoman_gateway.turn.policy import policy_extensions, unread_texts
from dragoman_gateway.turn.recall import Recall
from dragoman_gateway.turn.request import ReadRequest, refuse_losses
from dragoman_gateway.turn.usage_chunk import lacks_usage


class InSession:
    """The tools are the client's, so their calls go to it. If the provider of the model has the wire of the client, the
    bytes of the request and of the reply go through all the same.
    """

    keeps_request = True
    reply: Message
    """The whole reply, after `ask`."""

    def __init__(
        self,
        read: ReadRequest,
        target: Adapter,
        client: AsyncClient,
        *,
        path: str | None = None,
        session_id: str | None = None,
    ) -> None:
        """``path`` is the address at a provider of the client's wire, if it is not the usual one."""
        self._read, self._target, self._client = read, target, client
        request, resources, config = read.request, read.resources, client.config
        counts = bool(resources.governors or config.budgets or config.limits is not None)
        self.hides_usage = counts and request.wire.asks_for_usage and lacks_usage(request.fields)
        policy = config.policy
        rules = None if policy is None or config.extensions is None else config.extensions.security
        self._judges_calls = policy is not None and (
            policy.has_plugins(Hook.TOOL_PRE_INVOKE) or (rules is not None and bool(rules.objects or rules.data))
        )
        """Whether a policy judges calls: the client gets none before that."""
        self._changes_replies = policy is not None and policy.has_plugins(Hook.LLM_OUTPUT)
        self._path = path
        self.headers: Mapping[str, str] = {}
        """The headers of the provider's reply."""
        self._asks_client_wire = False
        """Whether the last attempt went to a provider of the client's wire."""
        self._asked_losses: tuple[Loss, ...] = ()
        self.complete = False
        self._stream: AsyncReplyStream[str] | None = None
        self._recall: Recall | None = None
        if policy is not None and resources.labels is not None:
            owner, kept = request.caller.owner, None if request.kept is None else request.kept.block_keys
            self._recall = Recall(resources.labels, owner, read.context, request.wire.provider, client, kept)
        self._new_session = partial(
            client.session,
            str(target.model_id),
            messages=read.messages if read.prompt is None else read.messages[:-1],
            tools=read.tools,
            options=read.options,
            tool_ids=read.context.tool_ids,
            session_id=session_id,
            max_rounds=1,
            middleware=(lambda turn: intercept(turn, self._handle),),
            governors=resources.governors,
            user_id=request.caller.user,
            team_id=request.caller.team,
            extensions=(
                None
                if policy is None
                else policy_extensions(config.extensions, request.caller, request.request_id, request.headers)
            ),
        )

    async def ask(self) -> WireResponse:
        await self._begin()
        try:
            reply = await self._session.ask(self._read.prompt)
        except TurnLimitError:  # the provider pauses, and the client goes on
            self.reply = self._session.messages[-1]
        else:
            self.reply, self._asked_losses = reply.message, reply.losses
        await self.note_labels(self.reply)
        if self.passes and self._relay.response is not None:
            return self._relay.response
        return self._read.write(self.reply)

    async def stream(self) -> AsyncGenerator[bytes, None]:  # noqa: C901  # one branch for each way of a batch
        begun = passes = False
        held: list[Any] = []  # calls, until the policy has judged them
        await self._begin()
        self._stream = self._session.stream(self._read.prompt)
        try:
            async with self._stream as stream:
                async for events in stream.batches():
                    if not events:
                        continue
                    passes = passes if begun else self.passes
                    begun = True
                    last = events[-1]
                    ends = isinstance(last, MessageComplete)
                    if isinstance(last, MessageComplete):  # before its client can send it back
                        await self.note_labels(last.message)
                    if passes:
                        self.complete = ends
                        yield self._relay.take()
                    elif self._judges_calls and (held or any(isinstance(event, ToolUseStart) for event in events)):
                        held += events
                        yield b""
                    else:
                        self.complete = ends
                        encode = self._read.encoder.feed
                        yield encode(events[0]) if len(events) == 1 else b"".join(map(encode, events))
                    if ends:
                        break
                if held and ends:  # the policy judges the calls at the end of the turn
                    with suppress(TurnLimitError):  # the client answers them
                        async for _ in stream.batches():
                            pass
        except Exception as error:
            # The provider's own bytes may say the error; what they say about the gateway's key is not for its clients.
            if passes and not isinstance(error, AuthenticationError) and (rest := self._relay.take()):
                yield rest
            raise
        if held:
            self.complete = True
            yield b"".join(map(self._read.encoder.feed, held))

    async def _begin(self) -> None:
        """Open the session, with the labels that the conversation had in earlier turns. Let the policy judge what the
        provider would get with the client's bytes, and the session does not read.

        Raises DeniedError, UnavailableError, and PolicyDeniedError also if a plugin wants to change such a text: it
        cannot."""
        labels: frozenset[str] = frozenset()
        if self._recall is not None:
            labels = await self._recall.labels(self._read.messages, self._read.resources.settings.unknown_history)
        new_session = partial(self._new_session, labels=labels)
        self._session: AsyncSession = await asyncio.to_thread(new_session) if self._read.is_long else new_session()
        policy, read = self._client.config.policy, self._read
        has_client_wire = self._target.provider == read.request.wire.provider
        if policy is None or not policy.has_plugins(Hook.LLM_INPUT) or not has_client_wire:
            return
        texts = unread_texts(read.request.fields, read.messages, read.tools, read.read_options)
        if not texts:
            return
        message = Message.user([TextBlock(text=text) for text in texts])
        if (await self._session.apply_policy(Hook.LLM_INPUT, message)).content != message.content:
            reason = "a field of the request that the gateway does not read holds what a plugin takes out"
            raise PolicyDeniedError(Hook.LLM_INPUT, "the gateway", "cannot_change", reason)

    async def note_labels(self, message: Message) -> None:
        if self._recall is not None:
            await self._recall.note(message, self._session.labels)

    @property
    def passes(self) -> bool:
        changes = self._changes_replies or self._judges_calls or bool(self._read.request.query)
        return self.relays and not changes

    @property
    def usages(self) -> Sequence[Usage]:
        if "_session" not in self.__dict__:  # it was refused before
            return []
        last = self._session.messages[-1:]
        return [each.usage for each in (*last, *self._session.attempts) if each.usage is not None]

    @property
    def losses(self) -> tuple[Loss, ...]:
        return self._asked_losses if self._stream is None else self._stream.losses

    def forget(self) -> None:
        for name in ("_session", "_new_session", "_stream", "_relay"):
            self.__dict__.pop(name, None)

    @cached_property
    def _relay(self) -> Relay:
        """Passes the bytes on."""
        read = self._read
        check = refuse_losses if read.resources.settings.strict else None
        return Relay(self._body_for, read.messages, read.read_options, path=self._path, check=check)

    @property
    def relays(self) -> bool:
        """Whether the last attempt sent the client's bytes."""
        return self._asks_client_wire and self._relay.relayed

    def _body_for(self, adapter: Adapter) -> bytes | None:
        read = self._read
        if adapter.provider != read.request.wire.provider or not read.may_pass:
            return None
        exact = read.resources.settings.exact_bytes
        return read.request.body_for(adapter, asks_for_usage=self.hides_usage, exact=exact)

    def _handle(self, effect: Any) -> Generator[Any, Any, Any]:
        if isinstance(effect, RunTools):
            return (yield from self._judge_calls(effect))
        if not isinstance(effect, Send):
            return (yield effect)
        read, adapter, may_ask = self._read, effect.adapter, self._read.resources.may_ask
        if may_ask is not None and not may_ask(str(adapter.model_id)):
            return Failed(ModelDeniedError(str(adapter.model_id)))
        read.request.record.asked = str(adapter.model_id)
        if (kept := read.request.kept) is not None:
            effect.context.encode_cache = kept.encodings
        messages, options = effect.messages, effect.options
        self._asks_client_wire = adapter.provider == read.request.wire.provider
        try:
            if not self._asks_client_wire:
                messages, options = read.for_other_wire(adapter, messages, effect.tools, options)
            if self._asks_client_wire or read.resources.settings.strict:
                adapter = self._relay.adapter(adapter, effect.tools)
        except InvalidRequestError as error:
            return Failed(error)
        if (schema := read.read_options.output_schema) is not None:
            options = replace(options, output_schema=schema)
        observers = (*effect.observers, self._note_headers)
        return (
            yield replace(
                effect, adapter=adapter, messages=messages, options=options, observers=observers, joins_text=True
            )
        )

    def _judge_calls(self, effect: RunTools) -> Generator[Any, Any, Any]:
        """Let the policy judge the calls. The client runs them, so the only results are refusals.

        Raises PolicyDeniedError for the first call that is refused: a client that gets some calls would run them.
        """
        if self._judges_calls:
            for run in (yield effect):
                texts = (part for result in run.message.tool_results for part in result.content)
                reason = " ".join(part.text for part in texts if isinstance(part, TextBlock))
                raise PolicyDeniedError(Hook.TOOL_PRE_INVOKE, "the policy", "call", f"{run.call.name}: {reason}")
        return ()

    def _note_headers(self, headers: Mapping[str, str]) -> Perform:
        self.headers = headers
        return _NOTHING


async def _do_nothing() -> None:
    """Wait for nothing."""


_NOTHING = Perform(lambda: None, _do_nothing)
