"""Plans the turns of a session: what is asked, which model answers, and what wraps it; and the turn that then runs.
No I/O.
"""

from collections.abc import Callable, Generator, Iterable, Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, get_args

from dragoman.adapter.contract import Adapter, AdapterOptions, RequestContext
from dragoman.adapter.errors import CompactionError, ConfigurationError, RequestError, SwapRefusedError
from dragoman.adapter.losses import Loss
from dragoman.adapter.requests.encode_cache import EncodeCache
from dragoman.adapter.tool_ids import ToolIdMap
from dragoman.attempt.reply_reader import ReplyReader
from dragoman.canonical.events import MessageStart, TextDelta
from dragoman.canonical.message import Message, MessageStatus, Role
from dragoman.configuration.transports import TransportT
from dragoman.configuration.validation import check_settings
from dragoman.effects import Failed, Replied, ResponseDetails, SendOutcome
from dragoman.session.config import TurnOptions, UserInput, merge_options
from dragoman.session.conversation import Conversation
from dragoman.session.effects import Effect, Send, SessionEvent, Turn
from dragoman.session.history import History, may_have_labels
from dragoman.session.reply import Answer, Reply, last_reply
from dragoman.session.turn.loop import Requests, TurnPlan, run_turn

if TYPE_CHECKING:
    from dragoman.canonical.extensions.extensions import Extensions
    from dragoman.output.check import AnswerCheck
    from dragoman.session.preview import Preview
    from dragoman.session.turn.answers import Answers, CallResults
    from dragoman.session.turn.compaction import CompactionPlace
    from dragoman.tools.call_runner import CallRunner


@dataclass(slots=True, eq=False)
class TurnRun:
    """The state of a turn that a driver runs. ``history`` is the session's.

    ``effect`` is the next one to carry out. At the end it is None, and ``error`` is the exception that ended the turn,
    if any.
    """

    turn: Turn
    history: History
    get_transport: Callable[[Adapter], Any]
    check: "AnswerCheck[Any] | None" = None
    """The check of a typed answer."""
    answers_with_text: bool = False
    """Whether the caller asked for a text as the typed answer."""
    effect: Effect | None = field(default=None, init=False)
    events: Callable[[], Any] | None = field(default=None, init=False)
    """Returns the generator of its events, or None if that is gone; None if nobody reads them."""
    error: Exception | None = field(default=None, init=False)
    calls: "CallRunner | None" = field(default=None, init=False)
    """Runs the tool calls of the turn; None before the first one."""
    is_left: bool = field(default=False, init=False)
    """Whether the caller has left: nobody receives events any more."""
    ended: bool = field(default=False, init=False)
    """Whether the stream of the turn has ended."""

    losses: dict[Loss, None] = field(default_factory=dict, init=False)
    """The losses in order, each once: a dict is an ordered set."""
    response: ResponseDetails | None = field(default=None, init=False)
    """That of the last attempt that had one."""
    text: list[str] = field(default_factory=list, init=False)
    """The pieces of the current reply's text, if the turn is a stream."""
    _mark: tuple[int, int] = field(default=(0, 0), init=False)
    _kept: tuple[tuple[Message, ...], tuple[Message, ...]] = field(default=((), ()), init=False)
    """The messages and the attempts of the turn, from its end on: the history goes on."""
    _following: Generator[Effect, Any, SendOutcome] | None = field(default=None, init=False)
    """Follows a reply that its provider still works on; its effects come before the turn's."""

    def begin(self) -> None:
        """Go to the first effect."""
        self._mark = self.history.mark()
        self.advance(None)

    def follow_answer(self) -> Callable[[Iterable[SessionEvent]], Iterator[SessionEvent]] | None:
        """Return what the events of a stream pass through if the answer is typed: it may add events, and raise."""
        if self.answers_with_text:
            from dragoman.output.check import follow_text  # imported late: few turns have a typed answer

            return follow_text
        return None if self.check is None else self.check.follow().follow

    def note_event(self, event: SessionEvent) -> None:
        """Note the text of a stream as the caller receives it."""
        if isinstance(event, TextDelta):
            self.text.append(event.text)
        elif isinstance(event, MessageStart):
            self.text.clear()

    def finish_attempt(self, reader: ReplyReader) -> None:
        """Send the turn the outcome of a `Send`. A reply that its provider still works on is followed first."""
        outcome = reader.outcome or Failed(ConfigurationError("a stage removed the end of the reply"))
        if not isinstance(outcome, Failed) and outcome.response is not None:
            self.response = outcome.response
        if isinstance(outcome, Replied) and outcome.message.metadata.status is MessageStatus.PARTIAL:
            from dragoman.session.turn import background  # imported late: few replies come later

            send = self.effect
            assert isinstance(send, Send)
            if background.is_unfinished(send, outcome):
                self._following = background.follow(send, outcome, self.get_transport)
                self.advance(None)
                return
        self.advance(outcome)

    def advance(self, outcome: Any) -> None:
        """Send the turn the outcome of the effect: its result, or its exception."""
        if (following := self._following) is not None:
            try:
                self.effect = following.throw(outcome) if isinstance(outcome, Exception) else following.send(outcome)
                return
            except StopIteration as ended:
                self._following, outcome = None, ended.value
        turn, self.effect = self.turn, None
        try:
            self.effect = turn.throw(outcome) if isinstance(outcome, Exception) else turn.send(outcome)
        except StopIteration:
            pass
        except Exception as error:
            self.error = error
        if self.effect is None:
            self._end()

    def _end(self) -> None:
        """Note what the turn added to the history, and give an OutputError the reply of the turn."""
        messages, attempts = self.history.since(self._mark)
        if all(message.role is Role.TOOL for message in messages):
            messages = self.history.last_round()  # results, if any, while other calls of the same reply still wait
        self._kept = messages, attempts
        if self.check is not None:
            from dragoman.output.errors import OutputError  # loaded: the turn has a typed answer

            if isinstance(self.error, OutputError):
                self.error.reply = self.to_reply()

    def to_reply(self) -> Reply[Any]:
        """Return the turn's result. Raises LookupError if it has no reply."""
        messages, attempts = self._kept
        last_reply(messages)
        output: Any = Answer.TEXT
        if self.check is not None:
            output = self.check.values[0] if self.check.values else Answer.NONE
        return Reply(
            output=output,
            messages=messages,
            attempts=attempts,
            losses=tuple(self.losses),
            response=self.response,
        )


