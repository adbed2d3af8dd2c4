"""InputStreamTask: a task that reads input gates, one input or several.

Source: org.apache.flink.streaming.runtime.tasks.{OneInputStreamTask,MultipleInputStreamTask}.
"""

from __future__ import annotations

from flinkpy.streaming.io.stream_input_processor import StreamInputProcessor
from flinkpy.streaming.mailbox.mailbox_processor import ActionStatus
from flinkpy.streaming.tasks.environment import TaskEnvironment
from flinkpy.streaming.tasks.stream_task import StreamTask


class InputStreamTask(StreamTask):
    def __init__(self, environment: TaskEnvironment) -> None:
        super().__init__(environment)
        self._input: StreamInputProcessor | None = None

    def initialize(self) -> None:
        self._input = StreamInputProcessor(self.environment.input_gates, self.chain.head, self.mailbox.wake)

    def start_inputs(self) -> None:
        for _, _, gate in self.environment.input_gates:
            gate.request_partitions()

    @property
    def inputs_exhausted(self) -> bool:
        return self._input is None or self._input.drain_ends()

    def process_input(self) -> ActionStatus:
        if not self.chain.is_writable:
            return ActionStatus.BLOCKED
        assert self._input is not None
        return self._input.process_next()

    def add_input_metrics(self, values: dict[str, int]) -> None:
        processor = self._input
        if processor is not None:
            values["num_records_in"] = processor.num_records
            values["num_batches_in"] = processor.num_batches
            values["num_bytes_in"] = processor.num_bytes

    def release_inputs(self) -> None:
        if self._input is not None:
            self._input.close()
