"""Provider batches: many requests submitted together, answered within a day at batch prices.

Not for live conversations: an answer may take a day.
"""

from dragoman.adapter.operations.batch_api import BatchState, BatchStatus
from dragoman.batch.batches import AsyncBatches, Batches
from dragoman.batch.handle import BatchDenial, BatchEntry, BatchHandle
from dragoman.batch.requests import BatchRequest
from dragoman.batch.results import BatchError

__all__ = [
    "AsyncBatches",
    "BatchDenial",
    "BatchEntry",
    "BatchError",
    "BatchHandle",
    "BatchRequest",
    "BatchState",
    "BatchStatus",
    "Batches",
]
