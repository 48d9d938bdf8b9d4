"""Batches are submitted, polled and fetched, against the batch APIs of two providers written by hand."""

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import anthropic
import openai
import pytest
from typing_extensions import TypedDict

from dragoman import AdapterOptions, Budget, Message, ToolDefinition, get_adapter
from dragoman.adapter.errors import (
    BatchPendingError,
    ConfigurationError,
    InvalidRequestError,
    MalformedReplyError,
    NotFoundError,
    ProviderError,
    RequestCancelledError,
    ServerError,
    StreamTruncatedError,
)
from dragoman.adapter.facts.capabilities import EMULATED
from dragoman.adapter.registry import providers
from dragoman.batch import AsyncBatches, BatchError, Batches, BatchHandle, BatchRequest, BatchState, BatchStatus
from dragoman.batch.results import BatchResult, to_outcome
from dragoman.canonical.message import MessageMetadata
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.errors import OutputError
from dragoman.limits.budget import Budgets
from dragoman.limits.reservation import MaxUsage
from dragoman.policy.errors import PolicyDeniedError
from dragoman.pricing import price_table
from dragoman.server_tools import WebSearch
from tests.unit.batch.handwritten_provider import Provider, serve_provider

MODELS = ("anthropic:claude-haiku-4-5", "openai:gpt-4o", "openai-chat:gpt-4o")
PROMPTS = {f"row-{number}": f"Question {number}" for number in range(5)}
OPTIONS = AdapterOptions(max_output_tokens=50)


@pytest.fixture
def provider() -> Iterator[Provider]:
    created = Provider()
    with serve_provider(created):
        yield created


def batches(model: str, provider: Provider) -> Batches:
    return Batches(model, options=OPTIONS, base_url=provider.url, api_key="none")


def texts(outcomes: list[Any]) -> list[str]:
    return [each.text if isinstance(each, Message) else each.error_class for each in outcomes]


@pytest.mark.parametrize("model", MODELS)
def test_answers_come_in_the_order_of_the_prompts(model: str, provider: Provider) -> None:
    """The provider returns them in another order."""
    with batches(model, provider) as client_batches:
        handle = client_batches.submit(PROMPTS)
        states: list[BatchState] = []
        client_batches.wait(handle, every=0.001, progress=states.append)
        results = client_batches.fetch(handle)
    assert texts(results) == [f"Answer to {name}" for name in PROMPTS]
    assert states[-1].status is BatchStatus.COMPLETED
    assert (states[-1].succeeded, states[-1].failed) == (5, 0)
    assert handle.custom_ids == tuple(PROMPTS)
    assert handle.request_count == 5


@pytest.mark.parametrize("model", MODELS)
def test_each_state_and_failure_of_a_request(model: str, provider: Provider) -> None:
    """A request that fails, expires or is cancelled is an error in its place, of the class that a live call raises."""
    provider.polls = 2
    prompts = {"good": "Hi", "bad": "FAIL", "late": "EXPIRE", "stopped": "CANCEL", "too": "Hello"}
    with batches(model, provider) as client_batches:
        handle = client_batches.submit(prompts)
        assert client_batches.poll(handle).status is BatchStatus.IN_PROGRESS
        results = client_batches.fetch(handle)
    assert texts(results) == ["Answer to good", "invalid_request", "server_error", "cancelled", "Answer to too"]
    bad, late, stopped = results[1:4]
    assert isinstance(bad, BatchError)
    assert isinstance(bad.error, InvalidRequestError)
    assert not bad.retryable
    assert "too" in bad.error_message
    assert bad.custom_id == "bad"
    assert isinstance(late, BatchError)
    assert isinstance(late.error, ServerError)
    assert late.retryable
    assert isinstance(stopped, BatchError)
    assert isinstance(stopped.error, RequestCancelledError)