class TurnPlanner(Conversation[TransportT], Generic[TransportT]):
    """A conversation that plans its turns. Nothing is sent here."""

    _running: TurnRun | None = None

    def preview(self, model: str) -> "Preview":
        """Return what a swap to that model would lose and cost. Sends and changes nothing, but may wait for ``fetch``.
        Files are read only if the policy has judged the history. Raises UnknownProviderError.
        """
        from dragoman.session.cost import average_output  # imported late: many sessions keep their model
        from dragoman.session.preview import preview

        route = self._routes.own_route(model)
        history, tools = self._history.to_send(), self.toolbox.definitions
        context = self._new_requests(self.options).new_context(model=route.record.chosen_model, routing=route.record)
        result = preview(
            route.adapter,
            history,
            tools,
            merge_options(self.options),
            with_files=partial(self._request_history.read, adapter=route.adapter) if self._may_read(history) else list,
            context=replace(context, tool_ids=ToolIdMap.load(self.tool_ids.dump()), encode_cache=EncodeCache()),
            prices=self.prices,
            at=self.config.clock(),
            answer=average_output(self._history.messages),
        )
        if self._own is None:
            return result
        tokens = self._own.adapter.estimate_input_tokens(history, tools)
        return replace(result, present_model=self.model, present_tokens=tokens)

    def swap(self, model: str) -> "Preview":
        """Change the model from the next turn on.

        Raises SwapRefusedError with every reason if it cannot carry the history; the active model then stays.
        """
        result = self.preview(model)
        self._on_swap(self.model, result)
        if not result.fits:
            raise SwapRefusedError(model, list(result.reasons))
        self._own = self._routes.own_route(model)
        return result

    def _start(
        self, turn: Turn, check: "AnswerCheck[Any] | None" = None, *, answers_with_text: bool = False
    ) -> TurnRun:
        if self.config.client is not None:
            self.config.client.lifetime.check()
        for wrap in self._middlewares:
            turn = wrap(turn)
        return TurnRun(turn, self._history, self._transports.get, check, answers_with_text)

    def _start_turn(
        self,
        prompt: UserInput | None,
        overrides: TurnOptions,
        output: Any,
        *,
        stream: bool,
        model: str | None,
        results: "CallResults | None" = None,
    ) -> TurnRun:
        """Return a turn that has sent nothing yet. Raises ConfigurationError and RequestError."""
        if model is not None and self._routes.router is None:
            raise ConfigurationError("a model for one message needs a router: Session(..., router=Router())")
        if callable(choose_tools := self.config.tools):
            self.toolbox.replace(choose_tools(self._new_call_context()))
            self._check_tools()
        options, check = self.options, None
        if overrides or stream != options.stream or options.extra or options.headers or options.output_schema:
            options = merge_options(options, overrides, stream=stream)
        if output is not None or options.output_schema is not None:
            from dragoman.output.check import new_check

            options, check = new_check(options, overrides, output, early=not self.toolbox.definitions)
        turn = self._new_turn(prompt, options, check, model, results, overrides.get("extensions"))
        return self._start(turn, check, answers_with_text=output is str)

    def _new_turn(
        self,
        prompt: UserInput | None,
        options: AdapterOptions,
        check: "AnswerCheck[Any] | None",
        model: str | None,
        results: "CallResults | None",
        extensions: "Extensions | None",
    ) -> Turn:
        requests = self._new_requests(options)
        asked: tuple[Message, ...] = ()
        answers: Callable[[], Answers] | None = None
        if prompt is not None:
            message = self._factory.user_message(prompt)
            asked = (self._policy.adopt(message) if may_have_labels(message) else message,)
        else:
            asked, answers = self._rest_of_turn(results)
        own = self._own
        if own is not None and self._routes.router is None:
            known_adapter, choose = own.adapter, lambda _: own
        else:
            sticky = None if own is None else own.adapter
            known_adapter = None
            choose = partial(
                self._routes.for_turn, sticky, model, self._history.to_send, requests.tools, requests.options
            )
        plan = TurnPlan(
            prompt=asked,
            known_adapter=known_adapter,
            choose=choose,
            history=self._history.to_send,
            requests=requests,
            max_rounds=self.config.max_rounds,
            answers=answers,
            save=None if results is None or self._steps is None else self._steps.rest,
            correct=None if check is None else partial(self._correct, check),
            extensions=extensions,
            is_valid=None if check is None else check.accepts,
        )
        if extensions is None:
            return run_turn(plan)
        check_settings({"extensions": extensions})
        return self._policy.with_extensions(run_turn(plan), extensions)

    def _rest_of_turn(
        self, results: "CallResults | None"
    ) -> "tuple[tuple[Message, ...], Callable[[], Answers] | None]":
        """Return what is asked, and what answers the open calls, if a turn goes on without a new prompt."""
        from dragoman.session.turn import answers  # imported late: most turns have a prompt

        messages, open_turn = self._history.messages, self._open_turn
        if results is not None:
            return (), partial(answers.read_answers, results, messages, open_turn)
        if open_turn is None:
            if not messages:
                raise RequestError(
                    "there is nothing to answer yet: give a prompt, or messages that end with the user's"
                )
            return (), None
        calls = partial(answers.continue_calls, messages, open_turn) if answers.pending_calls(messages) else None
        prompt = tuple(map(self._policy.adopt, answers.waiting_prompt(open_turn, self._history)))
        return prompt, calls

    def _correct(self, check: "AnswerCheck[Any]", reply: Message) -> Message | None:
        """Return the request to answer again, or None if the answer is valid. Raises OutputError."""
        correction = check.correction(reply)
        return None if correction is None else self._factory.user_message(correction)

    def _compaction_turn(
        self, model: str | None, keep_last: int | None, instructions: str | None, on: "CompactionPlace"
    ) -> Turn:
        # Imported late: most sessions are short.
        from dragoman.session.turn.compaction import (
            Compaction,
            CompactionPlace,
            run_compaction,
            run_provider_compaction,
        )

        if on not in get_args(CompactionPlace):
            raise ConfigurationError(f"on is {' or '.join(get_args(CompactionPlace))}, not {on!r:.80}")
        if on == "provider" and (model is not None or keep_last is not None):
            raise ConfigurationError("the provider compacts the whole conversation: leave out model and keep_last")
        own = self._own
        compaction = Compaction(
            known_adapter=None if own is None else own.adapter,
            choose=self._routes.for_summary if own is None else lambda: own,
            target=None if model is None else self._routes.find(model),
            history=self._history.to_send,
            requests=self._new_requests(self.options),
            keep_last=keep_last,
            instructions=instructions,
            new_prompt=self._factory.user_message,
        )
        try:
            yield from (run_provider_compaction if on == "provider" else run_compaction)(compaction)
        except CompactionError as error:
            self._history.attempts.record_unused(error.reply, self._history.messages)
            raise

    def _new_requests(self, options: AdapterOptions) -> Requests:
        return Requests(
            tools=self.toolbox.definitions if "toolbox" in vars(self) else (),  # no tools, no toolbox
            options=options,
            new_context=partial(
                RequestContext,
                session_id=self.session_id,
                tool_ids=self.tool_ids,
                encode_cache=self._encodings,
                prices=self.prices,
                new_id=self.config.new_id,
                clock=self.config.clock,
                user_id=self._factory.user_id,
                team_id=self._factory.team_id,
            ),
            new_retries=self._transports.new_retries,
            record_billed=self._history.attempts.record,
        )
