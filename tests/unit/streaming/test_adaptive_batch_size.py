"""The batch size of a chain follows the cost of its batches."""

from __future__ import annotations

import pytest

from flinkpy.common.clock import ManualClock
from flinkpy.streaming.operators.batch_size import (
    INITIAL_BATCH_ROWS,
    MAX_BATCH_ROWS,
    AdaptiveBatchSize,
)


def after_batches(
    batches: int, *, record_cpu_ms: float = 0, record_wait_ms: float = 0, batch_cpu_ms: int = 0, batch_wait_ms: int = 0
) -> list[int]:
    """Returns the sizes of full batches of a chain. The last one is the size of the next batch."""
    clock = ManualClock(0)
    size = AdaptiveBatchSize(clock)
    sizes = [size.rows]
    for _ in range(batches):
        size.begin()
        clock.use_cpu(batch_cpu_ms + round(size.rows * record_cpu_ms))
        clock.advance(batch_wait_ms + round(size.rows * record_wait_ms))
        size.end(size.rows)
        sizes.append(size.rows)
    return sizes


def test_fast_records_soon_get_the_largest_batches() -> None:
    assert after_batches(3)[-1] == MAX_BATCH_ROWS


@pytest.mark.parametrize("record_ms", [1, 8, 50, 3_000])
def test_records_that_need_cpu_time_get_short_batches_from_the_second_on(record_ms: int) -> None:
    _, *later = after_batches(4, record_cpu_ms=record_ms)

    assert all(rows == 1 or rows * record_ms <= 20 for rows in later)


@pytest.mark.parametrize("record_ms", [1, 8, 50, 3_000])
def test_records_that_wait_get_short_batches_from_the_second_on(record_ms: int) -> None:
    _, *later = after_batches(4, record_wait_ms=record_ms)

    assert all(rows == 1 or rows * record_ms <= 100 for rows in later)


def test_the_size_recovers_from_one_slow_batch_in_a_few_steps() -> None:
    clock = ManualClock(0)
    size = AdaptiveBatchSize(clock)
    size.begin()
    clock.use_cpu(3_000)  # imports the modules of the program
    size.end(size.rows)
    assert size.rows == 1

    sizes = []
    for _ in range(6):
        size.begin()
        size.end(size.rows)
        sizes.append(size.rows)

    assert sizes == [8, 64, 512, 4_096, 32_768, MAX_BATCH_ROWS]


def test_waiting_independent_of_the_batch_size_does_not_shrink_batches() -> None:
    *_, last = after_batches(20, batch_wait_ms=500)

    assert last == MAX_BATCH_ROWS


def test_preemption_does_not_shrink_batches() -> None:
    """Others use three of four time slices: 10 ms of CPU time take 40 ms."""
    alone = after_batches(20, record_cpu_ms=0.001)
    beside_others = after_batches(20, record_cpu_ms=0.001, record_wait_ms=0.003)

    assert beside_others[-1] == alone[-1] > 8_000


def test_a_high_fixed_cost_allows_longer_batches() -> None:
    sizes = after_batches(40, record_cpu_ms=0.01, batch_cpu_ms=3)

    assert 27 <= sizes[-1] * 0.01 <= 75


def test_a_batch_that_is_not_full_does_not_grow_the_size() -> None:
    size = AdaptiveBatchSize(ManualClock(0))
    size.begin()
    size.end(INITIAL_BATCH_ROWS - 1)

    assert size.rows == INITIAL_BATCH_ROWS


def test_a_limit_holds_for_batches_of_any_cost() -> None:
    size = AdaptiveBatchSize(ManualClock(0))
    size.limit(1_000)
    for _ in range(10):
        size.begin()
        size.end(size.rows)

    assert size.rows == 1_000


def test_a_fixed_size_stays_whatever_batches_cost() -> None:
    """Spark compares the blocks of two attempts of a subtask."""
    clock = ManualClock(0)
    size = AdaptiveBatchSize(clock)
    size.fix(8_192)
    for cpu_ms in (0, 0, 1_000, 0):
        size.begin()
        clock.use_cpu(cpu_ms)
        size.end(size.rows)
        assert size.rows == 8_192
