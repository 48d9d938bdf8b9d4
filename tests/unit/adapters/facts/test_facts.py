"""Windows, limits, abilities and days of retirement, compared with two data sets.

The windows are generated from the data of the prices (genai-prices). LiteLLM's model map is the second opinion.
"""

import json
import tomllib
from pathlib import Path
from runpy import run_path
from typing import Any

import pytest
from genai_prices import data

from dragoman import AdapterOptions, ImageBlock, MediaSource, Message, RequestContext, TextBlock, get_adapter
from dragoman.adapter.registry import adapter_class, providers
from tests.tables import each_row
from tests.unit.adapters.facts.comparison import differences

FOLDER = Path(__file__).parent
WINDOWS = run_path(str(FOLDER.parents[3] / "pricing" / "windows.py"))
SECOND = json.loads((FOLDER / "litellm.json").read_text(encoding="utf-8"))
REASONS = tomllib.loads((FOLDER / "differences.toml").read_text(encoding="utf-8"))["difference"]
WINDOW = "max_context_tokens"
NAMES = {"bedrock": "aws", "xai": "x-ai", "moonshot": "moonshotai", "z-ai": "zai", "google-vertex": "google"}


def _rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def test_each_difference_from_the_second_data_set_has_a_reason() -> None:
    """And no reason stays without its difference."""
    explained = {(model, row["fact"]) for row in REASONS for model in row["models"] if row["reason"]}
    found = {(model, fact) for model, facts in SECOND["models"].items() for fact, _, _ in differences(model, facts)}
    assert sorted(found - explained) == []
    assert sorted(explained - found) == []


def test_the_second_data_set_names_its_source() -> None:
    """The second data set names its source so that its figures can be read there."""
    assert SECOND["origin"]["release"]
    assert len(SECOND["origin"]["sha256"]) == 64
    assert len(SECOND["models"]) > 100


def test_windows_are_those_of_the_price_data() -> None:
    """Of every model of a conversation that it knows of our providers: 95 % of them, and the others say why."""
    known = {provider.id: provider for provider in data.providers}
    compared, differing, unexplained = set(), set(), []
    for name in sorted(providers()):
        source = known.get(NAMES.get(name, name))
        rows = [row for row in source.models if row.context_window] if source else []
        names = [*adapter_class(name).listed_models, *(text for row in rows for text in WINDOWS["spellings"](row))]
        for model in dict.fromkeys(text for text in names if WINDOWS["converses"](name, text)):
            row = next((row for row in rows if row.is_match(model)), None)
            if row is None:
                continue
            capabilities = get_adapter(f"{name}:{model}").capabilities
            compared.add((name, row.id))
            assert capabilities.max_output_tokens <= capabilities.max_context_tokens, f"{name}:{model}"
            if not _is_rounded(capabilities.max_context_tokens, row.context_window):
                differing.add((name, row.id))
            if capabilities.max_context_tokens != row.context_window and not capabilities.evidence.get(WINDOW):
                unexplained.append(f"{name}:{model} {capabilities.max_context_tokens} {row.context_window}")
    assert unexplained == []
    assert len(compared) > 300
    assert len(differing) < 0.05 * len(compared), sorted(differing)


def _is_rounded(ours: int, theirs: int | None) -> bool:
    """Both name the same window, once in thousands: 1,047,576 is sold as a million."""
    return theirs is not None and abs(ours - theirs) <= 0.05 * max(ours, theirs)


LIMITS = _rows("""
anthropic:claude-opus-5-5              1000000 128000
anthropic:claude-opus-4-6              1000000 128000
anthropic:claude-opus-4-5-20251101      200000  64000
anthropic:claude-opus-4-1-20250805      200000  32000
anthropic:claude-3-haiku-20240307       200000   4096
anthropic:claude-opus-6                1000000 128000
bedrock:eu.anthropic.claude-sonnet-5   1000000 128000
bedrock:us.anthropic.claude-sonnet-4-6 1000000  64000
bedrock:anthropic.claude-opus-4-5-20251101-v1:0 200000 64000
openrouter:anthropic/claude-fable-5.1  1000000 128000
openrouter:anthropic/claude-sonnet-4.5  200000  64000
xai:grok-4.5                            500000  16384
xai:grok-4.3                           1000000  16384
moonshot:kimi-k3                       1048576  16384
mistral:devstral-2512                   262144  32768
mistral:ministral-8b-latest             262144  32768
deepseek:deepseek-v4-pro               1048565 393216
openai:gpt-4.1-2025-04-14              1047576  32768
github-copilot:gpt-5.6-sol              400000 128000
google:gemini-3-pro-image-preview        65536  32768
""")


