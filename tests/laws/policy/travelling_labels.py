"""Labels that travel: through sessions, formats, files, stores, bulk runs and batches, in any order.

`python -m tests.laws.policy.labels` runs 2,000 programs of 50 steps.
"""

import json
import tempfile
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from typing import Any

import httpx
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from dragoman import Client
from dragoman.adapter.contract import AdapterOptions
from dragoman.adapter.losses import LossKind
from dragoman.adapter.registry import get_adapter
from dragoman.batch.handle import BatchEntry
from dragoman.batch.requests import PreparedRequest
from dragoman.bulk import bulk
from dragoman.canonical.extensions.message_labels import labels_of_messages
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.effects import drive as run_steps
from dragoman.formats import (
    from_acp,
    from_chatml,
    from_cmf,
    from_langchain,
    from_litellm,
    from_messages,
    from_native,
    from_pydantic_ai,
    from_umf,
    to_acp,
    to_chatml,
    to_cmf,
    to_langchain,
    to_litellm,
    to_messages,
    to_native,
    to_pydantic_ai,
    to_umf,
)
from dragoman.formats.results import read_sidecar, sidecar_path, write_sidecar
from dragoman.policy import Pipeline
from dragoman.session import Session
from dragoman.session.judge import Judge
from dragoman.store import Store
from tests.laws.policy.session_labels import LABELS, LabelPlugin, words

MODEL = "anthropic:claude-opus-5-5"
REPLY = {
    "id": "msg_1", "type": "message", "role": "assistant", "model": "claude-opus-5-5", "stop_reason": "end_turn",
    "stop_sequence": None, "usage": {"input_tokens": 1, "output_tokens": 1},
}  # fmt: skip

Formats = dict[str, tuple[Callable[[Sequence[Message]], Any], Callable[[Any], Any]]]
WITH_ROOM: Formats = {
    "messages": (to_messages, from_messages),
    "cmf": (to_cmf, from_cmf),
    "umf": (to_umf, from_umf),
}
WITHOUT_ROOM: Formats = {
    "acp": (to_acp, from_acp),
    "chatml": (to_chatml, from_chatml),
    "langchain": (to_langchain, from_langchain),
    "litellm": (to_litellm, from_litellm),
    "pydantic_ai": (to_pydantic_ai, from_pydantic_ai),
    "anthropic": (lambda messages: to_native("anthropic", messages), lambda data: from_native("anthropic", data)),
    "openai": (lambda messages: to_native("openai", messages), lambda data: from_native("openai", data)),
}
LONGEST = 6


@cache
def _store() -> Store:
    """The store of all programs: each session has an id of its own, and a new store takes longer than a session."""
    return Store("sqlite://")


@cache
def _other_store() -> Store:
    """The store that lines are read into."""
    return Store("sqlite://")


label_sets = st.frozensets(st.sampled_from(LABELS), max_size=2)


