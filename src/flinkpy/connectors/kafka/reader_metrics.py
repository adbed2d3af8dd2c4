"""What a Kafka reader tells of itself, under Flink's names.

    KafkaSourceReader.topic.<topic>.partition.<number>.{currentOffset,committedOffset}
    KafkaSourceReader.{commitsSucceeded,commitsFailed}
    pendingRecords                    records behind the positions of all partitions, as of the newest fetch

Source: org.apache.flink.connector.kafka.source.metrics.KafkaSourceReaderMetrics.
"""

from __future__ import annotations

from typing import Any

from flinkpy.connectors.kafka.partitions import KafkaTopicPartition

#: Of a partition that has none.
NO_OFFSET = -1


class KafkaReaderMetrics:
    """Thread: written by the task thread, commits by the one that polls; read by any."""

    def __init__(self, metric_group: Any) -> None:
        self._group = metric_group.add_group("KafkaSourceReader")
        self._positions: dict[KafkaTopicPartition, int] = {}
        self._end_offsets: dict[KafkaTopicPartition, int] = {}
        self._committed: dict[KafkaTopicPartition, int] = {}
        self._succeeded = self._group.counter("commitsSucceeded")
        self._failed = self._group.counter("commitsFailed")
        metric_group.gauge("pendingRecords", self._pending_records)

    def on_position(self, partition: KafkaTopicPartition, offset: int) -> None:
        """The next record that will be emitted has that offset, or a greater one."""
        if partition not in self._positions:
            group = self._group.add_group("topic", partition.topic).add_group("partition", str(partition.partition))
            # As Flink has it: the offset of the record emitted last.
            group.gauge("currentOffset", lambda: self._positions[partition] - 1)
            group.gauge("committedOffset", lambda: self._committed.get(partition, NO_OFFSET))
        self._positions[partition] = offset

    def on_end_offset(self, partition: KafkaTopicPartition, offset: int) -> None:
        self._end_offsets[partition] = offset

    def on_commit(self, offsets: dict[KafkaTopicPartition, int]) -> None:
        self._succeeded.inc()
        self._committed.update(offsets)

    def on_failed_commit(self) -> None:
        self._failed.inc()

    def _pending_records(self) -> int:
        ends = list(self._end_offsets.items())
        return sum(max(0, end - self._positions.get(partition, end)) for partition, end in ends)
