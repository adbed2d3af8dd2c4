"""SourceFunctionOperator and SinkFunctionOperator: open a SourceFunction or SinkFunction and keep its state.

Source: org.apache.flink.streaming.api.operators.{StreamSource,StreamSink}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol

from flinkpy._proto import checkpoint_pb2
from flinkpy.streaming.operators.runtime_context import StreamingRuntimeContext
from flinkpy.streaming.operators.sink_operator import SinkOperator
from flinkpy.streaming.operators.source_operator import SourceOperator
from flinkpy.streaming.operators.stream_operator import (
    call_functions,
    close_function,
    initialize_functions,
    open_function,
    snapshot_functions,
)

if TYPE_CHECKING:
    from collections.abc import Iterator

    from flinkpy.records.batch import Batch


class LockedReader(Protocol):
    """Additional methods of the reader of a SourceFunction."""

    def take_lock(self) -> Iterator[Batch]: ...

    def queued(self) -> list[Batch]: ...

    def stop(self) -> Iterator[Batch]: ...

    def release_lock(self) -> None: ...


class SourceFunctionOperator(SourceOperator):
    """Runs a SourceFunction.

    The function's thread cannot emit records from the moment before a barrier until the state has been taken. If the
    task ends with that savepoint, it cannot emit records again at all.
    """

    _is_suspended = False

    @property
    def function(self) -> Any:
        return self._source.source_function

    @property
    def _locked_reader(self) -> LockedReader:
        reader: Any = self.reader
        return reader

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        initialize_functions(self, [self.function])

    def open(self) -> None:
        open_function(self.function, StreamingRuntimeContext(self.context), self.context, self.context.name)
        super().open()

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        super().prepare_snapshot_pre_barrier(checkpoint_id)
        self._emit(self._locked_reader.take_lock())

    def remainders_to_store(self) -> list[tuple[Batch, str | None]]:
        """Adds the queued records. The function has emitted them, so its state is already behind them."""
        return [*super().remainders_to_store(), *((batch, None) for batch in self._locked_reader.queued())]

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> Any:
        try:
            snapshot_functions(self, [self.function], checkpoint_id)
            return super().snapshot_state(checkpoint_id, options)
        finally:
            self._is_suspended = self._is_suspended or options.kind == checkpoint_pb2.SYNC_SAVEPOINT_SUSPEND
            self._release_lock()

    def emit_max_watermark(self) -> None:
        """Stops the function first, which may still run if a savepoint stops the job with the end of data."""
        self._emit(self._locked_reader.stop())
        super().emit_max_watermark()

    def _emit(self, batches: Iterator[Batch]) -> None:
        for batch in batches:
            self.emit_remainders()
            self.emit_batch(batch, None)

    def _release_lock(self) -> None:
        if not self._is_suspended:
            self._locked_reader.release_lock()

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_complete(checkpoint_id)
        self._notify("notify_checkpoint_complete", checkpoint_id)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_aborted(checkpoint_id)
        self._notify("notify_checkpoint_aborted", checkpoint_id)

    def close(self) -> None:
        try:
            super().close()
        finally:
            close_function(self.function, self.context, self.context.name)

    def _notify(self, method: str, checkpoint_id: int) -> None:
        if not hasattr(self.function, method):
            return
        try:
            self._emit(self._locked_reader.take_lock())
            call_functions([self.function], method, checkpoint_id, self.context)
        finally:
            self._release_lock()


class SinkFunctionOperator(SinkOperator):
    """Runs a SinkFunction. The writer calls it for records; this operator calls its other methods."""

    @property
    def function(self) -> Any:
        return self._sink.sink_function

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        initialize_functions(self, [self.function])

    def open(self) -> None:
        open_function(self.function, StreamingRuntimeContext(self.context), self.context, self.context.name)
        super().open()

    def snapshot_state(self, checkpoint_id: int, options: checkpoint_pb2.CheckpointOptions) -> Any:
        snapshot_functions(self, [self.function], checkpoint_id)
        return super().snapshot_state(checkpoint_id, options)

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_complete(checkpoint_id)
        call_functions([self.function], "notify_checkpoint_complete", checkpoint_id, self.context)

    def notify_checkpoint_aborted(self, checkpoint_id: int) -> None:
        super().notify_checkpoint_aborted(checkpoint_id)
        call_functions([self.function], "notify_checkpoint_aborted", checkpoint_id, self.context)

    def close(self) -> None:
        try:
            super().close()
        finally:
            close_function(self.function, self.context, self.context.name)
