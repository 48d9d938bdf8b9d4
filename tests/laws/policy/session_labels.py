"""Labels in sessions: labels of plugins and data policies stay, whatever happens to the session."""

from contextlib import suppress
from functools import partial
from typing import Any

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from dragoman.adapter.errors import CompactionError, ProviderError
from dragoman.policy import (
    Capability,
    CheckResult,
    DataPolicy,
    Declassification,
    Extensions,
    Hook,
    Pipeline,
    Plugin,
    PluginResult,
    PolicyDeniedError,
    SecurityExtension,
    Step,
)
from dragoman.policy.labels import labels_of, with_labels
from dragoman.session import Session, tool
from dragoman.store import SessionNotFoundError, Store
from tests.unit.session.drivers import ANTHROPIC, OLLAMA, SyncDriver, Wire
from tests.unit.session.handwritten_replies import Call, Part, Reply, handwritten_anthropic, handwritten_ollama

LABELS = ("PII", "SECRET", "EU")
TOOL_LABEL = "FINANCIAL"

words = st.sampled_from(["hello", *(f"label:{label}" for label in LABELS)])
drop_modes = st.sampled_from(["nothing", "no security", "an empty security", "custom alone", "fewer labels"])
models = st.sampled_from([ANTHROPIC, OLLAMA])


@tool(side_effects="none")
def look() -> str:
    """Looks at what the data policy labels."""
    return "42"


class LabelPlugin(Plugin):
    """Labels text with ``label:X`` with X."""

    name = "labelling"
    hooks = tuple(Hook)

    def check(self, step: Step) -> CheckResult:
        texts = " ".join(view.content for view in step.views() if view.content)
        found = {label for label in LABELS if f"label:{label}" in texts}
        return with_labels(step.extensions, found) if found else None


class LabelDroppingPlugin(Plugin):
    """Returns extensions without some of what it received; the machine sets ``how``."""

    name = "careless"
    hooks = tuple(Hook)
    capabilities = (Capability.READ_LABELS, Capability.APPEND_LABELS, Capability.DECLASSIFY_LABELS)
    how = "nothing"

    def check(self, step: Step) -> CheckResult:
        shown = step.extensions
        match self.how:
            case "no security":
                return shown.model_copy(update={"security": None})
            case "an empty security":
                return PluginResult(extensions=Extensions(security=SecurityExtension()))
            case "custom alone":
                return PluginResult(extensions=Extensions(custom={"n": 1}))
            case "fewer labels":
                return shown.model_copy(update={"security": SecurityExtension(labels=frozenset())})
        return None


HOST = Extensions(security=SecurityExtension(data={"look": DataPolicy(apply_labels=[TOOL_LABEL])}))


