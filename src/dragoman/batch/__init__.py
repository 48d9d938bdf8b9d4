"""Provider batches: many requests handed in at once, answered within a day, at the batch prices (specification D5.9).

Never for a live conversation: an answer may take a day.
"""

from dragoman.adapter.batch_api import BatchState, BatchStatus
from dragoman.batch.batches import AsyncBatches, Batches
from dragoman.batch.handle import BatchEntry, BatchHandle
from dragoman.batch.requests import BatchRequest
from dragoman.batch.results import BatchError

__all__ = [
    "AsyncBatches",
    "BatchEntry",
    "BatchError",
    "BatchHandle",
    "BatchRequest",
    "BatchState",
    "BatchStatus",
    "Batches",
]
