"""The part of a policy in the decision where a request leaves (`dragoman.attempt.decision`)."""

from dataclasses import replace

from dragoman.adapter.contract import Adapter
from dragoman.canonical.extensions.slots import MCPExtension
from dragoman.canonical.log import get_logger
from dragoman.canonical.message import Message, Role
from dragoman.canonical.tools import ToolDefinition
from dragoman.effects.work import Work
from dragoman.policy.conversation.state import PolicyState
from dragoman.policy.conversation.tools import actions_of, as_call, describe, without_choice
from dragoman.policy.errors import PolicyDeniedError
from dragoman.policy.labels import with_labels
from dragoman.policy.outgoing import OutgoingRequest
from dragoman.policy.pipeline import ENDLESS_LABELS, MAX_LABEL_ROUNDS
from dragoman.policy.plugin import Hook, Violation

logger = get_logger("dragoman.policy")


class RequestDecision:
    """Decides about whole requests of a conversation, after all plugins have seen their messages."""

    def __init__(self, policy: PolicyState) -> None:
        self._policy = policy

    @property
    def can_decide(self) -> bool:
        """Whether it can keep any request, or any tool of one, back."""
        policy, security = self._policy, self._policy.extensions.security
        return (
            policy.takes_turn_extensions
            or policy.has_data_policies
            or policy.judges_requests
            or policy.pipeline.has_plugins(Hook.TOOL_PRE_INVOKE)
            or (security is not None and bool(security.objects))
        )

    def decide(self, request: OutgoingRequest) -> Work[OutgoingRequest]:
        """Return the request as it may leave. Raises PolicyDeniedError. Source: docs/reference/policy.md#decision."""
        policy, adapter = self._policy, request.adapter
        policy.extensions = with_labels(policy.extensions, request.labels)
        if (violation := policy.data.check_forwarding(adapter.provider)) is not None:
            policy.refuse(Hook.REQUEST, violation)
        tools = request.tools
        if any(tool.RUN_BY_PROVIDER for tool in tools):
            tools = yield from self._withhold(tools, adapter)
        yield from self._judge_request(adapter)
        if len(tools) < len(request.tools):
            withheld = {tool.name for tool in request.tools} - {tool.name for tool in tools}
            options = without_choice(request.options, withheld, any_left=bool(tools))
            request = replace(request, tools=tools, options=options)
        return replace(request, labels=policy.labels)

    def _judge_request(self, adapter: Adapter) -> Work[None]:
        """Run the plugins of the request until none of them adds a label: each has then seen all labels."""
        policy = self._policy
        if not policy.judges_requests:
            return
        request = Message(role=Role.USER, content=(), session_id=policy.session_id)
        for _ in range(MAX_LABEL_ROUNDS):
            before = policy.labels
            visible = policy.extensions_for(lambda: {"llm": policy.context.model(adapter)})
            yield from policy.judge(Hook.REQUEST, request, visible, already_seen=True)
            if policy.labels == before:
                return
        policy.refuse(Hook.REQUEST, Violation(ENDLESS_LABELS, code="labels"))

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
        policy = self._policy
        metadata, key = describe(tool, adapter.provider), (tool, adapter.provider, policy.labels)
        try:
            if (violation := policy.data.check_actions(actions_of(metadata))) is not None:
                policy.refuse(Hook.TOOL_PRE_INVOKE, violation)
            if key not in policy.offers:
                visible = policy.extensions_for(lambda: {"mcp": MCPExtension(tool=metadata)})
                yield from policy.judge(
                    Hook.TOOL_PRE_INVOKE, as_call(tool, policy.session_id), visible, already_seen=True
                )
                policy.offers[key] = None
        except PolicyDeniedError as denial:
            policy.offers[key] = denial
        return policy.offers[key]
