"""All laws of the kit, by chapter, in the order in which they run."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum

from dragoman.adapter.errors import MissingExtraError
from dragoman.testing.conformance.laws import capabilities, contract, costs, errors, ids, replies, swaps
from dragoman.testing.conformance.subject import NotTriedError, Subject
from dragoman.testing.stream_laws import Trial, Verdict

Check = Callable[[Subject], Iterator[Trial]]
"""Tries a law on a subject. Raises NotTriedError if the law does not apply."""


class Mark(StrEnum):
    """The result of a law for one adapter."""

    HOLDS = "holds"
    BROKEN = "broken"
    NOT_TRIED = "not tried"


@dataclass(frozen=True, slots=True)
class Law:
    """One law of the kit. ``name`` is unique in its ``chapter``. The statement is the docstring of its check."""

    chapter: str
    name: str
    check: Check
    """The function that tries the law on a `Subject`."""

    @property
    def statement(self) -> str:
        """The law as one sentence or more."""
        return " ".join((self.check.__doc__ or "").split())

    def __str__(self) -> str:
        return f"{self.chapter}: {self.name}"

    def run(self, subject: Subject) -> "LawResult":
        """Try the law. An exception of the adapter is a fault; only MissingExtraError (no Hypothesis) is raised."""
        found = Verdict(self.name)
        try:
            for trial in self.check(subject):
                found.count(trial)
        except NotTriedError as reason:
            if not found.tried:
                return LawResult(self, found, str(reason))
        except MissingExtraError:
            raise
        except Exception as error:
            found.count(Trial("the law", (f"{type(error).__name__} was raised: {error}",)))
        return LawResult(self, found, "" if found.tried else "nothing applies")


@dataclass(frozen=True, slots=True)
class LawResult:
    """The result of one law for one adapter. ``verdict`` has the number of trials and the first faults. ``skip_reason``
    explains why there were no trials."""

    law: Law
    """The law that was tried."""
    verdict: Verdict
    skip_reason: str = ""

    @property
    def mark(self) -> Mark:
        """Whether the law is broken, holds or was not tried."""
        if self.verdict.failed:
            return Mark.BROKEN
        return Mark.HOLDS if self.verdict.tried else Mark.NOT_TRIED


_CHAPTERS: dict[str, dict[str, Check]] = {
    "contract": {
        "declares itself": contract.declares_itself,
        "is found by its name": contract.is_registered_by_name,
        "writes a request": contract.writes_a_request,
        "leaves the history alone": contract.leaves_the_history_unchanged,
        "is the same elsewhere": contract.is_deterministic_across_processes,
        "reads what it wrote": contract.request_round_trips,
        "refuses what is not a request": contract.refuses_invalid_requests,
        "names what it does not ask": contract.reports_unsent_options,
        "asks for what was wanted": contract.options_come_back,
        "names an option of tomorrow": contract.reports_unknown_options,
        "asks for nothing by itself": contract.sends_no_default_options,
        "lets the caller speak the wire": contract.passes_extra_and_headers,
        "never loses what is critical": contract.never_loses_critical_content,
        "keeps to its context": replies.uses_its_context,
    },
    "capabilities": {
        "tools": capabilities.tools,
        "forced tool choice": capabilities.forced_tool_choice,
        "parallel calls": capabilities.parallel_calls,
        "streaming": capabilities.streaming,
        "calls in streams": capabilities.calls_in_streams,
        "system prompt": capabilities.system_prompt,
        "instructions": capabilities.instructions_keep_their_order,
        "developer role": capabilities.developer_role,
        "system later on": capabilities.mid_conversation_system,
        "last word": capabilities.prefill,
        "channels": capabilities.channels,
        "own thinking": capabilities.own_thinking,
        "foreign thinking": capabilities.foreign_thinking,
        "thinking in replies": capabilities.thinking_in_replies,
        "structured output": capabilities.structured_output,
        "prompt caching": capabilities.prompt_caching,
        "sampling": capabilities.sampling,
        "stop sequences": capabilities.stop_sequences,
        "images": capabilities.images,
        "audio": capabilities.audio,
        "video": capabilities.video,
        "documents": capabilities.documents,
        "media by URL": capabilities.media_by_url,
        "media in answers": capabilities.media_in_answers,
    },
    "framing": {
        "chunks": replies.chunks,
        "caps": replies.caps,
        "broken characters": replies.broken_characters,
    },
    "streams": {
        "says what was said": replies.decodes_what_was_sent,
        "keeps what is unknown": replies.keeps_what_is_unknown,
        **replies.STREAM_LAWS,
    },
    "swap": {
        "what changes is a loss": swaps.changes_are_losses,
        "no loss for nothing": swaps.warnings_mean_changes,
        "names whose loss it is": swaps.losses_name_their_message,
        "a longer history only appends": swaps.requests_only_grow,
        "what is kept does not show": swaps.cached_state_is_invisible,
    },
    "ids": {
        "answers name their calls": ids.results_match_calls,
        "ids are legal": ids.ids_are_legal,
        "ids never change": ids.ids_never_change,
        "the issuer gets its own ids": ids.issuer_ids_round_trip,
    },
    "costs": {
        "counts": costs.counts,
        "prices": costs.prices,
        "unknown prices": costs.unknown_prices,
        "missing counts": costs.missing_counts,
        "broken replies": costs.broken_replies,
        "estimates": costs.estimates,
    },
    "errors": {
        "statuses": errors.statuses,
        "garbage": errors.garbage,
        "secrets": errors.secrets,
        "waits": errors.retry_after,
        "replies raise": errors.replies_raise,
        "failures of the wire": errors.documented_failures,
    },
}

LAWS = tuple(Law(chapter, name, check) for chapter, laws in _CHAPTERS.items() for name, check in laws.items())
"""All laws of the kit, chapter by chapter."""
