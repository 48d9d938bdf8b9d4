"""All laws of the kit, by chapter, in the order in which they are tried."""

from dragoman.testing.conformance import capabilities, contract, costs, errors, ids, media, replies, swaps
from dragoman.testing.conformance.law import Check, Law

_CHAPTERS: dict[str, dict[str, Check]] = {
    "contract": {
        "declares itself": contract.declares_itself,
        "is found by its name": contract.is_found_by_its_name,
        "writes a request": contract.writes_a_request,
        "leaves the history alone": contract.leaves_the_history_alone,
        "is the same elsewhere": contract.is_the_same_elsewhere,
        "reads what it wrote": contract.reads_what_it_wrote,
        "refuses what is no request": contract.refuses_what_is_no_request,
        "names what it does not ask": contract.names_what_it_does_not_ask,
        "asks for nothing by itself": contract.asks_for_nothing_by_itself,
        "lets the caller speak the wire": contract.lets_the_caller_speak_the_wire,
        "never loses what is critical": contract.never_loses_what_is_critical,
        "keeps to its context": replies.keeps_to_its_context,
    },
    "capabilities": {
        "tools": capabilities.tools,
        "forced tool choice": capabilities.forced_tool_choice,
        "parallel calls": capabilities.parallel_calls,
        "streaming": capabilities.streaming,
        "calls in streams": capabilities.calls_in_streams,
        "system prompt": capabilities.system_prompt,
        "developer role": capabilities.developer_role,
        "system later on": capabilities.system_later_on,
        "last word": capabilities.last_word,
        "channels": capabilities.channels,
        "own thinking": capabilities.own_thinking,
        "foreign thinking": capabilities.foreign_thinking,
        "thinking in replies": capabilities.thinking_in_replies,
        "structured output": capabilities.structured_output,
        "prompt caching": capabilities.prompt_caching,
        "sampling": capabilities.sampling,
        "stop sequences": capabilities.stop_sequences,
        "images": media.images,
        "audio": media.audio,
        "video": media.video,
        "documents": media.documents,
        "media by URL": media.media_by_url,
        "media in answers": media.media_in_answers,
    },
    "framing": {
        "chunks": replies.chunks,
        "caps": replies.caps,
        "broken characters": replies.broken_characters,
    },
    "streams": {"says what was said": replies.says_what_was_said, **replies.STREAM_LAWS},
    "swap": {
        "what changes is a loss": swaps.what_changes_is_a_loss,
        "no loss for nothing": swaps.no_loss_for_nothing,
        "names whose loss it is": swaps.names_whose_loss_it_is,
        "a longer history only appends": swaps.a_longer_history_only_appends,
        "what is kept does not show": swaps.what_is_kept_does_not_show,
    },
    "ids": {
        "answers name their calls": ids.answers_name_their_calls,
        "ids are legal": ids.ids_are_legal,
        "ids never change": ids.ids_never_change,
        "the issuer gets its own ids": ids.the_issuer_gets_its_own_ids,
    },
    "costs": {
        "counts": costs.counts,
        "prices": costs.prices,
        "unknown prices": costs.unknown_prices,
        "broken replies": costs.broken_replies,
        "estimates": costs.estimates,
    },
    "errors": {
        "statuses": errors.statuses,
        "garbage": errors.garbage,
        "secrets": errors.secrets,
        "waits": errors.waits,
        "replies raise": errors.replies_raise,
        "failures of the wire": errors.failures_of_the_wire,
    },
}

LAWS = tuple(Law(chapter, name, check) for chapter, laws in _CHAPTERS.items() for name, check in laws.items())
