"""Extensions: the context that travels with a message, such as its subject, its labels and its headers.

`filter_extensions` leaves what a plugin may read, and `merge_extensions` applies what it may change.
"""

from dragoman.canonical.extensions.extensions import (
    AgentExtension,
    CompletionExtension,
    CompletionStopReason,
    CompletionTokens,
    ConversationContext,
    DataPolicy,
    DelegationExtension,
    DelegationHop,
    Extensions,
    FrameworkExtension,
    HttpExtension,
    LLMExtension,
    MCPExtension,
    MetaExtension,
    ObjectSecurityProfile,
    PromptMetadata,
    ProvenanceExtension,
    RequestExtension,
    ResourceMetadata,
    RetentionPolicy,
    SecurityExtension,
    SubjectExtension,
    SubjectType,
    ToolMetadata,
)
from dragoman.policy.filtering import filter_extensions
from dragoman.policy.merging import merge_extensions

__all__ = [
    "AgentExtension",
    "CompletionExtension",
    "CompletionStopReason",
    "CompletionTokens",
    "ConversationContext",
    "DataPolicy",
    "DelegationExtension",
    "DelegationHop",
    "Extensions",
    "FrameworkExtension",
    "HttpExtension",
    "LLMExtension",
    "MCPExtension",
    "MetaExtension",
    "ObjectSecurityProfile",
    "PromptMetadata",
    "ProvenanceExtension",
    "RequestExtension",
    "ResourceMetadata",
    "RetentionPolicy",
    "SecurityExtension",
    "SubjectExtension",
    "SubjectType",
    "ToolMetadata",
    "filter_extensions",
    "merge_extensions",
]
