"""Cutting batches to the size that the source may emit."""

from __future__ import annotations

from collections.abc import Iterator

from flinkpy.records.batch import Batch


def even_slices(batch: Batch, max_rows: int) -> Iterator[Batch]:
    """The batch in as few parts as possible, all of nearly the same size; nothing of an empty batch."""
    rows = batch.num_rows
    if not rows:
        return
    parts = -(-rows // max_rows)
    if parts == 1:
        yield batch
        return
    for part in range(parts):
        start = rows * part // parts
        yield batch.slice(start, rows * (part + 1) // parts - start)
