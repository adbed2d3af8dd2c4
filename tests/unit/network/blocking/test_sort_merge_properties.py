"""Each range gets its items in order, with any batches, cuts and memory sizes."""

from __future__ import annotations

import itertools
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from flinkpy.network.blocking import partition_file
from flinkpy.records.batch import Batch
from flinkpy.records.elements import EndOfData, EndOfPartition, Watermark

from .blocking_fakes import Consumer, records, shuffle

SUBPARTITIONS = 4


@dataclass(frozen=True)
class Emit:
    """Args: target: a subpartition, or None for all; count: the number of records, 0 for a control element."""

    target: int | None
    count: int
    is_typed: bool
    width: int
    has_timestamps: bool
    has_kinds: bool
    is_sliced: bool

    def item(self, numbers: Iterator[int]) -> Any:
        """Returns an item with numbers that no other item has."""
        if not self.count:
            return Watermark(next(numbers))
        total = self.count + 2 * self.is_sliced
        rows: Any = [{"x": next(numbers), "s": None if i % 5 == 3 else "v" * self.width} for i in range(total)]
        if self.is_typed:
            names = ["x", "s"] if self.width else ["x"]
            rows = pa.RecordBatch.from_pylist(rows).select(names)
        batch = Batch(
            rows,
            np.arange(total, dtype=np.int64) if self.has_timestamps else None,
            np.full(total, 2, np.int8) if self.has_kinds else None,
        )
        return batch.slice(1, self.count) if self.is_sliced else batch


_emits = st.lists(
    st.builds(
        Emit,
        target=st.one_of(st.none(), st.integers(0, SUBPARTITIONS - 1), st.integers(0, SUBPARTITIONS - 1)),
        count=st.integers(0, 30),
        is_typed=st.booleans(),
        width=st.sampled_from([0, 3, 400]),
        has_timestamps=st.booleans(),
        has_kinds=st.booleans(),
        is_sliced=st.booleans(),
    ),
    max_size=40,
)
_ranges = st.integers(0, SUBPARTITIONS - 1).flatmap(
    lambda first: st.tuples(st.just(first), st.integers(1, SUBPARTITIONS - first))
)


@settings(max_examples=60, deadline=None)
@given(
    emits=_emits,
    range_=_ranges,
    segments=st.sampled_from([8, 64, 4096]),
    compression=st.sampled_from(["lz4", "zstd", None]),
    revocations=st.integers(0, 3),
    is_compacted=st.booleans(),
)
def test_each_range_gets_its_items_in_order_with_any_batch_sizes(
    emits: list[Emit],
    range_: tuple[int, int],
    segments: int,
    compression: str | None,
    revocations: int,
    is_compacted: bool,
) -> None:
    numbers = itertools.count()
    sent = [(emit.target, emit.item(numbers)) for emit in emits]
    with (
        pytest.MonkeyPatch.context() as monkeypatch,
        tempfile.TemporaryDirectory() as directory,
        shuffle(Path(directory), segments=segments, compression=compression) as process,
    ):
        monkeypatch.setattr(partition_file, "MIN_REGIONS", 2 if is_compacted else 1_000)
        partition = process.partition(SUBPARTITIONS)
        for target, item in sent:
            if not isinstance(item, Batch):
                partition.emit_element(item, target)
            elif target is None:
                partition.emit_broadcast(item)
            else:
                partition.emit(target, item)
        partition.emit_element(EndOfData())
        partition.finish()
        assert process.pool.used == 0
        first, count = range_
        got = records(_read_with_revocations(Consumer(partition, first, count), revocations))
        for subpartition in range(first, first + count):
            own = records([item for target, item in sent if target in (None, subpartition)])
            others = records([item for target, item in sent if target not in (None, subpartition)])
            assert [item for item in got if item not in others] == [*own, EndOfData()]
        partition.release()
        process.blocking.close()
        assert process.scheduler.used_bytes == 0
        assert list(Path(directory).iterdir()) == []


def _read_with_revocations(consumer: Consumer, revocations: int) -> list[Any]:
    items = []
    while not isinstance(item := consumer.next(), EndOfPartition):
        items.append(item)
        if revocations:
            consumer.reader.revoke()
            revocations -= 1
    consumer.reader.release()
    return items
