"""The data of a conversation: which data policies apply to it, and which provider's model called for each piece."""

from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, datetime

from dragoman.adapter.errors import ConfigurationError
from dragoman.canonical.extensions.message_retention import retention_end
from dragoman.canonical.extensions.security import DataPolicy
from dragoman.canonical.message import Message
from dragoman.policy.data_policy import check_data_use
from dragoman.policy.plugin import Violation


class ConversationData:
    """Both checks return the first violation, or None."""

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
    """Raise ConfigurationError if a policy denies what nothing enforces, or has a time that is not a time."""
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
