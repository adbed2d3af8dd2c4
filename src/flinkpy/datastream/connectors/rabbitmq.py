"""Queues of RabbitMQ. PyFlink's `pyflink.datastream.connectors.rabbitmq`; needs `pip install 'flinkpy[rabbitmq]'`."""

from __future__ import annotations

from typing import Any

from flinkpy.common.serialization import DeserializationSchema, SerializationSchema
from flinkpy.connectors.rabbitmq.connection_config import RMQConnectionConfig
from flinkpy.connectors.rabbitmq.sink import QueueSink
from flinkpy.connectors.rabbitmq.source import QueueSource
from flinkpy.datastream.functions import SinkFunction, SourceFunction

__all__ = ["RMQConnectionConfig", "RMQSink", "RMQSource"]


class RMQSource(SourceFunction):
    """Reads a queue, without end; for `add_source`.

    Args:
        use_correlation_id: messages have correlation ids that are unique: with checkpoints, and a parallelism of 1,
            each comes exactly once. Otherwise at least once; without checkpoints, at most once.
    """

    def __init__(
        self,
        connection_config: RMQConnectionConfig,
        queue_name: str,
        use_correlation_id: bool,
        deserialization_schema: DeserializationSchema,
    ) -> None:
        super().__init__()
        self._source = QueueSource(connection_config, queue_name, use_correlation_id, deserialization_schema)

    def to_source(self) -> Any:
        return self._source


class RMQSink(SinkFunction):
    """Writes to a queue, at least once; for `add_sink`."""

    def __init__(
        self, connection_config: RMQConnectionConfig, queue_name: str, serialization_schema: SerializationSchema
    ) -> None:
        super().__init__()
        self._sink = QueueSink(connection_config, queue_name, serialization_schema)

    def to_sink(self) -> Any:
        return self._sink
