"""The headers of replies."""

from collections import Counter
from collections.abc import Sequence

from dragoman import Loss
from dragoman_gateway.turn.replies import Headers
from dragoman_gateway.turn.turn import Turn
from dragoman_gateway.wires import Wire

REQUEST_ID = b"x-dragoman-request-id"


def named(wire: Wire, request_id: str) -> Headers:
    """Return the headers with the id of a request that no provider has answered."""
    value = request_id.encode()
    return [(wire.request_id_header, value), (REQUEST_ID, value)]


def reply_head(turn: Turn, losses: Sequence[Loss]) -> Headers:
    """Return the headers of a reply: the provider's own if it has the client's wire, ids, and the losses."""
    request = turn.request
    passed = turn.headers_to_client
    if passed is None:
        return [*named(request.wire, request.request_id), *losses_header(losses)]
    return [*passed, (REQUEST_ID, request.request_id.encode()), *losses_header(losses)]


def losses_header(losses: Sequence[Loss]) -> Headers:
    """Return the header with the number of losses and their kinds; nothing if there are none."""
    if not losses:
        return []
    kinds = Counter(loss.kind.value for loss in losses)
    listed = ", ".join(f"{kind}={count}" for kind, count in sorted(kinds.items()))
    return [(b"x-dragoman-losses", f"{len(losses)}; {listed}".encode())]
