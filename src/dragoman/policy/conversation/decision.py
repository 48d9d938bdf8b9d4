"""The part of a policy in the decision where a request leaves (`dragoman.attempt.decision`)."""

from dataclasses import replace

from dragoman.adapter.contract import Adapter
from dragoman.canonical.extensions.mcp import MCPExtension
from dragoman.canonical.log import get_logger
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ToolDefinition
from dragoman.effects.work import Work
from dragoman.policy.conversation.context import (
    actions_of,
)
from dragoman.policy.conversation.offers import as_call, describe, without_choice
from dragoman.policy.conversation.state import PolicyState
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.labels import with_labels
from dragoman.policy.outgoing import OutgoingRequest
from dragoman.policy.pipeline import ENDLESS_LABELS, MAX_LABEL_ROUNDS
from dragoman.policy.plugin import Hook, Violation

logger = get_logger("dragoman.policy")


class PolicyDecision(PolicyState):
    """Decides about whole requests: after all plugins have seen their messages."""

    @property
    def can_decide(self) -> bool:
        """Whether it can keep any request, or any tool of one, back."""
        security = self._extensions.security
        return (
            self._takes_turn_extensions
            or self._has_data_policies
            or self._judges_requests
            or self.pipeline.has_plugins(Hook.TOOL_PRE_INVOKE)
            or (security is not None and bool(security.objects))
        )

    def decide(self, request: OutgoingRequest) -> Work[OutgoingRequest]:
        """Return the request as it may leave. Raises PolicyDeniedError. Source: docs/reference/policy.md#decision."""
        adapter = request.adapter
        self._extensions = with_labels(self._extensions, request.labels)
        if (violation := self._data.check_forwarding(adapter.provider)) is not None:
            self._refuse(Hook.REQUEST, violation)
        tools = request.tools
        if any(tool.RUN_BY_PROVIDER for tool in tools):
            tools = yield from self._withhold(tools, adapter)
        yield from self._judge_request(adapter)
        if len(tools) < len(request.tools):
            withheld = {tool.name for tool in request.tools} - {tool.name for tool in tools}
            options = without_choice(request.options, withheld, any_left=bool(tools))
            request = replace(request, tools=tools, options=options)
        return replace(request, labels=self.labels)

    def _judge_request(self, adapter: Adapter) -> Work[None]:
        """Run the plugins of the request until none of them adds a label: each has then seen all labels."""
        if not self._judges_requests:
            return
        request = Message(role=Role.USER, content=(), session_id=self._session_id)
        for _ in range(MAX_LABEL_ROUNDS):
            before = self.labels
            visible = self._extensions_for(lambda: {"llm": self._context.model(adapter)})
            yield from self._judge(Hook.REQUEST, request, visible, already_seen=True)
            if self.labels == before:
                return
        self._refuse(Hook.REQUEST, Violation(ENDLESS_LABELS, code="labels"))

    def _withhold(self, tools: tuple[ToolDefinition, ...], adapter: Adapter) -> Work[tuple[ToolDefinition, ...]]:
        """Return the tools without those that the provider may not run."""
        offered = []
        for tool in tools:
            denial = (yield from self._check_offer(tool, adapter)) if tool.RUN_BY_PROVIDER else None
            if denial is None:
                offered.append(tool)
            else:
                logger.warning("%.80s is not offered to %s: %.80s", tool.name, adapter.model_id, denial.code)
        return tuple(offered)

    def _check_offer(self, tool: ToolDefinition, adapter: Adapter) -> Work[PolicyDeniedError | None]:
        """Return why a provider may not run that tool now, or None."""
        metadata, key = describe(tool, adapter.provider), (tool, adapter.provider, self.labels)
        try:
            if (violation := self._data.check_actions(actions_of(metadata))) is not None:
                self._refuse(Hook.TOOL_PRE_INVOKE, violation)
            if key not in self._offers:
                visible = self._extensions_for(lambda: {"mcp": MCPExtension(tool=metadata)})
                yield from self._judge(
                    Hook.TOOL_PRE_INVOKE, as_call(tool, self._session_id), visible, already_seen=True
                )
                self._offers[key] = None
        except PolicyDeniedError as denial:
            self._offers[key] = denial
        return self._offers[key]
