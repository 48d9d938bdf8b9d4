"""The built-in tables: each makes an adapter, each has an entry point, and all are valid."""

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import dragoman_adapters.compatible.adapter
from dragoman.adapter.contract import Adapter, AdapterOptions
from dragoman.adapter.losses import LossKind, Severity
from dragoman.canonical.blocks import ThinkingBlock, ToolUseBlock
from dragoman.canonical.message import Message, MessageMetadata
from dragoman.canonical.tools import ToolDefinition
from dragoman.credentials.target import TargetFinder
from dragoman_adapters.compatible.endpoint_row import built_in_tables
from dragoman_adapters.openai_chat.adapter import ChatAdapter
from dragoman_adapters.openai_platform.dual_api import DualApiAdapter
from tests.tables import each_row

NAMES = list(built_in_tables())
LOOK = ToolDefinition(name="look")
PYPROJECT = Path(__file__).resolve().parents[4] / "pyproject.toml"

EXPECTED = {
    "azure-openai", "groq", "deepseek", "xai", "huggingface", "ollama-openai", "llamacpp", "vllm", "lmstudio",
    "together", "fireworks", "cerebras", "databricks", "perplexity", "github-copilot", "alibaba", "moonshot", "z-ai",
    "venice",
    "snowflake", "vercel", "cloudflare", "writer", "gpustack", "doubleword", "nvidia", "compatible",
}  # fmt: skip


def adapter(name: str, model: str = "model") -> Adapter:
    kind: type[Adapter] = getattr(dragoman_adapters.compatible.adapter, name.replace("-", "_"))
    return kind(model)


def test_the_promised_endpoints_are_there() -> None:
    """Their names are promised."""
    assert set(NAMES) >= EXPECTED


@each_row("name", NAMES)
def test_every_table_makes_an_adapter(name: str) -> None:
    """Every table makes an adapter under its own name, with readable capabilities for every model that it lists."""
    found = adapter(name)
    assert found.provider == name
    assert isinstance(found, (ChatAdapter, DualApiAdapter))
    for model in ("anything", *found.listed_models):
        assert type(found)(model).capabilities.max_context_tokens > 0
    assert len(set(found.listed_models)) == len(found.listed_models)


@each_row("name", NAMES)
def test_reading_ones_own_thinking_is_declared(name: str) -> None:
    """A request holds the model's own thinking, at least in turns with a call, exactly if the model declares it."""
    kind = type(adapter(name))
    on_chat = kind.apis["chat"] if issubclass(kind, DualApiAdapter) else kind
    for model in ("anything", *kind.listed_models):
        speaker = on_chat(model)
        metadata = MessageMetadata(provider=name, model=f"{name}:{model}")
        call = ToolUseBlock(id="call_1", name="look", input={})
        reply = Message.assistant([ThinkingBlock(text="a certain thought"), call], metadata=metadata)
        answer = Message.tool("call_1", "seen")
        request = speaker.to_wire([Message.user("Look"), reply, answer], [LOOK], AdapterOptions())
        is_replayed = b"a certain thought" in request.body
        assert is_replayed == speaker.capabilities.thinking_policy.can_read(metadata.model)
        lost = [loss.severity for loss in request.losses if loss.kind is LossKind.THINKING]
        assert lost == ([] if is_replayed else [Severity.INFO])


def test_every_table_has_its_entry_point() -> None:
    """One line for each name, so that the registry finds it like any other adapter."""
    lines: dict[str, str] = tomllib.loads(PYPROJECT.read_text())["project"]["entry-points"]["dragoman.adapters"]
    ours = {name: value for name, value in lines.items() if value.startswith("dragoman_adapters.compatible")}
    assert ours == {name: f"dragoman_adapters.compatible.adapter:{name.replace('-', '_')}" for name in NAMES}


def test_an_unknown_name_is_no_attribute() -> None:
    """The module has no attributes for other names."""
    with pytest.raises(AttributeError, match="no attribute 'nowhere'"):
        _ = dragoman_adapters.compatible.adapter.nowhere


@each_row("name", NAMES)
def test_every_address_can_be_completed(name: str) -> None:
    """Names in braces come from the environment; if there is no default, an error asks for an address."""
    endpoint = adapter(name).endpoint
    variables = re.findall(r"\{(\w+)\}", endpoint.base_url)
    whole = "".join(endpoint.base_url.split("/")[:1]).startswith("{")
    environ = dict.fromkeys(variables, "https://host.test/" if whole else "value")
    environ |= {"AWS_REGION": "eu-central-1"} | dict.fromkeys(endpoint.key_variables[:1], "a-key-of-mine")
    if endpoint.base_url_variable and not endpoint.base_url:
        environ[endpoint.base_url_variable] = "https://host.test/v1"
    target = TargetFinder(environ=environ).target(adapter(name))
    assert target.base_url.startswith("http")
    assert "{" not in target.base_url
    assert (target.key is not None) == bool(endpoint.key_variables)


@pytest.mark.parametrize(
    ("name", "facts"),
    [
        ("azure-openai", {"key_header": "api-key", "key_prefix": "", "key_variables": ("AZURE_OPENAI_API_KEY",)}),
        ("groq", {"key_variables": ("GROQ_API_KEY",), "key_prefix": "Bearer ", "key_required": True}),
        ("ollama-openai", {"key_required": False, "base_url": "http://localhost:11434/v1"}),
        ("compatible", {"key_required": False, "base_url": "", "base_url_variable": "COMPATIBLE_BASE_URL"}),
    ],
)
def test_authentication_of_endpoints_is_declared(name: str, facts: dict[str, Any]) -> None:
    """Keys, headers and addresses are what the tables say."""
    endpoint = adapter(name).endpoint
    assert {field: getattr(endpoint, field) for field in facts} == facts
