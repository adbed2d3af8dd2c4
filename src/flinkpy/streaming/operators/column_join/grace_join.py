"""GraceJoin: joins sides that do not fit in memory. Both sides are written to files partitioned by key hash.

Each pair of files is joined by itself. A pair that still does not fit is partitioned again. If that does not help,
because one key has too many rows, the build side is read piece by piece for each batch of rows of the other side that
fits in memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from flinkpy.streaming.operators.column_aggregation.grouped_aggregation import (
    MAX_LEVEL,
    NUM_PARTITIONS,
    write_partitioned,
)
from flinkpy.streaming.operators.column_join.join_keys import JoinKeys
from flinkpy.streaming.operators.column_join.join_plan import JoinPlan
from flinkpy.streaming.sort.spill_file import ColumnSpillFile, SpillDirectory

#: A side in memory needs its columns twice, while they are concatenated, and the index of each row.
_COPIES = 2
_INDEX_BYTES_PER_ROW = 64
#: For each side, 1/N of the memory is for rows that are not written yet.
_PENDING_SHARE = 8
#: Partitioning has not helped if one partition has more than this fraction of the rows.
_SKEWED = 0.9
_MULTIPLIER = np.uint64(0xD6E8FEB86659FD93)


def fits(num_rows: int, num_bytes: int, memory_bytes: int) -> bool:
    """True if a build side of this size fits in memory."""
    return _COPIES * num_bytes + _INDEX_BYTES_PER_ROW * num_rows <= memory_bytes


class GraceJoin:
    """Joins two sides through files. Thread: task thread.

    Args:
        level: how often the keys have been partitioned.
    """

    def __init__(
        self,
        plan: JoinPlan,
        schemas: tuple[pa.Schema, pa.Schema],
        spills: SpillDirectory,
        memory_bytes: int,
        level: int,
    ) -> None:
        self._plan = plan
        self._spills = spills
        self._memory_bytes = memory_bytes
        self._level = level
        self._schemas = schemas
        self._probe, self._build = ([spills.column_file(schema) for _ in range(NUM_PARTITIONS)] for schema in schemas)
        #: Rows of both sides that are not written yet. Many rows are partitioned at a time.
        self._pending: tuple[list[pa.RecordBatch], list[pa.RecordBatch]] = ([], [])
        self._pending_bytes = [0, 0]

    def add_build(self, columns: pa.RecordBatch) -> None:
        self._add(1, columns)

    def add_probe(self, columns: pa.RecordBatch) -> None:
        self._add(0, columns)

    def results(self) -> Iterator[pa.RecordBatch]:
        """Yields the results when both sides are complete."""
        self._write_pending(0)
        self._write_pending(1)
        whole = sum(file.num_rows for file in self._build)
        for probe, build in zip(self._probe, self._build):
            # Every result needs a row of the left side.
            if probe.num_rows:
                yield from self._results_of(probe, build, build.num_rows > _SKEWED * whole)
            probe.delete()
            build.delete()

    def _results_of(self, probe: ColumnSpillFile, build: ColumnSpillFile, is_skewed: bool) -> Iterator[pa.RecordBatch]:
        plan = self._plan
        if fits(build.num_rows, build.num_bytes, self._memory_bytes):
            side = plan.build(list(build.read()))
            for columns in probe.read():
                yield from plan.join(columns, side)
        elif is_skewed or self._level >= MAX_LEVEL:
            yield from self._piece_by_piece(probe, build)
        else:
            part = GraceJoin(plan, self._schemas, self._spills, self._memory_bytes, self._level + 1)
            for columns in build.read():
                part.add_build(columns)
            for columns in probe.read():
                part.add_probe(columns)
            yield from part.results()

    def _piece_by_piece(self, probe: ColumnSpillFile, build: ColumnSpillFile) -> Iterator[pa.RecordBatch]:
        plan = self._plan
        for rows in _gathered(probe.read(), self._memory_bytes):
            keys = plan.left_keys(rows)
            has_partner = np.zeros(rows.num_rows, dtype=bool)
            for piece in _gathered(build.read(), self._memory_bytes):
                side = plan.build([piece])
                slots = side.slots_of(keys)
                has_partner |= slots >= 0
                if plan.how in ("inner", "left"):
                    for positions, partners in side.pairs(slots, False):
                        yield plan.paired(rows, positions, side, partners)
            if plan.how == "left":
                yield from plan.unmatched(rows, has_partner)
            elif plan.how != "inner":
                yield from plan.chosen(rows, has_partner)

    def _add(self, side: int, columns: pa.RecordBatch) -> None:
        self._pending[side].append(columns)
        self._pending_bytes[side] += columns.nbytes
        if self._pending_bytes[side] * _PENDING_SHARE >= self._memory_bytes:
            self._write_pending(side)

    def _write_pending(self, side: int) -> None:
        pending = self._pending[side]
        if pending:
            columns = pa.concat_batches(pending)
            pending.clear()
            self._pending_bytes[side] = 0
            if side:
                self._write(columns, self._plan.right_keys(columns), self._build)
            else:
                self._write(columns, self._plan.left_keys(columns), self._probe)

    def _write(self, columns: pa.RecordBatch, keys: JoinKeys, files: list[ColumnSpillFile]) -> None:
        words = (keys.words.view(np.uint64) ^ (keys.words.view(np.uint64) >> np.uint64(29))) * _MULTIPLIER
        if keys.is_null is not None:
            words = np.where(keys.is_null, np.uint64(0), words)
        shift = np.uint64(64 - 4 * (self._level + 1))
        partitions = ((words >> shift) & np.uint64(NUM_PARTITIONS - 1)).astype(np.int64)
        write_partitioned(pa.Table.from_batches([columns]), partitions, files)


def _gathered(batches: Iterable[pa.RecordBatch], memory_bytes: int) -> Iterator[pa.RecordBatch]:
    """Yields the same rows in larger batches that fit in the memory."""
    pending: list[pa.RecordBatch] = []
    rows = size = 0
    for batch in batches:
        if pending and not fits(rows + batch.num_rows, 2 * (size + batch.nbytes), memory_bytes):
            yield pa.concat_batches(pending)
            pending, rows, size = [], 0, 0
        pending.append(batch)
        rows += batch.num_rows
        size += batch.nbytes
    if pending:
        yield pa.concat_batches(pending)
