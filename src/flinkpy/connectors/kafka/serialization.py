"""The schemas of Kafka sources and sinks.

KafkaRecordDeserializationSchema turns a Kafka record into a record of the stream. KafkaRecordSerializationSchema turns
a record of the stream into a Kafka record: topic, partition, key, value, timestamp and headers.

Source: org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema,
org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema(Builder), FlinkFixedPartitioner;
pyflink.datastream.connectors.kafka.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from flinkpy.common.errors import ConfigurationError
from flinkpy.common.serialization import DeserializationSchema, SerializationSchema
from flinkpy.common.typeinfo import TypeInformation
from flinkpy.formats.schema import DecodedMessages, decode_messages, encode_batch, on_error_of, produced_type_of
from flinkpy.records.batch import Batch

# -- deserialization ---------------------------------------------------------------------------------------------------


class ConsumerRecord(NamedTuple):
    """A Kafka record, as a KafkaRecordDeserializationSchema receives it."""

    topic: str
    partition: int
    offset: int
    #: Milliseconds since 1970, or -1 without a timestamp. By the settings of the topic, this is the time of creation or
    #: of arrival at the broker.
    timestamp: int
    key: bytes | None
    #: None in a tombstone.
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class KafkaRecordDeserializationSchema(DeserializationSchema):
    """Turns a Kafka record into a record of the stream. Beyond PyFlink: subclass it.

    Define `deserialize`, and `get_produced_type` if the records have a type.

    Example:
        class KeyAndValue(KafkaRecordDeserializationSchema):
            def deserialize(self, record):
                return record.key, record.value

    Attributes:
        has_timestamps: False if the records of the stream shall have no timestamps.
    """

    has_timestamps = True

    def deserialize(self, message: Any) -> Any:
        """Returns the record of the stream for a ConsumerRecord; None leaves the Kafka record out."""
        raise NotImplementedError(f"{type(self).__name__} does not deserialize")

    @staticmethod
    def value_only(deserialization_schema: DeserializationSchema) -> KafkaRecordDeserializationSchema:
        """Returns a schema that reads only the values. Kafka records without a value are left out."""
        if not callable(getattr(deserialization_schema, "deserialize", None)):
            raise TypeError(f"{deserialization_schema!r} is not a DeserializationSchema")
        if isinstance(deserialization_schema, KafkaRecordDeserializationSchema):
            return deserialization_schema
        return _ValueOnly(deserialization_schema)

    def decode(self, messages: list[Any]) -> DecodedMessages:
        """Decodes messages of confluent-kafka, in their order."""
        values: list[Any] = []
        positions: list[int] = []
        for position, message in enumerate(messages):
            record = self.deserialize(_consumer_record(message))
            if record is not None:
                values.append(record)
                positions.append(position)
        return DecodedMessages(Batch(values), np.array(positions, np.int64), [])


class _ValueOnly(KafkaRecordDeserializationSchema):
    def __init__(self, schema: DeserializationSchema) -> None:
        super().__init__()
        self._schema = schema
        self.on_error = on_error_of(schema)

    def decode(self, messages: list[Any]) -> DecodedMessages:
        def origin(index: int) -> str:
            message = messages[index]
            return f"Kafka topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"

        return decode_messages(self._schema, [message.value() for message in messages], origin)

    def get_produced_type(self) -> TypeInformation | None:
        return produced_type_of(self._schema)


def _consumer_record(message: Any) -> ConsumerRecord:
    return ConsumerRecord(
        message.topic(),
        message.partition(),
        message.offset(),
        message.timestamp()[1],
        message.key(),
        message.value(),
        tuple(message.headers() or ()),
    )


# -- serialization -----------------------------------------------------------------------------------------------------


class ProducerRecord(NamedTuple):
    """A Kafka record, as a user's KafkaRecordSerializationSchema returns it."""

    topic: str
    #: None for a tombstone.
    value: bytes | None
    key: bytes | None = None
    #: None: Kafka chooses by the key, or at random without a key.
    partition: int | None = None
    #: Milliseconds since 1970. None: the timestamp of the stream's record, or the time of writing.
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


#: Lets the producer choose: by the key, or at random without a key.
NO_PARTITION = -1
#: Lets the producer take the time of writing.
NOW = 0


class EncodedRecords(NamedTuple):
    """Kafka records in columns. `values` has one element per record. The other columns may be endless."""

    topics: Iterable[str]
    values: Sequence[bytes | None]
    keys: Iterable[bytes | None]
    partitions: Iterable[int]
    timestamps: Iterable[int]
    #: None if no record has headers.
    headers: Sequence[list[tuple[str, bytes | None]]] | None = None


