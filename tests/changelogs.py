"""Changelogs for tests of table operators: subtasks that are fed with them, and naive record-at-a-time references."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from decimal import ROUND_HALF_UP, Decimal
from pathlib import Path
from typing import Any

import cloudpickle
import numpy as np
import pyarrow as pa
from memory_checkpoints import MemoryStreams
from streaming_fakes import FakeTaskStateManager, OperatorHarness

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.key_groups import operator_index
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.records.key_hash import hash_columns, key_groups
from flinkpy.sql.rex import AggregateCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import schema_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.streaming.checkpoint.subtask_checkpoint_coordinator import write_states

MAX_PARALLELISM = 128
KINDS = ("+I", "-U", "+U", "-D")

#: A row of a changelog: its kind, then its values.
Change = tuple[Any, ...]


def type_info(**fields: lt.LogicalType) -> InternalTypeInfo:
    return InternalTypeInfo(lt.RowType(tuple(lt.RowField(name, kind) for name, kind in fields.items())))


def to_batch(changes: Sequence[Change], info: InternalTypeInfo) -> Batch:
    schema = schema_of(info.row_type)
    columns = [
        pa.array([change[position + 1] for change in changes], field.type) for position, field in enumerate(schema)
    ]
    kinds = np.array([KINDS.index(change[0]) for change in changes], dtype=np.int8)
    return Batch(pa.RecordBatch.from_arrays(columns, schema=schema), None, kinds if kinds.any() else None)


def to_changes(batch: Batch) -> list[Change]:
    kinds = [0] * batch.num_rows if batch.kinds is None else batch.kinds.tolist()
    columns = [column.to_pylist() for column in batch.values.columns]
    return [(KINDS[kind], *row) for kind, row in zip(kinds, zip(*columns) if columns else [()] * len(kinds))]


def materialized(changes: Iterable[Change], key_width: int | None = None) -> Counter[Any]:
    """Returns the table that a changelog describes.

    Args:
        key_width: the number of leading columns that are the key of an upsert changelog; None for retract changelogs.
    """
    if key_width is not None:
        rows: dict[Any, Any] = {}
        for kind, *row in changes:
            key = tuple(row[:key_width])
            if kind in ("-D", "-U"):
                rows.pop(key, None)
            else:
                rows[key] = tuple(row)
        return Counter(rows.values())
    table: Counter[Any] = Counter()
    for kind, *row in changes:
        table[tuple(row)] += 1 if kind in ("+I", "+U") else -1
    return Counter({row: count for row, count in table.items() if count})


class TableSubtasks:
    """The subtasks of a keyed table operator in one thread. Rows are partitioned by the operator's key columns.

    Attributes:
        output: the emitted changes.
    """

    def __init__(self, spec: Any, parallelism: int = 1, configuration: dict[str, str] | None = None) -> None:
        self._spec = cloudpickle.dumps(spec)
        self._info = spec.input_types[0]
        self._names = list(getattr(spec.key_selector, "fields", ()))
        self._configuration = configuration
        self._files = MemoryStreams()
        self._resources = ExitStack()
        self.output: list[Change] = []
        self.subtasks: list[OperatorHarness] = []
        self._start(parallelism, None)

    def __enter__(self) -> TableSubtasks:
        return self

    def __exit__(self, *_: object) -> None:
        for subtask in self.subtasks:
            subtask.operator.close()
        self._resources.close()

    def process(self, changes: Sequence[Change], cuts: Iterable[int] = ()) -> None:
        """Feeds the changes, cut into batches at these positions."""
        ends = sorted({min(max(cut, 0), len(changes)) for cut in cuts} | {len(changes)})
        for start, end in zip([0, *ends], ends):
            if end > start:
                self.process_batch(to_batch(changes[start:end], self._info))

    def watermark(self, timestamp: int) -> None:
        for subtask in self.subtasks:
            subtask.operator.process_element(Watermark(timestamp))
        self._take_output()

    def advance(self, by_ms: int) -> None:
        for subtask in self.subtasks:
            subtask.advance(by_ms)
        self._take_output()

    def finish(self) -> list[Change]:
        for subtask in self.subtasks:
            subtask.operator.finish()
        self._take_output()
        return self.output

    def restart(self, parallelism: int) -> None:
        """Takes a checkpoint and restores it in `parallelism` new subtasks."""
        merged: dict[str, checkpoint_pb2.OperatorSubtaskState] = {}
        for subtask in self.subtasks:
            subtask.operator.prepare_snapshot_pre_barrier(1)
            snapshots = subtask.operator.snapshots(1, checkpoint_pb2.CheckpointOptions())
            for operator_id, state in write_states(snapshots, self._files).items():
                whole = merged.setdefault(operator_id, checkpoint_pb2.OperatorSubtaskState())
                whole.keyed.extend(state.keyed)
                whole.operator.extend(state.operator)
        self._take_output()
        clocks = [subtask.clock.now_ms() for subtask in self.subtasks]
        for subtask in self.subtasks:
            subtask.operator.close()
        restored = checkpoint_pb2.TaskStateSnapshot()
        for operator_id, state in merged.items():
            restored.operators[operator_id].CopyFrom(state)
        self._start(parallelism, restored)
        for subtask in self.subtasks:
            subtask.clock.advance(max(clocks) - subtask.clock.now_ms())

    def _start(self, parallelism: int, restored: checkpoint_pb2.TaskStateSnapshot | None) -> None:
        self.subtasks = []
        for index in range(parallelism):
            manager = FakeTaskStateManager(restored, files=self._files)
            manager.directory = Path(self._resources.enter_context(tempfile.TemporaryDirectory()))
            self.subtasks.append(
                OperatorHarness(
                    cloudpickle.loads(self._spec),
                    configuration=self._configuration,
                    state=manager,
                    subtask=(index, parallelism),
                )
            )

    def process_batch(self, batch: Batch) -> None:
        """Feeds a batch, partitioned by key."""
        owners = np.zeros(batch.num_rows, dtype=np.int64)
        if self._names and len(self.subtasks) > 1:
            groups = key_groups(hash_columns([batch.values.column(name) for name in self._names]), MAX_PARALLELISM)
            owners = np.array([operator_index(MAX_PARALLELISM, len(self.subtasks), each) for each in groups.tolist()])
        for index, subtask in enumerate(self.subtasks):
            rows = np.flatnonzero(owners == index)
            if len(rows):
                subtask.operator.process_batch(batch if len(rows) == batch.num_rows else batch.take(rows))
        self._take_output()

    def _take_output(self) -> None:
        for subtask in self.subtasks:
            self.output += [
                change for item in subtask.output.items if isinstance(item, Batch) for change in to_changes(item)
            ]
            subtask.output.items.clear()


# -- references ----------------------------------------------------------------------------------------------------


def aggregated(call: AggregateCall, rows: list[tuple[Any, ...]], kind: lt.LogicalType | None = None) -> Any:
    """Returns the result of an aggregate call over rows, with SQL's rules.

    Args:
        kind: the type of the argument.
    """
    if call.filter_index is not None:
        rows = [row for row in rows if row[call.filter_index]]
    if not call.arguments:
        return len(rows)
    values = [row[call.arguments[0]] for row in rows if row[call.arguments[0]] is not None]
    if call.is_distinct:
        values = list(dict.fromkeys(values))
    function = call.function
    if function == "COUNT":
        return len(values)
    if function == "$SUM0":
        return sum(values)
    if function == "COLLECT":
        return sorted(Counter(values).items())
    if function == "ARRAY_AGG":
        return [row[call.arguments[0]] for row in rows] or None
    if not values:
        return None
    if function == "SUM":
        return sum(values)
    if function == "AVG":
        total = sum(values)
        if isinstance(kind, lt.DecimalType):
            scale = Decimal(1).scaleb(-max(6, kind.scale))
            return (Decimal(total) / len(values)).quantize(scale, ROUND_HALF_UP)
        if isinstance(total, int):
            return abs(total) // len(values) * (1 if total >= 0 else -1)
        return total / len(values)
    chosen = {"MIN": min, "MAX": max}.get(function)
    if chosen is not None:
        return chosen(values)
    if function == "LISTAGG":
        return ",".join(values)
    return values[0] if function == "FIRST_VALUE" else values[-1]


def grouped_changelog(
    changes: Iterable[Change],
    grouping: tuple[int, ...],
    calls: Sequence[AggregateCall],
    types: Sequence[lt.LogicalType],
    generate_update_before: bool = True,
) -> list[Change]:
    """Returns the changelog of GROUP BY, one record at a time."""
    groups: dict[Any, list[tuple[Any, ...]]] = {}
    output: list[Change] = []

    def result(rows: list[tuple[Any, ...]]) -> tuple[Any, ...]:
        return tuple(aggregated(call, rows, types[call.arguments[0]] if call.arguments else None) for call in calls)

    for kind, *values in changes:
        row = tuple(values)
        key = tuple(row[position] for position in grouping)
        rows = groups.get(key)
        if kind in ("-U", "-D"):
            if rows is None:
                continue
            before = result(rows)
            if row in rows:
                rows.remove(row)
            after = result(rows)
            if not rows:
                del groups[key]
                output.append(("-D", *key, *before))
                continue
        else:
            if rows is None:
                groups[key] = [row]
                output.append(("+I", *key, *result([row])))
                continue
            before = result(rows)
            rows.append(row)
            after = result(rows)
        if before != after:
            if generate_update_before:
                output.append(("-U", *key, *before))
            output.append(("+U", *key, *after))
    return output
