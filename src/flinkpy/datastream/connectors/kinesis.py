"""The source and the sinks of Amazon Kinesis: PyFlink's `pyflink.datastream.connectors.kinesis`.

It needs `pip install 'flinkpy[kinesis]'`. Properties have Flink's keys: `aws.region`, `aws.endpoint`,
`aws.credentials.provider...`, `flink.stream.initpos`, `flink.shard...`.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.serialization import DeserializationSchema
from flinkpy.common.time import Duration
from flinkpy.common.watermark_strategy import WatermarkStrategy
from flinkpy.connectors.kinesis.deserialization import KinesisDeserializationSchema
from flinkpy.connectors.kinesis.shards import KinesisShardAssigner
from flinkpy.connectors.kinesis.sinks import (
    KinesisFirehoseSink,
    KinesisFirehoseSinkBuilder,
    KinesisStreamsSink,
    KinesisStreamsSinkBuilder,
    PartitionKeyGenerator,
    text_properties,
)
from flinkpy.connectors.kinesis.source import (
    SHARD_IDLE_INTERVAL,
    WATERMARK_LOOKAHEAD,
    WATERMARK_SYNC_INTERVAL,
    KinesisSource,
    int_property,
)
from flinkpy.connectors.source_function import SourceFunction

__all__ = [
    "FlinkKinesisConsumer",
    "KinesisDeserializationSchema",
    "KinesisFirehoseSink",
    "KinesisFirehoseSinkBuilder",
    "KinesisShardAssigner",
    "KinesisStreamsSink",
    "KinesisStreamsSinkBuilder",
    "PartitionKeyGenerator",
    "WatermarkTracker",
]


class WatermarkTracker:
    """Makes a source wait while it is ahead of others with the same tracker (watermark alignment)."""

    def __init__(self, j_watermark_tracker: str) -> None:
        self.aggregate_name = j_watermark_tracker

    @staticmethod
    def job_manager_watermark_tracker(
        aggregate_name: str, log_accumulator_interval_millis: int = -1
    ) -> WatermarkTracker:
        """Returns a tracker.

        Args:
            aggregate_name: the name of the tracker.
            log_accumulator_interval_millis: has no effect: watermarks are metrics.
        """
        return WatermarkTracker(aggregate_name)


class FlinkKinesisConsumer(SourceFunction):
    """Reads Kinesis streams exactly once, also while they are resharded, for `add_source`.

    Args:
        streams: the name or the ARN of a stream, or a list of them.
        deserializer: deserializes the records.
        config_props: the properties. By default it reads records that arrive after the start of the job
            (`flink.stream.initpos` LATEST).
    """

    def __init__(
        self,
        streams: str | list[str],
        deserializer: DeserializationSchema | KinesisDeserializationSchema,
        config_props: dict[str, Any],
    ) -> None:
        super().__init__()
        self._streams = (streams,) if isinstance(streams, str) else tuple(streams)
        self._schema = deserializer
        self._properties = text_properties(config_props)
        self._assigner = KinesisShardAssigner.default_shard_assigner()
        self._strategy: WatermarkStrategy | None = None
        self._tracker: WatermarkTracker | None = None
        self.to_source()

    def set_shard_assigner(self, shard_assigner: KinesisShardAssigner) -> FlinkKinesisConsumer:
        if not hasattr(shard_assigner, "assign"):
            raise TypeError(f"{shard_assigner!r} is not a KinesisShardAssigner")
        self._assigner = shard_assigner
        return self

    def set_periodic_watermark_assigner(self, periodic_watermark_assigner: Any) -> FlinkKinesisConsumer:
        """Sets the timestamps and watermarks of each shard.

        Args:
            periodic_watermark_assigner: a WatermarkStrategy. Java's assigners cannot run here.
        """
        if not isinstance(periodic_watermark_assigner, WatermarkStrategy):
            raise TypeError(f"{periodic_watermark_assigner!r} is not a WatermarkStrategy")
        self._strategy = periodic_watermark_assigner
        return self

    def set_watermark_tracker(self, watermark_tracker: WatermarkTracker) -> FlinkKinesisConsumer:
        """Makes this source wait if it is more than `flink.watermark.lookahead.millis` ahead. It needs watermarks."""
        if not isinstance(watermark_tracker, WatermarkTracker):
            raise TypeError(f"{watermark_tracker!r} is not a WatermarkTracker")
        self._tracker = watermark_tracker
        return self

    @property
    def watermark_strategy(self) -> WatermarkStrategy | None:
        """The watermark strategy that `add_source` uses; None for no watermarks."""
        strategy = self._strategy
        if strategy is None:
            return None
        idle_ms = int_property(self._properties, SHARD_IDLE_INTERVAL, -1, -1)
        if idle_ms > 0:
            strategy = strategy.with_idleness(Duration.of_millis(idle_ms))
        if self._tracker is not None:
            lookahead = Duration.of_millis(int_property(self._properties, WATERMARK_LOOKAHEAD, 0))
            interval = Duration.of_millis(int_property(self._properties, WATERMARK_SYNC_INTERVAL, 30_000, 1))
            strategy = strategy.with_watermark_alignment(self._tracker.aggregate_name, lookahead, interval)
        return strategy

    def to_source(self) -> KinesisSource:
        return KinesisSource(self._streams, self._schema, self._properties, self._assigner)
