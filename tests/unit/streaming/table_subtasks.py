"""The subtasks of a table operator. Rows are routed by key group; a row is (kind, values...) with kinds as in "+I".

They can be stopped at any moment, and resume from their snapshots with another parallelism or backend.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from hypothesis import strategies as st
from memory_checkpoints import OPTIONS, MemoryStreams
from streaming_fakes import CollectingOutput, FakeTaskEnvironment, FakeTaskStateManager, make_vertex

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.clock import ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.common.key_groups import operator_index
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.records.key_hash import hash_columns, key_groups
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import schema_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
from flinkpy.streaming.operators.factory import create_operator
from flinkpy.streaming.operators.metric_group import OperatorMetricGroup
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService

BACKENDS = ("hashmap", "rocksdb", "rocksdb-incremental")
#: Databases are slow to open, so few examples of a property test have one.
BACKEND = st.sampled_from(["hashmap"] * 8 + list(BACKENDS))
KINDS = ("+I", "-U", "+U", "-D")
#: A change: its kind, then the values of the row.
Change = tuple[Any, ...]


def row_info(**fields: lt.LogicalType) -> InternalTypeInfo:
    """Returns the type of a stream with these columns."""
    return InternalTypeInfo(lt.RowType(tuple(lt.RowField(name, kind) for name, kind in fields.items())))


class TableSubtasks:
    """The subtasks of an operator whose inputs and key selectors are declared in its spec.

    Attributes:
        clock: the processing time of all subtasks.
    """

    def __init__(
        self,
        spec: Any,
        backend: str = "hashmap",
        parallelism: int = 1,
        restored: list[checkpoint_pb2.KeyedStateHandle] | None = None,
        files: MemoryStreams | None = None,
        clock: ManualClock | None = None,
        selectors: tuple[FieldKeySelector, ...] | None = None,
    ) -> None:
        self.spec = spec
        self.clock = clock or ManualClock(1_000)
        self._backend = backend
        self._files = files or MemoryStreams()
        self._schemas = [schema_of(each.row_type) for each in spec.input_types]
        if selectors is None:
            selectors = spec.key_selectors if hasattr(spec, "key_selectors") else (spec.key_selector,)
        self._selectors = selectors
        snapshot = None
        if restored is not None:
            snapshot = checkpoint_pb2.TaskStateSnapshot()
            snapshot.operators["op0"].keyed.extend(restored)
        self.operators: list[Any] = []
        self._outputs: list[CollectingOutput] = []
        for index in range(parallelism):
            self._add(index, parallelism, snapshot)

    def _add(self, index: int, parallelism: int, snapshot: Any) -> None:
        state = FakeTaskStateManager(snapshot, files=self._files)
        state.directory = state.directory / f"table-{id(self)}-{index}"
        environment = FakeTaskEnvironment(
            make_vertex([self.spec]), clock=self.clock, state=state, subtask_index=index, parallelism=parallelism
        )
        backend, _, is_incremental = self._backend.partition("-")
        environment.configuration = Configuration.from_dict(
            {"state.backend.type": backend, "execution.checkpointing.incremental": str(bool(is_incremental)).lower()}
        )
        context = OperatorContext(
            "op0", "operator", environment, TaskMailbox(), ProcessingTimeService(self.clock), OperatorMetricGroup()
        )
        output = CollectingOutput()
        operator = create_operator(self.spec, context, output, {})
        operator.restore(state.restored_state)
        operator.open()
        self.operators.append(operator)
        self._outputs.append(output)

    def process(self, changes: Sequence[Change], input_index: int = 0) -> list[Change]:
        """Processes changes as one batch per subtask. Returns what was emitted, subtask after subtask."""
        schema = self._schemas[input_index]
        columns = [pa.array([change[1 + i] for change in changes], field.type) for i, field in enumerate(schema)]
        batch = Batch(
            pa.RecordBatch.from_arrays(columns, schema=schema),
            None,
            np.array([KINDS.index(change[0]) for change in changes], dtype=np.int8),
        )
        owners = self._owners(batch.values, self._selectors[input_index])
        for index, operator in enumerate(self.operators):
            mine = np.flatnonzero(owners == index)
            if len(mine):
                part = batch.take(mine)
                if not part.kinds.any():
                    part.kinds = None
                operator.process_batch(part, input_index)
                operator.after_batch(part.num_rows)
        return self.taken()

    def _owners(self, columns: pa.RecordBatch, selector: FieldKeySelector) -> np.ndarray:
        if not selector.fields:
            return np.zeros(columns.num_rows, dtype=np.int64)
        groups = key_groups(hash_columns([columns.column(field) for field in selector.fields]), 128)
        return np.array([operator_index(128, len(self.operators), group) for group in groups.tolist()])

    def watermark(self, timestamp: int) -> list[Change]:
        for operator in self.operators:
            operator.process_element(Watermark(timestamp))
        return self.taken()

    def prepare_snapshot(self) -> list[Change]:
        """Lets the operators emit what must not be in a snapshot. Call it before `restart`."""
        for operator in self.operators:
            operator.prepare_snapshot_pre_barrier(1)
        return self.taken()

    def run_timers(self) -> list[Change]:
        """Fires the processing-time timers that are due."""
        for operator in self.operators:
            operator.context.processing_time_service.fire_due(self.clock.monotonic_ns())
        return self.taken()

    def finish(self) -> list[Change]:
        for operator in self.operators:
            for index in range(len(self._schemas)):
                operator.end_input(index)
            operator.finish()
        return self.taken()

    def taken(self) -> list[Change]:
        """Returns the changes that were emitted since the last call."""
        changes: list[Change] = []
        for output in self._outputs:
            for item in output.items:
                if isinstance(item, Batch):
                    kinds = [0] * item.num_rows if item.kinds is None else item.kinds.tolist()
                    rows = zip(*(column.to_pylist() for column in item.values.columns))
                    changes += [(KINDS[kind], *row) for kind, row in zip(kinds, rows, strict=True)]
            output.items.clear()
        return changes

    def restart(self, parallelism: int = 1, backend: str | None = None) -> TableSubtasks:
        """Takes a snapshot and returns the operator restored from it."""
        handles = []
        for operator in self.operators:
            snapshot = operator.snapshots(1, OPTIONS)["op0"]
            if snapshot.keyed is not None:
                handle = snapshot.keyed.write(self._files)
                if handle is not None:
                    handles.append(handle)
            snapshot.release()
        self.close()
        return TableSubtasks(self.spec, backend or self._backend, parallelism, handles, self._files, self.clock)

    def close(self) -> None:
        for operator in self.operators:
            operator.close()


def materialised(changes: Sequence[Change]) -> dict[tuple[Any, ...], int]:
    """Returns the table that a changelog describes: how often it has each row."""
    table: dict[tuple[Any, ...], int] = {}
    for kind, *values in changes:
        row = tuple(values)
        table[row] = table.get(row, 0) + (1 if kind in ("+I", "+U") else -1)
        if not table[row]:
            del table[row]
    return table
