"""When two models say the same."""

import string
from hashlib import blake2b

_AROUND = string.whitespace + string.punctuation


def alike(answer: str) -> str:
    """A short key: equal for answers that differ in case, spaces or the punctuation around them alone."""
    plain = " ".join(answer.casefold().split()).strip(_AROUND)
    return blake2b(plain.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
