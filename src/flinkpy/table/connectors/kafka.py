"""The connectors `kafka` and `upsert-kafka`: tables in topics of Kafka.

`kafka` appends rows, or changes in a format of changelogs such as debezium-json. In `upsert-kafka` a record is the last
row with its key, and a record without a value deletes that row.

Source: org.apache.flink.streaming.connectors.kafka.table.{KafkaDynamicTableFactory, UpsertKafkaDynamicTableFactory,
KafkaDynamicSource, KafkaDynamicSink}. Differs: custom partitioners are classes of Python.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ValidationError
from flinkpy.common.types import RowKind
from flinkpy.connectors.kafka.sink import KafkaSink
from flinkpy.connectors.kafka.source import PARTITION_DISCOVERY_INTERVAL, KafkaSource
from flinkpy.sql.types.logical_types import LogicalType, RowField, RowType
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY, ChangelogMode
from flinkpy.table.connectors.kafka_messages import (
    SINK_METADATA,
    SOURCE_METADATA,
    VALUE,
    KafkaTableReader,
    KafkaTableWriter,
    Projection,
)
from flinkpy.table.connectors.kafka_options import (
    BOOTSTRAP_SERVERS,
    COMMON_OPTIONS,
    DISCOVERY_INTERVAL,
    FLUSH_INTERVAL,
    FLUSH_ROWS,
    KAFKA_OPTIONS,
    KEY_FIELDS,
    KEY_FIELDS_PREFIX,
    KEY_FORMAT,
    PROPERTIES,
    TOPIC,
    TRANSACTIONAL_ID_PREFIX,
    VALUE_FIELDS_INCLUDE,
    VALUE_FORMAT,
    buffer_limits,
    built,
    client_properties,
    delivery_of,
    partitioner_of,
    single_topic,
    starting_offsets,
    stopping_offsets,
    topics_of,
)
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_options import FORMAT, SINK_PARALLELISM, TableOptions
from flinkpy.table.connectors.table_sink import DynamicTableSink
from flinkpy.table.connectors.table_source import DynamicTableSource, ScanTableSource
from flinkpy.table.connectors.upsert_buffer import ReducingUpsertSink
from flinkpy.table.formats.table_format import TableFormat, format_of
from flinkpy.table.formats.table_format import identifiers as format_identifiers

if TYPE_CHECKING:
    from flinkpy.connector_api.sink import SinkBase
    from flinkpy.connector_api.source import SourceBase


@dataclass(frozen=True)
class _Part:
    """The key or the value of records: its columns, and its format with the options of the format."""

    projection: Projection
    table_format: TableFormat
    options: TableOptions


class KafkaTableFactory(TableFactory):
    """`'connector' = 'kafka'`."""

    identifier = "kafka"
    required_options: Sequence[Any] = (BOOTSTRAP_SERVERS,)
    optional_options: Sequence[Any] = KAFKA_OPTIONS
    is_upsert = False

    @property
    def option_prefixes(self) -> Sequence[str]:  # type: ignore[override]
        formats = format_identifiers()
        return (PROPERTIES, *(f"{part}{each}." for part in ("", "key.", "value.") for each in formats))

    def create_source(self, context: FactoryContext) -> DynamicTableSource:
        key, value = self._parts(context)
        options = context.options
        topics_of(options)
        if not self.is_upsert:
            starting_offsets(options)
        stopping_offsets(options)
        row_type = context.table.resolved_schema.to_physical_row_type()
        return KafkaTableSource(options, row_type, key, value, self.is_upsert)

    def create_sink(self, context: FactoryContext) -> DynamicTableSink:
        key, value = self._parts(context)
        options = context.options
        single_topic(options)
        delivery_of(options)
        if not self.is_upsert:
            partitioner_of(options)
        schema = context.table.resolved_schema
        return KafkaTableSink(options, schema.to_sink_row_type(), key, value, self.is_upsert)

    def _parts(self, context: FactoryContext) -> tuple[_Part | None, _Part]:
        """Returns the key, if there is one, and the value. Raises: ValidationError."""
        options, schema = context.options, context.table.resolved_schema
        row_type = schema.to_physical_row_type()
        owner = f"table '{context.table.identifier.as_summary_string()}'"
        identifier = options.get(VALUE_FORMAT) or options.get(FORMAT)
        if identifier is None:
            raise ValidationError(f"Could not find required format 'format' or 'value.format' of {owner}.")
        prefix = "value." if options.contains(VALUE_FORMAT) else ""
        value_format, value_options = _format_of(identifier, options, prefix, owner)
        if schema.primary_key is not None and value_format.changelog_mode == INSERT_ONLY:
            raise ValidationError(
                f"The Kafka {owner} with '{identifier}' format doesn't support defining PRIMARY KEY constraint on the "
                "table, because it can't guarantee the semantic of primary key."
            )
        key_identifier, names = options.get(KEY_FORMAT), _names(options.get(KEY_FIELDS))
        if key_identifier is None:
            if names:
                raise ValidationError(
                    "The option 'key.fields' can only be declared if a key format is defined using 'key.format'."
                )
            return None, _value(options, row_type, (), value_format, value_options)
        if not names:
            raise ValidationError(
                "A key format 'key.format' requires the declaration of one or more of key fields using 'key.fields'."
            )
        key_format, key_options = _format_of(key_identifier, options, "key.", owner)
        key = _Part(_key_projection(options, row_type, names), key_format, key_options)
        return key, _value(options, row_type, key.projection.positions, value_format, value_options)


class UpsertKafkaTableFactory(KafkaTableFactory):
    """`'connector' = 'upsert-kafka'`."""

    identifier = "upsert-kafka"
    required_options = (BOOTSTRAP_SERVERS, TOPIC, KEY_FORMAT, VALUE_FORMAT)
    optional_options = (*COMMON_OPTIONS, SINK_PARALLELISM, FLUSH_ROWS, FLUSH_INTERVAL)
    is_upsert = True

    def _parts(self, context: FactoryContext) -> tuple[_Part | None, _Part]:
        options, schema = context.options, context.table.resolved_schema
        if schema.primary_key is None:
            raise ValidationError(
                "'upsert-kafka' tables require to define a PRIMARY KEY constraint. The PRIMARY KEY specifies which "
                "columns should be read from or write to the Kafka message key. The PRIMARY KEY also defines records "
                "in the 'upsert-kafka' table should update or delete on which keys."
            )
        row_type = schema.to_physical_row_type()
        owner = f"table '{context.table.identifier.as_summary_string()}'"
        formats = []
        for option, prefix in ((KEY_FORMAT, "key."), (VALUE_FORMAT, "value.")):
            identifier = options.get(option)
            assert identifier is not None
            found, own = _format_of(identifier, options, prefix, owner)
            if found.changelog_mode != INSERT_ONLY:
                raise ValidationError(
                    f"'upsert-kafka' connector doesn't support '{identifier}' as {prefix}format, "
                    f"because '{identifier}' is not in insert-only mode."
                )
            formats.append((found, own))
        key = _Part(_key_projection(options, row_type, list(schema.primary_key.columns)), *formats[0])
        return key, _value(options, row_type, key.projection.positions, *formats[1])


def _format_of(identifier: str, options: TableOptions, prefix: str, owner: str) -> tuple[TableFormat, TableOptions]:
    """Returns the format of the key or the value, and its options. Raises: as `format_of`."""
    found, own = format_of(identifier, options.below(prefix), owner)
    topic = options.get(TOPIC)
    # With several topics, which are only read, there is no subject to write to.
    if topic is not None and ";" not in topic:
        own = found.with_topic(own, topic, "key" if prefix == "key." else "value")
    return found, own


def _names(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(";") if each.strip()]


def _key_projection(options: TableOptions, row_type: RowType, names: list[str]) -> Projection:
    prefix = options.get(KEY_FIELDS_PREFIX)
    positions, fields = [], []
    for name in names:
        if name not in row_type.names:
            raise ValidationError(
                f"Could not find the field '{name}' in the table schema for usage in the key format. A key field must "
                f"be a regular, physical column. The following columns can be selected in the 'key.fields' option: "
                f"{', '.join(row_type.names)}",
                details={"field": name},
            )
        if not name.startswith(prefix):
            raise ValidationError(
                f"All fields in 'key.fields' must be prefixed with '{prefix}' when option 'key.fields-prefix' is set "
                f"but field '{name}' is not prefixed.",
                details={"field": name},
            )
        positions.append(row_type.names.index(name))
        fields.append(RowField(name.removeprefix(prefix), row_type.fields[positions[-1]].type))
    return Projection(tuple(positions), RowType(tuple(fields), nullable=False))


def _value(
    options: TableOptions,
    row_type: RowType,
    key_positions: tuple[int, ...],
    table_format: TableFormat,
    format_options: TableOptions,
) -> _Part:
    has_all = options.get(VALUE_FIELDS_INCLUDE) == "ALL"
    if has_all and options.get(KEY_FIELDS_PREFIX):
        raise ValidationError(
            "A key prefix is not allowed when option 'value.fields-include' is set to 'ALL'. Set it to 'EXCEPT_KEY' "
            "instead to avoid field overlaps."
        )
    positions = tuple(place for place in range(len(row_type.fields)) if has_all or place not in key_positions)
    fields = tuple(row_type.fields[place] for place in positions)
    return _Part(Projection(positions, RowType(fields, nullable=False)), table_format, format_options)


@dataclass(frozen=True)
class KafkaTableSource(ScanTableSource):
    """Reads topics.

    Attributes:
        row_type: the physical columns.
        metadata_keys: the metadata columns after them.
    """

    options: TableOptions
    row_type: RowType
    key: _Part | None
    value: _Part
    is_upsert: bool = False
    metadata_keys: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        return "Upsert Kafka table source" if self.is_upsert else "Kafka table source"

    @property
    def changelog_mode(self) -> ChangelogMode:
        if self.is_upsert:
            return ChangelogMode(frozenset({RowKind.UPDATE_AFTER, RowKind.DELETE}), key_only_deletes=True)
        return self.value.table_format.changelog_mode

    @property
    def supports_watermarks(self) -> bool:
        # Rows of an upsert table are first brought into the order of their keys.
        return not self.is_upsert

    @property
    def produced_type(self) -> RowType:
        added = tuple(RowField(f"$metadata${key}", self.metadata[key]) for key in self.metadata_keys)
        return RowType((*self.row_type.fields, *added), nullable=False)

    @property
    def metadata(self) -> dict[str, LogicalType]:
        of_format = {f"{VALUE}{key}": kind for key, kind in self.value.table_format.metadata.items()}
        return {**of_format, **SOURCE_METADATA}

    def with_metadata(self, keys: tuple[str, ...]) -> ScanTableSource | None:
        return replace(self, metadata_keys=keys)

    def source(self) -> SourceBase:
        options, key, value = self.options, self.key, self.value
        schema = value.table_format.deserialization_schema(value.projection.row_type, value.options)
        facts = tuple(name.removeprefix(VALUE) for name in self.metadata_keys if name.startswith(VALUE))
        reader = KafkaTableReader(
            self.produced_type,
            value.projection,
            schema.with_metadata(facts) if facts else schema,
            None if key is None else key.projection,
            None if key is None else key.table_format.deserialization_schema(key.projection.row_type, key.options),
            self.metadata_keys,
            self.is_upsert,
        )
        builder = KafkaSource.builder().set_properties(client_properties(options)).set_deserializer(reader)
        topics = topics_of(options)
        builder = builder.set_topics(*topics) if topics else builder.set_topic_pattern(options.raw["topic-pattern"])
        if not self.is_upsert:
            builder = builder.set_starting_offsets(starting_offsets(options))
        end = stopping_offsets(options)
        if end is not None:
            builder = builder.set_bounded(end)
        interval_ms = options.get(DISCOVERY_INTERVAL)
        if interval_ms is not None:
            builder = builder.set_property(PARTITION_DISCOVERY_INTERVAL, str(interval_ms))
        found: SourceBase = built(builder)
        return found


@dataclass(frozen=True)
class KafkaTableSink(DynamicTableSink):
    """Writes to one topic.

    Attributes:
        row_type: the physical columns, then the metadata columns.
        metadata_keys: the metadata columns.
    """

    options: TableOptions
    row_type: RowType
    key: _Part | None
    value: _Part
    is_upsert: bool = False
    metadata_keys: tuple[str, ...] = ()

    @property
    def summary(self) -> str:
        return "Upsert Kafka table sink" if self.is_upsert else "Kafka table sink"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        if self.is_upsert:
            return ChangelogMode(requested.kinds - {RowKind.UPDATE_BEFORE}, key_only_deletes=True)
        return self.value.table_format.changelog_mode

    @property
    def parallelism(self) -> int | None:
        return self.options.get(SINK_PARALLELISM)

    @property
    def metadata(self) -> dict[str, LogicalType]:
        return dict(SINK_METADATA)

    def with_metadata(self, keys: tuple[str, ...]) -> DynamicTableSink | None:
        unknown = [key for key in keys if key not in SINK_METADATA]
        if unknown:
            raise ValidationError(
                f"Invalid metadata key '{unknown[0]}'. Kafka supports these metadata keys for writing: "
                f"{', '.join(SINK_METADATA)}. Declare a column that is only read as METADATA VIRTUAL."
            )
        return replace(self, metadata_keys=keys)

    def sink(self) -> SinkBase:
        options, key, value = self.options, self.key, self.value
        writer = KafkaTableWriter(
            single_topic(options),
            value.projection,
            value.table_format.serialization_schema(value.projection.row_type, value.options),
            None if key is None else key.projection,
            None if key is None else key.table_format.serialization_schema(key.projection.row_type, key.options),
            self.metadata_keys,
            partitioner=None if self.is_upsert else partitioner_of(options),
            is_upsert=self.is_upsert,
        )
        builder = KafkaSink.builder().set_record_serializer(writer).set_delivery_guarantee(delivery_of(options))
        for name, text in client_properties(options).items():
            builder = builder.set_property(name, text)
        prefix = options.get(TRANSACTIONAL_ID_PREFIX)
        if prefix is not None:
            builder = builder.set_transactional_id_prefix(prefix)
        found: SinkBase = built(builder)
        limits = buffer_limits(options) if self.is_upsert else None
        return found if limits is None or key is None else ReducingUpsertSink(found, key.projection.positions, limits)
