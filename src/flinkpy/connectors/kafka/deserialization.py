"""KafkaRecordDeserializationSchema: what a source makes of a Kafka record.

Source: org.apache.flink.connector.kafka.source.reader.deserializer.KafkaRecordDeserializationSchema.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from flinkpy.common.serialization import DeserializationSchema
from flinkpy.common.typeinfo import TypeInformation
from flinkpy.formats.schema import DecodedMessages, decode_messages, on_error_of, produced_type_of
from flinkpy.records.batch import Batch


class ConsumerRecord(NamedTuple):
    """A record of a partition, as a KafkaRecordDeserializationSchema is given it."""

    topic: str
    partition: int
    offset: int
    #: Milliseconds since 1970, of its creation or of its arrival at the broker, as the topic is set; -1: none.
    timestamp: int
    key: bytes | None
    #: None: a tombstone.
    value: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]


class KafkaRecordDeserializationSchema(DeserializationSchema):
    """A Kafka record to a record of the stream. Beyond PyFlink: subclass it and define `deserialize(record)`, which is
    given a ConsumerRecord and returns the record, or None for none; and `get_produced_type`, where it has a type.
    """

    def deserialize(self, message: Any) -> Any:
        raise NotImplementedError(f"{type(self).__name__} does not deserialize")

    @staticmethod
    def value_only(deserialization_schema: DeserializationSchema) -> KafkaRecordDeserializationSchema:
        """Only the value, read with `deserialization_schema`; a record without a value gives none."""
        if not callable(getattr(deserialization_schema, "deserialize", None)):
            raise TypeError(f"{deserialization_schema!r} is not a DeserializationSchema")
        if isinstance(deserialization_schema, KafkaRecordDeserializationSchema):
            return deserialization_schema
        return _ValueOnly(deserialization_schema)

    def decode(self, messages: list[Any]) -> DecodedMessages:
        """The records of some messages of confluent-kafka, in their order."""
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
