"""Data policies: the labels of an entity's data, and the permitted actions. Source:
docs/reference/cmf.md#data-policies.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.blocks import RedactedThinkingBlock, TextBlock, ThinkingBlock, ToolUseBlock
from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.extensions.message_retention import retention_end
from dragoman.canonical.extensions.security import DataPolicy
from dragoman.canonical.message import Message
from dragoman.canonical.message_view.parts import CalledTool
from dragoman.canonical.message_view.uris import AmbiguousUriError
from dragoman.canonical.message_view.view import MessageView, iter_views
from dragoman.policy.labels import with_labels
from dragoman.policy.plugin import Violation
from dragoman.policy.unknown_parts import drop_unknown_parts, find_unknown_kind

_WITHOUT_ENTITY = frozenset({TextBlock, ThinkingBlock, RedactedThinkingBlock, ToolUseBlock})
"""Blocks that are no data of an entity: most messages have no others."""


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
    views = iter_views(message, extensions=extensions, calls=calls)
    return tuple(policy for view in _data_views(views) for policy in _policies_of(view, policies))


def _data_views(views: Iterable[MessageView]) -> Iterator[MessageView]:
    for view in views:
        if (view.is_post and (view.is_tool or view.is_resource or view.is_prompt)) or (
            view.is_media and view.has_address
        ):
            yield view
        yield from _data_views(view.inner_views())


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


class ConversationData:
    """The data policies of what a conversation holds, and which provider's model called for each piece of data. Both
    checks return the first violation, or None."""

    def __init__(self) -> None:
        self._policies: list[tuple[str | None, DataPolicy]] = []
        self._call_providers: dict[str, str | None] = {}
        """The provider that each call came from."""

    def note_call(self, call_id: str, provider: str | None) -> None:
        self._call_providers[call_id] = provider

    def add(self, message: Message, policies: Iterable[DataPolicy]) -> None:
        """Add the policies of what the message holds."""
        provider = next((self._call_providers.get(result.tool_use_id) for result in message.tool_results), None)
        new = [(provider, policy) for policy in policies]
        self._policies += [source for source in new if source not in self._policies]

    def check_actions(self, actions: Sequence[str]) -> Violation | None:
        return check_data_use(actions, (policy for _, policy in self._policies))

    def check_forwarding(self, provider: str) -> Violation | None:
        """Check that data which may not be forwarded stays with the provider that requested it.

        If it is unknown who requested it, no provider did.
        """
        if not self._policies:
            return None
        foreign = (policy for source, policy in self._policies if source != provider)
        return check_data_use(("forward",), foreign)


_DELETE = "delete"
"""A store deletes what its program tells it to, without asking a data policy: only tools are kept from deleting."""


def check_policies(policies: Mapping[str, DataPolicy]) -> None:
    """Raise ConfigurationError if a policy denies what nothing enforces, or has a time that is no time."""
    for name, policy in policies.items():
        if _DELETE in policy.denied_actions:
            raise ConfigurationError(
                f"the data policy of {name!r} denies delete, which no store here enforces: withhold the tools that"
                " delete, with a list of allowed_actions"
            )
        try:
            if policy.retention is not None:
                retention_end(policy.retention, datetime.now(UTC))
        except ValueError:
            raise ConfigurationError(
                f"the data policy of {name!r:.80}: delete_after is an ISO time, such as 2027-01-31T00:00:00Z"
            ) from None
