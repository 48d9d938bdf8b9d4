"""What plugins of a policy know of a request: who asks, with which key, and the headers without secrets."""

from collections.abc import Mapping

from dragoman import AsyncClient
from dragoman.policy import Extensions, HttpExtension, SecurityExtension, SubjectExtension, SubjectType
from dragoman.policy.extensions import RequestExtension, drop_secret_headers
from dragoman_gateway.access import Caller


def policy_extensions(
    base: Extensions | None, caller: Caller, request_id: str, headers: Mapping[str, str]
) -> Extensions:
    """Return the extensions of a request: those of the client, with what is known of the request.

    The subject is the user of the key, or the key itself as a service; that of the client in a gateway without keys.
    None of these headers is sent to a provider."""
    known = base or Extensions()
    security, subject_id = known.security, caller.user or caller.key_id
    if subject_id is not None:
        kind = SubjectType.SERVICE if caller.user is None else SubjectType.USER
        teams = frozenset() if caller.team is None else frozenset({caller.team})
        roles, permissions = frozenset(caller.roles), frozenset(caller.permissions)
        subject = SubjectExtension(id=subject_id, type=kind, teams=teams, roles=roles, permissions=permissions)
        security = (security or SecurityExtension()).model_copy(update={"subject": subject})
    changes = {
        "request": (known.request or RequestExtension()).model_copy(update={"request_id": request_id}),
        "http": HttpExtension(headers=drop_secret_headers(headers)),
        "security": security,
    }
    return known.model_copy(update=changes)


def client_of(client: AsyncClient, caller: Caller, request_id: str, headers: Mapping[str, str]) -> AsyncClient:
    """Return the client with the extensions of a request, for what no session asks; without a policy, as it is."""
    if client.config.policy is None:
        return client
    return client.with_(extensions=policy_extensions(client.config.extensions, caller, request_id, headers))