@each_row(("model", "window", "output"), LIMITS)
def test_limits_by_family(model: str, window: str, output: str) -> None:
    """Snapshots, regions and models that no row lists have the limits of their family."""
    found = get_adapter(model).capabilities
    assert (found.max_context_tokens, found.max_output_tokens) == (int(window), int(output))


@pytest.mark.parametrize(
    ("model", "streamed", "whole"),
    [
        ("claude-opus-5-5", 128_000, 21_333),
        ("claude-haiku-4-5", 64_000, 21_333),
        ("claude-sonnet-4-20250514", 32_000, 21_333),
        ("claude-3-haiku-20240307", 4096, 4096),
    ],
)
def test_the_default_output_limit_follows_the_model(model: str, streamed: int, whole: int) -> None:
    """The Messages API requires one. A reply that is not streamed gets what takes at most ten minutes."""
    adapter = get_adapter(f"anthropic:{model}")
    for stream, limit in ((True, streamed), (False, whole)):
        options = AdapterOptions(stream=stream)
        assert json.loads(adapter.to_wire([Message.user("Hi")], [], options).body)["max_tokens"] == limit
        assert adapter.output_limit(options) == limit
    assert adapter.output_limit(AdapterOptions(max_output_tokens=7)) == 7


def test_a_budget_of_thinking_is_added_to_the_default_as_far_as_the_model_allows() -> None:
    """More than the model's limit is refused by the API."""
    for budget, limit in ((10_000, 31_333), (50_000, 64_000)):
        options = AdapterOptions(thinking=True, thinking_budget=budget)
        body = get_adapter("anthropic:claude-haiku-4-5").to_wire([Message.user("Hi")], [], options).body
        assert json.loads(body)["max_tokens"] == limit


@each_row(
    ("model", "sees"),
    _rows("""
ollama:qwen2.5vl:7b                     yes
ollama:qwen2.5vl                        yes
ollama:someone/qwen2.5vl-tools:7b       yes
ollama:qwen3-vl:8b                      yes
ollama:qwen3.5                          yes
ollama:qwen3                            no
ollama:qwen3:8b                         no
ollama:ministral-3                      yes
ollama:ministral-3:14b                  yes
ollama:devstral-small-2:24b             yes
ollama:kimi-k2.5:cloud                  yes
ollama:kimi-k2:1t-cloud                 no
cohere:c4ai-aya-vision-8b               yes
cohere:c4ai-aya-expanse-8b              no
openai-chat:gpt-4-1106-vision-preview   yes
openai-chat:gpt-4-1106-preview          no
bedrock:moonshotai.kimi-k2.5            yes
bedrock:moonshot.kimi-k2-thinking       no
bedrock:nvidia.nemotron-nano-12b-v2     yes
bedrock:nvidia.nemotron-nano-9b-v2      no
cerebras:gemma-4-31b                    yes
cerebras:gpt-oss-120b                   no
fireworks:accounts/fireworks/models/deepseek-v4p1-flash  yes
together:deepseek-ai/DeepSeek-V4.1-Flash-1017            yes
together:deepseek-ai/DeepSeek-V4-Pro                     no
deepseek:deepseek-v4-flash-vision-exp   yes
deepseek:deepseek-v4-flash              no
"""),
)
def test_models_that_see_get_their_images(model: str, sees: str) -> None:
    """A note in the place of the image is for models that do not see."""
    image = ImageBlock(source=MediaSource(kind="base64", data="iVBORw0KGgo="), media_type="image/png")
    request = get_adapter(model).to_wire([Message.user([TextBlock(text="What is it?"), image])], [], AdapterOptions())
    assert (b"image left out" not in request.body) is (sees == "yes")


EFFORTS = _rows("""
anthropic:claude-opus-4-5    max    -   high   1
anthropic:claude-opus-4-6    max    -   max    0
anthropic:claude-opus-4-6    xhigh  -   high   1
anthropic:claude-opus-4-7    xhigh  -   xhigh  0
anthropic:claude-opus-5      minimal -  low    1
anthropic:claude-opus-5      max    off high   1
anthropic:claude-opus-5      high   off high   0
anthropic:claude-opus-5-5    max    off low    2
anthropic:claude-opus-5-5    -      off low    1
anthropic:claude-haiku-4-5   high   -   -      1
bedrock:us.anthropic.claude-opus-4-8  max - xhigh  1
bedrock:us.anthropic.claude-opus-4-8  max off high 1
bedrock:anthropic.claude-opus-4-5-20251101-v1:0  max - high 1
""")


