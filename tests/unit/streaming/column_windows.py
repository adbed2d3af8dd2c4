"""Windows over columns, and a reference that processes one record at a time, as Flink's WindowOperator does."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
from memory_checkpoints import OPTIONS, MemoryStreams
from streaming_fakes import FakeTaskStateManager, OperatorHarness

from flinkpy._proto import checkpoint_pb2
from flinkpy.graph import operator_specs as specs
from flinkpy.records.batch import Batch

A = specs.ColumnAggregate
AGGREGATES = (A("n", "COUNT"), A("total", "SUM", "v"), A("top", "MAX", "v"))
MIN = -(1 << 63)
END = (1 << 63) - 1
SCHEMA = pa.schema([("k", pa.string()), ("v", pa.int64())])


def record(key: str | None, value: int | None, time: int) -> tuple[Any, ...]:
    return (key, value, time)


def columns_of(records: list[tuple[Any, ...]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"k": [r[0] for r in records], "v": [r[1] for r in records]}, schema=SCHEMA)


def window_spec(keys: tuple[Any, ...] = ("k",), **options: Any) -> specs.WindowAggregateSpec:
    options.setdefault("slide_ms", options.get("size_ms", 0))
    aggregates = options.pop("aggregates", AGGREGATES)
    return specs.WindowAggregateSpec(specs.FieldKeySelector(keys), aggregates, **options)


class Reference:
    """Tumbling and sliding event-time windows. `emitted` is (key, start, end, count, sum, max) in order."""

    def __init__(self, size: int, slide: int, offset: int = 0, lateness: int = 0) -> None:
        self.size, self.slide, self.offset, self.lateness = size, slide, offset, lateness
        self.watermark = MIN
        self.values: dict[tuple[int, Any], list[Any]] = {}
        self.emitted: list[tuple[Any, ...]] = []
        self.late: list[tuple[Any, ...]] = []

    def add(self, key: Any, value: Any, time: int) -> None:
        start = (time - self.offset) // self.slide * self.slide + self.offset
        skipped = True
        while start > time - self.size:
            end = start + self.size
            if end - 1 + self.lateness > self.watermark:
                skipped = False
                self.values.setdefault((start, key), []).append(value)
                if end - 1 <= self.watermark:
                    self._emit(start, key)
            start -= self.slide
        if skipped and time + self.lateness <= self.watermark:
            self.late.append((key, value, time))

    def advance(self, watermark: int) -> None:
        before, self.watermark = self.watermark, max(watermark, self.watermark)
        for start, key in sorted(self.values, key=lambda entry: entry[0]):
            if before < start + self.size - 1 <= self.watermark:
                self._emit(start, key)
            if start + self.size - 1 + self.lateness <= self.watermark:
                del self.values[start, key]

    def _emit(self, start: int, key: Any) -> None:
        self.emitted.append(result(key, start, start + self.size, self.values[start, key]))


class SessionReference:
    """Event-time session windows, like Reference."""

    def __init__(self, gap: int, lateness: int = 0) -> None:
        self.gap, self.lateness = gap, lateness
        self.watermark = MIN
        #: (start, end, values) of the sessions of each key.
        self.sessions: dict[Any, list[tuple[int, int, list[Any]]]] = {}
        self.emitted: list[tuple[Any, ...]] = []
        self.late: list[tuple[Any, ...]] = []

    def add(self, key: Any, value: Any, time: int) -> None:
        known = self.sessions.setdefault(key, [])
        touched = [each for each in known if time <= each[1] and time + self.gap >= each[0]]
        start, end = min([time, *(each[0] for each in touched)]), max([time + self.gap, *(e[1] for e in touched)])
        if end - 1 + self.lateness <= self.watermark:
            self.late.append((key, value, time))
            return
        merged = (start, end, [each for _, _, values in touched for each in values] + [value])
        self.sessions[key] = [each for each in known if each not in touched] + [merged]
        if end - 1 <= self.watermark:
            self.emitted.append(result(key, *merged))

    def advance(self, watermark: int) -> None:
        before, self.watermark = self.watermark, max(watermark, self.watermark)
        due = []
        for key, known in self.sessions.items():
            due += [(each[1], key, each) for each in known if before < each[1] - 1 <= self.watermark]
            known[:] = [each for each in known if each[1] - 1 + self.lateness > self.watermark]
        for _, key, session in sorted(due, key=lambda entry: entry[0]):
            self.emitted.append(result(key, *session))


def result(key: Any, start: int, end: int, values: list[Any]) -> tuple[Any, ...]:
    known = [value for value in values if value is not None]
    return (key, start, end, len(values), sum(known) if known else None, max(known, default=None))


class Engine:
    """The operator, which gets batches of records. It may be stopped and restored at any moment."""

    def __init__(
        self,
        spec: specs.WindowAggregateSpec,
        *,
        backend: str = "hashmap",
        side_tags: tuple[str, ...] = (),
        parallelism: int = 1,
        restored: tuple[list[checkpoint_pb2.OperatorSubtaskState], MemoryStreams] | None = None,
    ) -> None:
        self.spec, self.backend, self.side_tags = spec, backend, side_tags
        self.files = restored[1] if restored else MemoryStreams()
        self.subtasks = []
        for index in range(parallelism):
            state = FakeTaskStateManager(files=self.files)
            if restored:
                state.restored = checkpoint_pb2.TaskStateSnapshot()
                for one in restored[0]:
                    state.restored.operators["op0"].MergeFrom(one)
            self.subtasks.append(
                OperatorHarness(
                    spec,
                    side_tags=side_tags,
                    configuration={"state.backend.type": backend},
                    state=state,
                    subtask=(index, parallelism),
                )
            )

    def add(self, records: list[tuple[Any, ...]]) -> None:
        if not records:
            return
        if len(self.subtasks) == 1:
            self.subtasks[0].process(columns_of(records), [r[2] for r in records])
            return
        from flinkpy.network.partitioner import KeyGroupStreamPartitioner

        partitioner = KeyGroupStreamPartitioner(self.spec.key_selector)
        partitioner.setup(len(self.subtasks))
        import numpy as np

        batch = Batch(columns_of(records), np.array([r[2] for r in records], dtype=np.int64))
        for channel, part in partitioner.split(batch):
            self.subtasks[channel].operator.process_batch(part)

    def watermark(self, time: int, subtask: int | None = None) -> None:
        for index, harness in enumerate(self.subtasks):
            if subtask is None or subtask == index:
                harness.watermark(time)

    def restart(self, parallelism: int = 1, backend: str | None = None) -> Engine:
        """Takes a snapshot and restores the operator from it at another parallelism."""
        states = []
        for harness in self.subtasks:
            snapshot = harness.operator.snapshot_state(1, OPTIONS)
            state = checkpoint_pb2.OperatorSubtaskState()
            if snapshot.keyed is not None:
                handle = snapshot.keyed.write(self.files)
                if handle is not None:
                    state.keyed.append(handle)
            if snapshot.operator is not None:
                state.operator.append(snapshot.operator.write(self.files))
            snapshot.release()
            states.append(state)
            harness.operator.close()
        return Engine(
            self.spec,
            backend=backend or self.backend,
            side_tags=self.side_tags,
            parallelism=parallelism,
            restored=(states, self.files),
        )

    def take(self) -> list[tuple[Any, ...]]:
        """Returns the results since the last call."""
        rows = []
        for harness in self.subtasks:
            rows += harness.output.rows
            for item in harness.output.items:
                if isinstance(item, Batch):
                    assert (item.timestamps + 1).tolist() == item.values.column("window_end").to_pylist()
            harness.output.items.clear()
        return rows

    def dropped(self) -> int:
        return sum(harness.context.metrics.counter("numLateRecordsDropped").get_count() for harness in self.subtasks)
