"""How many records go through a chain at once follows the time that they take."""

from __future__ import annotations

import pytest

from flinkpy.common.clock import ManualClock
from flinkpy.streaming.operators.batch_size import MAX_BATCH_ROWS, MAX_BATCH_TIME_NS, AdaptiveBatchSize


def after_batches(record_ms: float, batches: int) -> list[int]:
    """Sizes of batches of a chain that takes `record_ms` for a record, the last one being that of the next."""
    clock = ManualClock(0)
    size = AdaptiveBatchSize(clock)
    sizes = [size.rows]
    for _ in range(batches):
        size.begin()
        clock.advance(round(size.rows * record_ms))
        size.end(size.rows)
        sizes.append(size.rows)
    return sizes


def test_fast_records_come_to_the_largest_batches_soon() -> None:
    assert after_batches(record_ms=0.000_01, batches=8)[-1] == MAX_BATCH_ROWS


@pytest.mark.parametrize("record_ms", [1, 8, 50, 3_000])
def test_slow_records_have_batches_of_bearable_length_from_the_second_on(record_ms: int) -> None:
    _, *later = after_batches(record_ms, batches=4)

    assert all(rows == 1 or rows * record_ms * 1_000_000 <= MAX_BATCH_TIME_NS for rows in later)