@each_row(("model", "effort", "thinking", "sent", "losses"), EFFORTS)
def test_effort_of_claude_is_held_to_the_levels_of_the_model(
    model: str, effort: str, thinking: str, sent: str, losses: str
) -> None:
    """Each change is a named loss, never an error of the provider."""
    options = AdapterOptions(
        effort=None if effort == "-" else effort,
        thinking=False if thinking == "off" else None,
    )
    request = get_adapter(model).to_wire([Message.user("Hi")], [], options)
    body = json.loads(request.body)
    config = body.get("output_config") or body.get("outputConfig") or {}
    assert config.get("effort", "-") == sent
    assert len(request.losses) == int(losses), [loss.reason for loss in request.losses]


@each_row(
    ("model", "budget", "limit", "sent", "loss"),
    _rows("""
anthropic:claude-sonnet-4-5                    5000  8000   5000 -
anthropic:claude-sonnet-4-5                    5000  5000   4999 4999
anthropic:claude-sonnet-4-5                    5000  2000   1999 1999
anthropic:claude-sonnet-4-5                    500   2000   1024 1024
anthropic:claude-sonnet-4-5                    500   -      1024 1024
anthropic:claude-sonnet-4-5                    5000  1025   1024 1024
anthropic:claude-sonnet-4-5                    5000  1024   -    left
anthropic:claude-haiku-4-5                     64000 -     63999 63999
bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0  5000 2000 1999 1999
bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0  500  -    1024 1024
bedrock:us.anthropic.claude-sonnet-4-5-20250929-v1:0  5000 1000 -    left
openrouter:anthropic/claude-sonnet-4.5         5000  2000   1999 1999
openrouter:anthropic/claude-sonnet-4.5         5000  1000   -    left
anthropic:claude-sonnet-4-5                    0     -      -    left
anthropic:claude-sonnet-4-5                    -1    8000   -    left
openrouter:google/gemini-2.5-flash             500   400    500  -
"""),
)
def test_budgets_of_claude_are_held_between_its_least_and_the_output_limit(
    model: str, budget: str, limit: str, sent: str, loss: str
) -> None:
    """The API refuses others. What is sent in place of it, and whether anything is, is a loss."""
    options = AdapterOptions(thinking_budget=int(budget), max_output_tokens=None if limit == "-" else int(limit))
    request = get_adapter(model).to_wire([Message.user("Hi")], [], options)
    body = json.loads(request.body)
    thinking = (body.get("additionalModelRequestFields") or body).get("thinking") or {}
    found = thinking.get("budget_tokens") or (body.get("reasoning") or {}).get("max_tokens")
    assert (found or "-") == (sent if sent == "-" else int(sent))
    assert [loss in each.reason for each in request.losses] == ([] if loss == "-" else [True])


@pytest.mark.parametrize("model", ["anthropic:claude-sonnet-4-5", "bedrock:anthropic.claude-sonnet-4-5-20250929-v1:0"])
def test_a_budget_for_thinking_between_calls_may_exceed_the_output_limit(model: str) -> None:
    """A budget for thinking between calls may exceed the output limit with the beta feature of interleaved thinking, by
    a header or by a field of the body.
    """
    beta, provider = "interleaved-thinking-2025-05-14", model.partition(":")[0]
    given: dict[str, dict[str, Any]] = {"headers": {"anthropic-beta": beta}, "extra": {"anthropic_beta": [beta]}}
    for name, fields in given.items():
        options = AdapterOptions(thinking_budget=5000, max_output_tokens=2000, **{name: {provider: fields}})
        request = get_adapter(model).to_wire([Message.user("Hi")], [], options)
        assert b'"budget_tokens":5000' in request.body
        assert request.losses == ()


def test_a_budget_that_was_read_is_held_to_the_limits_of_the_model_that_gets_it() -> None:
    """It is an option, so a newer model gets no trace of it. Other options of the same wire go back unchanged."""
    first, newer = "anthropic:claude-sonnet-4-5", "anthropic:claude-opus-5-5"
    body = {"model": "claude-sonnet-4-5", "max_tokens": 4000, "messages": [{"role": "user", "content": "Hi"}]}
    thinking = {"type": "enabled", "budget_tokens": 5000}
    context = RequestContext.for_model(first)
    messages, _, options = get_adapter(first).from_wire_request({**body, "thinking": thinking}, context)
    same = json.loads(get_adapter(first).to_wire(messages, [], options).body)
    assert same == {**body, "thinking": {**thinking, "budget_tokens": 3999}}
    assert b"budget_tokens" not in get_adapter(newer).to_wire(messages, [], options).body
    sampled = {**body, "temperature": 1.7, "top_p": 0.9}
    messages, _, options = get_adapter(first).from_wire_request(sampled, RequestContext.for_model(first))
    assert json.loads(get_adapter(first).to_wire(messages, [], options).body) == sampled


