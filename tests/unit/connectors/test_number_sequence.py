from __future__ import annotations

import itertools

import pytest
from connector_fakes import TestingReaderContext, read_splits

from flinkpy.common.typeinfo import Types
from flinkpy.connector_api.source import Boundedness, ReaderStatus
from flinkpy.connectors.number_sequence import NumberSequenceSource
from flinkpy.records.lanes import arrow_schema, rows_of

LIMIT = (1 << 63) - 1


@pytest.mark.parametrize("num_splits", [1, 2, 3, 7, 100])
@pytest.mark.parametrize(("start", "end"), [(1, 10), (5, 5), (-3, 3), (LIMIT - 4, LIMIT), (-LIMIT - 1, -LIMIT + 2)])
def test_splits_together_give_every_number_once_in_order(start, end, num_splits):
    source = NumberSequenceSource(start, end)
    batches = read_splits(source, source.split(num_splits), max_batch_rows=3)
    assert [number for batch in batches for number in rows_of(batch, Types.LONG())] == list(range(start, end + 1))


def test_batches_have_columns_of_the_declared_type_and_respect_the_maximum_size():
    source = NumberSequenceSource(0, 9)
    batches = read_splits(source, source.split(1), max_batch_rows=4)
    assert [batch.num_rows for batch in batches] == [4, 4, 2]
    assert all(batch.values.schema.equals(arrow_schema(Types.LONG())) for batch in batches)
    assert source.produced_type == Types.LONG()
    assert source.boundedness is Boundedness.BOUNDED


def test_full_range_of_integers_can_be_split():
    splits = NumberSequenceSource(-LIMIT - 1, LIMIT).split(3)
    assert splits[0].start == -LIMIT - 1
    assert splits[-1].end == LIMIT
    assert all(left.end + 1 == right.start for left, right in itertools.pairwise(splits))


@pytest.mark.parametrize(("start", "end"), [(2, 1), (0, LIMIT + 1)])
def test_impossible_range_is_refused(start, end):
    with pytest.raises(ValueError, match="NumberSequenceSource"):
        NumberSequenceSource(start, end)


@pytest.mark.parametrize("bad", ["1", 1.5, True])
def test_bounds_must_be_integers(bad):
    with pytest.raises(TypeError, match="start must be an int"):
        NumberSequenceSource(bad, 3)


def test_reader_requests_one_split_at_a_time_and_ends_after_the_last():
    source = NumberSequenceSource(1, 4)
    context = TestingReaderContext()
    reader = source.create_reader(context)
    reader.start()
    assert reader.poll_batch() is ReaderStatus.NOTHING_AVAILABLE
    assert context.split_requests == 1
    reader.add_splits(source.split(2)[:1])
    assert context.availability_calls == 1
    assert reader.poll_batch().num_rows == 2
    assert context.split_requests == 1
    assert reader.poll_batch() is ReaderStatus.NOTHING_AVAILABLE
    assert context.split_requests == 2
    reader.notify_no_more_splits()
    assert reader.poll_batch() is ReaderStatus.END_OF_INPUT
    assert context.split_requests == 2
