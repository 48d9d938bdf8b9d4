"""What a policy knows of a request besides its messages.

Plugins see who asks, with which key, and the headers without secrets. If the bytes of a client go to a provider of its
wire, fields go along that the wire does not read: unknown ones, and those that no other wire has. Their texts are
judged as a message.
"""

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from pydantic import BaseModel

from dragoman import AdapterOptions, AsyncClient, Message, ToolDefinition
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


_WORD = re.compile(r"[A-Za-z0-9_.:/$+-]{0,64}")
"""A name of a field, or a word of the wire."""
_WORDS = frozenset(
    {
        "type", "role", "object", "status", "model", "id", "tool_use_id", "call_id", "tool_call_id", "item_id",
        "detail", "format", "media_type", "mime_type", "mimeType", "ttl", "phase", "effort", "summary", "tool_choice",
        "mode", "verbosity", "service_tier", "truncation", "include", "encoding_format", "keep_alive",
    }
)  # fmt: skip
"""Fields with ids and words of the wire. A text with spaces in one of them is judged."""
_OPAQUE = frozenset({"signature", "thoughtSignature", "encrypted_content", "encrypted_index", "encrypted_stdout"})
_DATA_URL = re.compile(r"data:[^,]{0,200};base64,")


def unread_texts(
    fields: Mapping[str, Any], messages: Iterable[Message], tools: Iterable[ToolDefinition], options: AdapterOptions
) -> tuple[str, ...]:
    """Return the texts of a body that are in none of what was read from it, each once."""
    known: set[str] = set()
    for message in messages:
        known.update(_leaves([block.__dict__ for block in message.content]))
    for tool in tools:
        known.update(_leaves({name: each for name, each in tool.__dict__.items() if name != "provider_raw"}))
    known.update(_leaves([options.user, options.metadata, options.stop_sequences, options.output_schema]))
    known.update(_leaves([dict(each) for each in options.extra.values()]))
    joined = "\n".join(each for each in known if len(each) < _LONGEST)
    found = (text for text in _texts(fields) if text not in known and not _is_known(text, known, joined))
    return tuple(dict.fromkeys(found))


_LONGEST = 1_000_000
"""Characters. A longer text is known only as a whole."""


def is_word(name: str, value: str) -> bool:
    """Whether the value of a field is an id or a word of the wire."""
    return name in _WORDS and _WORD.fullmatch(value) is not None


def _is_known(text: str, known: set[str], joined: str) -> bool:
    if not text.strip() or text in joined:
        return True
    if (data := _DATA_URL.match(text)) is not None:
        return text[data.end() :] in known
    if text.lstrip()[:1] in ("{", "["):
        try:
            parsed = json.loads(text)
        except ValueError:
            return False
        return all(leaf in known or leaf in joined for leaf in _leaves(parsed))
    return False


def _texts(value: Any, name: str = "") -> Iterator[str]:
    """Yield the texts of a body, except for words of the wire."""
    if isinstance(value, str):
        if not is_word(name, value):
            yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            if not _WORD.fullmatch(key):
                yield key
            if key not in _OPAQUE:
                yield from _texts(each, key)
    elif isinstance(value, (list, tuple)):
        for each in value:
            yield from _texts(each, name)


def _leaves(value: Any) -> Iterator[str]:
    """Yield all texts of a value, keys too."""
    if isinstance(value, BaseModel):
        value = {**value.__dict__, **(value.model_extra or {})}
    if isinstance(value, str):
        yield value
    elif isinstance(value, Mapping):
        for key, each in value.items():
            yield str(key)
            yield from _leaves(each)
    elif isinstance(value, (Sequence, set, frozenset)):
        for each in value:
            yield from _leaves(each)
