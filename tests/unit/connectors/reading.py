"""Reads a source batch by batch, with checkpoints between any batches."""

from __future__ import annotations

import pickle
from contextlib import closing
from typing import Any

from connector_fakes import TestingReaderContext

from flinkpy.connector_api.source import ReaderStatus, SourceBase


def rows_of_batch(batch: Any) -> list[Any]:
    if isinstance(batch.values, list):
        return list(batch.values)
    columns = [column.to_pylist() for column in batch.values.columns]
    return columns[0] if len(columns) == 1 else list(zip(*columns))


def read_until(source: SourceBase, splits: list[Any], max_batch_rows: int, num_batches: int | None = None):
    """Reads `num_batches` batches, or all. Returns their rows, the remaining splits and the number of batches."""
    with closing(source.create_reader(TestingReaderContext(max_batch_rows=max_batch_rows))) as reader:
        if splits:
            reader.add_splits(splits)
        reader.notify_no_more_splits()
        reader.start()
        rows = []
        given = 0
        while num_batches is None or given < num_batches:
            polled = reader.poll_batch()
            if polled is ReaderStatus.END_OF_INPUT:
                break
            assert 0 < polled.num_rows <= max_batch_rows
            rows.extend(rows_of_batch(polled))
            given += 1
        left = pickle.loads(pickle.dumps(reader.snapshot_state(1)))
    return rows, left, given


def check_every_batch_boundary(source: SourceBase, splits: list[Any], max_batch_rows: int) -> list[Any]:
    """Checks that a restore at any batch boundary loses, repeats and reorders nothing. Returns all records.

    Each boundary is tested with one restore, and with a second restore after the next batch.
    """
    expected, left, num_batches = read_until(source, splits, max_batch_rows)
    assert left == [] or read_until(source, left, max_batch_rows)[0] == []
    assert num_batches > 2, "the test reads too few batches"
    for boundary in range(num_batches + 1):
        before, left, _ = read_until(source, splits, max_batch_rows, boundary)
        after, _, _ = read_until(source, left, max_batch_rows + 1)
        assert before + after == expected, f"cut after batch {boundary}"
        middle, left, _ = read_until(source, left, max_batch_rows, 1)
        last, _, _ = read_until(source, left, max_batch_rows + 1)
        assert before + middle + last == expected, f"cut after batch {boundary} and the next"
    return expected