@pytest.mark.parametrize("model", MODELS)
def test_a_later_process_resumes_from_the_stored_handle(model: str, provider: Provider, tmp_path: Path) -> None:
    with batches(model, provider) as client_batches:
        stored = client_batches.submit(PROMPTS).model_dump_json()
    assert "Question" not in stored
    (tmp_path / "handle.json").write_text(stored)
    with batches(model, provider) as later:
        handle = BatchHandle.model_validate_json((tmp_path / "handle.json").read_text())
        first, second = later.fetch(handle), later.fetch(handle)
    assert texts(first) == [f"Answer to {name}" for name in PROMPTS]
    assert [each.created_at for each in first if isinstance(each, Message)] == [
        each.created_at for each in second if isinstance(each, Message)
    ]


@pytest.mark.parametrize("model", MODELS)
def test_answers_are_priced_by_the_batch_rows_of_the_table(model: str, provider: Provider) -> None:
    with batches(model, provider) as client_batches:
        handle = client_batches.submit({"a": "Hi"})
        (message,) = client_batches.fetch(handle)
    assert isinstance(message, Message)
    usage = message.usage
    assert usage is not None
    plain = {name: value for name, value in dict(usage).items() if name in ("input_tokens", "output_tokens")}
    table, kind = price_table(), type(usage)
    live = table.price(model, kind(**plain), handle.submitted_at)
    assert usage.pricing_mode == "batch"
    assert usage.cost_usd is not None
    assert live.cost_usd is not None
    assert usage.cost_usd == live.cost_usd / 2 > Decimal(0)


@pytest.mark.parametrize("model", MODELS)
def test_a_batch_that_has_not_ended_has_no_answers(model: str, provider: Provider) -> None:
    provider.polls = 100
    with batches(model, provider) as client_batches:
        handle = client_batches.submit(PROMPTS)
        with pytest.raises(BatchPendingError, match="in_progress, with 0 of 5"):
            client_batches.fetch(handle)
        with pytest.raises(BatchPendingError):
            client_batches.wait(handle, every=0.001, timeout=0.002)


@pytest.mark.parametrize("model", MODELS)
def test_a_cancelled_batch_reports_each_request_as_cancelled(model: str, provider: Provider) -> None:
    provider.polls = 1
    with batches(model, provider) as client_batches:
        handle = client_batches.submit(PROMPTS)
        assert client_batches.cancel(handle).status is BatchStatus.IN_PROGRESS
        results = client_batches.fetch(handle)
        assert client_batches.poll(handle).status is BatchStatus.CANCELLED
    assert texts(results) == ["cancelled"] * 5


@pytest.mark.parametrize("model", MODELS)
def test_an_expired_batch_can_be_submitted_again(model: str, provider: Provider) -> None:
    provider.ends_as = "expired"
    with batches(model, provider) as client_batches:
        handle = client_batches.submit(PROMPTS)
        results = client_batches.fetch(handle)
        assert client_batches.poll(handle).status is BatchStatus.EXPIRED
    assert all(isinstance(each, BatchError) and each.retryable for each in results)


@pytest.mark.parametrize("model", MODELS[1:])
def test_a_batch_refused_as_a_whole_reports_why(model: str, provider: Provider) -> None:
    provider.ends_as = "failed"
    with batches(model, provider) as client_batches:
        handle = client_batches.submit(PROMPTS)
        results = client_batches.fetch(handle)
    assert all(isinstance(each, BatchError) and "line 1: no such model" in each.error_message for each in results)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("lost", [1, 3])
def test_results_that_lack_an_answer_are_an_error(model: str, lost: int, provider: Provider) -> None:
    """The missing answer may have been paid for, so the error does not suggest another submission."""
    provider.lost_lines = lost
    with batches(model, provider) as client_batches:
        handle = client_batches.submit(PROMPTS)
        with pytest.raises(StreamTruncatedError, match=f"lack {lost} of 5"):
            client_batches.fetch(handle)


