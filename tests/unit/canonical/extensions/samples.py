"""Extensions in which each field has a value other than its default; each text is the path of its field."""

from typing import Any

from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.message import Message

HOP = {
    "subject_id": "delegation.chain.subject_id", "subject_type": "user", "audience": "delegation.chain.audience",
    "scopes_granted": ["delegation.chain.scopes_granted"], "timestamp": "2026-11-21T08:00:00Z", "ttl_seconds": 60,
    "strategy": "delegation.chain.strategy", "from_cache": True,
}  # fmt: skip

FULL: dict[str, Any] = {
    "request": {
        "environment": "request.environment", "request_id": "request.request_id", "timestamp": "request.timestamp",
        "trace_id": "request.trace_id", "span_id": "request.span_id",
    },
    "agent": {
        "input": "agent.input", "session_id": "agent.session_id", "conversation_id": "agent.conversation_id",
        "turn": 3, "agent_id": "agent.agent_id", "parent_agent_id": "agent.parent_agent_id",
        "conversation": {
            "history": [Message.user("agent.conversation.history", session_id="s").model_dump(mode="json")],
            "summary": "agent.conversation.summary", "topics": ["agent.conversation.topics"],
        },
    },
    "http": {"headers": {"X-Trace": "http.headers.trace", "Authorization": "http.headers.authorization"}},
    "security": {
        "labels": ["security.labels.one", "security.labels.two"], "classification": "security.classification",
        "subject": {
            "id": "security.subject.id", "type": "service", "roles": ["security.subject.roles"],
            "permissions": ["security.subject.permissions"], "teams": ["security.subject.teams"],
            "claims": {"sub": "security.subject.claims"},
        },
        "objects": {
            "execute_sql": {
                "managed_by": "both", "permissions": ["security.objects.permissions"], "trust_domain": "privileged",
                "data_scope": ["security.objects.data_scope"],
            },
        },
        "data": {
            "execute_sql": {
                "apply_labels": ["security.data.apply_labels"], "allowed_actions": ["security.data.allowed_actions"],
                "denied_actions": ["security.data.denied_actions"],
                "retention": {
                    "max_age_seconds": 60, "policy": "session", "delete_after": "security.data.retention.delete_after",
                },
            },
        },
    },
    "delegation": {
        "chain": [HOP], "depth": 1, "origin_subject_id": "delegation.origin_subject_id",
        "actor_subject_id": "delegation.actor_subject_id", "delegated": True, "age_seconds": 1.5,
    },
    "mcp": {
        "tool": {
            "name": "execute_sql", "title": "mcp.tool.title", "description": "mcp.tool.description",
            "input_schema": {"type": "object", "required": ["mcp.tool.input_schema"]},
            "output_schema": {"title": "mcp.tool.output_schema"}, "server_id": "mcp.tool.server_id",
            "namespace": "mcp.tool.namespace", "annotations": {"readOnlyHint": {"of": "mcp.tool.annotations"}},
        },
        "resource": {
            "uri": "mcp.resource.uri", "name": "mcp.resource.name", "description": "mcp.resource.description",
            "mime_type": "mcp.resource.mime_type", "server_id": "mcp.resource.server_id",
            "annotations": {"a": "mcp.resource.annotations"},
        },
        "prompt": {
            "name": "mcp.prompt.name", "description": "mcp.prompt.description",
            "arguments": [{"name": "mcp.prompt.arguments", "required": True}], "server_id": "mcp.prompt.server_id",
            "annotations": {"a": "mcp.prompt.annotations"},
        },
    },
    "completion": {
        "stop_reason": "call", "tokens": {"input_tokens": 1, "output_tokens": 2, "total_tokens": 4},
        "model": "completion.model", "raw_format": "completion.raw_format", "created_at": "completion.created_at",
        "latency_ms": 12,
    },
    "provenance": {
        "source": "provenance.source", "message_id": "provenance.message_id", "parent_id": "provenance.parent_id",
    },
    "llm": {"model_id": "llm.model_id", "provider": "llm.provider", "capabilities": ["llm.capabilities"]},
    "framework": {
        "framework": "framework.framework", "framework_version": "framework.framework_version",
        "node_id": "framework.node_id", "graph_id": "framework.graph_id", "metadata": {"a": ["framework.metadata"]},
    },
    "meta": {"tags": ["meta.tags"], "scope": "meta.scope", "properties": {"a": "meta.properties"}},
    "custom": {"a": {"b": ["custom"]}},
}  # fmt: skip


def full() -> Extensions:
    return Extensions.model_validate(FULL)