class TravellingLabels(RuleBasedStateMachine):
    """One conversation outside of any session, and the labels that it must have."""

    def __init__(self) -> None:
        super().__init__()
        self.messages: tuple[Message, ...] = ()
        self.due: frozenset[str] = frozenset()
        self.answer = "hello"
        policy, store = Pipeline([LabelPlugin()], grants=["declassify_labels"]), _store()
        self.client = Client(policy=policy, store=store, providers={"anthropic": self._settings(httpx.Client)})
        self.bulk_client = Client(
            policy=policy, store=store, providers={"anthropic": self._settings(httpx.AsyncClient)}
        )

    def _settings(self, kind: Any) -> dict[str, Any]:
        return {"client": kind(transport=httpx.MockTransport(self._respond)), "api_key": "none"}

    def _respond(self, _: httpx.Request) -> httpx.Response:
        return httpx.Response(200, json={**REPLY, "content": [{"type": "text", "text": self.answer}]})

    def teardown(self) -> None:
        self.client.close()
        self.bulk_client.close()

    def _go_on(self, messages: Sequence[Message], *texts: str) -> None:
        """Take the conversation from here; ``texts`` are those that a plugin has labelled."""
        self.messages = tuple(message.model_copy(update={"session_id": ""}) for message in messages)
        self.due |= {text.partition(":")[2] for text in texts if ":" in text}

    @rule(labels=label_sets)
    def write(self, labels: frozenset[str]) -> None:
        """Somebody writes a message, and labels it. A long conversation begins again with its last message."""
        if len(self.messages) > LONGEST:
            self.messages = self.messages[-1:]
            self.due = labels_of_messages(self.messages)
        message = Message.user("Hm.", metadata=MessageMetadata(labels=labels or None))
        self._go_on((*self.messages, message))
        self.due |= labels

    @rule(
        prompt=words,
        answer=words,
        labels=label_sets,
        stored=st.sampled_from(["dump", "store", "fork", "lines", "none"]),
    )
    def ask(self, prompt: str, answer: str, labels: frozenset[str], stored: str) -> None:
        """A turn of a session that starts from the conversation, and is stored or not."""
        self.answer = answer
        session = self.client.session(MODEL, messages=self.messages, labels=labels)
        session.ask(prompt)
        self.due |= labels
        self._go_on(self._keep(session, stored), prompt, answer)

    def _keep(self, session: Session, stored: str) -> tuple[Message, ...]:
        store: Any = self.client.config.store
        match stored:
            case "dump":
                return self.client.load(session.dump(), model=MODEL).messages
            case "store":
                return self.client.resume(session.session_id, model=MODEL).messages
            case "fork":
                return self.client.resume(store.fork(session.session_id).id, model=MODEL).messages
            case "lines":
                other = _other_store()
                return other.load(other.import_lines([*store.export(session.session_id)]).id).messages
        return session.messages

    @precondition(lambda self: self.messages)
    @rule(name=st.sampled_from(sorted(WITH_ROOM)))
    def convert(self, name: str) -> None:
        write, read = WITH_ROOM[name]
        written = write(self.messages)
        assert LossKind.LABELS not in {loss.kind for loss in written.losses}
        self._go_on(read(json.dumps(written.data)))

    @precondition(lambda self: self.messages)
    @rule(name=st.sampled_from(sorted(WITHOUT_ROOM)))
    def convert_without_room(self, name: str) -> None:
        """The loss is named, and the labels are in a file beside the document."""
        write, read = WITHOUT_ROOM[name]
        written = write(self.messages)
        assert written.labels == self.due
        assert (LossKind.LABELS in {loss.kind for loss in written.losses}) is bool(self.due)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "document"
            if written.labels:
                sidecar_path(path).write_bytes(write_sidecar(written.labels))
            self._go_on(read_sidecar(path, list(read(written.data))))

    @rule(prompt=words, answer=words)
    def bulk(self, prompt: str, answer: str) -> None:
        """A row with the labels, whose session is in the store."""
        self.answer = answer
        store: Any = self.client.config.store
        before = {each.id for each in store.list().sessions}
        row = {"prompt": prompt, "labels": sorted(self.due)}
        with bulk([row], MODEL, labels="labels", client=self.bulk_client) as report:
            assert [each["error"] for each in report] == [None]
        (session_id,) = {each.id for each in store.list().sessions} - before
        self._go_on(self.client.resume(session_id, model=MODEL).messages, prompt, answer)

    @rule(prompt=words, answer=words, labels=label_sets)
    def batch(self, prompt: str, answer: str, labels: frozenset[str]) -> None:
        """A request of a batch: its entry keeps the labels until the answer comes."""
        judge = Judge(self.client.config, get_adapter(MODEL))
        messages = (*self.messages, Message.user(prompt))
        request = PreparedRequest(
            custom_id="a", wire_id="a", session_id="s", messages=messages, tools=(), options=AdapterOptions(),
            labels=labels | labels_of_messages(messages),
        )  # fmt: skip
        judged = run_steps(judge.prompt(request))
        entry = BatchEntry(custom_id="a", wire_id="a", session_id="s", labels=tuple(sorted(judged.labels)))
        entry = BatchEntry.model_validate_json(entry.model_dump_json())
        reply = run_steps(judge.reply(entry.session_id, entry.labels, Message.assistant(answer)))
        self.due |= labels
        self._go_on((*judged.messages, reply), prompt, answer)

    @precondition(lambda self: self.messages)
    @rule(labels=label_sets)
    def declassify(self, labels: frozenset[str]) -> None:
        """An officer removes labels from a session that has the conversation; texts that would label it stay out."""
        plain = [message for message in self.messages if "label:" not in message.text]
        if labels_of_messages(plain) != self.due:
            return
        session = self.client.session(MODEL, messages=plain)
        record = session.declassify(labels, actor="officer", reason="published")
        assert frozenset(() if record is None else record.labels) == self.due & labels
        self.due -= labels
        self._go_on(session.messages)

    @invariant()
    def nothing_is_lost(self) -> None:
        assert labels_of_messages(self.messages) == self.due
