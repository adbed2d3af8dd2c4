"""KafkaWriter: writes records at least once, or as they come.

Source: org.apache.flink.connector.kafka.sink.KafkaWriter.
"""

from __future__ import annotations

from typing import Any

from flinkpy.connector_api.sink import SinkWriter, WriterContext
from flinkpy.connectors.kafka.record_producer import RecordProducer
from flinkpy.connectors.kafka.serialization import KafkaRecordSerializationSchema, KafkaSinkContext
from flinkpy.records.batch import Batch


class WriterSinkContext(KafkaSinkContext):
    """The schema's view of a writer."""

    def __init__(self, context: WriterContext, partitions_of: Any) -> None:
        self._context = context
        self._partitions_of = partitions_of

    @property
    def subtask_index(self) -> int:
        return self._context.subtask_index

    @property
    def parallelism(self) -> int:
        return self._context.parallelism

    def partitions_of(self, topic: str) -> list[int]:
        partitions: list[int] = self._partitions_of(topic)
        return partitions


class KafkaWriter(SinkWriter):
    """Thread: task thread.

    Args:
        flushes: all that was written is stored before a checkpoint goes on; otherwise only at the end of the input.
        logs_failures: go on without records that Kafka did not take.
    """

    def __init__(
        self,
        context: WriterContext,
        settings: dict[str, Any],
        schema: KafkaRecordSerializationSchema,
        flushes: bool,
        logs_failures: bool = False,
    ) -> None:
        self._input_type = context.input_type
        self._schema = schema
        self._flushes = flushes
        self._producer = RecordProducer(settings, logs_failures)
        schema.open(WriterSinkContext(context, self._producer.partitions_of))

    def write(self, batch: Batch) -> None:
        self._producer.send(self._schema.encode(batch, self._input_type))

    def flush(self, end_of_input: bool) -> None:
        if self._flushes or end_of_input:
            self._producer.flush()
        else:
            self._producer.check()

    def close(self) -> None:
        self._producer.close()
