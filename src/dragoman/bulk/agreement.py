"""When two models say the same."""

import string
from hashlib import blake2b

_STRIPPED = string.whitespace + string.punctuation


def answer_key(answer: str) -> str:
    """A short key: equal for answers that differ in case, spaces or the punctuation around them alone."""
    normalized = " ".join(answer.casefold().split()).strip(_STRIPPED)
    return blake2b(normalized.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
