"""The state of a session and everything about it that needs no I/O: what both drivers share."""

import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any, Self

from pydantic import BaseModel

from dragoman.adapter import wirejson
from dragoman.adapter.contract import Adapter, AdapterOptions, Prices, RequestContext, bundled_prices
from dragoman.adapter.errors import ConfigurationError, ProviderError, SwapRefusedError
from dragoman.adapter.registry import get_adapter
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.canonical.blocks import ContentBlock, ToolResultBlock
from dragoman.canonical.events import ErrorEvent, StreamEvent
from dragoman.canonical.evolve import read_message
from dragoman.canonical.ids import new_message_id, new_session_id
from dragoman.canonical.message import Message, MessageMetadata, Role
from dragoman.canonical.routing import RoutingDecisionRecord, RoutingMode
from dragoman.canonical.usage import CostStatus, TokenUsage
from dragoman.session.preview import Preview, preview
from dragoman.session.spending import Cost, total_cost, total_usage, usages
from dragoman.session.toolbox import Tool, Toolbox
from dragoman.session.turn import Ask, Gate, InStreamError, Plan
from dragoman.transport import RetryPolicy

DUMP_VERSION = 1

Said = str | ContentBlock | Iterable[ContentBlock] | Message


class Conversation:
    """A history, the model that answers next, and the tools. Not used by itself: see `Session`, `AsyncSession`.

    ``providers`` holds settings by provider name, passed to its transport: api_key, base_url, client (an
    httpx client, or the provider's own official one), timeout in seconds, max_retries, headers.
    ``new_id`` and ``clock`` make a session deterministic in tests.
    """

    def __init__(
        self,
        model: str,
        *,
        tools: Iterable[Tool | Callable[..., Any]] = (),
        system: str | None = None,
        options: AdapterOptions | None = None,
        providers: Mapping[str, Mapping[str, Any]] | None = None,
        messages: Iterable[Message] = (),
        max_rounds: int = 20,
        prices: Prices | None = None,
        tool_ids: ToolIdMap | None = None,
        session_id: str | None = None,
        new_id: Callable[[], str] = new_message_id,
        clock: Callable[[], datetime] = lambda: datetime.now(UTC),
        user_id: str | None = None,
        team_id: str | None = None,
    ) -> None:
        if max_rounds < 1:
            raise ConfigurationError("max_rounds is at least 1")
        self.session_id = session_id or new_session_id()
        self.toolbox = Toolbox(tools)
        self.options = options or AdapterOptions()
        self.providers = {name: dict(settings) for name, settings in (providers or {}).items()}
        self.max_rounds = max_rounds
        self.prices = prices if prices is not None else bundled_prices()
        self.tool_ids = tool_ids if tool_ids is not None else ToolIdMap(lambda: f"tu_{new_id()}")
        self.user_id = user_id
        self.team_id = team_id
        self._new_id = new_id
        self._clock = clock
        self._adapter = get_adapter(model)
        self._retry = RetryPolicy()
        self._messages = list(messages)
        if system is not None:
            self._messages.insert(0, self._message(Role.SYSTEM, system))

    @property
    def model(self) -> str:
        """The model that answers the next turn, as ``provider:name``."""
        return str(self._adapter.model_id)

    @property
    def messages(self) -> tuple[Message, ...]:
        """The whole history, in order."""
        return tuple(self._messages)

    @property
    def usage(self) -> TokenUsage:
        """Tokens of all replies together."""
        return total_usage(self._messages)

    @property
    def cost(self) -> Cost:
        """What all replies together cost."""
        return total_cost(self._messages)

    def cost_on(self, model: str) -> Cost:
        """What the same replies would have cost on another model, token for token, at today's prices."""
        now = self._clock()
        priced = [self.prices.price(model, usage, now) for _, usage in usages(self._messages)]
        known = [usage.cost_usd for usage in priced if usage.cost_usd is not None]
        statuses = {usage.cost_status for usage in priced}
        status = statuses.pop() if len(statuses) == 1 else CostStatus.PARTIAL
        total = sum(known[1:], known[0]) if known else None
        return Cost(total, status, {model: total}, len(priced))

    def preview(self, model: str) -> Preview:
        """What moving to that model would lose and cost. Sends nothing. Raises UnknownProviderError."""
        adapter = get_adapter(model)
        trial = replace(self._context(adapter), tool_ids=ToolIdMap.load(self.tool_ids.dump()))
        return preview(
            adapter,
            self._messages,
            self.toolbox.definitions,
            self.options,
            context=trial,
            prices=self.prices,
            at=self._clock(),
        )

    def swap(self, model: str) -> Preview:
        """Lets another model answer from the next turn on.

        Raises SwapRefusedError with every reason where it cannot carry the history; the active model then stays.
        """
        seen = self.preview(model)
        if not seen.fits:
            raise SwapRefusedError(model, list(seen.reasons))
        self._adapter = get_adapter(model)
        return seen

    def dump(self) -> bytes:
        """The session as JSON: model, history, tool-id map. Tools, keys and options are the program's own."""
        return wirejson.dumps(
            {
                "dragoman_session": DUMP_VERSION,
                "session_id": self.session_id,
                "model": self.model,
                "tool_ids": self.tool_ids.dump(),
                "messages": [message.model_dump(mode="json", exclude_none=True) for message in self._messages],
            }
        )

    @classmethod
    def load(cls, data: bytes | str, **settings: Any) -> Self:
        """A session from `dump`; ``settings`` are those of the constructor. Raises ConfigurationError."""
        raw = wirejson.loads_object(data, what="the stored session")
        if raw.get("dragoman_session") != DUMP_VERSION:
            raise ConfigurationError(f"this is no stored session of version {DUMP_VERSION}")
        settings.setdefault("model", raw["model"])
        settings.setdefault("session_id", raw["session_id"])
        settings.setdefault("messages", [read_message(message) for message in raw["messages"]])
        settings.setdefault("tool_ids", ToolIdMap.load(raw["tool_ids"]))
        return cls(**settings)

    def _plan(self, said: Said | None, options: AdapterOptions) -> Plan:
        return Plan(
            adapter=self._adapter,
            history=self._messages,
            said=() if said is None else (self._said(said),),
            tools=self.toolbox.definitions,
            options=options,
            new_context=lambda: self._context(self._adapter),
            new_result=self._result,
            max_rounds=self.max_rounds,
            retry_delay=self._retry_delay,
        )

    def _retry_delay(self, error: ProviderError, attempt: int) -> float | None:
        return self._retry.wait(error, {}, attempt, now=self._clock(), roll=random.random())

    def _options(self, overrides: Mapping[str, Any], *, stream: bool) -> AdapterOptions:
        try:
            return replace(self.options, stream=stream, **overrides)
        except TypeError as error:
            raise ConfigurationError(f"no such option: {error}") from None

    def _context(self, adapter: Adapter) -> RequestContext:
        model = str(adapter.model_id)
        return RequestContext(
            model=model,
            session_id=self.session_id,
            tool_ids=self.tool_ids,
            prices=self.prices,
            new_id=self._new_id,
            clock=self._clock,
            started_at=self._clock(),
            routing=RoutingDecisionRecord(mode=RoutingMode.MANUAL, chosen_model=model, reason="the session's model"),
            user_id=self.user_id,
            team_id=self.team_id,
        )

    def _settings(self, provider: str) -> dict[str, Any]:
        """A provider's settings for its transport; the time limit goes with each request instead."""
        return {name: value for name, value in self.providers.get(provider, {}).items() if name != "timeout"}

    def _timeout(self, adapter: Adapter) -> float | None:
        timeout: float | None = self.providers.get(adapter.provider, {}).get("timeout")
        return timeout

    @staticmethod
    def _broken(event: ErrorEvent, gate: Gate) -> Exception:
        """What an error event raises; the partial message travels on the error."""
        if isinstance(event.error, ProviderError):
            event.error.partial = event.partial
            return InStreamError(event.error, seen=gate.seen)
        return event.error

    def _keep_cancelled(self, ask: Ask, events: Iterable[StreamEvent]) -> None:
        """Adds what a cancelled reply had said, if anything, and what it answers."""
        for event in events:
            if isinstance(event, ErrorEvent) and event.partial is not None and event.partial.content:
                self._messages += (*ask.unkept, event.partial)

    def _said(self, said: Said) -> Message:
        if isinstance(said, Message):
            return said
        # A block is iterable as well (over its fields), so it is told apart by its class.
        return self._message(Role.USER, (said,) if isinstance(said, BaseModel) else said)

    def _result(self, result: ToolResultBlock) -> Message:
        metadata = MessageMetadata(parent_tool_use_id=result.tool_use_id)
        return self._message(Role.TOOL, (result,), metadata=metadata)

    def _message(self, role: Role, content: Any, **fields: Any) -> Message:
        return Message(
            id=self._new_id(),
            session_id=self.session_id,
            role=role,
            content=content if isinstance(content, str) else tuple(content),
            created_at=self._clock(),
            **fields,
        )
