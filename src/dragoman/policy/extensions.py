"""Extensions: the context that travels with a message, such as its subject, its labels and its headers.

`filter_extensions` leaves what a plugin may read, and `merge_extensions` applies what it may change.
"""

from dragoman.canonical.extensions.extensions import AgentExtension, ConversationContext, Extensions
from dragoman.canonical.extensions.headers import drop_secret_headers
from dragoman.canonical.extensions.security import (
    DataPolicy,
    ObjectSecurityProfile,
    RetentionPolicy,
    SecurityExtension,
    SubjectExtension,
    SubjectType,
)
from dragoman.canonical.extensions.slots import (
    CompletionExtension,
    CompletionStopReason,
    CompletionTokens,
    DelegationExtension,
    DelegationHop,
    FrameworkExtension,
    HttpExtension,
    LLMExtension,
    MCPExtension,
    MetaExtension,
    PromptMetadata,
    ProvenanceExtension,
    RequestExtension,
    ResourceMetadata,
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
    "drop_secret_headers",
    "filter_extensions",
    "merge_extensions",
]
