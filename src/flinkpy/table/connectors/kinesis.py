"""The connectors `kinesis`, for reading and writing data streams, and `firehose`, for writing delivery streams.

Source: org.apache.flink.connector.kinesis.table.{KinesisDynamicTableFactory, KinesisDynamicSource,
KinesisDynamicSink, RowDataFieldsKinesisPartitionKeyGenerator} and
org.apache.flink.connector.firehose.table.KinesisFirehoseDynamicTableFactory. Differs: `kinesis` has the metadata
columns of `kinesis-legacy`, and takes its option names, too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import FlinkError, InputFormatError, ValidationError
from flinkpy.common.serialization import SerializationSchema
from flinkpy.connectors.aws.async_writer import BufferSettings
from flinkpy.connectors.kinesis.deserialization import KinesisColumnDeserializationSchema
from flinkpy.connectors.kinesis.shards import KinesisShardAssigner, Shard
from flinkpy.connectors.kinesis.sinks import (
    KinesisFirehoseSink,
    KinesisStreamsSink,
    PartitionKeyGenerator,
)
from flinkpy.connectors.kinesis.source import KinesisSource
from flinkpy.formats.bad_records import shown
from flinkpy.formats.schema import DecodedMessages
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.logical_types import LogicalType, RowField, RowType
from flinkpy.table.connectors.aws_options import (
    AWS_OPTIONS,
    BUFFER_OPTIONS,
    FAIL_ON_ERROR,
    buffer_settings,
    client_properties,
)
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY, ChangelogMode
from flinkpy.table.connectors.key_texts import plain_times, text_of_key
from flinkpy.table.connectors.kinesis_options import (
    DELIMITER,
    DELIVERY_STREAM,
    PARTITIONER,
    REQUIRED_OPTIONS,
    SOURCE_OPTIONS,
    STREAM,
    source_properties,
)
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_options import FORMAT, SCAN_PARALLELISM, SINK_PARALLELISM
from flinkpy.table.connectors.table_sink import DynamicTableSink
from flinkpy.table.connectors.table_source import ScanTableSource
from flinkpy.table.formats.message_schemas import TableDeserializationSchema, TableSerializationSchema
from flinkpy.table.formats.table_format import TableFormat, format_of
from flinkpy.table.formats.table_format import identifiers as format_identifiers

if TYPE_CHECKING:
    from flinkpy.connector_api.sink import SinkBase, WriterContext
    from flinkpy.connector_api.source import SourceBase
    from flinkpy.records.batch import Batch
    from flinkpy.table.connectors.table_options import TableOptions

#: Key -> type of the metadata that the source can add.
METADATA: dict[str, LogicalType] = {
    "timestamp": types.LocalZonedTimestampType(3, nullable=False),
    "shard-id": types.VarCharType(128, nullable=False),
    "sequence-number": types.VarCharType(128, nullable=False),
}
#: Firehose takes less in a request than Kinesis.
_FIREHOSE_BUFFER = BufferSettings(max_batch_size_in_bytes=4 << 20, max_record_size_in_bytes=1000 << 10)


class KinesisTableFactory(TableFactory):
    """`'connector' = 'kinesis'`."""

    identifier = "kinesis"
    required_options: Sequence[Any] = (STREAM, *REQUIRED_OPTIONS)
    optional_options: Sequence[Any] = (*AWS_OPTIONS, *SOURCE_OPTIONS, *BUFFER_OPTIONS, PARTITIONER, DELIMITER)

    @property
    def option_prefixes(self) -> Sequence[str]:  # type: ignore[override]
        return tuple(f"{each}." for each in format_identifiers())

    def create_source(self, context: FactoryContext) -> ScanTableSource:
        row_type = context.table.resolved_schema.to_physical_row_type()
        found, own = _format(context)
        source = KinesisTableSource(context.options, row_type, found, found.deserialization_schema(row_type, own))
        source.source()  # fails now if a property is wrong
        return source

    def create_sink(self, context: FactoryContext) -> DynamicTableSink:
        options, row_type = context.options, context.table.resolved_schema.to_physical_row_type()
        keys = tuple(row_type.names.index(name) for name in context.table.partition_keys)
        found, own = _format(context)
        schema = _Serializer(found.serialization_schema(row_type, own))
        settings = buffer_settings(options, BufferSettings())
        sink = KinesisStreamsSink(
            options.get(STREAM) or "",
            schema,
            _keys_of(options, row_type, keys),
            client_properties(options),
            settings,
            options.get(FAIL_ON_ERROR),
        )
        return KinesisTableSink("Kinesis", sink, found.changelog_mode, options.get(SINK_PARALLELISM))


class FirehoseTableFactory(TableFactory):
    """`'connector' = 'firehose'`."""

    identifier = "firehose"
    required_options: Sequence[Any] = (DELIVERY_STREAM, *REQUIRED_OPTIONS)
    optional_options: Sequence[Any] = (*AWS_OPTIONS, *BUFFER_OPTIONS)

    @property
    def option_prefixes(self) -> Sequence[str]:  # type: ignore[override]
        return tuple(f"{each}." for each in format_identifiers())

    def create_sink(self, context: FactoryContext) -> DynamicTableSink:
        options, row_type = context.options, context.table.resolved_schema.to_physical_row_type()
        found, own = _format(context)
        sink = KinesisFirehoseSink(
            options.get(DELIVERY_STREAM) or "",
            _Serializer(found.serialization_schema(row_type, own)),
            client_properties(options),
            buffer_settings(options, _FIREHOSE_BUFFER),
            options.get(FAIL_ON_ERROR),
        )
        return KinesisTableSink("firehose", sink, found.changelog_mode, options.get(SINK_PARALLELISM))


def _format(context: FactoryContext) -> tuple[TableFormat, TableOptions]:
    owner = f"table '{context.table.identifier.as_summary_string()}'"
    return format_of(context.options.get(FORMAT) or "", context.options, owner)


def _keys_of(options: TableOptions, row_type: RowType, keys: tuple[int, ...]) -> PartitionKeyGenerator:
    """Returns how the partition keys of rows are made. Raises: ValidationError."""
    kind = options.get(PARTITIONER)
    if keys and kind is not None:
        raise ValidationError(
            f"Cannot set {PARTITIONER.key} option for a table defined with a PARTITIONED BY clause",
            details={"option": PARTITIONER.key},
        )
    if keys:
        return _ColumnKeys(row_type, keys, options.get(DELIMITER))
    if kind not in (None, "random", "fixed"):
        raise ValidationError(
            f"'{PARTITIONER.key}' is '{kind}', but must be random or fixed; PARTITIONED BY (columns) makes keys of "
            "columns",
            details={"option": PARTITIONER.key, "value": str(kind)},
        )
    return PartitionKeyGenerator.fixed() if kind == "fixed" else PartitionKeyGenerator.random()


class _ColumnKeys(PartitionKeyGenerator):
    """Makes partition keys of the texts of columns."""

    def __init__(self, row_type: RowType, keys: tuple[int, ...], delimiter: str) -> None:
        super().__init__(str)
        self._row_type = row_type
        self._keys = keys
        self._delimiter = delimiter

    def keys_of(self, batch: Batch, context: WriterContext) -> list[str]:
        rows: Any = batch.values
        columns = []
        for place in self._keys:
            kind = self._row_type.fields[place].type
            values = plain_times(rows.column(place)).to_pylist()
            columns.append(["null" if value is None else text_of_key(value, kind) for value in values])
        return [self._delimiter.join(texts) for texts in zip(*columns)]


class _Serializer(SerializationSchema):
    """Writes rows of a table as records of a stream."""

    def __init__(self, schema: TableSerializationSchema) -> None:
        super().__init__()
        self._schema = schema

    def serialize_batch(self, batch: Batch, type_info: Any) -> list[bytes | None]:
        rows: Any = batch.values
        return self._schema.encode(rows, batch.kinds)


class _Deserializer(KinesisColumnDeserializationSchema):
    """Reads records of a stream as rows of a table."""

    def __init__(self, schema: TableDeserializationSchema, produced_type: RowType, metadata: tuple[str, ...]) -> None:
        super().__init__()
        self._schema = schema
        self._produced_type = produced_type
        self._metadata = metadata

    def get_produced_type(self) -> Any:
        return InternalTypeInfo(self._produced_type)

    def decode_records(self, shard: Shard, records: list[dict[str, Any]], times: list[int]) -> DecodedMessages:
        import pyarrow as pa

        from flinkpy.records.batch import Batch
        from flinkpy.sql.types.arrow import schema_of

        decoded = self._schema.decode([record["Data"] for record in records])
        if decoded.errors:
            position, reason = decoded.errors[0]
            place = f"Kinesis stream {shard.stream}, {shard.shard_id}"
            raise InputFormatError(
                f"{place}, sequence number {records[position]['SequenceNumber']}: {reason}; it is: "
                f"{shown(records[position]['Data'])}",
                details={"stream": shard.stream},
            )
        schema, positions = schema_of(self._produced_type), decoded.positions.tolist()
        columns = list(decoded.rows.columns)
        for number, key in enumerate(self._metadata, len(columns)):
            values = [_metadata_of(key, shard, records[each], times[each]) for each in positions]
            columns.append(pa.array(values, schema.field(number).type))
        rows = pa.RecordBatch.from_arrays(columns, schema=schema)
        return DecodedMessages(Batch(rows, None, decoded.kinds), decoded.positions, [])


def _metadata_of(key: str, shard: Shard, record: dict[str, Any], time_ms: int) -> Any:
    if key == "timestamp":
        return time_ms
    return shard.shard_id if key == "shard-id" else record["SequenceNumber"]


@dataclass(frozen=True)
class KinesisTableSource(ScanTableSource):
    """Reads a data stream without end.

    Attributes:
        row_type: the physical columns.
        metadata_keys: the metadata columns after them.
    """

    options: TableOptions
    row_type: RowType
    table_format: TableFormat
    schema: TableDeserializationSchema
    metadata_keys: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        return "Kinesis"

    @property
    def changelog_mode(self) -> ChangelogMode:
        return self.table_format.changelog_mode

    @property
    def parallelism(self) -> int | None:
        return self.options.get(SCAN_PARALLELISM)

    @property
    def produced_type(self) -> RowType:
        added = tuple(RowField(f"$metadata${key}", METADATA[key]) for key in self.metadata_keys)
        return RowType((*self.row_type.fields, *added), nullable=False)

    @property
    def metadata(self) -> dict[str, LogicalType]:
        return dict(METADATA)

    def with_metadata(self, keys: tuple[str, ...]) -> ScanTableSource | None:
        return replace(self, metadata_keys=keys)

    def source(self) -> SourceBase:
        reader = _Deserializer(self.schema, self.produced_type, self.metadata_keys)
        properties, assigner = source_properties(self.options), KinesisShardAssigner.uniform_shard_assigner()
        try:
            return KinesisSource((self.options.get(STREAM) or "",), reader, properties, assigner)
        except FlinkError as error:
            raise ValidationError(f"kinesis: {error.message}") from error


@dataclass(frozen=True)
class KinesisTableSink(DynamicTableSink):
    """Writes rows at least once."""

    name: str
    writer: SinkBase
    mode: ChangelogMode = INSERT_ONLY
    sink_parallelism: int | None = None

    @property
    def summary(self) -> str:
        return self.name

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return self.mode

    @property
    def parallelism(self) -> int | None:
        return self.sink_parallelism

    def sink(self) -> SinkBase:
        return self.writer

    def with_static_partition(self, partition: dict[str, str]) -> DynamicTableSink:
        return self
