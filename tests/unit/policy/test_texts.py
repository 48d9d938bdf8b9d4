"""Every text of a part is shown to plugins, wherever it is, and the bundled redaction takes it out or denies."""

import base64
import copy
from collections.abc import Iterator
from typing import Any

import pytest
from pydantic import BaseModel

from dragoman.canonical.blocks import ProviderBlock
from dragoman.canonical.message import Message, read_message
from dragoman.policy import Pipeline, PolicyDeniedError, Step, Violation, hook
from dragoman.policy.plugins import Finder, Finding, Redaction
from dragoman.policy.views import texts_of
from tests.unit.canonical.samples import BLOCKS

CANARY = "hunter2 of ward seven"
NATIVE = {
    "provider": "anthropic",
    "kind": "web_search_tool_result",
    "data": {"content": [{"title": "T", "deep": ["x"]}]},
}
SAMPLES = {**BLOCKS, "provider": NATIVE}
UNSEEN = {
    "text.citations.0.kind", "tool_use.id", "tool_result.tool_use_id", "thinking.signature",
    "redacted_thinking.data", "resource.resource_request_id", "resource_ref.resource_request_id",
    "prompt_request.prompt_request_id", "prompt_result.prompt_request_id", "prompt_result.messages.0.role",
    "tool_result.content.0.type",
}  # fmt: skip
"""Ids, words of the format, and what only a provider can read."""


def places(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    if isinstance(value, str):
        yield path
    for key, each in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from places(each, (*path, key))


def cases() -> Iterator[tuple[str, dict[str, Any]]]:
    for kind, sample in SAMPLES.items():
        for path in places(sample):
            changed = copy.deepcopy(sample)
            target: Any = changed
            for step in path[:-1]:
                target = target[step]
            target[path[-1]] = CANARY
            name = ".".join(map(str, (kind, *path)))
            if name not in UNSEEN:
                yield name, {"type": kind, **changed}


CASES = [pytest.param(block, id=name) for name, block in cases()]


def read(block: dict[str, Any]) -> BaseModel | None:
    """Return the block; None if the word is none of its field's."""
    try:
        (found,) = read_message({"role": "assistant", "content": [block]}).content
    except ValueError:
        return None
    return found


@pytest.mark.parametrize("block", CASES)
def test_a_word_in_any_field_is_shown(block: dict[str, Any]) -> None:
    if (found := read(block)) is not None:
        assert any(CANARY in text for text in texts_of([found]))


def test_a_plugin_sees_them_at_any_depth() -> None:
    document = {"type": "document", "media_type": "text/plain", "title": "a",
                "source": {"kind": "base64", "data": base64.b64encode(CANARY.encode()).decode()}}  # fmt: skip
    result = {"type": "tool_result", "tool_use_id": "tu_1", "content": [document]}

    @hook("evaluate")
    def no_canary(step: Step) -> Violation | None:
        return Violation("it is there") if any(CANARY in text for text in step.texts()) else None

    for content in ([document], [result]):
        message = read_message({"role": "tool", "content": content})
        with pytest.raises(PolicyDeniedError):
            Pipeline([no_canary]).run("evaluate", message)


def test_opaque_data_is_no_text() -> None:
    """Pictures, signatures and what is encrypted for a provider, which holds no spaces."""
    for opaque in (CANARY.replace(" ", ""), f"two {CANARY}"):
        found = list(texts_of([ProviderBlock(
            provider="anthropic", kind="web_search_tool_result",
            data={"type": "web_search_tool_result", "content": [{"encrypted_content": opaque, "title": "T"}]},
        )]))  # fmt: skip
        assert (opaque in found) is (" " in opaque)
        assert "T" in found


def test_redaction_denies_what_a_native_block_would_lose() -> None:
    """The provider takes its block as it came, or not at all."""
    finder = Finder(lambda text: [Finding(at, at + 4, "number")] if (at := text.find("4711")) >= 0 else [], 4)
    policy = Pipeline([Redaction([finder])])
    block = ProviderBlock(provider="anthropic", kind="web_search_tool_result", data={"content": [{"title": "a 4711"}]})
    with pytest.raises(PolicyDeniedError):
        policy.run("llm_output", Message.assistant([block]))
    sealed = block.model_copy(update={"data": {"content": [{"encrypted_content": "4711"}]}})
    assert policy.run("llm_output", Message.assistant([sealed])).message.content == (sealed,)
