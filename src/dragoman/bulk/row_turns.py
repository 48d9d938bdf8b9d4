"""Runs each row as the turn of a session of its own: the client's policy judges it, its router checks the labels, its
events report it, and its store saves it.

The session sends through the run's requester, which is in this process or in the workers of a cluster. What governs a
row and when it is asked again is the run's.
"""

from contextlib import suppress
from typing import Any, cast

from dragoman.adapter.contract import Adapter
from dragoman.adapter.errors import DragomanError
from dragoman.adapter.wire import WireRequest, WireResponse
from dragoman.bulk.attempts import Row, RowRetries, RunStoppedError, is_fatal
from dragoman.bulk.manifest.records import RowRecord
from dragoman.canonical.message import Message, Role
from dragoman.configuration import ClientConfig
from dragoman.open_turns import TurnStep
from dragoman.output.errors import OutputError
from dragoman.policy.errors import PolicyDeniedError, PolicyError
from dragoman.routing import Router
from dragoman.session import AsyncSession
from dragoman.session.middleware.no_policy import UnreadLabels
from dragoman.store.errors import StoreError


class RowSession(AsyncSession):
    """The session of one row; ``client`` has the policy, the events and the store."""

    def __init__(self, client: ClientConfig, row: Row) -> None:
        self._row = row
        user_id, team_id = row.run.config.identity
        super().__init__(
            row.run.requester.model,
            system=next(iter(row.pending.texts[1:]), None),
            client=client,
            options=row.run.requester.options,
            labels=row.pending.labels,
            user_id=user_id,
            team_id=team_id,
            durability="turn",
            governors=row.governors,
        )
        self._transports: Any = _RowTransports(row)

    async def ask_row(self) -> RowRecord | None:
        """Return the outcome of the row, or None if the run stops first. Raises errors that every row would meet."""
        row, output = self._row, cast("Any", self._row.run.form)
        try:
            reply = await self.ask(row.pending.texts[0], output=output, output_retries=row.run.config.output_retries)
        except StoreError:
            await self._keep_answer()
            raise
        except DragomanError as error:
            if isinstance(error, (OutputError, RunStoppedError)) or is_fatal(error):
                return await row.failed(error)
            return await row.failed(*(await self._judge_error(error)))
        return row.claim.answered(reply.message)

    async def _keep_answer(self) -> None:
        """Save the answer that the client's store did not take: it is paid for, and the manifest works."""
        row = self._row
        reply, check = next(reversed(self.messages), None), row.run.new_check()
        with suppress(OutputError):
            if reply is not None and reply.role is Role.ASSISTANT and not (check and check.correction(reply)):
                await row.run.write_batcher.save(row.claim.answered(reply))
                return
        await row.claim.leave()

    async def _judge_error(self, error: DragomanError) -> tuple[DragomanError, str | None]:
        """Return the error of the row and its text, as the policy leaves it: a provider may quote the conversation."""
        if self._row.run.config.client.policy is None or isinstance(error, PolicyError):
            return error, None
        try:
            message = await self.apply_policy("llm_output", Message.assistant(str(error) or type(error).__name__))
        except PolicyDeniedError as denial:
            return denial, None
        return error, message.text

    def _save(self, step: TurnStep | None = None, new: tuple[Message, ...] = (), *, touch: bool = False) -> int | None:
        """Save a row that has an answer, or one that was billed."""
        if self.attempts or any(message.role is Role.ASSISTANT for message in (*self.messages, *new)):
            return super()._save(step, new, touch=touch)
        return None

    @property
    def _label_router(self) -> Router | None:
        """The client's: the rows of a run have their model, so that the session has no router of its own."""
        return self._row.run.config.client.router

    @property
    def _unread_labels(self) -> UnreadLabels:
        """The run refuses labels that neither its policy nor its router reads."""
        return "read"


class _RowTransports:
    """Stands in for the transports of a session: it sends as the run does, and the run decides about retries."""

    def __init__(self, row: Row) -> None:
        self._row = row

    def get(self, adapter: Adapter) -> "_RowTransports":
        return self

    def new_retries(self, adapter: Adapter) -> RowRetries:
        self._row.retries.restart()
        return self._row.retries

    async def send(self, adapter: Adapter, request: WireRequest, *, retries: RowRetries) -> WireResponse:
        return await self._row.send(request)
