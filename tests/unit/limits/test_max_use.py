"""The most that a request could use: the largest reply that it allows costs at most what is reserved for it."""

from decimal import Decimal
from typing import Any

import pytest

from dragoman import AdapterOptions, MediaSource, Message, ToolDefinition, get_adapter
from dragoman.adapter.errors import UnpricedModelError
from dragoman.blocks import DocumentBlock, ToolResultBlock
from dragoman.canonical.message import Role
from dragoman.canonical.usage import CostStatus, TokenUsage, Usage
from dragoman.limits.bounds import REMOTE_MEDIA_TOKENS, TOOL_CALLS, WEB_RESULT_TOKENS, max_usage
from dragoman.limits.reservation import DEFAULT_OUTPUT_TOKENS, MaxUsage
from dragoman.pricing import price_table
from dragoman.server_tools import CodeExecution, FileSearch, ProviderTool, WebFetch, WebSearch
from dragoman.session import Budget
from tests.unit.session.drivers import ANTHROPIC, NOW, Driver, Wire
from tests.unit.session.handwritten_replies import handwritten_anthropic

CHAT, RESPONSES, GEMINI = "openai-chat:gpt-4o", "openai:gpt-6.1-sol", "google:gemini-3-pro-preview"
OUTPUT = 100
HI = [Message.user("Hi")]
PREDICTED = "def add(a, b):\n    return a + b\n" * 50


def use_of(
    model: str, *tools: ToolDefinition, messages: list[Message] | None = None, **options: Any
) -> tuple[MaxUsage, int]:
    """The use, and the estimated input."""
    adapter, options = get_adapter(model), {"max_output_tokens": OUTPUT, **options}
    use = max_usage(adapter, messages or HI, tools, AdapterOptions(**options))
    return use, use.input.total_tokens


def price(model: str, usage: TokenUsage) -> Usage:
    return price_table().price(model, usage, NOW)


def assert_covers(model: str, use: MaxUsage, largest: TokenUsage) -> None:
    reserved, cost = price(model, use.total), price(model, largest)
    assert reserved.cost_status is cost.cost_status is CostStatus.PRICED
    assert reserved.cost_usd is not None
    assert cost.cost_usd is not None
    assert reserved.cost_usd >= cost.cost_usd
    assert use.total.total_tokens >= largest.total_tokens


@pytest.mark.parametrize("content", [PREDICTED, [{"type": "text", "text": PREDICTED}]])
def test_a_rejected_prediction_is_output(content: Any) -> None:
    """OpenAI bills all of its tokens at the price of the output, beside those of the reply."""
    extra = {"openai-chat": {"prediction": {"type": "content", "content": content}}}
    use, tokens = use_of(CHAT, extra=extra)
    predicted = get_adapter(CHAT).estimate_input_tokens([Message.user(PREDICTED)], ())
    assert predicted > 500
    assert_covers(CHAT, use, TokenUsage(input_tokens=tokens, output_tokens=OUTPUT + predicted))


def test_a_prediction_is_reserved_beside_the_default() -> None:
    """A request without a maximum of output reserves a default for each answer, and all of the prediction."""
    adapter = get_adapter(CHAT)
    predicted = adapter.estimate_input_tokens([Message.user(PREDICTED)], ())
    extra = {"openai-chat": {"prediction": {"type": "content", "content": PREDICTED}}}
    for n in (1, 3):
        use = max_usage(adapter, [Message.user("Hi")], [], AdapterOptions(extra=extra, n=n))
        assert use.first_output_tokens == n * DEFAULT_OUTPUT_TOKENS + predicted < use.output_tokens


@pytest.mark.parametrize("content", [None, 3, [{"type": "image"}], [None]])
def test_a_prediction_that_cannot_be_read_is_not_counted(content: Any) -> None:
    """The provider refuses it."""
    use, _ = use_of(CHAT, extra={"openai-chat": {"prediction": {"content": content}}})
    assert use.output_tokens == OUTPUT


def document(kind: str = "url") -> DocumentBlock:
    return DocumentBlock(source=MediaSource(kind=kind, data="https://files.example/a.pdf"))  # type: ignore[arg-type]


def test_a_document_by_address_has_a_stated_bound() -> None:
    """Only the provider reads it. Its tokens are a part of the window of the model."""
    messages = [Message(role=Role.USER, content=(document(),))]
    use, tokens = use_of(ANTHROPIC, messages=messages)
    assert_covers(ANTHROPIC, use, TokenUsage(input_tokens=tokens + REMOTE_MEDIA_TOKENS, output_tokens=OUTPUT))
    many = [Message(role=Role.USER, content=(document(),) * 20)]
    use, _ = use_of(ANTHROPIC, messages=many)
    assert use.total.prompt_tokens == get_adapter(ANTHROPIC).capabilities.max_context_tokens


def test_a_document_in_the_result_of_a_tool_counts() -> None:
    result = ToolResultBlock(tool_use_id="call_1", content=(document(),))
    use, tokens = use_of(ANTHROPIC, messages=[*HI, Message(role=Role.TOOL, content=(result,))])
    assert use.more_input == REMOTE_MEDIA_TOKENS
    assert use.total.prompt_tokens == tokens + REMOTE_MEDIA_TOKENS


def test_a_document_that_is_sent_has_no_bound_but_its_estimate() -> None:
    text = DocumentBlock(source=MediaSource(kind="text", data="word " * 100))
    assert use_of(ANTHROPIC, messages=[Message(role=Role.USER, content=(text,))])[0].more_input == 0


