"""The connector `dynamodb`: a sink that puts and deletes items.

Source: org.apache.flink.connector.dynamodb.table.{DynamoDbDynamicSinkFactory, DynamoDbDynamicSink,
RowDataElementConverter, RowDataToAttributeValueConverter}. Differs: with a primary key, changes of one item stay in
order; a ROW is a map.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InputFormatError, ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.connectors.dynamodb.sink import DEFAULT_BUFFER, MAX_BATCH_SIZE, DynamoDbSink, DynamoDbWriteRequest
from flinkpy.formats.text_form import float_text
from flinkpy.records.last_changes import is_deletion
from flinkpy.sql.types import logical_types as types
from flinkpy.sql.types.logical_types import LogicalType, RowType
from flinkpy.table.connectors.aws_options import (
    AWS_OPTIONS,
    BATCH_SIZE,
    BUFFER_OPTIONS,
    FAIL_ON_ERROR,
    REGION,
    buffer_settings,
    client_properties,
    text_option,
)
from flinkpy.table.connectors.changelog_mode import UPSERT, ChangelogMode
from flinkpy.table.connectors.key_texts import plain_times, text_of_key
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_options import SINK_PARALLELISM
from flinkpy.table.connectors.table_sink import DynamicTableSink

if TYPE_CHECKING:
    from flinkpy.connector_api.sink import SinkBase
    from flinkpy.records.batch import Batch

TABLE_NAME = text_option("table-name", "The table of DynamoDB.")
IGNORE_NULLS = ConfigOption(
    "sink.ignore-nulls", OptionType.BOOL, False, "True to leave out attributes that are NULL; otherwise they are null."
)

_NUMBERS = (
    types.TinyIntType,
    types.SmallIntType,
    types.IntType,
    types.BigIntType,
    types.FloatType,
    types.DoubleType,
    types.DecimalType,
)
_TEXTS = (
    types.CharType,
    types.VarCharType,
    types.DateType,
    types.TimeType,
    types.TimestampType,
    types.LocalZonedTimestampType,
)
_BYTES = (types.BinaryType, types.VarBinaryType)
_NULL = {"NULL": True}

Converter = Callable[[Any], dict[str, Any]]


class DynamoDbTableFactory(TableFactory):
    """`'connector' = 'dynamodb'`."""

    identifier = "dynamodb"
    required_options: Sequence[ConfigOption[Any]] = (TABLE_NAME, REGION)
    optional_options: Sequence[ConfigOption[Any]] = (*AWS_OPTIONS, *BUFFER_OPTIONS, IGNORE_NULLS)

    def create_sink(self, context: FactoryContext) -> DynamicTableSink:
        options, schema = context.options, context.table.resolved_schema
        row_type = schema.to_physical_row_type()
        for field in row_type.fields:
            if not _has_form(field.type):
                raise ValidationError(
                    f"dynamodb: column '{field.name}' cannot be {field.type}", details={"column": field.name}
                )
        if (options.get(BATCH_SIZE) or 0) > MAX_BATCH_SIZE:
            raise ValidationError(
                f"'{BATCH_SIZE.key}' must not be above {MAX_BATCH_SIZE}, which is what DynamoDB takes in a request",
                details={"option": BATCH_SIZE.key},
            )
        primary_key = tuple(schema.primary_key_indexes)
        identity = tuple(row_type.names.index(name) for name in context.table.partition_keys) or primary_key
        sink = DynamoDbSink(
            options.get(TABLE_NAME) or "",
            ItemsOfRows(row_type, primary_key, identity, options.get(IGNORE_NULLS)),
            client_properties(options),
            buffer_settings(options, DEFAULT_BUFFER),
            options.get(FAIL_ON_ERROR),
        )
        return DynamoDbTableSink(sink, options.get(SINK_PARALLELISM))


def _has_form(kind: LogicalType) -> bool:
    if isinstance(kind, RowType):
        return all(_has_form(field.type) for field in kind.fields)
    if isinstance(kind, types.ArrayType):
        return _has_form(kind.element)
    if isinstance(kind, types.MapType):
        return isinstance(kind.key, (types.CharType, types.VarCharType)) and _has_form(kind.value)
    return isinstance(kind, (*_NUMBERS, *_TEXTS, *_BYTES, types.BooleanType))


@dataclass(frozen=True)
class ItemsOfRows:
    """Turns changes into writes of items.

    Attributes:
        primary_key: the positions of the columns that a deletion names.
        identity: the positions of the columns of which a request has one change only: those of PARTITIONED BY, or the
            primary key.
        ignores_nulls: True to leave out attributes that are null.
    """

    row_type: RowType
    primary_key: tuple[int, ...]
    identity: tuple[int, ...]
    ignores_nulls: bool

    def __call__(self, batch: Batch) -> list[DynamoDbWriteRequest]:
        rows: Any = batch.values
        columns = []
        for column, field in zip(rows.columns, self.row_type.fields):
            convert = _attribute_of(field.type)
            columns.append([convert(value) for value in plain_times(column).to_pylist()])
        is_deleted = [False] * batch.num_rows if batch.kinds is None else is_deletion(batch.kinds).tolist()
        return [self._request(*each) for each in zip(zip(*columns), is_deleted, strict=True)]

    def _request(self, values: tuple[dict[str, Any], ...], is_deleted: bool) -> DynamoDbWriteRequest:
        names = self.row_type.names
        key = tuple(str(values[place]) for place in self.identity) or None
        if is_deleted:
            if not self.primary_key:
                raise InputFormatError("PRIMARY KEY on Table must be set for DynamoDB DELETE operation")
            return DynamoDbWriteRequest({names[place]: values[place] for place in self.primary_key}, True, key)
        item = {name: value for name, value in zip(names, values) if not (self.ignores_nulls and value is _NULL)}
        return DynamoDbWriteRequest(item, False, key)


def _attribute_of(kind: LogicalType) -> Converter:
    """Returns the converter of values to attributes."""
    convert = _attribute_of_value(kind)
    return lambda value: _NULL if value is None else convert(value)


def _attribute_of_value(kind: LogicalType) -> Converter:
    if isinstance(kind, RowType):
        fields = [(field.name, _attribute_of(field.type)) for field in kind.fields]
        # The names are those of the column: a query may have given others.
        return lambda value: {"M": {name: to(each) for (name, to), each in zip(fields, value.values(), strict=True)}}
    if isinstance(kind, types.ArrayType):
        to_element = _attribute_of(kind.element)
        return lambda value: {"L": [to_element(each) for each in value]}
    if isinstance(kind, types.MapType):
        to_value = _attribute_of(kind.value)
        return lambda value: {"M": {key: to_value(each) for key, each in value}}
    if isinstance(kind, (types.FloatType, types.DoubleType)):
        return lambda value: {"N": float_text(value)}
    if isinstance(kind, _BYTES):
        return lambda value: {"B": value}
    if isinstance(kind, types.BooleanType):
        return lambda value: {"BOOL": value}
    name = "N" if isinstance(kind, _NUMBERS) else "S"
    return lambda value: {name: text_of_key(value, kind)}


@dataclass(frozen=True)
class DynamoDbTableSink(DynamicTableSink):
    """Puts items, and deletes them by primary key. Delivers at least once."""

    writer: SinkBase
    sink_parallelism: int | None = None

    @property
    def summary(self) -> str:
        return "DynamoDB"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return UPSERT

    @property
    def parallelism(self) -> int | None:
        return self.sink_parallelism

    def sink(self) -> SinkBase:
        return self.writer

    def with_static_partition(self, partition: dict[str, str]) -> DynamicTableSink:
        return self
