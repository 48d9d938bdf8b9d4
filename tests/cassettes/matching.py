"""Recorded requests, rewritten with the same meaning, and with one character changed: the first must hit, the second
must miss. `python -m tests.cassettes.matching [COUNT] [SEED]` prints both by provider.
"""

import json
import random
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from copy import deepcopy
from typing import Any

from dragoman.testing.cassettes.exchange import Exchange, RecordedRequest, RecordedResponse
from dragoman.testing.cassettes.replay import Cassette, CassetteMissError
from tests import exchanges

COUNT = 2_000
PROVIDERS = (
    "anthropic", "openai-chat", "openai-responses", "google", "bedrock", "openrouter", "mistral", "cohere", "groq",
    "deepseek", "xai", "azure-openai", "openai-compatible", "ollama", "google-vertex", "anthropic-vertex",
    "huggingface",
)  # fmt: skip

IDS = frozenset(
    {"id", "call_id", "tool_call_id", "tool_use_id", "toolUseId", "item_id", "previous_response_id", "conversation",
     "previous_interaction_id"}
)  # fmt: skip
HINTS = frozenset({"cache_control", "cachePoint", "prompt_cache_key", "prompt_cache_retention", "prompt_cache_options"})
OWN = frozenset(
    {"input", "arguments", "args", "properties", "parameters", "input_schema", "schema", "json", "response"}
)

Body = dict[str, Any]
Rewrite = Callable[[Body, random.Random, str], Body]


def recorded_requests(provider: str) -> list[exchanges.RecordedExchange]:
    return [each for each in exchanges.load(provider) if isinstance(each.request, dict) and each.request]


def request(exchange: exchanges.RecordedExchange, body: bytes) -> RecordedRequest:
    return RecordedRequest(exchange.method, exchange.url_path, body)


def cassette(request: RecordedRequest) -> Cassette:
    return Cassette("recorded", [Exchange(request, RecordedResponse(200, b"{}"))])


def hits(recorded_request: RecordedRequest, wanted: RecordedRequest) -> bool:
    try:
        cassette(recorded_request).play(wanted)
    except CassetteMissError:
        return False
    return True


def reorder_keys(value: Any, rng: random.Random) -> Any:
    """Reorders the keys of every object."""
    if isinstance(value, dict):
        pairs = [(key, reorder_keys(each, rng)) for key, each in value.items()]
        rng.shuffle(pairs)
        return dict(pairs)
    return [reorder_keys(each, rng) for each in value] if isinstance(value, list) else value


def replace_ids(body: Body, rng: random.Random, _: str) -> Body:
    """Replaces every generated id consistently."""
    names: dict[str, str] = {}

    def named(value: Any, key: str | None = None) -> Any:
        if isinstance(value, dict):
            return {k: v if is_caller_data(k, v) else named(v, k) for k, v in value.items()}
        if isinstance(value, list):
            return [named(each) for each in value]
        if key in IDS and isinstance(value, str) and value:
            prefix = re.match(r"[a-z]*_?", value)
            assert prefix
            return names.setdefault(value, f"{prefix[0]}{rng.getrandbits(96):024x}")
        return value

    made: Body = named(body)
    return made


def remove_cache_hints(body: Body, _: random.Random, __: str) -> Body:
    """Removes all cache hints."""

    def bare(value: Any) -> Any:
        if isinstance(value, dict):
            return {k: v if is_caller_data(k, v) else bare(v) for k, v in value.items() if k not in HINTS}
        if isinstance(value, list):
            return [each for each in map(bare, value) if each != {}]
        return value

    made: Body = bare(body)
    return made


def add_cache_hint(body: Body, rng: random.Random, provider: str) -> Body:
    """Adds a cache hint."""
    if provider == "anthropic" and isinstance(body.get("messages"), list):
        for message in body["messages"]:
            content = message.get("content")
            if isinstance(content, list) and content and content[-1].get("type") in ("text", "tool_result", "image"):
                content[-1]["cache_control"] = {"type": "ephemeral", "ttl": rng.choice(("5m", "1h"))}
                return body
    if provider in ("openai-chat", "openai-responses"):
        body["prompt_cache_key"] = f"key-{rng.random()}"
    return body


def rewrite_parts(body: Body, rng: random.Random, provider: str) -> Body:
    """Rewrites a text as a list of one part, or the other way round."""
    kind = "text" if "messages" in body else "input_text"
    turns = body.get("messages") if "messages" in body else body.get("input")
    if provider in ("ollama", "bedrock", "cohere", "mistral") or not isinstance(turns, list):
        return body
    for turn in turns:
        if turn.get("role") == "user" and rng.random() < 0.7:
            content = turn.get("content")
            if isinstance(content, str) and content:
                turn["content"] = [{"type": kind, "text": content}]
            elif (
                isinstance(content, list)
                and len(content) == 1
                and content[0].get("type") == kind
                and len(content[0]) == 2
            ):
                turn["content"] = content[0]["text"]
    return body


def rewrite_numbers(body: Body, _: random.Random, __: str) -> Body:
    """Writes 1.0 for 1, and 1 for 1.0."""
    for key in ("temperature", "top_p", "presence_penalty"):
        value = body.get(key)
        if isinstance(value, (int, float)) and not isinstance(value, bool) and float(value).is_integer():
            body[key] = float(value) if isinstance(value, int) else int(value)
    return body


def add_nulls(body: Body, _: random.Random, provider: str) -> Body:
    """Adds a null for an absent field, and `stream` with its default value."""
    if provider in ("openai-chat", "groq", "deepseek", "openai-responses", "openrouter"):
        body.setdefault("user", None)
    if provider in ("anthropic", "openai-chat", "openai-responses", "groq", "cohere") and body.get("stream") is None:
        body["stream"] = False
    return body