@dataclass(frozen=True, slots=True)
class KafkaSinkContext:
    """The information that a writer provides to its schema. Thread: task thread."""

    subtask_index: int
    parallelism: int
    #: Returns the partitions of a topic. The first call for a topic asks the brokers.
    partitions_of: Callable[[str], list[int]]


class KafkaTopicSelector(ABC):
    """Chooses the topic of each record."""

    @abstractmethod
    def apply(self, data: Any) -> str:
        """Returns the name of the topic for a record."""


class KafkaPartitioner(ABC):
    """Chooses the partition of each record. Beyond PyFlink."""

    @abstractmethod
    def partition(self, record: Any, key: bytes | None, value: bytes | None, topic: str, partitions: list[int]) -> int:
        """Returns the partition for a record: one of `partitions`."""

    def open(self, subtask_index: int, parallelism: int) -> None:
        """Called once, before the first record."""
        return


class FlinkFixedPartitioner(KafkaPartitioner):
    """Sends all records of a subtask to one partition: the subtask's index modulo the number of partitions."""

    def __init__(self) -> None:
        self._subtask_index = 0

    def open(self, subtask_index: int, parallelism: int) -> None:
        self._subtask_index = subtask_index

    def partition(self, record: Any, key: bytes | None, value: bytes | None, topic: str, partitions: list[int]) -> int:
        return partitions[self._subtask_index % len(partitions)]


class KafkaRecordSerializationSchema(SerializationSchema):
    """Turns a record of the stream into a Kafka record.

    `builder()` builds one of a topic and other schemas. Beyond PyFlink: subclass it and define `serialize`.

    Example:
        schema = (
            KafkaRecordSerializationSchema.builder()
            .set_topic("invoices")
            .set_value_serialization_schema(SimpleStringSchema())
            .build()
        )
    """

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        """Returns a builder of a KafkaRecordSerializationSchema."""
        return KafkaRecordSerializationSchemaBuilder()

    def open(self, context: KafkaSinkContext) -> None:
        """Called once, before the first record."""
        return

    def serialize(self, element: Any) -> Any:
        """Returns the ProducerRecord for a record; None leaves the record out."""
        raise NotImplementedError(f"{type(self).__name__} does not serialize")

    def encode(self, batch: Batch, input_type: Any) -> EncodedRecords:
        """Returns the Kafka records of a batch, in its order."""
        from flinkpy.records.lanes import rows_of

        rows = rows_of(batch, input_type)
        made = [(self.serialize(row), timestamp) for row, timestamp in zip(rows, _timestamps(batch))]
        records = [(record, timestamp) for record, timestamp in made if record is not None]
        return EncodedRecords(
            [_checked_topic(record.topic) for record, _ in records],
            [record.value for record, _ in records],
            [record.key for record, _ in records],
            [NO_PARTITION if record.partition is None else record.partition for record, _ in records],
            [timestamp if record.timestamp is None else max(NOW, record.timestamp) for record, timestamp in records],
            [list(record.headers) for record, _ in records],
        )


class BuiltSchema(KafkaRecordSerializationSchema):
    """A schema of the parts that KafkaRecordSerializationSchemaBuilder collects."""

    def __init__(
        self,
        topic: str | None,
        topic_selector: KafkaTopicSelector | None,
        key_schema: SerializationSchema | None,
        value_schema: SerializationSchema,
        partitioner: KafkaPartitioner | None,
        writes_timestamps: bool = True,
    ) -> None:
        super().__init__()
        self.topic = topic
        self.topic_selector = topic_selector
        self.key_schema = key_schema
        self.value_schema = value_schema
        self.partitioner = partitioner
        self.writes_timestamps = writes_timestamps
        self._context: KafkaSinkContext | None = None

    def open(self, context: KafkaSinkContext) -> None:
        self._context = context
        if self.partitioner is not None:
            self.partitioner.open(context.subtask_index, context.parallelism)

    def encode(self, batch: Batch, input_type: Any) -> EncodedRecords:
        values = encode_batch(self.value_schema, batch, input_type)
        keys = repeat(None) if self.key_schema is None else encode_batch(self.key_schema, batch, input_type)
        topics: Iterable[str] = repeat(self.topic or "")
        partitions: Iterable[int] = repeat(NO_PARTITION)
        if self.topic_selector is not None or self.partitioner is not None:
            from flinkpy.records.lanes import rows_of

            rows = rows_of(batch, input_type)
            if self.topic_selector is not None:
                topics = [_checked_topic(self.topic_selector.apply(row)) for row in rows]
            if self.partitioner is not None:
                assert self._context is not None
                choose, partitions_of = self.partitioner.partition, self._context.partitions_of
                partitions = [
                    choose(row, key, value, topic, partitions_of(topic))
                    for row, key, value, topic in zip(rows, keys, values, topics)
                ]
        timestamps = _timestamps(batch) if self.writes_timestamps else repeat(NOW)
        return EncodedRecords(topics, values, keys, partitions, timestamps)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_context": None}


