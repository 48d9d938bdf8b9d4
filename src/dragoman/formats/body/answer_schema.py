"""Builds the JSON Schema of a message body for structured output.

It describes an object with a list of parts, each of which the body's schema accepts. It is narrower than the body's
schema, so that small models too give usable answers: a type glob offers the known types, text is inline, and other
data is base64 or at a URL. Source: docs/reference/message-body.md#schemas.
"""

import re
from collections.abc import Sequence
from typing import Any

from dragoman.canonical.glob import expand_braces
from dragoman.formats.body.parts import normalize_type
from dragoman.formats.body.schema_part import MessageBodySchemaPart

Schema = dict[str, Any]

_KNOWN_TYPES = (
    "text/plain", "text/markdown", "text/html", "text/csv", "text/css", "text/xml", "text/javascript", "text/x-python",
    "text/x-rust", "text/x-c", "text/x-java", "text/x-go", "text/x-shellscript", "application/json",
    "application/yaml", "application/xml", "application/toml", "image/svg+xml", "image/png", "image/jpeg", "image/webp",
    "image/gif", "audio/mpeg", "audio/wav", "audio/ogg", "video/mp4", "video/webm", "application/pdf",
    "application/zip", "application/octet-stream",
)  # fmt: skip
_TEXTUAL = re.compile(r"text/.*|application/(?:json|yaml|xml|toml|javascript)|.*\+(?:json|xml|yaml)")
_SEGMENT = "[A-Za-z0-9._-]"
_TYPE_NAME = "[a-z0-9.+-]"
_SOME, _ANY = "{1,40}", "{0,40}"
"""Names have a maximum length, so that a repetitive model comes to an end."""
_SPECIAL = re.compile(r"[\\^$.|?*+()\[\]{}]")
_STAR = re.compile(r"\*\*+|\*|[^*]+")


def answer_schema(allowed: Sequence[MessageBodySchemaPart]) -> Schema:
    """Return the JSON Schema; if the body's schema accepts no part, that of a body without parts."""
    kinds = [kind for part in allowed for kind in _part_schemas(part)]
    parts: Schema = {"type": "array", "description": _description(allowed)}
    if kinds:
        parts["items"] = kinds[0] if len(kinds) == 1 else {"anyOf": kinds}
    if (max_parts := _max_parts(allowed)) is not None:
        parts["maxItems"] = max_parts
    if any(part.required for part in allowed):
        parts["minItems"] = 1
    return _object_schema({"parts": parts})


def _max_parts(allowed: Sequence[MessageBodySchemaPart]) -> int | None:
    """Return the maximum number of parts that an answer needs: one for each name, and one for all text. None if it is
    unknown. Small models do not end a list by themselves.
    """
    named = {name for part in allowed if part.name is not None for name in expand_braces(part.name)}
    unnamed = [part for part in allowed if part.name is None]
    if any("*" in name for name in named) or any(_binary_types(part) for part in unnamed):
        return None
    return len(named) + bool(unnamed)


def _description(allowed: Sequence[MessageBodySchemaPart]) -> str:
    lines = ["The parts of the answer, in order. A part without a name is said to the user."]
    lines += [f"{'Required' if part.required else 'Allowed'}: {part}." for part in allowed]
    return " ".join(lines)


def _part_schemas(part: MessageBodySchemaPart) -> list[Schema]:
    """Return the schemas of one part: as text, as base64, and by URL."""
    types = _allowed_types(part)
    textual = [each for each in types if _TEXTUAL.fullmatch(each)]
    binary = _binary_types(part)
    name = {} if part.name is None else {"name": _name_schema(part.name)}
    kinds = []
    if textual:
        kinds.append(_object_schema({**name, "contentType": _enum_schema(textual), "content": {"type": "string"}}))
    if binary:
        base64 = {"content": {"type": "string"}, "contentEncoding": {"type": "string", "const": "base64"}}
        kinds.append(_object_schema({**name, "contentType": _enum_schema(binary), **base64}))
    if not types:  # a glob without a known type
        kinds.append(
            _object_schema({**name, "contentType": _type_schema(part.content_type), "contentUrl": {"type": "string"}})
        )
    elsewhere = types if part.name is not None else binary
    if elsewhere:
        kinds.append(_object_schema({**name, "contentType": _enum_schema(elsewhere), "contentUrl": {"type": "string"}}))
    return kinds


def _binary_types(part: MessageBodySchemaPart) -> list[str]:
    return [each for each in _allowed_types(part) if not _TEXTUAL.fullmatch(each)]


def _allowed_types(part: MessageBodySchemaPart) -> list[str]:
    """Return the types that a model may use: literal ones, and the known ones that a glob matches."""
    written = [each for each in expand_braces(normalize_type(part.content_type)) if "*" not in each]
    known = [each for each in _KNOWN_TYPES if part.types.matches(each)]
    return list(dict.fromkeys([*written, *known]))


def _type_schema(glob: str) -> Schema:
    """Return the schema of the types that a glob matches; a star stands for a part of a name, as types have them."""
    globs = expand_braces(normalize_type(glob))
    expressions = ["".join(map(_type_piece, _STAR.findall(each))) for each in globs]
    pattern = f"^{_alternation(expressions)}$"
    return {"type": "string", "pattern": pattern, "description": f"A MIME type: {glob}"}


def _type_piece(piece: str) -> str:
    return _TYPE_NAME + _SOME if piece.startswith("*") else _SPECIAL.sub(r"\\\g<0>", piece)


def _name_schema(pattern: str) -> Schema:
    named = expand_braces(pattern)
    if not any("*" in each for each in named):
        return _enum_schema(named)
    return {"type": "string", "pattern": "^" + _alternation([_glob_to_regex(each) for each in named]) + "$"}


def _glob_to_regex(pattern: str) -> str:
    """Return a regular expression for the names of a glob. It may be too wide, because the reader checks the answer."""
    found = ""
    pieces = _STAR.findall(pattern)
    for index, piece in enumerate(pieces):
        if not piece.startswith("*"):
            found += _SPECIAL.sub(r"\\\g<0>", piece)
            continue
        before = pieces[index - 1] if index else ""
        following = pieces[index + 1] if index + 1 < len(pieces) else ""
        if piece == "*":
            whole = before.endswith("/") and (not following or following.startswith("/"))
            found += _SEGMENT + (_SOME if whole else _ANY)
        elif not before:
            found += f"(/{_SEGMENT}{_SOME})" + ("{0,6}" if following else "{1,6}")
        elif before.endswith("/") and not following:
            found += f"{_SEGMENT}{_SOME}(/{_SEGMENT}{_SOME}){{0,6}}"
        else:
            found += "[A-Za-z0-9._/-]{0,99}"
    return found


def _alternation(expressions: Sequence[str]) -> str:
    return expressions[0] if len(expressions) == 1 else "(" + "|".join(expressions) + ")"


def _enum_schema(values: Sequence[str]) -> Schema:
    return {"type": "string", "const": values[0]} if len(values) == 1 else {"type": "string", "enum": list(values)}


def _object_schema(properties: Schema) -> Schema:
    return {"type": "object", "properties": properties, "required": list(properties), "additionalProperties": False}
