"""The source and the sink of RabbitMQ: PyFlink's `pyflink.datastream.connectors.rabbitmq`.

They need `pip install 'flinkpy[rabbitmq]'`.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.serialization import DeserializationSchema, SerializationSchema
from flinkpy.connectors.rabbitmq.connection_config import RMQConnectionConfig
from flinkpy.connectors.rabbitmq.sink import QueueSink
from flinkpy.connectors.rabbitmq.source import QueueSource
from flinkpy.connectors.sink_function import SinkFunction
from flinkpy.connectors.source_function import SourceFunction

__all__ = ["RMQConnectionConfig", "RMQSink", "RMQSource"]


class RMQSource(SourceFunction):
    """Reads a queue, which is unbounded, for `add_source`.

    Args:
        connection_config: the host and the credentials.
        queue_name: the name of the queue.
        use_correlation_id: True if all messages have unique correlation ids. With checkpoints and parallelism 1 they
            are then read exactly once. Otherwise they are read at least once; without checkpoints at most once.
        deserialization_schema: deserializes the messages.
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
    """Writes to a queue at least once, for `add_sink`."""

    def __init__(
        self, connection_config: RMQConnectionConfig, queue_name: str, serialization_schema: SerializationSchema
    ) -> None:
        super().__init__()
        self._sink = QueueSink(connection_config, queue_name, serialization_schema)

    def to_sink(self) -> Any:
        return self._sink
