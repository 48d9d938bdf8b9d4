"""Plans the turns of a session: what is asked, which model answers, and what wraps it. No I/O."""

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Generic, get_args

from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.errors import CompactionError, ConfigurationError, RequestError
from dragoman.canonical.message import Message
from dragoman.configuration.transports import TransportT
from dragoman.configuration.validation import check_settings
from dragoman.session.config import TurnOptions, UserInput, merge_options
from dragoman.session.conversation import Conversation
from dragoman.session.effects import Turn
from dragoman.session.turn.answers import (
    Answers,
    CallResults,
    continue_calls,
    pending_calls,
    read_answers,
    waiting_prompt,
)
from dragoman.session.turn.loop import Requests, TurnPlan, run_turn
from dragoman.session.turn.run import TurnRun

if TYPE_CHECKING:
    from dragoman.canonical.extensions.extensions import Extensions
    from dragoman.output.check import AnswerCheck
    from dragoman.session.compaction import CompactionPlace


class TurnPlanner(Conversation[TransportT], Generic[TransportT]):
    """A conversation that plans its turns. Nothing is sent here."""

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
        results: CallResults | None = None,
    ) -> TurnRun:
        """Return a turn that has sent nothing yet. Raises ConfigurationError and RequestError."""
        if model is not None and self._routes.router is None:
            raise ConfigurationError("a model for one message needs a router: Session(..., router=Router())")
        if callable(choose_tools := self.config.tools):
            self.toolbox.replace(choose_tools(self._new_call_context()))
            self._check_tools()
        options, check = merge_options(self.options, overrides, stream=stream), None
        if output is not None or options.output_schema is not None:
            from dragoman.session.typed import new_check

            options, check = new_check(options, overrides, output, early=not self.toolbox.definitions)
        turn = self._new_turn(prompt, options, check, model, results, overrides.get("extensions"))
        return self._start(turn, check, answers_with_text=output is str)

    def _new_turn(
        self,
        prompt: UserInput | None,
        options: AdapterOptions,
        check: "AnswerCheck[Any] | None",
        model: str | None,
        results: CallResults | None,
        extensions: "Extensions | None",
    ) -> Turn:
        requests = self._new_requests(options)
        sticky, messages, open_turn = self._adapter, self._history.messages, self._open_turn
        asked: tuple[Message, ...] = ()
        answers: Callable[[], Answers] | None = None
        if prompt is not None:
            asked = (self._factory.user_message(prompt),)
        elif results is not None:
            answers = partial(read_answers, results, messages, open_turn)
        elif open_turn is None and not messages:
            raise RequestError("there is nothing to answer yet: give a prompt, or messages that end with the user's")
        elif open_turn is not None:
            asked = waiting_prompt(open_turn, self._history)
            answers = partial(continue_calls, messages, open_turn) if pending_calls(messages) else None

        choose = partial(self._routes.for_turn, sticky, model, self._history.to_send, requests.tools, requests.options)
        if sticky is not None and self._routes.router is None:
            choose = partial(self._routes.own_route, sticky)
        plan = TurnPlan(
            prompt=tuple(map(self._policy.adopt, asked)),
            known_adapter=sticky if self._routes.router is None else None,
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

    def _correct(self, check: "AnswerCheck[Any]", reply: Message) -> Message | None:
        """Return the request to answer again, or None if the answer is valid. Raises OutputError."""
        correction = check.correction(reply)
        return None if correction is None else self._factory.user_message(correction)

    def _compaction_turn(
        self, model: str | None, keep_last: int | None, instructions: str | None, on: "CompactionPlace"
    ) -> Turn:
        # Imported late: most sessions are short.
        from dragoman.session.compaction import Compaction, CompactionPlace, run_compaction, run_provider_compaction

        if on not in get_args(CompactionPlace):
            raise ConfigurationError(f"on is {' or '.join(get_args(CompactionPlace))}, not {on!r:.80}")
        if on == "provider" and (model is not None or keep_last is not None):
            raise ConfigurationError("the provider compacts the whole conversation: leave out model and keep_last")
        compaction = Compaction(
            known_adapter=self._adapter,
            choose=lambda: self._routes.for_summary(self._adapter),
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
            tools=self.toolbox.definitions,
            options=options,
            new_context=self._new_context,
            new_retries=self._transports.new_retries,
            record_billed=self._history.attempts.record,
        )