@pytest.mark.parametrize("uses", [1, 3])
def test_searches_are_billed_by_call_and_read_with_the_prompt(uses: int) -> None:
    """Each search is a call, and its results are read with the prompt by what follows."""
    use, tokens = use_of(ANTHROPIC, WebSearch(max_uses=uses))
    found = sum(range(uses + 1)) * WEB_RESULT_TOKENS
    largest = TokenUsage(
        input_tokens=(uses + 1) * tokens + found, output_tokens=OUTPUT, server_tools={"web_search_requests": uses}
    )
    assert_covers(ANTHROPIC, use, largest)
    assert use.tool_calls == {"web_search": uses}


def test_a_search_fills_the_window_at_most() -> None:
    """However often it may be called, which takes no time to compute."""
    window = get_adapter(ANTHROPIC).capabilities.max_context_tokens
    use, _ = use_of(ANTHROPIC, WebSearch(max_uses=10**9))
    assert (10**9 - 100) * window < use.total.prompt_tokens <= (10**9 + 1) * window


@pytest.mark.parametrize(
    ("model", "tool", "options"),
    [
        (ANTHROPIC, WebSearch(), {}),
        (RESPONSES, WebSearch(), {}),
        (ANTHROPIC, ProviderTool("anthropic", {"type": "web_search_20260318", "name": "web_search"}), {}),
    ],
)
def test_searches_without_limit_have_no_price(model: str, tool: ToolDefinition, options: dict[str, Any]) -> None:
    """A budget in dollars refuses them, if the wire could limit them; one in tokens counts a stated number."""
    use, _ = use_of(model, tool, **options)
    assert price(model, use.total).cost_status is CostStatus.PARTIAL
    assert use.unbounded == ("server_tools.web_search: set its max_uses",)
    assert use.tool_calls == {"web_search": TOOL_CALLS}


@pytest.mark.parametrize(
    ("model", "tool", "calls", "options"),
    [
        (RESPONSES, WebSearch(max_uses=2), 2, {}),
        (RESPONSES, WebSearch(), 4, {"extra": {"openai": {"max_tool_calls": 4}}}),
        (RESPONSES, FileSearch(stores={"openai": ("vs_1",)}), TOOL_CALLS, {}),
        (GEMINI, WebSearch(), TOOL_CALLS, {}),
        (ANTHROPIC, ProviderTool("anthropic", {"type": "web_search_20260318", "max_uses": 5}), 5, {}),
    ],
)
def test_billed_calls_are_reserved(model: str, tool: ToolDefinition, calls: int, options: dict[str, Any]) -> None:
    """By the limit of the tool, that of the request, or a stated number on a wire that has no limit."""
    use, tokens = use_of(model, tool, **options)
    assert list(use.tool_calls.values()) == [calls]
    largest = TokenUsage(input_tokens=tokens, output_tokens=OUTPUT, server_tools=dict(use.tool_calls))
    assert_covers(model, use, largest)


def test_a_tool_that_is_billed_as_tokens_is_read_with_the_prompt() -> None:
    use, tokens = use_of(ANTHROPIC, WebFetch(max_uses=2, max_content_tokens=500), CodeExecution())
    assert use.tool_calls == {}
    assert price(ANTHROPIC, use.total).cost_status is CostStatus.PRICED
    assert use.more_input >= (2 + TOOL_CALLS) * tokens + 500 + 1000


@pytest.mark.parametrize(
    ("model", "options", "usage"),
    [
        ("openai:gpt-6-astra", {"service_tier": "priority"}, {"service_tier": "priority"}),
        ("openai:gpt-6-astra", {"extra": {"openai": {"service_tier": "ultrafast"}}}, {"service_tier": "ultrafast"}),
        ("openai:gpt-6-astra", {"service_tier": "flex"}, {}),
        (ANTHROPIC, {"extra": {"anthropic": {"speed": "fast"}}}, {"speed": "fast"}),
        (ANTHROPIC, {"extra": {"anthropic": {"inference_geo": "us"}}}, {"raw": {"inference_geo": "us"}}),
    ],
)
def test_what_the_request_asks_for_is_reserved(model: str, options: dict[str, Any], usage: dict[str, Any]) -> None:
    """A dearer tier at its price; a cheaper one at the standard price, because it may not be granted."""
    use, tokens = use_of(model, **options)
    largest = TokenUsage(input_tokens=tokens, output_tokens=OUTPUT, **usage)
    assert_covers(model, use, largest)
    assert price(model, use.total).cost_usd == price(model, largest).cost_usd


def refuse(driver: Driver, budget: Budget, **settings: Any) -> Exception:
    wire = Wire([])
    with pytest.raises(UnpricedModelError) as caught:
        driver.ask(driver.session({"anthropic": wire}, budgets=[budget], **settings), "Hi")
    assert wire.requests == []
    return caught.value


def test_a_budget_in_dollars_refuses_what_has_no_bound(driver: Driver) -> None:
    """Before anything is sent, with what to set."""
    error = refuse(driver, Budget(usd=100), tools=[WebSearch()])
    assert "set max_uses of the provider's tools" in str(error)
    refuse(driver, Budget(usd=100), options=AdapterOptions(service_tier="priority"))


@pytest.mark.parametrize(
    ("budget", "tool"),
    [
        (Budget(usd=100), WebSearch(max_uses=2)),
        (Budget(usd=100, allow_unpriced=True), WebSearch()),
        (Budget(tokens=10_000_000), WebSearch()),
    ],
)
def test_what_is_bounded_is_sent_and_settled_by_its_reply(driver: Driver, budget: Budget, tool: WebSearch) -> None:
    wire = Wire([handwritten_anthropic("One.", usage=(1000, 100))])
    session = driver.session({"anthropic": wire}, budgets=[budget], tools=[tool])
    driver.ask(session, "Hi")
    assert session.cost.usd is not None
    assert session.cost.usd < Decimal("0.1")
