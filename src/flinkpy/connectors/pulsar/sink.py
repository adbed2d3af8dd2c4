"""PulsarSink: writes messages to topics, at least once or without a guarantee.

Source: org.apache.flink.connector.pulsar.sink.{PulsarSink,writer.PulsarWriter}. Differs: there is no
exactly-once delivery, because Pulsar's Python client has no transactions.
"""

from __future__ import annotations

import random
import threading
from collections.abc import Callable, Mapping
from enum import Enum
from typing import Any

from flinkpy.common.errors import ConfigurationError, PulsarError, TypeMismatchError, UnsupportedOperationError
from flinkpy.common.serialization import SerializationSchema
from flinkpy.common.time import Duration
from flinkpy.connector_api.sink import DeliveryGuarantee, SinkBase, SinkWriter, WriterContext
from flinkpy.connectors.pulsar.client import (
    ADMIN_URL,
    PRODUCER_NAME,
    SERVICE_URL,
    PulsarBuilder,
    PulsarConnection,
    TopicProducer,
    new_connection,
)
from flinkpy.formats.schema import encode_batch
from flinkpy.records.batch import Batch

MAX_PENDING_MESSAGES = "pulsar.sink.maxPendingMessages"

_DEFAULT_MAX_PENDING = 1000
#: The number of consecutive messages that go to one partition, so that the client can send them together.
BATCHING_MAX_MESSAGES = "pulsar.producer.batchingMaxMessages"

#: A function `(record, partitions) -> partition`.
TopicRouter = Callable[[Any, list[str]], str]


class TopicRoutingMode(Enum):
    """Selects the way in which the partition of a message is chosen.

    ROUND_ROBIN uses all partitions in turn, with many consecutive messages each. MESSAGE_KEY_HASH uses the key, but
    messages have none here, so each writer chooses one partition at random. CUSTOM calls a topic router.
    """

    ROUND_ROBIN = 0
    MESSAGE_KEY_HASH = 1
    CUSTOM = 2


class MessageDelayer:
    """The time for which Pulsar withholds messages from consumers of shared subscriptions."""

    def __init__(self, _j_message_delayer: int | None) -> None:
        #: In milliseconds; None for no delay.
        self.delay_ms = _j_message_delayer

    @staticmethod
    def never() -> MessageDelayer:
        return MessageDelayer(None)

    @staticmethod
    def fixed(duration: Duration) -> MessageDelayer:
        return MessageDelayer(duration.to_millis())


class PulsarSink(SinkBase):
    """Writes messages to Pulsar topics. Create it with `PulsarSink.builder()`."""

    def __init__(
        self,
        j_pulsar_sink: tuple[str, ...],
        properties: Mapping[str, str],
        schema: Any,
        waits_on_checkpoint: bool,
        routing: TopicRoutingMode,
        router: TopicRouter | None,
        delayer: MessageDelayer,
        make_connection: Callable[[Mapping[str, str]], PulsarConnection] = new_connection,
    ) -> None:
        self.topics = j_pulsar_sink
        self.properties = dict(properties)
        self.schema = schema
        self.waits_on_checkpoint = waits_on_checkpoint
        self.routing = routing
        self.router = router
        self.delayer = delayer
        self.make_connection = make_connection

    @staticmethod
    def builder() -> PulsarSinkBuilder:
        return PulsarSinkBuilder()

    def create_writer(self, context: WriterContext) -> SinkWriter:
        return PulsarWriter(context, self)