@pytest.mark.parametrize("model", MODELS)
def test_results_cut_at_any_byte_are_an_error_or_complete(model: str, provider: Provider, exhaustive: bool) -> None:
    with batches(model, provider) as client_batches:
        handle = client_batches.submit({"a": "Hi", "b": "Hello"})
        whole = texts(client_batches.fetch(handle))
        path = provider.requests[-1][1]
        size = len(provider.answer("GET", path, {}, b"")[1])
        for cut in [*range(0, size, 37 if exhaustive else 997), size - 2, size - 1]:
            provider.cut_bytes = cut
            try:
                results = texts(client_batches.fetch(handle))
            except (MalformedReplyError, StreamTruncatedError):
                assert cut < size - 1
            else:
                assert results == whole
                assert cut >= size - 1


@pytest.mark.parametrize("model", MODELS)
def test_batches_that_cannot_be_submitted(model: str, provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    with batches(model, provider) as client_batches:
        with pytest.raises(InvalidRequestError, match="at least one request"):
            client_batches.submit({})
        duplicates = [BatchRequest(custom_id="a", messages="Hi"), BatchRequest(custom_id="a", messages="Ho")]
        with pytest.raises(InvalidRequestError, match="'a' occurs twice in the batch"):
            client_batches.submit(duplicates)
        wire = client_batches.adapter.batch_api
        monkeypatch.setattr(type(wire), "max_requests", 2)
        with pytest.raises(InvalidRequestError, match="limit of 2"):
            client_batches.submit(PROMPTS)
        monkeypatch.setattr(type(wire), "max_requests", 100)
        monkeypatch.setattr(type(wire), "max_bytes", 100)
        with pytest.raises(InvalidRequestError, match="split it"):
            client_batches.submit(PROMPTS)
    assert provider.requests == []


@pytest.mark.parametrize("model", MODELS)
def test_ids_that_the_provider_refuses_are_sent_as_numbers(model: str, provider: Provider) -> None:
    prompts = {"a\nb": "Hi", "x" * 90: "Ho", "c": "Hello"}
    with batches(model, provider) as client_batches:
        handle = client_batches.submit(prompts)
        results = dict(client_batches.results(handle))
    assert set(results) == set(prompts)
    assert texts([results["a\nb"], results["c"]]) == ["Answer to request-1", "Answer to request-3"]


def test_a_renamed_tool_is_called_by_its_own_name(provider: Provider) -> None:
    tool = ToolDefinition(
        name="weather.in/city", description="The weather.", input_schema={"type": "object", "properties": {}}
    )
    with batches(MODELS[0], provider) as client_batches:
        handle = client_batches.submit([BatchRequest(custom_id="a", messages="Weather?", tools=[tool])])
        handle = BatchHandle.model_validate_json(handle.model_dump_json())
        (message,) = client_batches.fetch(handle)
        assert client_batches.losses["a"]
    assert isinstance(message, Message)
    assert [call.name for call in message.tool_uses] == ["weather.in/city"]


def test_requests_with_and_without_a_temperature_share_a_batch(provider: Provider) -> None:
    """Sampling parameters depend on the API version, which a whole batch shares."""
    with_temperature = AdapterOptions(max_output_tokens=50, temperature=0.5)
    with batches(MODELS[0], provider) as client_batches:
        client_batches.submit(
            [
                BatchRequest(custom_id="a", messages="Hi"),
                BatchRequest(custom_id="b", messages="Ho", options=with_temperature),
            ]
        )
    assert provider.requests[0][2]["anthropic-version"] == "2023-06-01"


def test_requests_of_a_batch_have_server_tools(provider: Provider) -> None:
    with batches(MODELS[0], provider) as client_batches:
        client_batches.submit([BatchRequest(custom_id="a", messages="Hi", tools=[WebSearch(max_uses=1)])])
    assert b"web_search_20250305" in provider.requests[0][3]


def test_requests_that_need_other_headers_are_refused(provider: Provider) -> None:
    other = AdapterOptions(max_output_tokens=50, headers={"openai": {"x-team": "blue"}})
    prompts = [
        BatchRequest(custom_id="a", messages="Hi"),
        BatchRequest(custom_id="b", messages="Ho", options=other),
    ]
    with (
        batches(MODELS[1], provider) as client_batches,
        pytest.raises(InvalidRequestError, match="share their headers"),
    ):
        client_batches.submit(prompts)


@pytest.mark.parametrize("model", MODELS)
def test_async_batches_behave_alike(model: str, provider: Provider) -> None:
    async def run() -> tuple[BatchHandle, list[Any], BatchState, dict[str, Any]]:
        async with AsyncBatches(model, options=OPTIONS, base_url=provider.url, api_key="none") as client_batches:
            handle = await client_batches.submit(PROMPTS)
            await client_batches.wait(handle, every=0.001)
            listed = {name: outcome async for name, outcome in client_batches.results(handle)}
            results = await client_batches.fetch(handle)
            return handle, results, await client_batches.cancel(handle), listed

    handle, results, _, listed = asyncio.run(run())
    assert texts(results) == [f"Answer to {name}" for name in PROMPTS]
    assert texts([listed[name] for name in handle.custom_ids]) == texts(results)


def test_a_batch_is_submitted_once(provider: Provider, monkeypatch: pytest.MonkeyPatch) -> None:
    """A retry could create a second batch, which is paid for too."""
    failing = (529, b'{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}')
    tries: list[str] = []
    monkeypatch.setattr(Provider, "answer", lambda self, method, path, *_: tries.append(path) or failing)
    with batches(MODELS[0], provider) as client_batches, pytest.raises(ProviderError, match="Overloaded"):
        client_batches.submit(PROMPTS)
    assert len(tries) == 1


def test_a_batch_of_another_model_is_refused(provider: Provider) -> None:
    with batches(MODELS[0], provider) as client_batches, batches(MODELS[1], provider) as other_batches:
        handle = client_batches.submit(PROMPTS)
        with pytest.raises(ConfigurationError, match="belongs to anthropic:claude-haiku-4-5"):
            other_batches.poll(handle)
        with pytest.raises(NotFoundError):
            client_batches.poll(handle.model_copy(update={"batch_id": "a/b"}))


def test_adapters_that_declare_batches_have_them() -> None:
    for name in providers():
        adapter = get_adapter(f"{name}:{_first_model(name)}")
        support = adapter.capabilities.supports_batch_api
        assert bool(support) == (adapter.batch_api is not None), name
        assert support is not EMULATED


def _first_model(name: str) -> str:
    return next(iter(get_adapter(f"{name}:x").listed_models), "x")


def test_providers_without_a_batch_api_refuse_batches() -> None:
    with pytest.raises(ConfigurationError, match="ollama:qwen3:4b has no batch API"):
        Batches("ollama:qwen3:4b")


def test_the_vendors_own_client_submits_the_same_batch(provider: Provider) -> None:
    """The hand-written provider serves both clients, and receives the same from both."""
    with batches(MODELS[0], provider) as client_batches:
        client_batches.submit({"a": "Hi"})
    with anthropic.Anthropic(base_url=provider.url, api_key="none") as client:
        params = {"model": "claude-haiku-4-5", "max_tokens": 50, "messages": [{"role": "user", "content": "Hi"}]}
        created = client.messages.batches.create(requests=[{"custom_id": "a", "params": params}])  # type: ignore[typeddict-item]
        assert client.messages.batches.retrieve(created.id).processing_status == "ended"
        (line,) = client.messages.batches.results(created.id)
        assert line.result.type == "succeeded"
    (mine, theirs) = [json.loads(body) for method, path, _, body in provider.requests if method == "POST"]
    assert mine["requests"][0]["custom_id"] == theirs["requests"][0]["custom_id"]
    assert set(mine["requests"][0]["params"]) == set(theirs["requests"][0]["params"])


def test_the_vendors_own_client_submits_the_same_file(provider: Provider) -> None:
    with batches(MODELS[2], provider) as client_batches:
        client_batches.submit({"a": "Hi"})
    line = next(iter(provider.files.values()))
    with openai.OpenAI(base_url=provider.url, api_key="none") as client:
        file = client.files.create(file=("batch.jsonl", line), purpose="batch")
        created = client.batches.create(input_file_id=file.id, endpoint="/v1/chat/completions", completion_window="24h")
        assert client.batches.retrieve(created.id).status == "completed"
        assert created.input_file_id
    mine, theirs = [json.loads(body) for method, path, _, body in provider.requests if path == "/batches"]
    assert {**mine, "input_file_id": ""} == {**theirs, "input_file_id": ""}


class Place(TypedDict):
    city: str


def test_answers_are_read_as_their_type(provider: Provider) -> None:
    """The schema goes with each request; the type reads the answers, in a later process too."""
    by_tool = "anthropic:claude-3-5-haiku-20241022"
    with batches(by_tool, provider) as client_batches:
        handle = client_batches.submit(PROMPTS, output=Place)
        client_batches.wait(handle, every=0.001)
        assert dict(client_batches.outputs(handle, Place)) == {name: {"city": "Oslo"} for name in PROMPTS}


@pytest.mark.parametrize("model", MODELS)
def test_an_answer_of_another_type_is_an_error(model: str, provider: Provider) -> None:
    """Those of the provider stay as they are."""

    async def read_async(handle: BatchHandle) -> dict[str, Any]:
        async with AsyncBatches(model, options=OPTIONS, base_url=provider.url, api_key="none") as client_batches:
            return {name: outcome async for name, outcome in client_batches.outputs(handle, Place)}

    with batches(model, provider) as client_batches:
        handle = client_batches.submit({"a": "Where?", "b": "FAIL"}, output=Place)
        client_batches.wait(handle, every=0.001)
        found = dict(client_batches.outputs(handle, Place))
    assert {name: type(each) for name, each in found.items()} == {"a": BatchError, "b": BatchError}
    wrong, failed = found["a"], found["b"]
    assert isinstance(wrong, BatchError)
    assert isinstance(wrong.error, OutputError)
    assert wrong.error_class == "OutputError"
    assert wrong.usage is not None
    assert wrong.usage.output_tokens == 100
    assert isinstance(failed, BatchError)
    assert isinstance(failed.error, ProviderError)
    assert asyncio.run(read_async(handle)).keys() == found.keys()


_USED = Usage(input_tokens=5, cost_usd=Decimal(1), cost_status=CostStatus.PRICED)


@pytest.mark.parametrize(
    ("result", "charged"),
    [
        (Message.assistant("Hi").model_copy(update={"metadata": MessageMetadata(usage=_USED)}), 5),
        (Message.assistant("Hi"), 40),
        (BatchError("a", InvalidRequestError("no")), 0),
        (BatchError("a", MalformedReplyError("garbage")), 40),
        (BatchError("a", MalformedReplyError("garbage"), _USED), 5),
        (BatchError("a", PolicyDeniedError("cmf.llm_output", "p", "word", "no"), _USED), 5),
    ],
)
def test_a_result_is_charged_as_a_reply_is(result: BatchResult, charged: int) -> None:
    """By its usage, or by its estimated input if it was billed and reported none."""
    budget = Budget(tokens=100, per="client")
    budgets = Budgets([budget.account_for(None)], price_table(), lambda: datetime.now(UTC))
    reservation = budgets.reserve(lambda: MaxUsage(MODELS[0], TokenUsage(input_tokens=40), 50))
    reservation.settle(to_outcome(result))
    assert (budget.spend_of().tokens, budget.account_for(None).reserved.tokens) == (charged, 0)
