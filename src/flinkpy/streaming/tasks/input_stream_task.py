"""InputStreamTask: a task that reads one or several input gates.

Source: org.apache.flink.streaming.runtime.tasks.{OneInputStreamTask,MultipleInputStreamTask}.
"""

from __future__ import annotations

from typing import Any

from flinkpy.records.elements import CheckpointBarrier
from flinkpy.streaming.io.checkpointing.checkpointed_inputs import CheckpointedInputs
from flinkpy.streaming.io.stream_input_processor import StreamInputProcessor
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus
from flinkpy.streaming.tasks.environment import TaskEnvironment
from flinkpy.streaming.tasks.record_writers import UNALIGNED_PARTITIONERS
from flinkpy.streaming.tasks.restored_channels import RestoredChannels
from flinkpy.streaming.tasks.stream_task import StreamTask


class InputStreamTask(StreamTask):
    """Reads input gates.

    It processes the in-flight records of the restored checkpoint before it requests data from the producers.
    """

    def __init__(self, environment: TaskEnvironment) -> None:
        super().__init__(environment)
        self._input: StreamInputProcessor | None = None
        self._restored: RestoredChannels | None = None

    @property
    def input(self) -> StreamInputProcessor:
        assert self._input is not None, "initialize has not been called"
        return self._input

    def initialize(self) -> None:
        self._input = StreamInputProcessor(
            self.environment.input_gates,
            self.chain.head,
            self.mailbox.wake,
            self._create_checkpointed_inputs,
            self._clock,
            self.chain.max_batch_rows,
        )

    def _create_checkpointed_inputs(self, gates: list[tuple[int, Any]]) -> CheckpointedInputs:
        edges = self.environment.vertex.inputs
        aligned_only = frozenset(
            position
            for position, edge in enumerate(edges)
            if edge.partitioner_name and edge.partitioner_name not in UNALIGNED_PARTITIONERS
        )
        return CheckpointedInputs(gates, aligned_only, self, self._clock, self.system_timers.schedule_after)

    def start_inputs(self) -> None:
        self._restored = RestoredChannels.of(self.environment, self.chain)
        if self._restored is None:
            self._request_partitions()

    def _request_partitions(self) -> None:
        for _, _, gate in self.environment.input_gates:
            gate.request_partitions()

    @property
    def is_drained(self) -> bool:
        return self._input is None or self._input.is_drained

    def take_ends_of_inputs(self) -> bool:
        return self._input is None or self._input.drain_ends()

    def discard_rest_of_inputs(self) -> bool:
        return self.input.discard_rest()

    def process_input(self) -> ActionStatus:
        assert self._input is not None
        if not self.chain.is_writable:
            return ActionStatus.MORE if self._input.process_priority() else ActionStatus.BLOCKED
        if self._restored is not None:
            if not self._restored.process_next():
                self._restored = None
                self._request_partitions()
            return ActionStatus.MORE
        return self._input.process_next()

    def on_trigger(self, barrier: CheckpointBarrier) -> None:
        self.input.checkpointed.on_trigger(barrier)

    def on_aborted(self, checkpoint_id: int) -> None:
        self.input.checkpointed.on_aborted(checkpoint_id)

    def add_input_metrics(self, values: dict[str, int]) -> None:
        processor = self._input
        if processor is not None:
            values["num_records_in"] = processor.num_records
            values["num_batches_in"] = processor.num_batches
            values["num_bytes_in"] = processor.num_bytes

    def release_inputs(self) -> None:
        if self._input is not None:
            self._input.close()
