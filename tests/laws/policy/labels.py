"""A label stays through any course of events until one audit record says that it was removed.

`python -m tests.laws.policy.labels` runs three machines 2,000 times of 50 steps each: this one, on extensions only,
that of `session_labels`, on whole sessions with their stores, and that of `travelling_labels`, through formats, files,
bulk runs and batches. `--runs` sets another number. The exit status is 1 if a label was lost.
"""

import argparse
import copy
import logging
import pickle
import sys
import time
import traceback
from typing import Any

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from dragoman.policy import (
    Capability,
    Declassification,
    DeclassificationError,
    Extensions,
    HttpExtension,
    SecurityExtension,
    TierViolation,
)
from dragoman.policy.extensions import RequestExtension, filter_extensions, merge_extensions
from dragoman.policy.labels import declassify, inherit_labels, labels_of, with_labels

RUNS, STEPS = 2_000, 50

words = st.sampled_from(["PII", "SECRET", "FINANCIAL", "pii", "", "ä"])
label_sets = st.frozensets(words, max_size=3)
capability_sets = st.frozensets(st.sampled_from(list(Capability)), max_size=4)
securities = st.none() | st.builds(SecurityExtension, labels=label_sets)
returned_extensions = st.builds(
    Extensions,
    security=securities,
    custom=st.none() | st.just({"a": 1}),
    http=st.none() | st.just(HttpExtension(headers={"a": "b"})),
    request=st.none() | st.just(RequestExtension(request_id="r")),
)
removers = capability_sets | capability_sets.map(lambda names: names | {Capability.DECLASSIFY_LABELS})
audits = st.sampled_from(["kept", "failing"])


class Labels(RuleBasedStateMachine):
    """Two messages' extensions, their required labels, and the records."""

    def __init__(self) -> None:
        super().__init__()
        self.one: Extensions | None = None
        self.other: Extensions | None = None
        self.due: set[str] = set()
        self.due_other: set[str] = set()
        self.records: list[Declassification] = []
        self.expected_records = 0

    @initialize(labels=label_sets)
    def begin(self, labels: frozenset[str]) -> None:
        self.one = with_labels(None, labels)
        self.due = set(labels)

    @rule(labels=label_sets)
    def add(self, labels: frozenset[str]) -> None:
        self.one = with_labels(self.one, labels)
        self.due |= labels

    @rule(returned=st.none() | returned_extensions, names=capability_sets, may_write=st.booleans())
    def plugin_returns_anything(self, returned: Extensions | None, names: frozenset[Any], may_write: bool) -> None:
        before = labels_of(self.one)
        try:
            self.one = merge_extensions(self.one, returned, names, may_write=may_write)
        except TierViolation:
            assert labels_of(self.one) == before
        self.due |= labels_of(self.one) - before
        assert returned is None or labels_of(self.one) <= before | labels_of(returned)

    @rule(names=capability_sets, security=securities)
    def plugin_changes_its_copy(self, names: frozenset[Any], security: SecurityExtension | None) -> None:
        shown = filter_extensions(self.one, names)
        if shown is not None:
            object.__setattr__(shown, "security", security)
            self.plugin_returns_anything(shown, names, may_write=True)

    @rule()
    def derive_from_both(self) -> None:
        """A summary, or a tool's answer that goes into the next message."""
        self.other = inherit_labels(None, self.other, self.one)
        self.due_other |= self.due

    @rule()
    def swap(self) -> None:
        self.one, self.other = self.other, self.one
        self.due, self.due_other = self.due_other, self.due

    @rule()
    def store_and_read_again(self) -> None:
        if self.one is not None:
            again = Extensions.model_validate_json(self.one.model_dump_json())
            self.one = copy.deepcopy(pickle.loads(pickle.dumps(again)))

    @rule(labels=label_sets, names=removers, audit=audits)
    def remove(self, labels: frozenset[str], names: frozenset[Any], audit: str) -> None:
        def failing(_: Declassification) -> None:
            raise OSError

        before = self.one = self.one or Extensions()
        try:
            self.one = declassify(
                before, labels, capabilities=names, actor="officer", reason="published",
                audit=self.records.append if audit == "kept" else failing,
            )  # fmt: skip
        except (DeclassificationError, OSError):
            return
        removed = self.due & labels
        assert Capability.DECLASSIFY_LABELS in names
        self.due -= labels
        if removed:
            self.expected_records += 1
            assert set(self.records[-1].labels) == removed

    @invariant()
    def nothing_is_lost(self) -> None:
        assert labels_of(self.one) == self.due
        assert labels_of(self.other) == self.due_other
        assert len(self.records) == self.expected_records


def run(machine: type[RuleBasedStateMachine], runs: int, steps: int = STEPS) -> None:
    """Raises AssertionError if the law is broken."""
    how = settings(
        max_examples=runs,
        stateful_step_count=steps,
        deadline=None,
        database=None,
        derandomize=True,
        suppress_health_check=list(HealthCheck),
    )
    run_state_machine_as_test(machine, settings=how)


def main() -> int:
    from tests.laws.policy.session_labels import SessionLabels
    from tests.laws.policy.travelling_labels import TravellingLabels

    parser = argparse.ArgumentParser(prog="python -m tests.laws.policy.labels", description=__doc__)
    parser.add_argument("--runs", type=int, default=RUNS)
    runs = parser.parse_args().runs
    logging.disable(logging.CRITICAL)  # failing plugins are expected here
    print("| machine | runs | steps | seconds | labels lost |\n| --- | --- | --- | --- | --- |")
    lost = False
    for machine in (Labels, SessionLabels, TravellingLabels):
        begun, outcome = time.perf_counter(), "none"
        try:
            run(machine, runs)
        except AssertionError:
            lost, outcome = True, "some"
            traceback.print_exc()
        print(
            f"| {machine.__name__} | {runs:,} | {STEPS} | {time.perf_counter() - begun:.0f} | {outcome} |", flush=True
        )
    return 1 if lost else 0


if __name__ == "__main__":
    sys.exit(main())
