"""Plugins to start from: redaction, allowing and denying by URI, confirmation, labels and models, an outside agent."""

from dragoman.policy.plugins.confirmation import Confirmation
from dragoman.policy.plugins.finding import Finder, Finding, findings, personal_data, presidio, secrets
from dragoman.policy.plugins.models import LabelledModels
from dragoman.policy.plugins.opa import OpaPolicy
from dragoman.policy.plugins.redaction import Redaction
from dragoman.policy.plugins.uris import AllowUris, DenyUris

__all__ = [
    "AllowUris",
    "Confirmation",
    "DenyUris",
    "Finder",
    "Finding",
    "LabelledModels",
    "OpaPolicy",
    "Redaction",
    "findings",
    "personal_data",
    "presidio",
    "secrets",
]
