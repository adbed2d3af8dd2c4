"""The records of Kafka as rows of tables: key, value and metadata in columns, and back.

Source: org.apache.flink.streaming.connectors.kafka.table.{DynamicKafkaDeserializationSchema,
DynamicKafkaRecordSerializationSchema}.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import repeat
from typing import TYPE_CHECKING, Any

import numpy as np

from flinkpy.common.errors import InputFormatError
from flinkpy.common.types import RowKind
from flinkpy.common.user_classes import object_of
from flinkpy.connectors.kafka.serialization import (
    NO_PARTITION,
    NOW,
    EncodedRecords,
    FlinkFixedPartitioner,
    KafkaPartitioner,
    KafkaRecordDeserializationSchema,
    KafkaRecordSerializationSchema,
    KafkaSinkContext,
)
from flinkpy.formats.bad_records import shown
from flinkpy.formats.schema import DecodedMessages
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import rows_of
from flinkpy.records.last_changes import is_deletion
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.arrow import schema_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.logical_types import LogicalType, RowType
from flinkpy.table.formats.message_schemas import TableDeserializationSchema, TableSerializationSchema

if TYPE_CHECKING:
    import pyarrow as pa

#: Key -> type of the metadata that the source can add.
SOURCE_METADATA: dict[str, LogicalType] = {
    "topic": types.VarCharType(nullable=False),
    "partition": types.IntType(nullable=False),
    "headers": types.MapType(types.VarCharType(nullable=False), types.VarBinaryType(nullable=False), nullable=False),
    "leader-epoch": types.IntType(),
    "offset": types.BigIntType(nullable=False),
    "timestamp": types.LocalZonedTimestampType(3, nullable=False),
    "timestamp-type": types.VarCharType(nullable=False),
}
#: The prefix of metadata that the format of values offers.
VALUE = "value."
#: The metadata that the sink can write.
SINK_METADATA: dict[str, LogicalType] = {
    "headers": types.MapType(types.VarCharType(), types.VarBinaryType()),
    "timestamp": types.LocalZonedTimestampType(3),
}
_TIMESTAMP_TYPES = ("NoTimestampType", "CreateTime", "LogAppendTime")


@dataclass(frozen=True)
class Projection:
    """A part of a table's columns, in a key or a value.

    Attributes:
        positions: the places of the columns in the rows of the table.
        row_type: their names in the message, and their types.
    """

    positions: tuple[int, ...]
    row_type: RowType


class KafkaTableReader(KafkaRecordDeserializationSchema):
    """Reads rows of a table from Kafka records, without timestamps: event time is a column.

    Args:
        produced_type: the physical columns, then those of the metadata.
        value, value_schema: the columns in values.
        key, key_schema: those in keys; None: keys are not read.
        metadata: the keys of the metadata columns.
        is_upsert: True if a record replaces the row with its key, and one without a value deletes it.
    """

    def __init__(
        self,
        produced_type: RowType,
        value: Projection,
        value_schema: TableDeserializationSchema,
        key: Projection | None,
        key_schema: TableDeserializationSchema | None,
        metadata: tuple[str, ...] = (),
        is_upsert: bool = False,
    ) -> None:
        super().__init__()
        self._produced_type = produced_type
        self._value = value
        self._value_schema = value_schema
        self._key = key
        self._key_schema = key_schema
        self._metadata = metadata
        self._is_upsert = is_upsert

    has_timestamps = False

    def get_produced_type(self) -> Any:
        return InternalTypeInfo(self._produced_type)

    def decode(self, messages: list[Any]) -> DecodedMessages:
        import pyarrow as pa

        decoded = self._value_schema.decode([message.value() for message in messages])
        if decoded.errors:
            self._fail(messages, decoded.errors[0], "value")
        positions, rows, kinds = decoded.positions, decoded.rows, decoded.kinds
        columns: dict[int, pa.Array] = dict(zip(self._value.positions, rows.columns))
        if self._is_upsert:
            columns, positions, kinds = self._upserts(messages, rows, positions)
        schema = schema_of(self._produced_type)
        if self._key is not None and self._key_schema is not None:
            keys = self._key_schema.decode([messages[place].key() for place in positions.tolist()])
            if keys.errors:
                place = positions.tolist()[keys.errors[0].position]
                self._fail(messages, keys.errors[0]._replace(position=place), "key")
            found = _spread(keys.positions, len(positions))
            for place, column in zip(self._key.positions, keys.rows.columns):
                # A column that is in both is that of the value, but a deletion has no value.
                if self._is_upsert or place not in columns:
                    columns[place] = column.take(found)
        first = len(schema) - len(self._metadata)
        of_rows = [messages[place] for place in positions.tolist()]
        # The format adds its metadata after the columns of the value, in the order in which they are asked for.
        of_format = iter(rows.columns[len(self._value.positions) :])
        for place, key in enumerate(self._metadata, first):
            if key.startswith(VALUE):
                columns[place] = next(of_format)
            else:
                columns[place] = pa.array([_metadata_of(message, key) for message in of_rows], schema.field(place).type)
        arrays = [
            columns[place] if place in columns else pa.nulls(len(positions), schema.field(place).type)
            for place in range(len(schema))
        ]
        made = pa.RecordBatch.from_arrays(arrays, schema=schema)
        return DecodedMessages(Batch(made, None, kinds), positions, [])

    def _upserts(self, messages: list[Any], rows: pa.RecordBatch, positions: np.ndarray) -> Any:
        """Returns the columns of values with nulls for deletions, the positions of all messages, and their kinds."""
        is_deletion = np.array([message.value() is None for message in messages], bool)
        is_row = is_deletion.copy()
        is_row[positions] = True
        every = np.flatnonzero(is_row)
        places = _spread(np.searchsorted(every, positions), len(every))
        columns = {place: column.take(places) for place, column in zip(self._value.positions, rows.columns)}
        kinds = np.where(is_deletion[every], RowKind.DELETE.value, RowKind.UPDATE_AFTER.value).astype(np.int8)
        return columns, every, kinds

    def _fail(self, messages: list[Any], error: Any, part: str) -> None:
        message = messages[error.position]
        raw = (message.value() if part == "value" else message.key()) or b""
        place = f"Kafka topic {message.topic()}, partition {message.partition()}, offset {message.offset()}"
        raise InputFormatError(
            f"{place}: the {part} cannot be read: {error.reason}; it is: {shown(raw)}", details={"text": shown(raw)}
        )


def _spread(positions: np.ndarray, count: int) -> Any:
    """Returns for each of `count` rows the index of the element at its position; null if there is none."""
    import pyarrow as pa

    found = np.full(count, -1, np.int64)
    found[positions] = np.arange(len(positions))
    return pa.array(found, mask=found < 0)


def _metadata_of(message: Any, key: str) -> Any:
    kind, timestamp_ms = message.timestamp()
    match key:
        case "topic":
            return message.topic()
        case "partition":
            return message.partition()
        case "offset":
            return message.offset()
        case "timestamp":
            return timestamp_ms
        case "timestamp-type":
            return _TIMESTAMP_TYPES[kind]
        case "leader-epoch":
            return message.leader_epoch()
        case _:
            # As in Flink, the last of several headers with one name counts.
            return list(dict(message.headers() or ()).items())


@dataclass(frozen=True, slots=True)
class PartitionerClass:
    """The class of a partitioner.

    Attributes:
        path: module and class, such as `jobs.partitioners.ByRegion`.
    """

    path: str

    def make(self) -> KafkaPartitioner:
        """Returns a new partitioner. Raises: ConfigurationError if the class is not there or is no partitioner."""
        base: type[KafkaPartitioner] = KafkaPartitioner  # type: ignore[type-abstract]
        return object_of(self.path, base, "partitioner")


class KafkaTableWriter(KafkaRecordSerializationSchema):
    """Writes rows of a table as Kafka records.

    Args:
        metadata: the keys of the metadata columns, which are the last columns of the rows.
        partitioner: chooses the partitions; None: the producer does.
        is_upsert: True if the deletion of a row is a record without a value.
    """

    def __init__(
        self,
        topic: str,
        value: Projection,
        value_schema: TableSerializationSchema,
        key: Projection | None,
        key_schema: TableSerializationSchema | None,
        metadata: tuple[str, ...] = (),
        partitioner: PartitionerClass | None = None,
        is_upsert: bool = False,
    ) -> None:
        super().__init__()
        self._topic = topic
        self._value = value
        self._value_schema = value_schema
        self._key = key
        self._key_schema = key_schema
        self._metadata = metadata
        self._partitioner_class = partitioner
        self._partitioner: KafkaPartitioner | None = None
        self._is_upsert = is_upsert
        self._context: KafkaSinkContext | None = None

    def open(self, context: KafkaSinkContext) -> None:
        self._context = context
        if self._partitioner_class is not None:
            self._partitioner = self._partitioner_class.make()
            self._partitioner.open(context.subtask_index, context.parallelism)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_context": None, "_partitioner": None}

    def encode(self, batch: Batch, input_type: Any) -> EncodedRecords:
        import pyarrow as pa

        rows: Any = batch.values
        kinds = batch.kinds
        values = self._value_schema.encode(_part(rows, self._value), None if self._is_upsert else kinds)
        if self._is_upsert and kinds is not None:
            # A row before an update is a deletion, too: a condition may keep the row after it from following.
            values = [None if is_deleted else value for is_deleted, value in zip(is_deletion(kinds).tolist(), values)]
        keys: Any = repeat(None)
        if self._key is not None and self._key_schema is not None:
            keys = self._key_schema.encode(_part(rows, self._key), None)
        partitions: Any = repeat(NO_PARTITION)
        if self._partitioner is not None:
            records = Batch(rows, None, kinds)
            partitions = self._partitions(self._partitioner, records, input_type, keys, values)
        timestamps: Any = repeat(NOW)
        headers = None
        first = rows.num_columns - len(self._metadata)
        for place, name in enumerate(self._metadata, first):
            found = rows.column(place)
            if name == "timestamp":
                moments = found.cast(pa.timestamp("ms", found.type.tz)).cast(pa.int64()).to_pylist()
                timestamps = [NOW if moment is None else max(NOW, moment) for moment in moments]
            else:
                headers = [list(each or ()) for each in found.to_pylist()]
        return EncodedRecords(repeat(self._topic), values, keys, partitions, timestamps, headers)

    def _partitions(
        self, partitioner: KafkaPartitioner, batch: Batch, input_type: Any, keys: Any, values: Any
    ) -> Iterable[int]:
        """Returns the partition of each row."""
        assert self._context is not None
        every = self._context.partitions_of(self._topic)
        if isinstance(partitioner, FlinkFixedPartitioner):
            return repeat(partitioner.partition(None, None, None, self._topic, every))
        choose = partitioner.partition
        rows = rows_of(batch, input_type)
        return [choose(row, key, value, self._topic, every) for row, key, value in zip(rows, keys, values)]


def _part(rows: pa.RecordBatch, projection: Projection) -> pa.RecordBatch:
    import pyarrow as pa

    arrays = [rows.column(place) for place in projection.positions]
    return pa.RecordBatch.from_arrays(arrays, schema=schema_of(projection.row_type))
