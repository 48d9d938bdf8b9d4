"""References to items that the provider stores."""

from dragoman import AdapterOptions, Message, RequestContext, TextBlock, ToolResultBlock, get_adapter
from dragoman.blocks import ProviderBlock
from dragoman.canonical.message import Role

MODEL = "openai:gpt-6.1-sol"


def test_a_reference_after_a_cached_prefix_keeps_the_results_of_stored_calls() -> None:
    """The call of a result may be an item that the provider stores, also if the earlier messages are cached."""
    adapter, context = get_adapter(MODEL), RequestContext.for_model(MODEL)
    asked = [Message.user("A question. " * 400), Message(role=Role.ASSISTANT, content=(TextBlock(text="Well."),))]
    begun = [*asked, Message.user("And now?")]
    options = AdapterOptions(max_output_tokens=9, context=context)
    adapter.to_wire(begun, [], options)
    assert context.encode_cache.prefixes

    reference = ProviderBlock(provider="openai", kind="item_reference", data={"type": "item_reference", "id": "fc_1"})
    result = ToolResultBlock(tool_use_id="call_1", content=(TextBlock(text="Found."),))
    continued = [
        *begun,
        Message(role=Role.ASSISTANT, content=(reference,)),
        Message(role=Role.TOOL, content=(result,)),
    ]
    later = adapter.to_wire(continued, [], options)
    fresh = adapter.to_wire(continued, [], AdapterOptions(max_output_tokens=9, context=RequestContext.for_model(MODEL)))
    assert later.body == fresh.body
    assert later.losses == fresh.losses == ()
    assert b'"function_call_output"' in later.body