class PulsarWriter(SinkWriter):
    """Sends messages asynchronously. Thread: task thread, except for `_on_done`."""

    def __init__(self, context: WriterContext, sink: PulsarSink) -> None:
        self._context = context
        self._sink = sink
        self._max_pending = int(sink.properties.get(MAX_PENDING_MESSAGES, _DEFAULT_MAX_PENDING))
        self._in_a_row = int(sink.properties.get(BATCHING_MAX_MESSAGES, _DEFAULT_MAX_PENDING))
        self._lock = threading.Condition()
        self._num_pending = 0
        self._errors: list[str] = []
        self._num_routed = 0
        self._producers: dict[str, TopicProducer] = {}
        self._connection = sink.make_connection(sink.properties)
        try:
            self._partitions = [name for topic in sink.topics for name in self._connection.partitions(topic)]
        except BaseException:
            self._connection.close()
            raise
        self._own = random.choice(self._partitions) if self._partitions else None

    def write(self, batch: Batch) -> None:
        sink = self._sink
        messages = encode_batch(sink.schema, batch, self._context.input_type)
        times = None if batch.timestamps is None else batch.timestamps.tolist()
        partitions = self._route(batch)
        for index, (message, partition) in enumerate(zip(messages, partitions)):
            if message is not None:
                time = None if times is None or times[index] <= 0 else times[index]
                self._send(partition, message, time)

    def flush(self, end_of_input: bool) -> None:
        if end_of_input or self._sink.waits_on_checkpoint:
            self._wait(0)

    def close(self) -> None:
        producers, self._producers = self._producers, {}
        try:
            for producer in producers.values():
                producer.close()
        finally:
            self._connection.close()

    def _route(self, batch: Batch) -> list[str]:
        sink, number = self._sink, batch.num_rows
        if sink.router is not None:
            from flinkpy.records.lanes import rows_of

            chosen = [sink.router(record, self._partitions) for record in rows_of(batch, self._context.input_type)]
            for topic in chosen:
                if not isinstance(topic, str):
                    raise TypeMismatchError(f"the topic router must return the name of a topic, not {topic!r}")
            return chosen
        if sink.routing is TopicRoutingMode.MESSAGE_KEY_HASH:
            assert self._own is not None
            return [self._own] * number
        first, self._num_routed = self._num_routed, self._num_routed + number
        partitions, in_a_row = self._partitions, self._in_a_row
        return [partitions[at // in_a_row % len(partitions)] for at in range(first, first + number)]

    def _send(self, partition: str, message: bytes, time: int | None) -> None:
        producer = self._producers.get(partition)
        if producer is None:
            producer = self._producers[partition] = self._connection.produce(partition)
        self._wait(self._max_pending - 1)
        with self._lock:
            self._num_pending += 1
        producer.send_async(message, time, self._sink.delayer.delay_ms, lambda error: self._on_done(partition, error))

    def _on_done(self, partition: str, error: str | None) -> None:
        """Thread: any."""
        with self._lock:
            self._num_pending -= 1
            if error is not None:
                self._errors.append(f"Pulsar did not take a message for {partition}: {error}")
            self._lock.notify_all()

    def _wait(self, most: int) -> None:
        """Waits until at most `most` messages are unconfirmed. Raises: PulsarError if sending failed."""
        with self._lock:
            self._lock.wait_for(lambda: self._num_pending <= most or self._errors)
            if self._errors:
                raise PulsarError(self._errors[0])


class PulsarSinkBuilder(PulsarBuilder):
    """Builds a sink. Service URL, admin URL, a serialization schema, and topics or a router are required."""

    def __init__(self) -> None:
        super().__init__()
        self._topics: tuple[str, ...] = ()
        self._schema: SerializationSchema | None = None
        self._guarantee = DeliveryGuarantee.NONE
        self._routing = TopicRoutingMode.ROUND_ROBIN
        self._router: TopicRouter | None = None
        self._delayer = MessageDelayer.never()

    def set_admin_url(self, admin_url: str) -> PulsarSinkBuilder:
        return self._set(ADMIN_URL, admin_url)

    def set_service_url(self, service_url: str) -> PulsarSinkBuilder:
        return self._set(SERVICE_URL, service_url)

    def set_producer_name(self, producer_name: str) -> PulsarSinkBuilder:
        """Sets the name of the producers in Pulsar's statistics.

        Pulsar does not allow two producers of a topic with the same name. Each name therefore contains a UUID: in place
        of `%s`, or at the end ("name - UUID") if there is no `%s`.
        """
        return self._set(PRODUCER_NAME, producer_name)

    def set_topics(self, topics: str | list[str]) -> PulsarSinkBuilder:
        """Sets the topics by name. They are written with all their partitions."""
        self._topics = (topics,) if isinstance(topics, str) else tuple(topics)
        return self

    def set_delivery_guarantee(self, delivery_guarantee: DeliveryGuarantee) -> PulsarSinkBuilder:
        """Sets the guarantee. With NONE (the default) messages in flight are lost in a failure. With AT_LEAST_ONCE a
        checkpoint waits for them.
        """
        if delivery_guarantee is DeliveryGuarantee.EXACTLY_ONCE:
            raise ConfigurationError(
                "PulsarSink does not support the EXACTLY_ONCE guarantee: Pulsar's Python client has no transactions"
            )
        self._guarantee = delivery_guarantee
        return self

    def set_topic_routing_mode(self, topic_routing_mode: TopicRoutingMode) -> PulsarSinkBuilder:
        """Sets how messages are distributed to partitions. `set_topic_router` sets CUSTOM."""
        if topic_routing_mode is TopicRoutingMode.CUSTOM:
            raise ConfigurationError("CUSTOM mode should be set by using set_topic_router method.")
        if not isinstance(topic_routing_mode, TopicRoutingMode):
            raise TypeError(f"{topic_routing_mode!r} is not a TopicRoutingMode")
        self._routing = topic_routing_mode
        return self

    def set_topic_router(self, topic_router_class_name: Any) -> PulsarSinkBuilder:
        """Sets a function that chooses the topic of each record.

        Args:
            topic_router_class_name: a function of the record and the partitions of `set_topics` that returns a topic.

        Raises:
            UnsupportedOperationError: it is the name of a Java class.
        """
        if not callable(topic_router_class_name):
            raise UnsupportedOperationError(
                f"set_topic_router: {topic_router_class_name!r} is a Java class, and flinkpy has no JVM; pass a "
                "callable (record, partitions) -> topic"
            )
        self._routing, self._router = TopicRoutingMode.CUSTOM, topic_router_class_name
        return self

    def set_serialization_schema(self, serialization_schema: SerializationSchema) -> PulsarSinkBuilder:
        self._schema = serialization_schema
        return self

    def set_authentication(
        self, auth_plugin_class_name: str, auth_params_string: str | dict[str, str]
    ) -> PulsarSinkBuilder:
        """Sets the authentication, as PulsarSourceBuilder does."""
        return self._authenticate(auth_plugin_class_name, auth_params_string)

    def delay_sending_message(self, message_delayer: MessageDelayer) -> PulsarSinkBuilder:
        if not isinstance(message_delayer, MessageDelayer):
            raise TypeError(f"{message_delayer!r} is not a MessageDelayer")
        self._delayer = message_delayer
        return self

    def set_config(self, key: str, value: Any) -> PulsarSinkBuilder:
        """Sets a property. Raises: ConfigurationError if it already has another value."""
        return self._set(key, value)

    def set_properties(self, config: dict[str, Any]) -> PulsarSinkBuilder:
        for key, value in config.items():
            self._set(key, value)
        return self

    def build(self) -> PulsarSink:
        """Returns the sink. Raises: ConfigurationError if a required setting is missing."""
        self._require(set_service_url=SERVICE_URL, set_admin_url=ADMIN_URL)
        if self._schema is None:
            raise ConfigurationError("A serialization schema is needed: call set_serialization_schema")
        if not self._topics and self._router is None:
            raise ConfigurationError("Neither topic names nor a topic router are provided")
        properties = dict(self._properties)
        if "%s" not in properties.get(PRODUCER_NAME, "%s"):
            properties[PRODUCER_NAME] += " - %s"
        waits = self._guarantee is DeliveryGuarantee.AT_LEAST_ONCE
        return PulsarSink(self._topics, properties, self._schema, waits, self._routing, self._router, self._delayer)
