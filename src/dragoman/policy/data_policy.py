"""Data policies: the labels of an entity's data, and the permitted actions. Source:
docs/reference/cmf.md#data-policies.
"""

from collections.abc import Iterable, Mapping

from dragoman.canonical.blocks import RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.extensions.security import DataPolicy
from dragoman.canonical.message import Message
from dragoman.canonical.message_view.parts import CalledTool
from dragoman.canonical.message_view.uris import AmbiguousUriError
from dragoman.canonical.message_view.view import MessageView, iter_views
from dragoman.policy.labels import with_labels
from dragoman.policy.plugin import Violation
from dragoman.policy.step import with_inner
from dragoman.policy.texts import drop_unknown_parts, find_unknown_kind

_WITHOUT_ENTITY = frozenset({TextBlock, ThinkingBlock, RedactedThinkingBlock, ToolUseBlock})
"""Blocks that are not data of an entity: most messages have no others."""


def data_policies(
    message: Message, extensions: Extensions | None, calls: Mapping[str, CalledTool] | None = None
) -> tuple[DataPolicy, ...]:
    """Return the data policies of what this message holds at any depth: results of tools and prompts, resources, and
    media by URL. Each is looked up by name and by URI.
    """
    if extensions is None or extensions.security is None or not extensions.security.data:
        return ()
    if all(type(block) in _WITHOUT_ENTITY for block in message.content):
        return ()
    if find_unknown_kind(message.content) is not None:
        message = drop_unknown_parts(message)  # such parts have neither a name nor a URI
    policies = extensions.security.data
    views = with_inner(iter_views(message, extensions=extensions, calls=calls))
    return tuple(policy for view in views if _is_data(view) for policy in _policies_of(view, policies))


def _is_data(view: MessageView) -> bool:
    is_answer = view.is_post and (view.is_tool or view.is_resource or view.is_prompt)
    return is_answer or (view.is_media and view.has_address)


def _policies_of(view: MessageView, policies: Mapping[str, DataPolicy]) -> Iterable[DataPolicy]:
    """Return the policies of one answer: those of all URIs if its own URI may mean any of them."""
    try:
        return view.data_policies
    except AmbiguousUriError:
        return [policy for key, policy in policies.items() if ":" in key or key == view.name]


def apply_data_labels(
    message: Message, extensions: Extensions | None, calls: Mapping[str, CalledTool] | None = None
) -> Extensions | None:
    """Return the extensions with the labels that the data policies of this message apply."""
    policies = data_policies(message, extensions, calls)
    labels = {label for policy in policies for label in policy.apply_labels}
    return with_labels(extensions, labels) if labels else extensions


def check_data_use(actions: Iterable[str], policies: Iterable[DataPolicy]) -> Violation | None:
    """Return the first violation of these data policies by the given actions, or None."""
    all_policies = tuple(policies)
    for action in actions:
        if not all(policy.permits(action) for policy in all_policies):
            reason = f"data in this conversation may not be used for {action!r}"
            return Violation(reason, code="data_policy", plugin="data policy")
    return None
