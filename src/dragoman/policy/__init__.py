"""Policy: plugins that judge messages, and what they may read and change.

These are the names that most plugins and programs need. `dragoman.policy.extensions` has every extension,
`dragoman.policy.views` what a view of a message consists of, `dragoman.policy.labels` and
`dragoman.policy.data_policy` work with labels, and `dragoman.policy.slots` says who may read and write what.
`dragoman.policy.plugins` has the plugins that come with the library.
"""

from dragoman.canonical.extensions.extensions import Extensions
from dragoman.canonical.extensions.security import (
    DataPolicy,
    ObjectSecurityProfile,
    SecurityExtension,
    SubjectExtension,
    SubjectType,
)
from dragoman.canonical.extensions.slots import HttpExtension
from dragoman.canonical.message_view.view import MessageView, iter_views
from dragoman.policy.errors import DeclassificationError, PolicyDeniedError, PolicyError, TierViolation
from dragoman.policy.labels import Declassification
from dragoman.policy.pipeline import Pipeline, PipelineResult
from dragoman.policy.plugin import CheckResult, Hook, Mode, OnError, Plugin, PluginResult, Violation, hook
from dragoman.policy.slots import Capability, Tier
from dragoman.policy.step import Step

__all__ = [
    "Capability",
    "CheckResult",
    "DataPolicy",
    "Declassification",
    "DeclassificationError",
    "Extensions",
    "Hook",
    "HttpExtension",
    "MessageView",
    "Mode",
    "ObjectSecurityProfile",
    "OnError",
    "Pipeline",
    "PipelineResult",
    "Plugin",
    "PluginResult",
    "PolicyDeniedError",
    "PolicyError",
    "SecurityExtension",
    "Step",
    "SubjectExtension",
    "SubjectType",
    "Tier",
    "TierViolation",
    "Violation",
    "hook",
    "iter_views",
]
