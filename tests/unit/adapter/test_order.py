"""The specification's own members come first, for whoever reads the contract from the top."""

from inspect import isfunction

from dragoman.adapters import Adapter, AdapterCapabilities
from dragoman.messages import MessageMetadata


def test_the_four_members_of_an_adapter_come_first() -> None:
    members = [name for name, value in vars(Adapter).items() if isfunction(value) or isinstance(value, property)]
    assert members[:4] == ["capabilities", "to_wire", "from_wire_response", "stream_response"]


def test_the_capabilities_of_the_specification_come_first() -> None:
    assert list(AdapterCapabilities.model_fields)[:14] == [
        "supports_thinking", "supports_images", "supports_tools", "supports_system_prompt",
        "supports_structured_output", "supports_streaming", "supports_streaming_tool_calls",
        "supports_parallel_tool_calls", "supports_prompt_caching", "supports_system_messages_in_list",
        "max_context_tokens", "max_output_tokens", "accepted_image_media_types", "supports_batch_api",
    ]  # fmt: skip


def test_the_metadata_of_the_specification_comes_first() -> None:
    assert list(MessageMetadata.model_fields)[:6] == [
        "model", "provider", "routing", "usage", "parent_tool_use_id", "status",
    ]  # fmt: skip