class KafkaRecordSerializationSchemaBuilder:
    """Builds a KafkaRecordSerializationSchema. A topic or a topic selector and a schema for the value are required."""

    def __init__(self) -> None:
        self._topic: str | None = None
        self._topic_selector: KafkaTopicSelector | None = None
        self._key_schema: SerializationSchema | None = None
        self._value_schema: SerializationSchema | None = None
        self._partitioner: KafkaPartitioner | None = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """Sets the topic of all records.

        Raises:
            TypeError: the argument is not the name of a topic.
            ConfigurationError: a topic or a topic selector is already set.
        """
        self._check_no_topic()
        self._topic = _checked_topic(topic)
        return self

    def set_topic_selector(
        self, topic_selector: Callable[[Any], str] | KafkaTopicSelector
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Sets a selector or a function that returns the topic of each record.

        Raises:
            TypeError: the argument is neither a KafkaTopicSelector nor callable.
            ConfigurationError: a topic or a topic selector is already set.
        """
        if not isinstance(topic_selector, KafkaTopicSelector) and not callable(topic_selector):
            raise TypeError("topic_selector must be KafkaTopicSelector or a callable")
        self._check_no_topic()
        if not isinstance(topic_selector, KafkaTopicSelector):
            topic_selector = _FunctionTopicSelector(topic_selector)
        self._topic_selector = topic_selector
        return self

    def set_key_serialization_schema(
        self, key_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Sets the schema that makes the key from a record. Without one, Kafka records have no key.

        Raises:
            TypeError: the argument is not a SerializationSchema.
            ConfigurationError: a key schema is already set.
        """
        if self._key_schema is not None:
            raise ConfigurationError("Key serializer already set.")
        self._key_schema = _schema(key_serialization_schema)
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Sets the schema that makes the value from a record.

        Raises:
            TypeError: the argument is not a SerializationSchema.
            ConfigurationError: a value schema is already set.
        """
        if self._value_schema is not None:
            raise ConfigurationError("Value serializer already set.")
        self._value_schema = _schema(value_serialization_schema)
        return self

    def set_partitioner(self, partitioner: KafkaPartitioner) -> KafkaRecordSerializationSchemaBuilder:
        """Sets the partitioner. Beyond PyFlink.

        Without one, a record with a key goes to the partition where Java's producer puts the key. Other records go to
        random partitions.
        """
        if not isinstance(partitioner, KafkaPartitioner):
            raise TypeError(f"{partitioner!r} is not a KafkaPartitioner")
        self._partitioner = partitioner
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Returns the schema.

        Raises:
            ConfigurationError: the topic or the value schema is missing.
        """
        if self._value_schema is None:
            raise ConfigurationError("No value serializer is configured.")
        if self._topic is None and self._topic_selector is None:
            raise ConfigurationError("No topic selector is configured.")
        return BuiltSchema(self._topic, self._topic_selector, self._key_schema, self._value_schema, self._partitioner)

    def _check_no_topic(self) -> None:
        if self._topic is not None or self._topic_selector is not None:
            raise ConfigurationError("Topic selector already set.")


class _FunctionTopicSelector(KafkaTopicSelector):
    def __init__(self, function: Callable[[Any], str]) -> None:
        self._function = function

    def apply(self, data: Any) -> str:
        return self._function(data)


def _timestamps(batch: Batch) -> Iterable[int]:
    """Returns the timestamps of a batch. As in Flink, the time of writing replaces missing and negative ones."""
    return repeat(NOW) if batch.timestamps is None else np.maximum(batch.timestamps, NOW).tolist()


def _checked_topic(topic: Any) -> str:
    if not isinstance(topic, str) or not topic:
        raise TypeError(f"{topic!r} is not the name of a Kafka topic")
    return topic


def _schema(schema: Any) -> SerializationSchema:
    if not callable(getattr(schema, "serialize", None)):
        raise TypeError(f"{schema!r} is not a SerializationSchema")
    return schema
