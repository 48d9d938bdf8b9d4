"""Redaction: every text of every part, the same way each time, and nothing else."""

import base64
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import ContentBlock, DocumentBlock, MediaSource, ToolResultBlock, UnknownBlock
from dragoman.canonical.message import Message
from dragoman.policy import Hook, SecurityExtension
from dragoman.policy.labels import labels_of
from dragoman.policy.pipeline import Pipeline
from dragoman.policy.plugins import Finder, Finding, Redaction, findings
from dragoman.policy.plugins.redaction import rewrite_block, rewrite_json
from tests.unit.canonical.message_view.test_view import VIEW_KINDS, block
from tests.unit.canonical.samples import BLOCKS

SECRET = "S3CRET"


def find_secret(text: str) -> Iterator[Finding]:
    """The word, with the digits after it."""
    return (Finding(*match.span(), "secret") for match in re.finditer(SECRET + r"\d{0,4}", text))


FINDER = Finder(find_secret, 10)


def redaction(**settings: Any) -> Redaction:
    return Redaction([FINDER], **settings)


def base64_of(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


CITED: dict[str, Any] = {"kind": "web", "title": SECRET, "cited_text": SECRET, "data": {"n": [SECRET]}}
INNER = Message.user(SECRET, session_id="s").model_dump(mode="json")
TEXT_FILE: dict[str, Any] = {"source": {"kind": "text", "data": SECRET}, "title": SECRET, "context": SECRET}

PARTS: list[ContentBlock] = [
    block("text", text=f"It is {SECRET}7.", citations=[CITED]),
    block("thinking", text=SECRET, signature=None),
    block("tool_use", input={"a": SECRET, "b": [{"c": SECRET}], SECRET: 1}),
    block("tool_use", input={}, raw_input='{"a": "' + SECRET),
    block("tool_result", content=[{"type": "text", "text": SECRET}, {"type": "document", **TEXT_FILE}]),
    block("resource", content=SECRET, description=SECRET, annotations={"a": {"b": SECRET}}, size_bytes=6),
    block("resource", content=None, blob=base64_of(SECRET), mime_type="text/csv"),
    block("prompt_request", arguments={"who": SECRET}),
    block("prompt_result", content=SECRET, error_message=SECRET, messages=[INNER]),
    block("audio", transcript=SECRET),
    block("document", **TEXT_FILE),
    block("document", source={"kind": "base64", "data": base64_of(SECRET)}, media_type="application/json"),
]


@pytest.mark.parametrize("part", PARTS, ids=lambda part: part.type)
def test_every_text_is_redacted(part: ContentBlock) -> None:
    """Of any part, at any depth; the structure around it stays, and a second time changes nothing."""
    written = part.model_dump_json()
    assert SECRET in written or base64_of(SECRET) in written
    changed = rewrite_block(part, redaction().redact)
    written = changed.model_dump_json()
    assert SECRET not in written
    assert base64_of(SECRET) not in written
    assert type(changed) is type(part)
    assert rewrite_block(changed, redaction().redact) is changed


@pytest.mark.parametrize("kind", VIEW_KINDS)
def test_a_clean_message_is_returned_as_the_same_object(kind: str) -> None:
    """So prefixes of requests and signatures stay byte for byte."""
    part = block(kind)
    assert rewrite_block(part, redaction().redact) is part


def test_names_of_parts_stay() -> None:
    """Ids, tool names, URIs and types are not redacted: a change would separate calls from results."""
    for kind in set(BLOCKS) - {"provider", "text", "thinking", "audio", "document"}:
        names = {
            name: f"{SECRET}" for name in ("id", "name", "uri", "tool_use_id", "server_id") if name in BLOCKS[kind]
        }
        changed = rewrite_block(block(kind, **names), redaction().redact)
        assert {name: getattr(changed, name) for name in names} == names


def test_an_unknown_part_does_not_pass() -> None:
    """Alone, in a tool's result, and in a prompt's messages."""
    unknown = UnknownBlock.model_validate({"type": "hologram", "text": SECRET})
    for part in (
        unknown,
        block("provider"),
        ToolResultBlock(tool_use_id="i", content=(unknown,)),
        block("prompt_result", messages=[{"role": "user", "content": [{"type": "hologram"}]}]),
        block("prompt_result", messages=[{"role": "nobody"}]),
    ):
        with pytest.raises(ValueError, match=r"cannot be read|not a canonical message"):
            rewrite_block(part, redaction().redact)


def test_json_keeps_its_structure() -> None:
    """Numbers, booleans and nulls stay unless a number reads like a finding; redacted keys stay distinct."""
    digits = Redaction([lambda text: [Finding(0, len(text), "card")] if text == "4111111111111111" else []])
    value = {"a": 4111111111111111, "b": 4111111111111112, "c": True, "d": None, "e": 1.5, "f": [4111111111111111]}
    assert rewrite_json(value, digits.redact) == {
        "a": "[card]", "b": 4111111111111112, "c": True, "d": None, "e": 1.5, "f": ["[card]"],
    }  # fmt: skip
    keys = {f"{SECRET}1": 1, f"{SECRET}2": 2, f"{SECRET}3": 3}
    assert rewrite_json(keys, redaction().redact) == {"[secret]": 1, "[secret] 2": 2, "[secret] 3": 3}


def test_a_binary_blob_stays() -> None:
    for data in ("////", "no base64", base64_of("plain")):
        part = DocumentBlock(source=MediaSource(kind="base64", data=data), media_type="text/plain")
        assert rewrite_block(part, redaction().redact) is part


def test_a_redacted_resource_loses_its_declared_size() -> None:
    """The size is no longer true."""
    part = rewrite_block(block("resource", content=SECRET, size_bytes=6), redaction().redact)
    assert part.size_bytes is None  # type: ignore[union-attr]


@given(st.lists(st.sampled_from([SECRET, "12", "ab ", "[secret]", "😀", "\n"]), max_size=8).map("".join))
def test_redaction_is_deterministic_and_idempotent(text: str) -> None:
    for settings in ({}, {"key": b"k"}):
        once = redaction(**settings).redact(text)
        assert redaction(**settings).redact(text) == once
        assert SECRET not in once
        assert redaction(**settings).redact(once) == once


def test_a_key_tells_values_apart() -> None:
    """The same value has the same placeholder everywhere; another key gives others."""
    one, again, other = redaction(key=b"k").redact(f"{SECRET}1 {SECRET}1 {SECRET}2").removesuffix("]").split("] ")
    assert one == again != other
    assert re.fullmatch(r"\[secret [0-9a-f]{8}", one)
    assert redaction(key=b"other").redact(f"{SECRET}1") != f"{one}]"
    with pytest.raises(ConfigurationError, match="non-empty"):
        redaction(key=b"")


def test_listed_values_pass() -> None:
    assert redaction(keep=[f"{SECRET}1"]).redact(f"{SECRET}1 {SECRET}12") == f"{SECRET}1 [secret]"
    assert redaction(keep=SECRET).redact(SECRET) == SECRET


def test_a_placeholder_is_no_finding() -> None:
    greedy = Redaction([lambda text: [Finding(0, len(text), "all")]], key=b"k")
    once = greedy.redact("anything")
    assert once != "anything"
    assert greedy.redact(once) == once
    assert greedy.redact(once + " more") != once + " more"


def test_overlapping_findings_are_merged() -> None:
    """Empty ones and those outside the text are ignored."""
    found = [(0, 3, "a"), (2, 9, "b"), (9, 11, "c"), (10, 11, "d"), (4, 4, "e"), (-1, 2, "f"), (8, 99, "g")]
    assert findings("x" * 12, [lambda _: [Finding(*each) for each in found]]) == [(0, 9, "b"), (9, 11, "c")]


def test_the_window_is_that_of_the_longest_finding() -> None:
    """A finder that does not declare how long its findings are has to see the whole text."""
    assert Redaction([FINDER, Finder(find_secret, 99)]).window == 99
    assert Redaction([FINDER, find_secret]).window is None
    assert Redaction([find_secret], window=50).window == 50
    assert Redaction([]).window is None
    with pytest.raises(ConfigurationError, match="at least 1 character"):
        Pipeline([Redaction([FINDER], window=0)])


@given(st.lists(st.sampled_from([SECRET, "1", "23", "ab ", " "]), max_size=12).map("".join), st.integers(0, 80))
def test_a_piece_of_a_stream_is_redacted_like_the_whole(text: str, length: int) -> None:
    """What is far enough from the end of a piece is found in it as in the whole text."""
    piece, window = text[:length], FINDER.max_length or 0
    settled = len(piece) - window
    of_piece = [found for found in findings(piece, [FINDER]) if found.start < settled]
    of_text = [found for found in findings(text, [FINDER]) if found.start < settled]
    assert of_piece == of_text


class TestInAPipeline:
    message = Message.user(f"Mine is {SECRET}1.", session_id="s")

    def test_input_is_redacted_once(self) -> None:
        """When it enters; later turns read the stored text."""
        pipeline = Pipeline([redaction(label="secret")])
        for hook in (Hook.LLM_INPUT, Hook.LLM_OUTPUT, Hook.TOOL_POST_INVOKE):
            outcome = pipeline.run(hook, self.message)
            assert outcome.message.text == "Mine is [secret]."
            assert labels_of(outcome.extensions) == {"secret"}
            again = pipeline.run(hook, outcome.message, outcome.extensions)
            assert again.message == outcome.message
        assert pipeline.window == 10

    def test_existing_labels_stay(self) -> None:
        """Although the plugin may not see them."""
        pipeline = Pipeline([redaction(label="secret")])
        extensions = pipeline.run(Hook.LLM_INPUT, self.message).extensions
        assert extensions is not None
        labelled = extensions.model_copy(update={"security": SecurityExtension(labels=frozenset({"PII"}))})
        assert labels_of(pipeline.run(Hook.LLM_INPUT, self.message, labelled).extensions) == {"PII", "secret"}

    def test_a_clean_message_passes_untouched(self) -> None:
        clean = Message.user("Hello.", session_id="s")
        outcome = Pipeline([redaction(label="secret")]).run(Hook.LLM_INPUT, clean)
        assert outcome.message is clean
        assert labels_of(outcome.extensions) == frozenset()

    def test_arguments_are_redacted_in_the_models_message(self) -> None:
        """So history and call agree."""
        call = Message.assistant([block("tool_use", input={"password": SECRET})], session_id="s")
        outcome = Pipeline([redaction()]).run(Hook.LLM_OUTPUT, call)
        assert json.dumps(outcome.message.tool_uses[0].input) == '{"password": "[secret]"}'
