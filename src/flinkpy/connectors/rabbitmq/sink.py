"""QueueSink: writes messages to a RabbitMQ queue at least once, in AMQP transactions of many messages.

Source: org.apache.flink.streaming.connectors.rabbitmq.RMQSink. Differs: Flink's sink does not wait for the server.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import RabbitMQError
from flinkpy.connector_api.sink import SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.rabbitmq.connection_config import RMQConnectionConfig, load_pika
from flinkpy.formats.schema import encode_batch
from flinkpy.records.batch import Batch

#: The number of messages in a transaction. A commit costs a round trip to the server and to its disk.
_MAX_UNCOMMITTED = 1_000
#: How often an idle connection answers the server's heartbeats.
_HEARTBEAT_MS = 5_000


class QueueSink(SinkBase):
    """Writes messages to a queue."""

    def __init__(self, config: RMQConnectionConfig, queue: str, serialization_schema: Any) -> None:
        self.config = config
        self.queue = queue
        self.schema = serialization_schema

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return QueueWriter(context, self)


class QueueWriter(SinkWriter):
    """Publishes messages. An error fails the task, which then repeats the messages since the last checkpoint.

    Thread: task thread.
    """

    def __init__(self, context: WriterContext, sink: QueueSink) -> None:
        pika = load_pika()
        self._context = context
        self._sink = sink
        self._errors = (pika.exceptions.AMQPError, OSError)
        self._properties = pika.BasicProperties(delivery_mode=2)
        self._uncommitted = 0
        self._connection: Any = None
        try:
            self._connection = sink.config.connect()
            self._channel = self._connection.channel()
            self._channel.queue_declare(sink.queue, durable=True)
            self._channel.tx_select()
        except self._errors as error:
            self.close()
            raise self._error(error) from error
        context.schedule_after(_HEARTBEAT_MS, self._answer_heartbeats)

    def write(self, batch: Batch) -> None:
        publish, queue, properties = self._channel.basic_publish, self._sink.queue, self._properties
        try:
            for message in encode_batch(self._sink.schema, batch, self._context.input_type):
                if message is None:
                    continue
                publish("", queue, message, properties)
                self._uncommitted += 1
                if self._uncommitted == _MAX_UNCOMMITTED:
                    self._commit()
        except self._errors as error:
            raise self._error(error) from error

    def flush(self, end_of_input: bool) -> None:
        try:
            self._commit()
        except self._errors as error:
            raise self._error(error) from error

    def _commit(self) -> None:
        if self._uncommitted:
            self._channel.tx_commit()
            self._uncommitted = 0

    def _answer_heartbeats(self, _: int) -> None:
        try:
            self._commit()
            self._connection.process_data_events(0)
        except self._errors as error:
            raise self._error(error) from error
        self._context.schedule_after(_HEARTBEAT_MS, self._answer_heartbeats)

    def _error(self, error: BaseException) -> RabbitMQError:
        text = str(error) or repr(error)
        return RabbitMQError(f"{self._sink.config.server}, queue {self._sink.queue!r}: {type(error).__name__}: {text}")

    def close(self) -> None:
        """Closes the connection. The server rolls back an uncommitted transaction."""
        connection, self._connection = self._connection, None
        if connection is not None and connection.is_open:
            connection.close()
