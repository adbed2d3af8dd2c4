"""The two operators of a sink in batch mode: parallel writers, and one committer for all of them.

`flinkpy.graph.sink_topology` explains why there are two.

Source: org.apache.flink.streaming.runtime.operators.sink.{SinkWriterOperator, CommitterOperator}.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

from flinkpy.common.error_text import USER_ERRORS
from flinkpy.configuration import read_option
from flinkpy.configuration.checkpointing_options import COMMITTER_RETRIES
from flinkpy.connector_api.serializer import read_versioned, write_versioned
from flinkpy.connector_api.sink import SinkBase
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.streaming.operators.committables import END_OF_INPUT_ID, Committables
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.sink_operator import SinkOperator
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator

#: The maximum number of committables per batch. Each may be large.
_COMMITTABLES_PER_BATCH = 1_000


def job_id_of_sink(job_id: str, operator_id: str) -> str:
    """Returns the job id under which a sink's writers write. Other sinks of the job may write to the same place.

    A writer that runs again removes what its predecessors have left. It must not remove what writers of another sink
    have left to be committed.
    """
    # The names of transactions in databases are limited to 64 characters.
    return f"{job_id}-{zlib.crc32(operator_id.encode()):08x}"


class BatchSinkWriterOperator(SinkOperator):
    """Writes records, and emits the serialized committables when it ends. Thread: task thread.

    If the committables of all subtasks are final, and the task runs again for another reason, the operator drops its
    records. It must not even create a writer: that might remove what an earlier attempt has written.
    """

    def __init__(
        self,
        sink: SinkBase,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(sink, input_type, context, output, side_outputs)
        environment = context.environment
        self._writer_context.job_id = job_id_of_sink(environment.job_id, context.operator_id)
        own = next(one for one in environment.vertex.chain if one.operator_id == context.operator_id)
        results = {edge.result for edge in own.outputs if edge.WhichOneof("target") == "result"}
        self._is_final = bool(results) and results <= environment.final_results

    def open(self) -> None:
        if not self._is_final:
            super().open()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if not self._is_final:
            super().process_batch(batch, input_index)

    def process_watermark(self, watermark: Watermark) -> None:
        if not self._is_final:
            super().process_watermark(watermark)

    def finish(self) -> None:
        if self._is_final:
            return
        writer = self.writer
        self._guarded(lambda: writer.flush(end_of_input=True))
        if self._committer is None:
            return
        serializer = self._sink.committable_serializer
        rows = [write_versioned(serializer, committable) for committable in self._guarded(writer.prepare_commit)]
        for batch in committable_batches(rows):
            self.output.emit(batch)


def committable_batches(committables: Sequence[bytes]) -> Iterator[Batch]:
    """Yields batches of serialized committables for the committer."""
    for start in range(0, len(committables), _COMMITTABLES_PER_BATCH):
        yield Batch(list(committables[start : start + _COMMITTABLES_PER_BATCH]))


class BatchSinkCommitterOperator(StreamOperator):
    """Commits all committables at the end of its input. Thread: task thread.

    After a failure it commits everything again. Committers make repeated commits idempotent.
    """

    def __init__(
        self, sink: SinkBase, context: OperatorContext, output: Output, side_outputs: dict[str, Output]
    ) -> None:
        super().__init__(context, output, side_outputs)
        self._sink = sink
        self._retries = read_option(context.environment.configuration, COMMITTER_RETRIES)
        self._committables = Committables()

    def open(self) -> None:
        return

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        serializer = self._sink.committable_serializer
        where = f"operator {self.context.name}, a committable"
        committables: list[Any] = [read_versioned(serializer, data, where) for data in batch.values]
        self._committables.add(END_OF_INPUT_ID, committables)

    def finish(self) -> None:
        if not len(self._committables):
            return
        try:
            committer = self._sink.create_committer()
            assert committer is not None, "the sink had a committer in the writers"
            try:
                self._committables.commit_up_to(END_OF_INPUT_ID, committer, self._retries)
            finally:
                committer.close()
        except USER_ERRORS as error:
            raise self.context.function_error(error) from error

    def close(self) -> None:
        return