class SessionLabels(RuleBasedStateMachine):
    """One conversation, its required labels, and the records of removed ones."""

    def __init__(self) -> None:
        super().__init__()
        self.store = Store("sqlite://")
        self.wires = {"anthropic": Wire([]), "ollama": Wire([])}
        self.drop_modes = LabelDroppingPlugin()
        self.due: set[str] = set()
        self.kept: set[str] = set()
        """Labels of the history: the texts of a failed turn are not in it."""
        self.in_store = True
        self.relabelled = False
        """Whether the next turn asks the plugins about a history that names labels, as the first one after a start."""
        self.spoke = False
        self.length = 0
        self.records: list[Declassification] = []
        self.declassified = 0
        self.session = self._new()

    def _new(self, **settings: Any) -> Session:
        self.extensions = settings.pop("extensions", HOST)
        given = {"store": self.store, **self._settings(), **settings}
        given.pop("session_id", None)
        made = SyncDriver().session(self.wires, session_id=None, new_id=self._new_id, **given)
        self._providers = made.providers
        return made

    _numbers = 0

    def _new_id(self) -> str:
        self._numbers += 1
        return f"id_{self._numbers}"

    def _settings(self) -> dict[str, Any]:
        return {
            "policy": Pipeline([LabelPlugin(), self.drop_modes], grants=[Capability.DECLASSIFY_LABELS]),
            "extensions": self.extensions,
            "tools": [look],
        }

    def teardown(self) -> None:
        self.session.close()
        self.store.close()

    def _expect_reply(self, *replies: list[Part] | Exception) -> None:
        for name, write in (("anthropic", handwritten_anthropic), ("ollama", handwritten_ollama)):
            wire = self.wires[name]
            scripted: list[Any] = [
                each if isinstance(each, Exception) else _write_reply(write, each) for each in replies
            ]
            wire.replies = [*([Exception()] * len(wire.requests)), *scripted]

    def _turn(self, prompt: str, *, streamed: bool, left: bool) -> bool:
        """Whether it ended well."""
        try:
            if streamed:
                SyncDriver().stream(self.session, prompt, until="text_delta" if left else None)
            else:
                self.session.ask(prompt)
        except (PolicyDeniedError, ProviderError):
            return False
        self.relabelled = False
        return True

    @rule(prompt=words, answered=words, called=st.booleans(), streamed=st.booleans(), left=st.booleans())
    def ask(self, prompt: str, answered: str, called: bool, streamed: bool, left: bool) -> None:
        """A turn: labels come from the prompt and the answer, and from the tool's data policy."""
        replies: list[list[Part]] = [["I look.", Call("call_1", "look")]] if called else []
        self._expect_reply(*replies, [answered])
        before = set(self.session.labels)
        if self._turn(prompt, streamed=streamed, left=left and streamed):
            expected = {TOOL_LABEL} if called else set()
            expected |= {text.partition(":")[2] for text in (prompt, answered) if ":" in text}
            seen = set(self.session.labels)
            assert seen <= before | expected
            assert left or seen == before | expected
        self._grow()

    @rule(prompt=words, streamed=st.booleans())
    def fail(self, prompt: str, streamed: bool) -> None:
        """A provider that is down: the prompt was still processed."""
        self._expect_reply(*[ConnectionError()] * 4)
        self._turn(prompt, streamed=streamed, left=False)
        self._grow()

    @rule(how=drop_modes, prompt=words)
    def drop_labels(self, how: str, prompt: str) -> None:
        """A plugin loses what it was shown, in one turn."""
        self.drop_modes.how = how
        self._expect_reply(["Fine."])
        bearing = bool(self.session.labels) or ":" in prompt
        ended = self._turn(prompt, streamed=False, left=False)
        refused = how in ("fewer labels", "an empty security")
        if bearing or not (refused and self.relabelled):  # a label that was declassified, given again and then dropped
            assert ended is not (bearing and refused)
        self.drop_modes.how = "nothing"
        self._grow()

    @rule(model=models)
    def swap(self, model: str) -> None:
        self.session.swap(model)

    @rule(keep_last=st.integers(0, 2))
    def compact(self, keep_last: int) -> None:
        self._expect_reply(["A summary."])
        with suppress(CompactionError, PolicyDeniedError, ProviderError):
            self.session.compact(keep_last=keep_last)
        self._grow()

    @rule()
    def dump_and_load(self) -> None:
        kept = self.session.dump()
        self.in_store = False
        session = Session.load(kept, providers=self._providers, new_id=self._new_id, **self._settings())
        assert session.labels <= self.due
        self._resume(session)

    @rule()
    def resume_from_the_store(self) -> None:
        """A turn is stored at its end; a session without one is not stored yet."""
        if not self.in_store:
            return
        try:
            found = Session.resume(
                self.session.session_id,
                self.store,
                providers=self._providers,
                new_id=self._new_id,
                **self._settings(),
            )
        except SessionNotFoundError:
            assert self.session.messages == () or not self.spoke
            return
        self._resume(found)

    def _resume(self, session: Session) -> None:
        """Failed turns are gone with a program. Without a message there is no place for a record: then the labels that
        the program itself sets apply again.
        """
        before, self.session = self.session, session
        before.close()
        self.relabelled = any("label:" in message.model_dump_json() for message in session.messages)
        initial_labels = frozenset() if session.messages else labels_of(self.extensions)
        assert self.kept <= session.labels <= self.due | initial_labels
        self.due = set(session.labels)

    @rule(labels=st.frozensets(st.sampled_from([*LABELS, TOOL_LABEL]), max_size=2))
    def split_off(self, labels: frozenset[str]) -> None:
        """Another session continues with the history and the labels, some of which an officer removes before."""
        self.declassify(labels)
        left = with_labels(HOST, self.session.labels)
        self.kept = set(self.due)
        messages = [message.model_copy(update={"session_id": ""}) for message in self.session.messages]
        # A text that names a label is not repeated, or it would be labelled again.
        history = [
            message for message in messages if "label:" not in message.model_dump_json() and not message.tool_uses
        ]
        plain = [message for message in history if message.role == "user"]
        self.session.close()
        self.in_store, self.spoke = True, False
        self.session = self._new(messages=plain, extensions=left)
        self.length = len(plain)

    @rule(labels=st.frozensets(st.sampled_from([*LABELS, TOOL_LABEL]), max_size=2), audit=st.booleans())
    def declassify(self, labels: frozenset[str], audit: bool = True) -> None:
        """An officer removes labels; if the record fails, they stay."""

        def failing(_: Declassification) -> None:
            raise OSError

        gone = self.due & labels
        try:
            record = self.session.declassify(
                labels, actor="officer", reason="published", audit=self.records.append if audit else failing
            )
        except OSError:
            return
        assert (set() if record is None else set(record.labels)) == gone
        self.declassified += bool(gone)
        self.due -= gone
        self.kept -= gone

    def _grow(self) -> None:
        """New labels are required from now on; if a message came with them, for good."""
        self.due |= self.session.labels
        if len(self.session.messages) > self.length:
            self.kept, self.length, self.spoke = set(self.due), len(self.session.messages), True

    @invariant()
    def nothing_is_lost(self) -> None:
        assert self.session.labels == self.due
        assert len(self.records) == self.declassified


def _write_reply(write: Any, parts: list[Part]) -> Reply:
    reply: Reply = partial(write)(*parts)
    return reply
