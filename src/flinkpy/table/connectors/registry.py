"""Finds table factories by the option `connector`: flinkpy's own, and those that installed packages offer.

Source: org.apache.flink.table.factories.FactoryUtil. Differs: Python's entry points instead of Java's service loader.
"""

from __future__ import annotations

from functools import cache
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ValidationError
from flinkpy.table.catalog.catalog_tables import InlineTable
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_options import (
    CONNECTOR,
    SCAN_PARALLELISM,
    SINK_PARALLELISM,
    WATERMARK_OPTIONS,
    TableOptions,
    did_you_mean,
)

if TYPE_CHECKING:
    from flinkpy.common.configuration import Configuration
    from flinkpy.table.catalog.catalog_tables import ContextResolvedTable
    from flinkpy.table.connectors.table_sink import DynamicTableSink
    from flinkpy.table.connectors.table_source import DynamicTableSource

#: The group of entry points: name = identifier, value = `module:class`.
ENTRY_POINT_GROUP = "flinkpy.table.factories"

#: flinkpy's own factories below `flinkpy.table.connectors`. Each module is imported on first use.
_BUILT_IN = {
    "blackhole": "blackhole:BlackholeTableFactory",
    "datagen": "datagen:DataGenTableFactory",
    "delta": "lake:DeltaTableFactory",
    "dynamodb": "dynamodb:DynamoDbTableFactory",
    "elasticsearch-6": "elasticsearch:Elasticsearch6TableFactory",
    "elasticsearch-7": "elasticsearch:ElasticsearchTableFactory",
    "elasticsearch-8": "elasticsearch:Elasticsearch8TableFactory",
    "filesystem": "filesystem:FileSystemTableFactory",
    "firehose": "kinesis:FirehoseTableFactory",
    "iceberg": "lake:IcebergTableFactory",
    "jdbc": "jdbc:JdbcTableFactory",
    "kafka": "kafka:KafkaTableFactory",
    "kinesis": "kinesis:KinesisTableFactory",
    "mongodb": "mongodb:MongoTableFactory",
    "nexmark": "nexmark:NexmarkTableFactory",
    "opensearch": "elasticsearch:OpensearchTableFactory",
    "opensearch-2": "elasticsearch:Opensearch2TableFactory",
    "print": "print:PrintTableFactory",
    "upsert-kafka": "kafka:UpsertKafkaTableFactory",
}


_HBASE = "Python has no client of HBase's RPC: write a connector over its Thrift or REST server"
_DATA_STREAM = "it is a connector of DataStream: see from_data_stream and to_data_stream"
#: Connectors that Flink or its users have, and why they are not here.
_MISSING = {
    "hbase-1.4": _HBASE,
    "hbase-2.2": _HBASE,
    "hive": "read its tables by Spark, or their files by 'filesystem'",
    "pulsar": _DATA_STREAM,
    "upsert-pulsar": _DATA_STREAM,
    "rabbitmq": _DATA_STREAM,
    "cassandra": _DATA_STREAM,
    "paimon": "it has no writer in Python: use 'iceberg' or 'delta'",
    "kinesis-legacy": "use 'kinesis', which takes its options, too",
    "values": "it is for tests of Flink: write VALUES, or use from_arrow",
}


@cache
def _offered() -> dict[str, EntryPoint]:
    return {point.name: point for point in entry_points(group=ENTRY_POINT_GROUP)}


def identifiers() -> list[str]:
    """Returns the known values of the option `connector` in order."""
    return sorted({*_BUILT_IN, *_offered()})


def factory_of(identifier: str, owner: str) -> TableFactory:
    """Returns a new factory.

    Args:
        identifier: the value of `connector`.
        owner: describes the table in the error.

    Raises: ValidationError, which lists the connectors that there are.
    """
    if identifier in _BUILT_IN:
        module, _, name = _BUILT_IN[identifier].partition(":")
        kind: Any = getattr(import_module(f"flinkpy.table.connectors.{module}"), name)
    elif identifier in _offered():
        kind = _offered()[identifier].load()
    else:
        hint = did_you_mean(identifier, identifiers())
        if identifier in _MISSING:
            hint = f"\n\nflinkpy has no connector '{identifier}': {_MISSING[identifier]}."
        raise ValidationError(
            f"Cannot discover a connector using option: 'connector'='{identifier}' of {owner}.\n\n"
            f"Could not find any factory for identifier '{identifier}' that implements 'TableFactory'.\n\n"
            "Available factory identifiers are:\n\n" + "\n".join(identifiers()) + hint,
            details={"option": "connector", "value": identifier},
        )
    factory: TableFactory = kind()
    return factory


def create_source(
    table: ContextResolvedTable, configuration: Configuration, is_bounded: bool = False
) -> DynamicTableSource:
    """Returns the source of a table. Raises: ValidationError about its options or schema, naming the table."""
    if isinstance(table.table, InlineTable):
        source: DynamicTableSource = table.table.source
        return source
    factory, context = _prepare(table, configuration, is_bounded)
    return factory.create_source(context)


def create_sink(
    table: ContextResolvedTable, configuration: Configuration, is_bounded: bool = False
) -> DynamicTableSink:
    """Returns the sink of a table. Raises: ValidationError about its options or schema, naming the table."""
    factory, context = _prepare(table, configuration, is_bounded)
    return factory.create_sink(context)


def _prepare(
    table: ContextResolvedTable, configuration: Configuration, is_bounded: bool
) -> tuple[TableFactory, FactoryContext]:
    owner = f"table '{table.identifier.as_summary_string()}'"
    options = TableOptions(table.options, owner)
    identifier = options.get(CONNECTOR)
    if identifier is None:
        raise ValidationError(
            f"Table options do not contain an option key 'connector' for discovering a connector: {owner}. Known "
            f"connectors are {', '.join(identifiers())}.",
            details={"table": table.identifier.as_summary_string()},
        )
    factory = factory_of(identifier, owner)
    common = (CONNECTOR, *((SCAN_PARALLELISM, *WATERMARK_OPTIONS) if factory.is_source else ()))
    common = (*common, *((SINK_PARALLELISM,) if factory.is_sink else ()))
    options.check(
        identifier, factory.required_options, (*common, *factory.optional_options), tuple(factory.option_prefixes)
    )
    return factory, FactoryContext(table, options, configuration, is_bounded)