def respace_arguments(body: Body, rng: random.Random, _: str) -> Body:
    """Changes the white space of tool arguments that are JSON text."""
    for turn in body.get("messages", []):
        for call in turn.get("tool_calls") or () if isinstance(turn, dict) else ():
            function = call.get("function", {})
            try:
                value = json.loads(function["arguments"])
            except (KeyError, TypeError, ValueError):
                continue
            if isinstance(value, dict):
                function["arguments"] = json.dumps(reorder_keys(value, rng), separators=(" , ", " : "))
    return body


REWRITES: tuple[Rewrite, ...] = (
    replace_ids,
    remove_cache_hints,
    add_cache_hint,
    rewrite_parts,
    rewrite_numbers,
    add_nulls,
    respace_arguments,
)


def rewrite(exchange: exchanges.RecordedExchange, rng: random.Random) -> bytes:
    """The request in another spelling: always other keys and white space, and some of the rewrites."""
    body = deepcopy(exchange.request)
    for rewrite in rng.sample(REWRITES, rng.randint(1, len(REWRITES))):
        body = rewrite(body, rng, exchange.provider)
    text = json.dumps(
        reorder_keys(body, rng), ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, 1, 4)), separators=(",", ":")
    )
    return text.encode("utf-8", "surrogatepass")


def is_caller_data(key: str, value: Any) -> bool:
    """Whether that place belongs to the caller's own data; in Responses, `input` is the list of messages."""
    return key in OWN and not isinstance(value, list)


def texts(value: Any, path: tuple[str | int, ...] = (), within: bool = False) -> Iterator[tuple[str | int, ...]]:
    """The places of all texts that count; ``within`` the caller's own data, all texts do."""
    if isinstance(value, dict):
        for key, each in value.items():
            if within or (key not in HINTS and not (key in IDS and isinstance(each, str))):
                yield from texts(each, (*path, key), within or is_caller_data(key, each))
    elif isinstance(value, list):
        for number, each in enumerate(value):
            yield from texts(each, (*path, number), within)
    elif isinstance(value, str) and value:
        yield path


def edit_one_character(
    exchange: exchanges.RecordedExchange, rng: random.Random
) -> tuple[bytes, tuple[str | int, ...]] | None:
    """The request with one character changed, added or removed in one text, and the place; None if it has no text."""
    body = deepcopy(exchange.request)
    places = list(texts(body))
    if not places:
        return None
    place = rng.choice(places)
    holder: Any = body
    for step in place[:-1]:
        holder = holder[step]
    text = holder[place[-1]]
    at = rng.randrange(len(text))
    other = rng.choice([c for c in "aZ7.é " if c != text[at]])
    holder[place[-1]] = text[:at] + rng.choice((other, other + text[at], "" if text[1:] else other)) + text[at + 1 :]
    return json.dumps(body).encode("utf-8", "surrogatepass"), place


def spelling(text: str) -> Any:
    """A text of JSON by its meaning: white space in a tool's arguments is not a character of a prompt."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def means_the_same(exchange: exchanges.RecordedExchange, body: bytes, place: tuple[str | int, ...]) -> bool:
    """Whether the edit changed only the spelling of arguments, such as their white space."""
    before, after = exchange.request, json.loads(body)
    for step in place:
        before, after = before[step], after[step]
    parsed = spelling(before)
    return place[-1] == "arguments" and isinstance(parsed, dict) and bool(parsed == spelling(after))


def trial(count: int, seed: int) -> Iterator[tuple[str, str, bool, str]]:
    """Yield (provider, rewrite or edit, whether the result was right, description) for that many of each kind."""
    rng = random.Random(seed)
    stock = {provider: recorded_requests(provider) for provider in PROVIDERS}
    done: Counter[str] = Counter()
    while min(done["rewrite"], done["edit"]) < count:
        provider = rng.choice(PROVIDERS)
        exchange = rng.choice(stock[provider])
        tape = request(exchange, json.dumps(exchange.request).encode("utf-8", "surrogatepass"))
        if done["rewrite"] < count:
            done["rewrite"] += 1
            body = rewrite(exchange, rng)
            yield provider, "rewrite", hits(tape, request(exchange, body)), exchange.id
        if done["edit"] < count and (edit := edit_one_character(exchange, rng)) and not means_the_same(exchange, *edit):
            done["edit"] += 1
            body, place = edit
            yield provider, "edit", not hits(tape, request(exchange, body)), f"{exchange.id} {place}"


def main(count: int = COUNT, seed: int = 1) -> int:
    right: Counter[tuple[str, str]] = Counter()
    tried: Counter[tuple[str, str]] = Counter()
    wrong = []
    for provider, kind, as_it_must, what in trial(count, seed):
        tried[provider, kind] += 1
        right[provider, kind] += as_it_must
        if not as_it_must:
            wrong.append(f"{kind} {provider} {what}")
    print(f"{'':20}{'rewrites that hit':>20}{'edits that miss':>20}")
    for provider in (*PROVIDERS, "in all"):
        row = [
            f"{sum(n for (p, k), n in counts.items() if k == kind and provider in (p, 'in all'))}"
            for kind in ("rewrite", "edit")
            for counts in (right, tried)
        ]
        print(f"{provider:20}{row[0] + ' of ' + row[1]:>20}{row[2] + ' of ' + row[3]:>20}")
    print("\n".join(wrong[:40]))
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(*map(int, sys.argv[1:])))
