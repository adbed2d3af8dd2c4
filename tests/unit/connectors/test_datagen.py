"""Generated records, limited in their speed; and collections that several subtasks share."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from operator_fakes import SourceLife
from simulated_source import SimulatedSource

from flinkpy.common.errors import FunctionError, TypeMismatchError
from flinkpy.common.typeinfo import Types
from flinkpy.common.types import Row
from flinkpy.connector_api.source import AddSplits, Boundedness
from flinkpy.connectors.collection import CollectionSource
from flinkpy.connectors.datagen import DataGeneratorSource, GeneratorFunction, RateLimiterStrategy
from flinkpy.connectors.number_sequence import NumberSequenceSplit
from flinkpy.records.batch import Batch
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus

PAIR = Types.ROW_NAMED(["id", "name"], [Types.LONG(), Types.STRING()])


def double(index):
    return index * 2


class Squares(GeneratorFunction):
    """Generates whole columns."""

    def map_batch(self, indices):
        return pa.RecordBatch.from_pydict({"f0": indices * indices})


class TooFew(GeneratorFunction):
    def map_batch(self, indices):
        return [1]


class Opened(GeneratorFunction):
    def open(self, context):
        self.prefix = f"{context.subtask_index + 1}/{context.parallelism}"

    def map(self, index):
        return f"{self.prefix} {index}"


def generated(source: DataGeneratorSource, split: tuple[int, int] = (0, 9), **settings) -> SourceLife:
    life = SourceLife(source, **settings)
    life.operator.handle_operator_event(AddSplits((NumberSequenceSplit("1", *split),)))
    return life


def test_records_are_generated_from_their_numbers():
    assert generated(DataGeneratorSource(double, 10)).emit() == [index * 2 for index in range(10)]
    assert generated(DataGeneratorSource(Squares(), 10, type_info=Types.LONG())).emit() == [i * i for i in range(10)]
    opened = generated(DataGeneratorSource(Opened(), 4), (2, 3), subtask_index=1, parallelism=2)
    assert opened.emit() == ["2/2 2", "2/2 3"]


def test_map_batch_returns_columns_and_is_called_once_per_batch():
    life = generated(DataGeneratorSource(Squares(), type_info=Types.LONG()), (5, 1_000_000), batch_rows=1_000)
    life.emit(1)

    (batch,) = life.output.batches
    assert (batch.is_columnar, batch.num_rows) == (True, 1_000)


def test_records_are_checked_against_their_type():
    source = DataGeneratorSource(lambda index: Row(index, f"n{index}"), 3, type_info=PAIR)
    life = generated(source, (0, 2))
    life.emit()
    assert life.output.batches[0].values.schema.names == ["id", "name"]
    wrong = generated(DataGeneratorSource(lambda index: Row("x", index), 3, type_info=PAIR), (0, 2))
    with pytest.raises(TypeMismatchError, match="record 0, field id"):
        wrong.emit()
    with pytest.raises(TypeMismatchError, match="map_batch returned 1 records for 10 numbers"):
        generated(DataGeneratorSource(TooFew(), 10)).emit()
    with pytest.raises(FunctionError, match="GeneratorFunction defines neither map nor map_batch"):
        generated(DataGeneratorSource(GeneratorFunction(), 10)).emit()


def test_the_numbers_end_with_the_largest_of_64_bits():
    top = (1 << 63) - 1

    assert generated(DataGeneratorSource(double), (top - 1, top)).emit() == [2 * (top - 1), 2 * top]


def fires(life: SourceLife, by_ms: int) -> list:
    life.clock.advance(by_ms)
    life.context.processing_time_service.fire_due(life.clock.monotonic_ns())
    return life.emit()


def test_rate_per_second_is_not_exceeded_after_a_pause():
    life = generated(DataGeneratorSource(double, 10_000, RateLimiterStrategy.per_second(100)), (0, 9_999))
    assert len(life.emit()) == 1
    emitted = 0
    for _ in range(100):
        emitted += len(fires(life, 100))
    assert emitted == pytest.approx(1_000, abs=2)
    assert len(fires(life, 60_000)) == 100
    assert life.context.processing_time_service.next_deadline_ns() is not None


def test_subtasks_share_the_rate():
    source = DataGeneratorSource(double, 10_000, RateLimiterStrategy.per_second(100))
    life = generated(source, (0, 9_999), parallelism=4)
    life.emit()

    assert sum(len(fires(life, 100)) for _ in range(40)) == pytest.approx(100, abs=2)


def test_reader_emits_its_share_until_the_next_checkpoint_is_complete():
    source = DataGeneratorSource(double, 100, RateLimiterStrategy.per_checkpoint(7))
    life = generated(source, (0, 99), parallelism=2)

    assert life.emit() == [0, 2, 4]
    assert fires(life, 10_000) == []
    life.operator.notify_checkpoint_complete(1)
    assert life.emit() == [6, 8, 10]
    with pytest.raises(FunctionError, match="records_per_checkpoint=7 has to be greater than or equal to the"):
        generated(source, parallelism=8)


@settings(deadline=None)
@given(st.lists(st.tuples(st.sampled_from(["step", "step", "checkpoint", "fail", "fail_all"]), st.integers(0, 1))))
def test_every_record_is_emitted_once_despite_failures(steps):
    for source, expected in (
        (DataGeneratorSource(double, 21), [index * 2 for index in range(21)]),
        (CollectionSource(range(21), Types.LONG(), is_parallel=True), list(range(21))),
    ):
        simulated = SimulatedSource(source)
        for action, subtask in steps:
            if action == "step":
                simulated.step(subtask)
            elif action == "checkpoint":
                simulated.complete(simulated.checkpoint())
            elif action == "fail":
                simulated.fail_subtask(subtask)
            else:
                simulated.fail_all()
        assert sorted(simulated.run_to_end()) == expected


def test_nothing_to_generate_ends_at_once():
    assert SimulatedSource(DataGeneratorSource(double, 0)).run_to_end() == []


def test_source_with_a_count_is_bounded():
    assert DataGeneratorSource(double, 5).boundedness is Boundedness.BOUNDED
    assert DataGeneratorSource(double).boundedness is Boundedness.CONTINUOUS_UNBOUNDED


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ((5,), "must be a GeneratorFunction or a callable"),
        ((double, -1), "must not be negative"),
        ((double, "5"), "must be an int"),
        ((double, 5, 100), "rate_limiter_strategy must be a RateLimiterStrategy"),
    ],
)
def test_constructor_refuses_invalid_arguments(arguments, reason):
    with pytest.raises((TypeError, ValueError), match=reason):
        DataGeneratorSource(*arguments)
    for wrong in (0, -1):
        with pytest.raises(ValueError, match="must be positive"):
            RateLimiterStrategy.per_second(wrong)
        with pytest.raises(ValueError, match="must be positive"):
            RateLimiterStrategy.per_checkpoint(wrong)


def test_parallel_collection_is_divided_into_ranges_in_order():
    source = CollectionSource(range(50_000), is_parallel=True)
    assert [(split.position, split.end) for split in source.split(3)] == [(0, 16666), (16666, 33333), (33333, 50000)]
    assert len(CollectionSource("ab", is_parallel=True).split(5)) == 2
    life = SourceLife(source, batch_rows=10_000)
    life.operator.handle_operator_event(AddSplits((source.split(3)[1],)))
    assert life.emit() == list(range(16666, 33333))


def test_batch_of_numbers_is_no_longer_than_the_limiter_allows():
    source = DataGeneratorSource(double, 100, RateLimiterStrategy.per_checkpoint(5))
    life = generated(source, (0, 99), batch_rows=3)
    life.emit()

    assert [batch.num_rows for batch in life.output.batches] == [3, 2]
    assert all(isinstance(batch, Batch) for batch in life.output.batches)
    assert life.operator.emit_next() is ActionStatus.NOTHING_AVAILABLE
    assert np.int64(life.operator.num_records) == 5
