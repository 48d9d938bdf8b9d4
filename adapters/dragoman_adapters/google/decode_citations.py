"""Decodes the sources of an answer, from searches, files and recited passages, as citations of its texts."""

from collections.abc import Mapping, Sequence
from typing import Any

from dragoman.canonical.blocks import Citation, ContentBlock, TextBlock

CitationsByBlock = dict[int, list[Citation]]
"""Citations by the index of their block."""


def attach_citations(content: Sequence[ContentBlock], candidate: Mapping[str, Any]) -> list[ContentBlock]:
    """Return the blocks, with the citations of the candidate's metadata on their texts."""
    grounding, citation_metadata = candidate.get("groundingMetadata"), candidate.get("citationMetadata")
    if not (grounding or citation_metadata):
        return list(content)
    grounding, citation_metadata = grounding or {}, citation_metadata or {}
    answer = _AnswerText(content)
    found: CitationsByBlock = {}
    chunks = grounding.get("groundingChunks") or ()
    for support in grounding.get("groundingSupports") or ():
        position = answer.place(support.get("segment") or {})
        if position is not None:
            for number in support.get("groundingChunkIndices") or ():
                if isinstance(number, int) and 0 <= number < len(chunks):
                    found.setdefault(position[0], []).append(_decode_citation(chunks[number], support, position))
    for source in citation_metadata.get("citationSources") or citation_metadata.get("citations") or ():
        position = answer.place(source)
        if position is not None:
            _, start, end = position
            found.setdefault(position[0], []).append(
                Citation(
                    kind="citation", title=source.get("title"), url=source.get("uri"), start=start, end=end, data=source
                )
            )
    return [
        block.model_copy(update={"citations": tuple(found[index])})
        if index in found and isinstance(block, TextBlock)
        else block
        for index, block in enumerate(content)
    ]


def count_searches(candidate: Mapping[str, Any], unit: str) -> dict[str, int]:
    """Count billed calls of Google's tools: each distinct query, or one for each prompt that led to any (``unit``)."""
    grounding = candidate.get("groundingMetadata") or {}
    queries = {query for query in grounding.get("webSearchQueries") or () if query}
    found = {"web_search": len(queries) if unit == "query" else 1} if queries else {}
    if any("maps" in chunk for chunk in grounding.get("groundingChunks") or ()):
        found["google_maps"] = 1
    return found


def _decode_citation(chunk: dict[str, Any], support: dict[str, Any], position: tuple[int, int, int]) -> Citation:
    kind = next(iter(chunk), "unknown")
    inner = chunk.get(kind)
    source: Mapping[str, Any] = inner if isinstance(inner, dict) else {}
    return Citation(
        kind=kind,
        title=source.get("title"),
        url=source.get("uri"),
        cited_text=source.get("text"),
        start=position[1],
        end=position[2],
        data={"chunk": chunk, "support": {key: value for key, value in support.items() if key != "segment"}},
    )


class _AnswerText:
    """The answer's texts without thoughts. Segments count their bytes in UTF-8."""

    def __init__(self, content: Sequence[ContentBlock]) -> None:
        self._texts = [(index, block.text) for index, block in enumerate(content) if isinstance(block, TextBlock)]
        self._bytes = "".join(text for _, text in self._texts).encode()

    def place(self, segment: Mapping[str, Any]) -> tuple[int, int, int] | None:
        """Return the block in which a segment begins, and its first and last character (exclusive) there; None if no
        block has it.
        """
        start, end, quoted = segment.get("startIndex") or 0, segment.get("endIndex"), segment.get("text")
        if not isinstance(end, int) or not 0 <= start < end <= len(self._bytes):
            return self._find_text(quoted)
        text_at = self._bytes[start:end].decode(errors="replace")
        if quoted and text_at != quoted:
            return self._find_text(quoted)
        return self._to_characters(len(self._bytes[:start].decode(errors="replace")), len(text_at))

    def _find_text(self, quoted: Any) -> tuple[int, int, int] | None:
        if not isinstance(quoted, str) or not quoted:
            return None
        for index, text in self._texts:
            if (start := text.find(quoted)) >= 0:
                return index, start, start + len(quoted)
        return None

    def _to_characters(self, start: int, length: int) -> tuple[int, int, int] | None:
        for index, text in self._texts:
            if start < len(text):
                return index, start, min(len(text), start + length)
            start -= len(text)
        return None
