"""Targets for projections: what real providers accept, and the two extremes."""

from dragoman.adapter.facts.capabilities import (
    ABSENT,
    EMULATED,
    NATIVE,
    AdapterCapabilities,
    ThinkingPolicy,
    ToolIdRule,
)
from dragoman.adapter.requests.request_builder import Target

_ALPHANUMERIC = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

RULES = {
    "anthropic": ToolIdRule(alphabet=_ALPHANUMERIC + "_-", max_length=128, prefix="toolu_"),
    "openai": ToolIdRule(alphabet=_ALPHANUMERIC + "_-", max_length=64, prefix="call_"),
    "mistral": ToolIdRule(alphabet=_ALPHANUMERIC, min_length=9, max_length=9),
    "bedrock": ToolIdRule(alphabet=_ALPHANUMERIC + "_.:-", min_length=1, max_length=64, prefix="tooluse_"),
    "long": ToolIdRule(alphabet="abc", min_length=40, max_length=50),
}
"""The rules of each provider's ids (docs/reference/wires), and a rule that requires longer ids than we make by default.
"""

_ANTHROPIC = AdapterCapabilities(
    supports_thinking=NATIVE,
    supports_images=NATIVE,
    supports_documents=NATIVE,
    supports_tool_result_media=NATIVE,
    supports_system_messages_in_list=ABSENT,
    supports_mid_conversation_system=ABSENT,
    supports_empty_text=ABSENT,
    supports_neighbours=NATIVE,
    accepted_image_media_types=("image/png",),
    thinking_policy=ThinkingPolicy(reads_from=("anthropic:*",)),
    tool_id_rule=RULES["anthropic"],
)
_CHAT = AdapterCapabilities(
    supports_developer_role=NATIVE,
    supports_images=NATIVE,
    supports_audio=NATIVE,
    supports_tool_result_media=EMULATED,
    supports_prefill=NATIVE,
    media_roles=("user",),
    tool_id_rule=RULES["openai"],
)
_OLLAMA = AdapterCapabilities(
    supports_thinking=NATIVE,
    supports_media_urls=ABSENT,
    supports_images=NATIVE,
    media_sources={"image": ("base64",)},
    thinking_policy=ThinkingPolicy(accepts_unsigned=True),
)
_MISTRAL = AdapterCapabilities(
    supports_empty_text=ABSENT,
    thinking_policy=ThinkingPolicy(foreign="text"),
    tool_id_rule=RULES["mistral"],
)
_LEAST = AdapterCapabilities(
    supports_tools=ABSENT,
    supports_system_prompt=ABSENT,
    supports_mid_conversation_system=ABSENT,
    supports_media_urls=ABSENT,
    supports_empty_text=ABSENT,
)
_MOST = AdapterCapabilities(
    supports_thinking=NATIVE,
    supports_developer_role=NATIVE,
    supports_prefill=NATIVE,
    supports_images=NATIVE,
    supports_audio=NATIVE,
    supports_video=NATIVE,
    supports_documents=NATIVE,
    supports_tool_result_media=NATIVE,
    media_roles=("user", "assistant", "developer", "system"),
    thinking_policy=ThinkingPolicy(reads_from=("*",), accepts_unsigned=True),
    native_from=("anthropic", "openai", "ollama", "mistral"),
)

TARGETS = (
    Target("anthropic", "claude-opus-5-5", _ANTHROPIC),
    Target("openai", "gpt-6.1-sol", _CHAT),
    Target("ollama", "qwen3", _OLLAMA),
    Target("mistral", "medium", _MISTRAL),
    Target("local", "smallest", _LEAST),
    Target("any", "largest", _MOST),
)
