"""AsyncSession: the async driver of the same turn; see `Session`."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, overload

from typing_extensions import TypeForm

from dragoman.canonical.message import Message
from dragoman.effects import drive_async, iterate_async
from dragoman.session.config import OutputT, SessionSettings, TurnOptions, UserInput
from dragoman.session.effects import SessionEvent
from dragoman.session.reply import Reply
from dragoman.session.stream import AsyncReplyStream
from dragoman.session.turn.driver import TurnDriver
from dragoman.session.turn.planner import TurnRun
from dragoman.transport.settings import seal_keys

if TYPE_CHECKING:
    from dragoman.configuration.session_store import SessionStore
    from dragoman.policy import Declassification
    from dragoman.session.turn.answers import CallResults
    from dragoman.session.turn.compaction import CompactionPlace
    from dragoman.transport import AsyncTransport  # noqa: F401  # ruff does not read the string below


class AsyncSession(TurnDriver["AsyncTransport"]):
    """The async twin of `Session`; tools may be coroutines or plain functions, which then run in threads.

    Use it as an async context manager, or await `close`. It runs one turn at a time: two tasks must not ask at once.
    ``session_id``, ``user_id``, ``team_id``, ``options``, ``max_rounds``, ``prices``, ``toolbox``, ``tool_ids`` and
    ``config`` are as there.
    """

    _asynchronous: ClassVar[bool] = True

    @overload
    async def ask(
        self, prompt: UserInput | None, *, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> Reply[str]: ...

    @overload
    async def ask(
        self,
        prompt: UserInput | None,
        *,
        output: TypeForm[OutputT],
        model: str | None = None,
        **options: Unpack[TurnOptions],
    ) -> Reply[OutputT]: ...

    async def ask(
        self, prompt: UserInput | None, *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> Reply[Any]:
        """As `Session.ask`.

        Args:
            max_output_tokens: The most tokens of a reply, reasoning included.
            temperature: How random the choice of each token is: from 0, the least, up to 1 or 2, by provider.
            top_p: Choose among the most likely tokens only: those that together have this probability.
            top_k: Choose among this many of the most likely tokens.
            frequency_penalty: Makes tokens less likely the more often they occurred, usually from -2 to 2.
            presence_penalty: Makes tokens less likely that occurred at all, usually from -2 to 2.
            seed: Makes replies repeatable, as far as the provider can.
            stop_sequences: Texts that end the reply when the model writes one of them.

            tool_choice: Whether the model may call tools, must not or must; a `NamedTool` must be called.
            parallel_tool_calls: Whether one reply may call several tools.
            output_schema: A JSON Schema that the answer's text obeys.

            effort: Reasoning effort: none, minimal, low, medium, high, xhigh or max.
            thinking: Whether to reason, and to return the reasoning if the model hides it by default.
            thinking_budget: The limit of reasoning tokens, for models that accept a budget.

            prompt_cache: Request prompt caching with that lifetime, if caching is not automatic.
            service_tier: How fast and at which price to serve: auto, standard, flex or priority, or a word of the
                provider's own.
            verbosity: How long the answer should be.
            reasoning_summary: How much of the reasoning to return as a summary: auto, concise or detailed.

            user: An id of your end user by which a provider recognises abuse.
            metadata: Labels that the provider stores with the request, such as for its bill.
            safety: How much the provider's own filter of harmful content blocks.
            logprobs: Return the log probability of each token of the answer, and of this many alternatives to it.

            server_state: Continue the history that the provider stores, and send only what is new.
            background: Let the provider work on the reply without an open connection, and ask for it until it has
                ended.
            n: How many answers to the same prompt to return: the first one is the message, the others are its
                `alternatives`.
            num_ctx: The context window that a local server reserves, in tokens.
            keep_alive: How long a local server keeps the model in memory, such as ``10m``, or seconds.

            strict_prefix: Raise ProjectionError for a request that would void signed thinking of earlier turns.
            headers: Headers by provider name.
            extra: Body fields by provider name; no other provider receives them.

            output_retries: How often a model is asked again if its answer is not of the requested type, by default
                once.
            partial_strings: Whether a stream shows the strings of a typed answer as they arrive, and not only at their
                end.
            extensions: The program's facts about this turn for the plugins.
        """
        return await drive_async(self._ask(prompt, options, output, model))

    @overload
    def stream(
        self, prompt: UserInput | None, *, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> AsyncReplyStream[str]: ...

    @overload
    def stream(
        self,
        prompt: UserInput | None,
        *,
        output: TypeForm[OutputT],
        model: str | None = None,
        **options: Unpack[TurnOptions],
    ) -> AsyncReplyStream[OutputT]: ...

    def stream(
        self, prompt: UserInput | None, *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> AsyncReplyStream[Any]:
        """As `Session.stream`. Cancelling the task, or leaving ``async with``, cancels the reply; so does the next turn
        of the session."""
        return self._stream(self._start_turn(prompt, options, output, stream=True, model=model))

    async def answer(
        self, results: "CallResults", *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> Reply[Any]:
        """As `Session.answer`."""
        return await drive_async(self._ask(None, options, output, model, results or {}))

    def stream_answer(
        self, results: "CallResults", *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> AsyncReplyStream[Any]:
        """As `Session.stream_answer`."""
        return self._stream(self._start_turn(None, options, output, stream=True, model=model, results=results or {}))

    async def compact(
        self,
        model: str | None = None,
        *,
        keep_last: int | None = None,
        instructions: str | None = None,
        on: "CompactionPlace" = "model",
    ) -> Message:
        """As `Session.compact`."""
        return await drive_async(self._compact(model, keep_last, instructions, on))

    @classmethod
    async def resume(
        cls, session_id: str, store: "SessionStore", *, model: str | None = None, **settings: Unpack[SessionSettings]
    ) -> Self:
        """As `Session.resume`; the store is read and written in a thread."""
        settings = seal_keys(settings)  # type: ignore[assignment]  # as in __init__
        return await asyncio.to_thread(cls._from_store, session_id, store, model, settings)

    async def declassify(
        self,
        labels: Iterable[str],
        *,
        actor: str,
        reason: str,
        audit: "Callable[[Declassification], Any] | None" = None,
    ) -> "Declassification | None":
        """As `Session.declassify`; with a store it runs in a thread, ``audit`` too."""
        return await drive_async(self._remove_labels(labels, actor, reason, audit))

    async def apply_policy(
        self, hook: str, message: Message, *, require: Callable[[Message], str | None] | None = None, **slots: Any
    ) -> Message:
        """As `Session.apply_policy`."""
        return await drive_async(self._check_fetched(hook, message, require, slots))

    async def close(self) -> None:
        """As `Session.close`."""
        await drive_async(self._close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _stream(self, run: TurnRun) -> AsyncReplyStream[Any]:
        batches = iterate_async(self._run(run))
        run.events = lambda: batches
        return AsyncReplyStream(_events(run, batches), batches, run)


async def _events(
    run: TurnRun, batches: AsyncGenerator[Sequence[SessionEvent], None]
) -> AsyncGenerator[SessionEvent, None]:
    """Yield the events of a turn one by one, while its answer is valid."""
    note, follow = run.note_event, run.follow_answer()
    async with aclosing(batches):
        async for events in batches:
            for event in events if follow is None else follow(events):
                note(event)
                yield event
