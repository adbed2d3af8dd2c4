"""KinesisDeserializationSchema: deserializes a record of Kinesis together with its metadata.

Source: org.apache.flink.streaming.connectors.kinesis.serialization.KinesisDeserializationSchema.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import numpy as np

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.connectors.kinesis.shards import Shard
from flinkpy.formats.bad_records import FAIL
from flinkpy.formats.schema import (
    DecodedBatch,
    DecodedMessages,
    MessageError,
    decode_messages,
    on_error_of,
    reason_of,
)


class KinesisDeserializationSchema:
    """Base class of schemas that read the key, sequence number, time, stream and shard of a record.

    Subclass it and define `deserialize`. A subclass may have an attribute `on_error`, as any schema.

    Example:
        >>> class WithKey(KinesisDeserializationSchema):
        ...     def deserialize(self, record_value, partition_key, seq_num, approx_arrival_timestamp, stream, shard_id):
        ...         return partition_key, record_value.decode()
    """

    def __init__(self, j_kinesis_deserialization_schema: Any = None) -> None:
        """Raises: UnsupportedOperationError for a Java object."""
        if j_kinesis_deserialization_schema is not None:
            raise UnsupportedOperationError(
                "KinesisDeserializationSchema: flinkpy has no JVM; subclass it and define deserialize"
            )

    def deserialize(
        self,
        record_value: bytes,
        partition_key: str,
        seq_num: str,
        approx_arrival_timestamp: int,
        stream: str,
        shard_id: str,
    ) -> Any:
        """Deserializes a record.

        Args:
            record_value: the bytes of the record.
            approx_arrival_timestamp: the arrival at Kinesis, in milliseconds since the epoch.

        Returns:
            The record; None to drop it.
        """
        raise UnsupportedOperationError(f"{type(self).__name__} does not define deserialize")

    def get_produced_type(self) -> Any:
        """Returns the TypeInformation of the records; None for pickled Python objects."""
        return None


class KinesisColumnDeserializationSchema(KinesisDeserializationSchema):
    """Base class of schemas that read many records at a time, as columns. Beyond PyFlink."""

    @abstractmethod
    def decode_records(self, shard: Shard, records: list[dict[str, Any]], times: list[int]) -> DecodedMessages:
        """Deserializes records of a shard.

        Args:
            records: as the service returns them.
            times: the arrival of each record, in milliseconds since 1970.

        Raises: InputFormatError, which names the record.
        """


def decode(schema: Any, shard: Shard, records: list[dict[str, Any]], times: list[int]) -> DecodedMessages:
    """Deserializes records of a shard. Raises: InputFormatError, which names the record."""
    if isinstance(schema, KinesisColumnDeserializationSchema):
        return schema.decode_records(shard, records, times)
    numbers = [record["SequenceNumber"] for record in records]

    def origin(index: int) -> str:
        return f"Kinesis stream {shard.stream}, {shard.shard_id}, sequence number {numbers[index]}"

    messages: list[Any] = [record["Data"] for record in records]
    if not isinstance(schema, KinesisDeserializationSchema):
        return decode_messages(schema, messages, origin)
    calls = [
        partial(
            schema.deserialize,
            record["Data"],
            record["PartitionKey"],
            record["SequenceNumber"],
            time,
            shard.stream,
            shard.shard_id,
        )
        for record, time in zip(records, times)
    ]
    return decode_messages(_Called(on_error_of(schema), calls), messages, origin)


class _Called:
    """A batch schema that calls one function for each message."""

    def __init__(self, on_error: Any, calls: Sequence[Callable[[], Any]]) -> None:
        self.on_error = on_error
        self._calls = calls

    def deserialize_batch(self, messages: list[Any]) -> DecodedBatch:
        values, positions, errors = [], [], []
        for index, call in enumerate(self._calls):
            try:
                value = call()
            except Exception as error:
                if self.on_error == FAIL:
                    raise
                errors.append(MessageError(index, reason_of(error)))
                continue
            if value is not None:
                values.append(value)
                positions.append(index)
        return DecodedBatch(values, np.array(positions, np.int64), errors)
