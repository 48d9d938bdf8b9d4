"""What plugins of a policy know of a request: who asks, with which key, and the headers without secrets."""

from collections.abc import Mapping

from dragoman.policy import Extensions, HttpExtension, SecurityExtension, SubjectExtension, SubjectType
from dragoman.policy.extensions import RequestExtension, drop_secret_headers
from dragoman_gateway.access import Caller


def policy_extensions(caller: Caller, request_id: str, headers: Mapping[str, str]) -> Extensions:
    """Return the extensions of a request. The subject is the user of the key, or the key itself as a service; None in a
    gateway without keys. None of these headers is sent to a provider."""
    subject_id = caller.user or caller.key_id
    security = None
    if subject_id is not None:
        kind = SubjectType.SERVICE if caller.user is None else SubjectType.USER
        teams = frozenset() if caller.team is None else frozenset({caller.team})
        security = SecurityExtension(subject=SubjectExtension(id=subject_id, type=kind, teams=teams))
    return Extensions(
        request=RequestExtension(request_id=request_id),
        http=HttpExtension(headers=drop_secret_headers(headers)),
        security=security,
    )
