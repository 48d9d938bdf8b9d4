"""Session: one conversation, with replies, streams, tools and swaps of models."""

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack, overload
from weakref import ref

from typing_extensions import TypeForm

from dragoman.canonical.message import Message
from dragoman.effects import drive, iterate
from dragoman.session.config import OutputT, SessionSettings, TurnOptions, UserInput
from dragoman.session.effects import SessionEvent
from dragoman.session.reply import Reply
from dragoman.session.turn.driver import TurnDriver
from dragoman.session.turn.planner import TurnRun
from dragoman.transport.settings import seal_keys

if TYPE_CHECKING:
    from dragoman.configuration.session_store import SessionStore
    from dragoman.policy import Declassification
    from dragoman.session.stream import ReplyStream
    from dragoman.session.turn.answers import CallResults
    from dragoman.session.turn.compaction import CompactionPlace
    from dragoman.transport import Transport  # noqa: F401  # ruff does not read the string below


class Session(TurnDriver["Transport"]):
    """One conversation with one model at a time; any turn may swap to another.

        with Session("anthropic:claude-opus-5-5", tools=[read_file]) as session:
            reply = session.ask("Summarize README.md")

    ask, stream       run a turn: the model answers, and the tools that it calls run
    pending, pending_reasons            the calls that wait for results from elsewhere
    unfinished        the turn that a killed program has left; ask(None) goes on with it
    answer, stream_answer               give them their results, and go on with the turn
    swap, preview     change the model; what that would lose and cost
    compact           put a summary in place of the older part of the history
    messages, model   the history, and the model that answers next
    usage, cost, cost_on, attempts      what all turns used and cost
    dump, load, resume                  store and continue a session
    labels, declassify, apply_policy    the policy's view of the data
    identify, close

    ``session_id`` is the id of the conversation, ``user_id`` and ``team_id`` say who asks. ``options`` and
    ``max_rounds`` are those of every turn, ``prices`` is the table of its costs, ``toolbox`` has the tools,
    ``tool_ids`` the ids of calls by provider, and ``config`` all settings.

    Use it as a context manager, or call `close`, to release its connections. It runs one turn at a time: the next turn
    ends a stream that was left open. Do not share it between threads. Several tool calls in one reply run in threads.
    """

    _asynchronous: ClassVar[bool] = False

    @overload
    def ask(
        self, prompt: UserInput | None, *, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> Reply[str]: ...

    @overload
    def ask(
        self,
        prompt: UserInput | None,
        *,
        output: TypeForm[OutputT],
        model: str | None = None,
        **options: Unpack[TurnOptions],
    ) -> Reply[OutputT]: ...

    def ask(
        self, prompt: UserInput | None, *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> Reply[Any]:
        """Return the assistant's answer, after all tool calls.

        ``model`` overrides the router for this turn; it needs a router. A forced ``tool_choice`` applies to the first
        reply of the turn. A prompt of None continues after a TurnLimitError or a paused reply, and goes on with an
        `unfinished` turn. Raises ProviderError, and RequestError if the prompt cannot be sent; with a router
        NoModelError, and UnknownProviderError if the prompt mentions an unknown model. If the turn gets no reply, the
        history is as before.

        ``output`` is the type of the answer, which is then ``reply.output``: a pydantic model, a dataclass, a union or
        any other type with a JSON Schema. An answer that is not valid stays in the history, and the model is asked
        again, with the problems, at most ``output_retries`` times. Then OutputError is raised. ``output_schema`` is a
        JSON Schema for the text of the answer, checked in the same way. Raises OutputTypeError for a type without a
        schema.

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
        return drive(self._ask(prompt, options, output, model))

    @overload
    def stream(
        self, prompt: UserInput | None, *, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> "ReplyStream[str]": ...

    @overload
    def stream(
        self,
        prompt: UserInput | None,
        *,
        output: TypeForm[OutputT],
        model: str | None = None,
        **options: Unpack[TurnOptions],
    ) -> "ReplyStream[OutputT]": ...

    def stream(
        self, prompt: UserInput | None, *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> "ReplyStream[Any]":
        """Return the same turn as a stream: the events of each reply, and ToolAnswered for each tool.

        Iterating raises ProviderError when an adapter's stream ends with an error event; ``error.partial`` is what had
        arrived. Closing the stream before its end cancels the reply: what had arrived stays in the history with status
        cancelled. Closing it at message_complete or tool_answered keeps the message of that event.

        With ``output``, the stream yields OutputPartial with what has arrived and is valid, OutputComplete with the
        answer, and OutputRetry if the model is asked again. A string is part of a value when it has ended, or as it
        arrives with ``partial_strings``.
        """
        return self._stream(self._start_turn(prompt, options, output, stream=True, model=model))

    def answer(
        self, results: "CallResults", *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> Reply[Any]:
        """Give pending calls their results, and go on with the turn; in any process that loads the session.

        ``results`` has a result by the id of each call: what a tool may return, or an exception, which the model
        receives as an error. While other calls of the same reply wait, the results are kept, nothing is sent, and the
        returned reply is the one that waits. The other arguments are those of `ask`. With a store, the results are
        saved before anything is sent: of two programs that answer the same call, the second gets ConflictError.

        Raises CallNotPendingError if a call has its result already, or does not wait; then nothing changes.
        """
        return drive(self._ask(None, options, output, model, results or {}))

    def stream_answer(
        self, results: "CallResults", *, output: Any = None, model: str | None = None, **options: Unpack[TurnOptions]
    ) -> "ReplyStream[Any]":
        """Return the same turn as a stream."""
        return self._stream(self._start_turn(None, options, output, stream=True, model=model, results=results or {}))

    def compact(
        self,
        model: str | None = None,
        *,
        keep_last: int | None = None,
        instructions: str | None = None,
        on: "CompactionPlace" = "model",
    ) -> Message:
        """Have the current model summarize the older part of the history. Requests then contain the summary in its
        place.

        Returns the summary: a user message with its model, usage and cost, and the ids of the messages that it
        replaces in ``metadata.summary_of``. ``messages`` keeps everything.

        ``model`` is the one whose window the history has to fit: by default the current one, else one to `swap` to.
        ``keep_last`` is the number of newest messages that are not summarized; by default the newer half, at most half
        of the window. The system prompt, messages marked critical, and the call of every kept result are not summarized
        either. ``instructions`` tell the model that writes the summary what matters, e.g. the next topic of the
        conversation.

        With ``on="provider"``, the provider compacts all of it (Anthropic). The result is an assistant's message with a
        block that only this provider can read: to another one it is a loss. ``instructions`` then replace the
        provider's own.

        Raises CompactionError, which says what to do, if the rest would not fit, the reply is not a summary, or there
        is nothing to compact. Raises ProviderError as `ask` does; the history is then as before.
        """
        return drive(self._compact(model, keep_last, instructions, on))

    @classmethod
    def resume(
        cls, session_id: str, store: "SessionStore", *, model: str | None = None, **settings: Unpack[SessionSettings]
    ) -> Self:
        """Return a stored session, to continue on its model or on another; ``settings`` are as for a new one. The
        session saves its next turns to the store. If its program was killed in a turn, ``unfinished`` is that turn.

        Raises SessionNotFoundError, UnreadableError, ConfigurationError for a URL, and SwapRefusedError as `swap` does.
        """
        settings = seal_keys(settings)  # type: ignore[assignment]  # as in __init__
        return cls._from_store(session_id, store, model, settings)

    def declassify(
        self,
        labels: Iterable[str],
        *,
        actor: str,
        reason: str,
        audit: "Callable[[Declassification], Any] | None" = None,
    ) -> "Declassification | None":
        """Remove labels from the conversation: the only way to remove any. The policy has to grant it, as in
        ``Pipeline(..., grants=["declassify_labels"])``; a plugin cannot.

        There is exactly one record: ``audit`` receives it, it is saved with the session (in `dump` and in the store),
        the bus emits ``policy.declassified``, and it is returned. If the conversation has none of the labels, there is
        no record, and None is returned. Checking the same history again does not restore the label; new data does.

        Raises DeclassificationError without the grant, or without an actor and a reason; ConfigurationError in the
        middle of a turn. If ``audit`` or the store raises, the labels stay.
        """
        return drive(self._remove_labels(labels, actor, reason, audit))

    def apply_policy(
        self, hook: str, message: Message, *, require: Callable[[Message], str | None] | None = None, **slots: Any
    ) -> Message:
        """Run the session's policy on a message, at a hook such as ``resource_post_fetch``. Return the message as
        changed.

        ``slots`` are extensions of this message alone. ``require`` gets the message as the plugins left it and returns
        the code of a refusal, ``left_out`` or ``redirected``, or None. A message without a session id gets that of this
        session. Without a policy the message is not changed, and ``require`` is not called. Raises PolicyDeniedError.
        """
        return drive(self._check_fetched(hook, message, require, slots))

    def close(self) -> None:
        """Release the connections. The conversation stays readable; the next turn opens new ones."""
        drive(self._close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _stream(self, run: TurnRun) -> "ReplyStream[Any]":
        from dragoman.session.stream import ReplyStream  # imported late: many programs do not stream

        events = _events(run, iterate(self._run(run)))
        run.events = ref(events)  # so that dropping the stream ends the turn at once
        return ReplyStream(events, run)


def _events(
    run: TurnRun, batches: Generator[Sequence[SessionEvent], None, None]
) -> Generator[SessionEvent, None, None]:
    """Yield the events of a turn one by one, while its answer is valid."""
    note, follow = run.note_event, run.follow_answer()
    with closing(batches):
        for events in batches:
            for event in events if follow is None else follow(events):
                note(event)
                yield event
