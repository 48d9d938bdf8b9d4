"""Each loss of a request is a record in the log, also if a program uses an adapter without a session."""

import logging

import pytest

from dragoman import AdapterOptions, Message, RequestContext, get_adapter
from dragoman.adapter.losses import Severity
from dragoman.adapter.registry import adapter_class, providers
from dragoman.blocks import MediaSource, TextBlock, ThinkingBlock, VideoBlock

MOVIE = VideoBlock(source=MediaSource(kind="base64", data="AAAAGGZ0"), media_type="video/x-unheard-of")
HISTORY = [
    Message.user([TextBlock(text="Look."), MOVIE]),
    Message.assistant([ThinkingBlock(text="Hm.", signature="c2ln"), TextBlock(text="I see.")]),
    Message.user("And?"),
]


@pytest.mark.parametrize("provider", providers())
def test_the_adapter_itself_logs_each_loss(provider: str, caplog: pytest.LogCaptureFixture) -> None:
    adapter = get_adapter(f"{provider}:{next(iter(adapter_class(provider).listed_models), 'model')}")
    with caplog.at_level(logging.INFO, "dragoman.projection"):
        losses = adapter.to_wire(HISTORY, [], AdapterOptions(seed=7, user="u")).losses
    assert any(loss.severity is Severity.WARNING for loss in losses)
    logged = [(each.levelname, each.__dict__["message_id"], each.__dict__["reason"]) for each in caplog.records]
    assert logged == [
        ("WARNING" if loss.severity is Severity.WARNING else "INFO", loss.message_id, loss.reason) for loss in losses
    ]
    assert {each.__dict__["adapter"] for each in caplog.records} == {provider}


def test_a_caller_with_a_context_logs_the_losses_itself(caplog: pytest.LogCaptureFixture) -> None:
    adapter = get_adapter("anthropic:claude-sonnet-4-6")
    context = RequestContext.for_model("anthropic:claude-sonnet-4-6")
    assert adapter.to_wire(HISTORY, [], AdapterOptions(context=context)).losses
    assert caplog.records == []