@each_row(
    ("model", "options", "sent", "lost"),
    _rows("""
anthropic:claude-sonnet-4-5       temperature=0.5,top_p=0.9    temperature=0.5          top_p
anthropic:claude-opus-4-1         temperature=0.5,top_p=0.9    temperature=0.5          top_p
anthropic:claude-sonnet-4-6       temperature=0.5,top_p=0.9    temperature=0.5          top_p
anthropic:claude-sonnet-4-5       top_p=0.9                    top_p=0.9                -
anthropic:claude-sonnet-4-5       top_p=0.9,top_k=3            top_p=0.9,top_k=3        -
anthropic:claude-sonnet-4-5       temperature=0.5,top_p=0.97,thinking_budget=2000  top_p=0.97  temperature
anthropic:claude-sonnet-4-0       temperature=0.7,top_p=0.3    temperature=0.7,top_p=0.3  -
anthropic:claude-3-haiku-20240307 temperature=1.7              temperature=1            temperature
anthropic:claude-opus-4-8         temperature=1.7,top_p=0.9    -                        temperature,top_p
bedrock:anthropic.claude-sonnet-4-5-20250929-v1:0  temperature=1.7,top_p=0.9  temperature=1  temperature,top_p
bedrock:us.amazon.nova-lite-v1:0  temperature=0.5,top_p=0.9    temperature=0.5,topP=0.9 -
"""),
)
def test_sampling_of_claude_is_held_to_what_the_model_takes(model: str, options: str, sent: str, lost: str) -> None:
    """Sampling of Claude is held to what the model takes: one of two parameters from Claude 4.1 on, and no temperature
    above 1.
    """
    given = {name: float(value) for name, value in (each.split("=") for each in options.split(","))}
    whole = {name: int(given.pop(name)) for name in ("top_k", "thinking_budget") if name in given}
    request = get_adapter(model).to_wire([Message.user("Hi")], [], AdapterOptions(**given, **whole))
    body = json.loads(request.body)
    fields = body.get("inferenceConfig", body)
    found = [f"{name}={fields[name]}" for name in ("temperature", "top_p", "topP", "top_k") if name in fields]
    assert (",".join(found) or "-") == sent
    assert (",".join(loss.reason.partition(":")[0] for loss in request.losses) or "-") == lost


@each_row(
    ("model", "effort", "sent"),
    _rows("""
google:gemini-3.6-flash        xhigh high
google-interactions:gemini-3.6-flash max high
ollama:gpt-oss:20b             minimal low
bedrock:us.amazon.nova-2-lite-v1:0 max high
openai:gpt-5.1                 max  high
xai:grok-4.5                   max  high
"""),
)
def test_efforts_elsewhere(model: str, effort: str, sent: str) -> None:
    """A level that the model lacks becomes the nearest one, with a loss that names both."""
    options = AdapterOptions(effort=effort)
    request = get_adapter(model).to_wire([Message.user("Hi")], [], options)
    assert sent in request.body.decode().lower()
    reasons = [loss.reason for loss in request.losses]
    assert any(effort in reason and sent in reason for reason in reasons), reasons


TABLES = sorted((Path(__file__).parents[4] / "adapters" / "dragoman_adapters").glob("*/models.toml"))


@pytest.mark.parametrize("table", TABLES, ids=lambda path: path.parent.name)
def test_each_positive_declaration_names_its_evidence(table: Path) -> None:
    """Each positive declaration names its evidence in its row or for all rows: a page of the provider, its own words,
    or a recording.
    """
    data = tomllib.loads(table.read_text(encoding="utf-8"))
    default = data.get("default", {})
    declared, missing = 0, []
    for row in (default, *data.get("model", ())):
        known = {**default.get("evidence", {}), **row.get("evidence", {})}
        for name, value in row.items():
            if value in ("native", "emulated") and name != "structured_output_by":
                declared += 1
                if len(known.get(name, "")) < 8:
                    missing.append((row.get("match", "default"), name))
    assert declared
    assert missing == []
