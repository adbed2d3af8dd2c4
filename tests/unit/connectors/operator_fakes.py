"""Runs a source or sink operator through checkpoints and restores. Its state is in memory."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import cloudpickle

from flinkpy._proto import checkpoint_pb2, job_pb2
from flinkpy.common.clock import ManualClock
from flinkpy.common.configuration import Configuration
from flinkpy.records.batch import Batch
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus
from flinkpy.streaming.mailbox.task_mailbox import TaskMailbox
from flinkpy.streaming.operators.function_source_sink import SinkFunctionOperator, SourceFunctionOperator
from flinkpy.streaming.operators.global_sink_operators import GlobalSinkCommitterOperator, GlobalSinkWriterOperator
from flinkpy.streaming.operators.metric_group import OperatorMetricGroup
from flinkpy.streaming.operators.sink_operator import SinkOperator
from flinkpy.streaming.operators.source_operator import SourceOperator
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.tasks.processing_time_service import ProcessingTimeService


class _MemoryStream(io.BytesIO):
    def close_and_get_handle(self):
        data = self.getvalue()
        return checkpoint_pb2.StreamStateHandle(data=data, size_bytes=len(data))

    def abort(self):
        return


class MemoryStreams:
    can_share = False

    def create(self, scope=None):
        return _MemoryStream()


class MemoryFiles:
    def open(self, handle):
        return io.BytesIO(handle.data)


class Collected:
    def __init__(self):
        self.batches = []
        self.elements = []
        #: Batches and elements, in order.
        self.items = []

    def emit(self, batch):
        self.batches.append(batch)
        self.items.append(batch)

    def emit_element(self, element):
        self.elements.append(element)
        self.items.append(element)

    @property
    def rows(self):
        rows = []
        for batch in self.batches:
            rows += batch.values if isinstance(batch.values, list) else batch.values.column(0).to_pylist()
        return rows


class _Life:
    """One attempt of an operator: the part that sources and sinks share."""

    def __init__(self, restored, restored_id, configuration, subtask_index, parallelism, attempt_number):
        self.sent: list[Any] = []
        self.clock = ManualClock(1_000)
        self.environment = SimpleNamespace(
            job_id="0123456789abcdef",
            configuration=Configuration.from_dict(configuration or {}),
            vertex=job_pb2.JobVertex(name="vertex"),
            subtask_index=subtask_index,
            parallelism=parallelism,
            attempt_number=attempt_number,
            task_name=f"vertex ({subtask_index + 1}/{parallelism})",
            clock=self.clock,
            load_pickle=cloudpickle.loads,
            send_operator_event=lambda operator_id, event: self.sent.append(event),
            state=SimpleNamespace(restored_checkpoint_id=restored_id, files=MemoryFiles()),
        )
        self.context: Any = OperatorContext(
            "op", "operator", self.environment, TaskMailbox(), ProcessingTimeService(self.clock), OperatorMetricGroup()
        )
        self.output = Collected()
        self.restored = restored

    def start(self, operator: Any) -> None:
        operator.initialize_state(self.restored)
        operator.open()

    def checkpoint(self, checkpoint_id: int = 1, kind: Any = None) -> checkpoint_pb2.OperatorSubtaskState:
        self.operator.prepare_snapshot_pre_barrier(checkpoint_id)
        snapshot = self.operator.snapshot_state(checkpoint_id, checkpoint_pb2.CheckpointOptions(kind=kind))
        state = checkpoint_pb2.OperatorSubtaskState()
        if snapshot.operator is not None:
            handle = snapshot.operator.write(MemoryStreams())
            if handle is not None:
                state.operator.append(handle)
        snapshot.release()
        return state


class SourceLife(_Life):
    """One attempt of a source operator.

    Args:
        restored: the state of a checkpoint; None: start from the beginning.
    """

    def __init__(
        self, source, restored=None, *, restored_id=None, batch_rows=None, configuration=None, strategy=None, **place
    ):
        place = {"subtask_index": 0, "parallelism": 1, "attempt_number": 0, **place}
        restored_id = restored_id or (None if restored is None else 1)
        super().__init__(restored, restored_id, configuration, **place)
        operator = SourceOperator if source.source_function is None else SourceFunctionOperator
        self.operator = operator(source, strategy, None, self.context, self.output, {})
        if batch_rows is not None:
            self.operator.batch_size.limit(batch_rows)
            self.operator.batch_size.rows = batch_rows
        self.start(self.operator)

    def emit(self, batches: int | None = None) -> list[Any]:
        """Emits batches, or all available ones, and returns their rows."""
        first = len(self.output.rows)
        while batches is None or batches:
            status = self.operator.emit_next()
            if status is not ActionStatus.MORE:
                break
            batches = None if batches is None else batches - 1
        return self.output.rows[first:]


class GlobalSinkLife:
    """The operators of a sink with a global committer: parallel writers, and the committer.

    Args:
        restored: the states of the writers and of the committer.
    """

    def __init__(self, sink, parallelism, restored=None, configuration=None):
        *writers, committer = restored or [None] * (parallelism + 1)
        self.writers = []
        for index, state in enumerate(writers):
            place = {"subtask_index": index, "parallelism": parallelism, "attempt_number": 0}
            life = _Life(state, None if state is None else 1, configuration, **place)
            life.operator = GlobalSinkWriterOperator(sink, None, life.context, life.output, {})
            life.start(life.operator)
            self.writers.append(life)
        self.committer = _Life(committer, None, configuration, subtask_index=0, parallelism=1, attempt_number=0)
        self.committer.operator = GlobalSinkCommitterOperator(sink, self.committer.context, self.committer.output, {})
        self.committer.start(self.committer.operator)

    def pass_committables(self) -> None:
        """Passes what the writers have emitted to the committer."""
        for writer in self.writers:
            batches, writer.output.batches = writer.output.batches, []
            for batch in batches:
                self.committer.operator.process_batch(batch)

    def checkpoint(self, checkpoint_id: int) -> list[checkpoint_pb2.OperatorSubtaskState]:
        """Takes a checkpoint, and returns the states of the writers and of the committer."""
        states = [writer.checkpoint(checkpoint_id) for writer in self.writers]
        self.pass_committables()
        return [*states, self.committer.checkpoint(checkpoint_id)]

    def finish(self) -> None:
        for writer in self.writers:
            writer.operator.finish()
        self.pass_committables()
        self.committer.operator.finish()


class SinkLife(_Life):
    def __init__(self, sink, restored=None, *, restored_id=None, input_type=None, configuration=None, **place):
        place = {"subtask_index": 0, "parallelism": 1, "attempt_number": 0, **place}
        restored_id = restored_id or (None if restored is None else 1)
        super().__init__(restored, restored_id, configuration, **place)
        operator = SinkOperator if sink.sink_function is None else SinkFunctionOperator
        self.operator = operator(sink, input_type, self.context, self.output, {})
        self.start(self.operator)

    def write(self, *rows: Any) -> None:
        self.operator.process_batch(Batch(list(rows)))


def merged(*states: checkpoint_pb2.OperatorSubtaskState) -> checkpoint_pb2.OperatorSubtaskState:
    """Merges states for one subtask, as after a decrease of the parallelism."""
    result = checkpoint_pb2.OperatorSubtaskState()
    for state in states:
        result.operator.extend(state.operator)
    return result


def split_elements(state: checkpoint_pb2.OperatorSubtaskState, name: str) -> list[checkpoint_pb2.OperatorSubtaskState]:
    """Splits a list state into one state per element, as after an increase of the parallelism."""
    parts = []
    for handle in state.operator:
        for elements in handle.states:
            if elements.name != name:
                continue
            for offset, length in zip(elements.offsets, elements.lengths, strict=True):
                part = checkpoint_pb2.OperatorSubtaskState()
                copy = part.operator.add()
                copy.CopyFrom(handle)
                del copy.states[:]
                copy.states.add(name=name, mode=elements.mode, offsets=[offset], lengths=[length])
                parts.append(part)
    return parts
