"""ReducingUpsertSink: holds back the changes of a sink by key, and writes only the last one of each key.

Source: org.apache.flink.streaming.connectors.kafka.table.{ReducingUpsertSink, ReducingUpsertWriter}.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.connector_api.sink import SinkBase, SinkWriter, StatefulSinkWriter, SupportsRemovingUncommitted
from flinkpy.records.batch import Batch
from flinkpy.records.last_changes import last_changes

if TYPE_CHECKING:
    from flinkpy.connector_api.serializer import SimpleVersionedSerializer
    from flinkpy.connector_api.sink import Committer, WriterContext


@dataclass(frozen=True)
class BufferLimits:
    """When held back changes are written. Before a checkpoint they always are.

    Attributes:
        max_rows: the number of changes.
        interval_ms: the longest time that a change waits.
    """

    max_rows: int
    interval_ms: int


class ReducingUpsertSink(SinkBase):
    """Writes the last change of each key by another sink.

    Args:
        inner: the sink.
        keys: the positions of the key columns.
    """

    def __init__(self, inner: SinkBase, keys: tuple[int, ...], limits: BufferLimits) -> None:
        self.inner = inner
        self._keys = keys
        self.limits = limits

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return self._around(self.inner.create_writer(context), context)

    def restore_writer(self, context: WriterContext, states: list[Any]) -> SinkWriter:
        return self._around(self.inner.restore_writer(context, states), context)

    def _around(self, writer: SinkWriter, context: WriterContext) -> SinkWriter:
        kind = _StatefulReducingWriter if isinstance(writer, StatefulSinkWriter) else ReducingUpsertWriter
        return kind(writer, self._keys, self.limits, context)

    def create_committer(self) -> Committer | None:
        return self.inner.create_committer()

    def remove_uncommitted(self, job_id: str, committables: list[Any]) -> None:
        if isinstance(self.inner, SupportsRemovingUncommitted):
            self.inner.remove_uncommitted(job_id, committables)

    @property
    def commits_at_checkpoints(self) -> bool:
        return self.inner.commits_at_checkpoints

    @property
    def committable_serializer(self) -> SimpleVersionedSerializer | None:
        return self.inner.committable_serializer

    @property
    def writer_state_serializer(self) -> SimpleVersionedSerializer | None:
        return self.inner.writer_state_serializer

    def __repr__(self) -> str:
        return f"ReducingUpsertSink({self.inner!r})"


class ReducingUpsertWriter(SinkWriter):
    """Holds changes back. Thread: task thread."""

    def __init__(self, inner: SinkWriter, keys: tuple[int, ...], limits: BufferLimits, context: WriterContext) -> None:
        self._inner = inner
        self._keys = keys
        self._limits = limits
        self._context = context
        self._held: list[Batch] = []
        self._num_held = 0
        self.send_metrics = inner.send_metrics
        context.schedule_after(limits.interval_ms, self._on_interval)

    def write(self, batch: Batch) -> None:
        self._held.append(batch)
        self._num_held += batch.num_rows
        if self._num_held >= self._limits.max_rows:
            self._write_last()

    def flush(self, end_of_input: bool) -> None:
        self._write_last()
        self._inner.flush(end_of_input)

    def prepare_commit(self) -> list[Any]:
        return self._inner.prepare_commit()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._inner.notify_checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        self._inner.close()

    def _on_interval(self, _: int) -> None:
        self._write_last()
        self._context.schedule_after(self._limits.interval_ms, self._on_interval)

    def _write_last(self) -> None:
        held, self._held, self._num_held = self._held, [], 0
        if held:
            self._inner.write(last_changes(held, self._keys))


class _StatefulReducingWriter(ReducingUpsertWriter, StatefulSinkWriter):
    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        assert isinstance(self._inner, StatefulSinkWriter)
        return self._inner.snapshot_state(checkpoint_id)
