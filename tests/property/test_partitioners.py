"""Partitioners deliver each row once and in order for any batches, and each key always to the same channel."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from flinkpy.common.key_groups import operator_index
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.network.partitioner import (
    MAX_ROWS_IN_TURN,
    BroadcastPartitioner,
    CustomPartitioner,
    ForwardPartitioner,
    GlobalPartitioner,
    KeyGroupStreamPartitioner,
    Partitioner,
    RebalancePartitioner,
    RescalePartitioner,
    ShufflePartitioner,
)
from flinkpy.records.batch import Batch
from flinkpy.records.key_hash import hash_key

KEYS = st.one_of(
    st.lists(st.integers(-(2**63), 2**63 - 1), min_size=1, max_size=60),
    st.lists(st.one_of(st.none(), st.text(max_size=20)), min_size=1, max_size=60),
    st.lists(st.floats(width=64), min_size=1, max_size=60),
    st.lists(st.booleans(), min_size=1, max_size=60),
)
FIRST = FieldKeySelector((0,))


def batches_of(keys: list[Any], numbers_from: int, in_columns: bool) -> Batch:
    numbers = list(range(numbers_from, numbers_from + len(keys)))
    if in_columns:
        return Batch(pa.record_batch({"key": pa.array(keys), "number": numbers}))
    return Batch(list(zip(keys, numbers)))


def numbers_in(batch: Batch) -> list[int]:
    values = batch.values
    return [row[1] for row in values] if isinstance(values, list) else values.column("number").to_pylist()


def by_number(key: Any, count: int) -> int:
    return key % count


MAKERS: dict[str, Any] = {
    "hash": lambda: KeyGroupStreamPartitioner(FIRST),
    "hash by function": lambda: KeyGroupStreamPartitioner(lambda row: row[0]),
    "rebalance": RebalancePartitioner,
    "rescale": RescalePartitioner,
    "shuffle": lambda: ShufflePartitioner(seed=1),
    "global": GlobalPartitioner,
    "forward": ForwardPartitioner,
    "custom": lambda: CustomPartitioner(by_number, lambda row: row[1]),
}


@pytest.mark.parametrize("name", MAKERS)
@given(
    lists=st.lists(KEYS, min_size=1, max_size=4),
    channels=st.integers(1, 9),
    subtask=st.integers(0, 5),
    in_columns=st.booleans(),
)
def test_every_row_arrives_once_and_in_order(
    name: str, lists: list[list[Any]], channels: int, subtask: int, in_columns: bool
) -> None:
    partitioner: Partitioner = MAKERS[name]()
    if name in ("forward", "global"):
        channels = max(1, channels if name == "global" else 1)
    partitioner.setup(channels, subtask_index=subtask, max_parallelism=128)
    lane = in_columns and name not in ("hash by function", "custom")
    arrived: dict[int, list[int]] = {}
    emitted = 0
    for keys in lists:
        for channel, part in partitioner.split(batches_of(keys, emitted, lane)):
            assert 0 <= channel < channels
            assert part.num_rows > 0
            arrived.setdefault(channel, []).extend(numbers_in(part))
        emitted += len(keys)

    for numbers in arrived.values():
        assert numbers == sorted(numbers)
    assert sorted(number for numbers in arrived.values() for number in numbers) == list(range(emitted))


@given(keys=KEYS, channels=st.integers(1, 9), max_parallelism=st.integers(9, 32_768))
def test_a_key_goes_to_the_subtask_that_owns_its_key_group_in_both_lanes(
    keys: list[Any], channels: int, max_parallelism: int
) -> None:
    for in_columns in (True, False):
        partitioner = KeyGroupStreamPartitioner(FIRST)
        partitioner.setup(channels, max_parallelism=max_parallelism)
        for channel, part in partitioner.split(batches_of(keys, 0, in_columns)):
            for number in numbers_in(part):
                group = hash_key(keys[number]) % max_parallelism
                assert channel == operator_index(max_parallelism, channels, group)


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=20), channels=st.integers(1, 9))
def test_rebalancing_keeps_channels_within_one_record_of_each_other(sizes: list[int], channels: int) -> None:
    partitioner = RebalancePartitioner()
    partitioner.setup(channels, subtask_index=2)
    counts = [0] * channels
    for size in sizes:
        for channel, part in partitioner.split(Batch(list(range(size)))):
            counts[channel] += part.num_rows

    assert max(counts) - min(counts) <= 1


@given(sizes=st.lists(st.integers(1, 40), min_size=1, max_size=9), channels=st.integers(1, 9), columns=st.booleans())
def test_small_batches_are_rebalanced_record_by_record(sizes: list[int], channels: int, columns: bool) -> None:
    partitioner = RebalancePartitioner()
    partitioner.setup(channels, subtask_index=1)
    channel_of: dict[int, int] = {}
    for size in sizes:
        batch = batches_of([None] * size, len(channel_of), columns)
        for channel, part in partitioner.split(batch):
            channel_of.update(dict.fromkeys(numbers_in(part), channel))

    assert channel_of == {number: (1 + number) % channels for number in range(sum(sizes))}


def test_large_batches_are_rebalanced_in_slices() -> None:
    partitioner = RebalancePartitioner()
    partitioner.setup(2)
    rows = list(range(MAX_ROWS_IN_TURN + 1))

    (_, first), (_, second) = partitioner.split(Batch(rows))

    assert [*first.values, *second.values] == rows


@given(size=st.integers(1, 40), channels=st.integers(1, 9))
def test_a_broadcast_sends_the_same_batch_to_all_channels(size: int, channels: int) -> None:
    partitioner = BroadcastPartitioner()
    partitioner.setup(channels)
    batch = Batch(list(range(size)))

    assert partitioner.split(batch) == [(channel, batch) for channel in range(channels)]
