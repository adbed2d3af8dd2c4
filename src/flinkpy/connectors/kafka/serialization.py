"""KafkaRecordSerializationSchema: what a sink makes of a record: topic, partition, key, value, timestamp, headers.

Source: org.apache.flink.connector.kafka.sink.KafkaRecordSerializationSchema(Builder), FlinkFixedPartitioner;
pyflink.datastream.connectors.kafka.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from itertools import repeat
from typing import Any, NamedTuple

import numpy as np

from flinkpy.common.errors import ConfigurationError
from flinkpy.common.serialization import SerializationSchema
from flinkpy.formats.schema import encode_batch
from flinkpy.records.batch import Batch


class ProducerRecord(NamedTuple):
    """What a KafkaRecordSerializationSchema of a user makes of a record."""

    topic: str
    #: None: a tombstone.
    value: bytes | None
    key: bytes | None = None
    #: None: chosen by the key, or at random.
    partition: int | None = None
    #: Milliseconds since 1970; None: that of the stream's record, or the time of writing.
    timestamp: int | None = None
    headers: tuple[tuple[str, bytes | None], ...] = ()


#: The producer chooses: by the key, or at random.
NO_PARTITION = -1
#: The producer takes the time of writing.
NOW = 0


class EncodedRecords(NamedTuple):
    """Kafka records in columns; those that all records have alike may be endless. `values` says how many there are."""

    topics: Iterable[str]
    values: Sequence[bytes | None]
    keys: Iterable[bytes | None]
    partitions: Iterable[int]
    timestamps: Iterable[int]
    #: None: no record has any.
    headers: Sequence[list[tuple[str, bytes | None]]] | None = None


class KafkaSinkContext(ABC):
    """What a schema or a partitioner may ask the writer. Thread: task thread."""

    @property
    @abstractmethod
    def subtask_index(self) -> int: ...

    @property
    @abstractmethod
    def parallelism(self) -> int: ...

    @abstractmethod
    def partitions_of(self, topic: str) -> list[int]:
        """Asks the brokers the first time."""


class KafkaTopicSelector(ABC):
    """Chooses the topic of each record."""

    @abstractmethod
    def apply(self, data: Any) -> str: ...


class KafkaPartitioner(ABC):
    """Chooses the partition of each record. Beyond PyFlink."""

    @abstractmethod
    def partition(self, record: Any, key: bytes | None, value: bytes | None, topic: str, partitions: list[int]) -> int:
        """One of `partitions`."""

    def open(self, subtask_index: int, parallelism: int) -> None:
        return


class FlinkFixedPartitioner(KafkaPartitioner):
    """All records of a subtask go to one partition: the subtask's number, modulo the number of partitions."""

    def __init__(self) -> None:
        self._subtask_index = 0

    def open(self, subtask_index: int, parallelism: int) -> None:
        self._subtask_index = subtask_index

    def partition(self, record: Any, key: bytes | None, value: bytes | None, topic: str, partitions: list[int]) -> int:
        return partitions[self._subtask_index % len(partitions)]


class KafkaRecordSerializationSchema(SerializationSchema):
    """Built with `builder()`. Beyond PyFlink: subclass it and define `serialize(record) -> ProducerRecord`, or None for
    a record that is not to be written.
    """

    @staticmethod
    def builder() -> KafkaRecordSerializationSchemaBuilder:
        return KafkaRecordSerializationSchemaBuilder()

    def open(self, context: KafkaSinkContext) -> None:
        """Called once, before the first record."""
        return

    def serialize(self, element: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not serialize")

    def encode(self, batch: Batch, input_type: Any) -> EncodedRecords:
        """The Kafka records of a batch, in its order."""
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
    """A topic or a selector, schemas for key and value, and a partitioner."""

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
    """Builds a KafkaRecordSerializationSchema: a topic, or a topic selector, and a schema for the value are needed."""

    def __init__(self) -> None:
        self._topic: str | None = None
        self._topic_selector: KafkaTopicSelector | None = None
        self._key_schema: SerializationSchema | None = None
        self._value_schema: SerializationSchema | None = None
        self._partitioner: KafkaPartitioner | None = None

    def set_topic(self, topic: str) -> KafkaRecordSerializationSchemaBuilder:
        """All records go to this topic."""
        self._check_no_topic()
        self._topic = _checked_topic(topic)
        return self

    def set_topic_selector(
        self, topic_selector: Callable[[Any], str] | KafkaTopicSelector
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Each record goes to the topic that the selector, or the function, gives for it."""
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
        """Makes the key of the Kafka record from the record; without, it has none."""
        if self._key_schema is not None:
            raise ConfigurationError("Key serializer already set.")
        self._key_schema = _schema(key_serialization_schema)
        return self

    def set_value_serialization_schema(
        self, value_serialization_schema: SerializationSchema
    ) -> KafkaRecordSerializationSchemaBuilder:
        """Makes the value of the Kafka record from the record."""
        if self._value_schema is not None:
            raise ConfigurationError("Value serializer already set.")
        self._value_schema = _schema(value_serialization_schema)
        return self

    def set_partitioner(self, partitioner: KafkaPartitioner) -> KafkaRecordSerializationSchemaBuilder:
        """Beyond PyFlink. Without, records with a key go where Java's producer puts that key, the others at random."""
        if not isinstance(partitioner, KafkaPartitioner):
            raise TypeError(f"{partitioner!r} is not a KafkaPartitioner")
        self._partitioner = partitioner
        return self

    def build(self) -> KafkaRecordSerializationSchema:
        """Raises: ConfigurationError: topic or value schema is missing."""
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
    """Of records without one, and before 1970, it is the time of writing, as Flink's sink has it."""
    return repeat(NOW) if batch.timestamps is None else np.maximum(batch.timestamps, NOW).tolist()


def _checked_topic(topic: Any) -> str:
    if not isinstance(topic, str) or not topic:
        raise TypeError(f"{topic!r} is not the name of a Kafka topic")
    return topic


def _schema(schema: Any) -> SerializationSchema:
    if not callable(getattr(schema, "serialize", None)):
        raise TypeError(f"{schema!r} is not a SerializationSchema")
    return schema
