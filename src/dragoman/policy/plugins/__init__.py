"""Ready-made plugins: redaction, access by URI and by profile, confirmation, labelled models, untrusted data, policy
services."""

from dragoman.policy.plugins.access import AllowUris, DenyUris, ObjectAccess
from dragoman.policy.plugins.confirmation import Confirmation
from dragoman.policy.plugins.finding import Finder, Finding, findings, personal_data, presidio, secrets
from dragoman.policy.plugins.labels import LabelledModels, UntrustedData
from dragoman.policy.plugins.redaction import Redaction
from dragoman.policy.plugins.remote import OpaPolicy, RemotePlugin

__all__ = [
    "AllowUris",
    "Confirmation",
    "DenyUris",
    "Finder",
    "Finding",
    "LabelledModels",
    "ObjectAccess",
    "OpaPolicy",
    "Redaction",
    "RemotePlugin",
    "UntrustedData",
    "findings",
    "personal_data",
    "presidio",
    "secrets",
]
