"""Files with a conversation a line: data sets for training, and batches of requests."""

from dragoman.formats.importers.datasets.hugging_face import from_hugging_face, from_hugging_face_file
from dragoman.formats.importers.datasets.provider_files import (
    from_anthropic_batch,
    from_openai_batch,
    from_openai_finetuning,
)

__all__ = [
    "from_anthropic_batch",
    "from_hugging_face",
    "from_hugging_face_file",
    "from_openai_batch",
    "from_openai_finetuning",
]
