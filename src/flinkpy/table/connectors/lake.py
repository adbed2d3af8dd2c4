"""The connectors `iceberg` and `delta`: tables of these formats, read at one version and appended to exactly once.

Source: org.apache.iceberg.flink.FlinkDynamicTableFactory, io.delta.flink.internal.table.DeltaDynamicTableFactory.
Differs: the version is that of the time at which the query is planned; tables are not read as streams of changes, and
must exist.
"""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import FlinkError, UnsupportedOperationError, ValidationError
from flinkpy.configuration.options import ConfigOption, OptionType, without_effect
from flinkpy.connectors.split_reader import OpenSplit
from flinkpy.connectors.tables.table_sink import TableSink, TableSinkBuilder
from flinkpy.connectors.tables.table_source import TableReader, TableSource, TableSourceBuilder
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.logical_types import RowField, RowType
from flinkpy.table.connectors.changelog_mode import INSERT_ONLY, ChangelogMode
from flinkpy.table.connectors.table_factory import FactoryContext, TableFactory
from flinkpy.table.connectors.table_options import SCAN_PARALLELISM, SINK_PARALLELISM
from flinkpy.table.connectors.table_sink import DynamicTableSink
from flinkpy.table.connectors.table_source import ScanTableSource

if TYPE_CHECKING:
    from flinkpy.connector_api.sink import SinkBase
    from flinkpy.connector_api.source import SourceBase, SourceReader, SourceReaderContext
    from flinkpy.connectors.tables.table_format import TableSplit
    from flinkpy.records.batch import Batch
    from flinkpy.table.connectors.table_options import TableOptions

_STRING, _INT = OptionType.STRING, OptionType.INT

CATALOG_NAME: ConfigOption[str | None] = ConfigOption("catalog-name", _STRING, None, "The name of the catalog.")
CATALOG_TYPE: ConfigOption[str | None] = ConfigOption(
    "catalog-type", _STRING, None, "The kind of the catalog, such as rest, sql, hive or glue."
)
CATALOG_DATABASE: ConfigOption[str | None] = ConfigOption(
    "catalog-database", _STRING, None, "The namespace in the catalog; by default the database of the table."
)
CATALOG_TABLE: ConfigOption[str | None] = ConfigOption(
    "catalog-table", _STRING, None, "The table in the catalog; by default the name of the table."
)
SNAPSHOT_ID: ConfigOption[int | None] = ConfigOption("snapshot-id", _INT, None, "The snapshot to read.")
AS_OF_TIMESTAMP: ConfigOption[int | None] = ConfigOption(
    "as-of-timestamp", _INT, None, "The newest snapshot at this time is read, in ms since 1970."
)
BRANCH: ConfigOption[str | None] = ConfigOption("branch", _STRING, None, "The branch to read.")
TAG: ConfigOption[str | None] = ConfigOption("tag", _STRING, None, "The tag to read.")
STREAMING = ConfigOption("streaming", OptionType.BOOL, False, "Must be false: tables are read at one version.")
UPSERT_ENABLED = ConfigOption(
    "upsert-enabled", OptionType.BOOL, False, "Must be false: pyiceberg writes no equality deletes."
)
_IS_STREAMING = "tables are read at one version, not as streams of snapshots"
_IS_TABLE_PROPERTY = "set the property of the table in its catalog"
#: Options of Flink's connector that would change the rows or files, and that are not supported.
_REFUSED: dict[ConfigOption[str | None], str] = {
    ConfigOption(key, _STRING, None, f"Not supported: {reason}."): reason
    for key, reason in {
        "monitor-interval": _IS_STREAMING,
        "starting-strategy": _IS_STREAMING,
        "start-snapshot-id": _IS_STREAMING,
        "start-snapshot-timestamp": _IS_STREAMING,
        "end-snapshot-id": "choose one snapshot with 'snapshot-id'",
        "start-tag": _IS_STREAMING,
        "end-tag": "choose one snapshot with 'tag'",
        "watermark-column": "declare WATERMARK in the table",
        "catalog-impl": "it names a class of Java; 'py-catalog-impl' names one of Python",
        "io-impl": "it names a class of Java; 'py-io-impl' names one of Python",
        "write-format": _IS_TABLE_PROPERTY,
        "target-file-size-bytes": _IS_TABLE_PROPERTY,
        "compression-codec": _IS_TABLE_PROPERTY,
        "compression-level": _IS_TABLE_PROPERTY,
        "overwrite-enabled": "write INSERT OVERWRITE",
        "write-parallelism": "use 'sink.parallelism'",
    }.items()
}
#: Options of Flink's connector about how it works inside.
_WITHOUT_EFFECT = tuple(
    without_effect(ConfigOption(key, _STRING, None, reason))
    for key, reason in {
        "cache-enabled": "Tables are loaded when a query is planned.",
        "cache.expiration-interval-ms": "Tables are loaded when a query is planned.",
        "clients": "A catalog has one client.",
        "property-version": "There is one version of the options.",
        "split-size": "A split is a data file.",
        "split-lookback": "A split is a data file.",
        "split-file-open-cost": "A split is a data file.",
        "include-column-stats": "Statistics are read where conditions need them.",
        "distribution-mode": "Rows are not sent to other subtasks before they are written.",
    }.items()
)

#: Options that are passed to the catalog as its properties.
_CATALOG_PROPERTIES: tuple[ConfigOption[str | None], ...] = tuple(
    ConfigOption(key, _STRING, None, text)
    for key, text in {
        "uri": "The address of the catalog.",
        "warehouse": "The directory of the catalog's tables, or the name of the warehouse.",
        "py-catalog-impl": "The class of a catalog of another kind.",
        "py-io-impl": "The class that reads and writes files.",
        "credential": "The credential with which a REST catalog gives a token.",
        "token": "The token of a REST catalog.",
        "scope": "The scope of the token of a REST catalog.",
        "audience": "The audience of the token of a REST catalog.",
        "resource": "The resource of the token of a REST catalog.",
        "oauth2-server-uri": "The address that gives tokens of a REST catalog.",
        "prefix": "The prefix of paths in a REST catalog.",
        "namespace-separator": "What separates the parts of a namespace in a REST catalog.",
        "snapshot-loading-mode": "The snapshots that a REST catalog sends: all or refs.",
        "init_catalog_tables": "Whether a SQL catalog makes its own tables.",
        "pool_pre_ping": "Whether a SQL catalog tests its connections.",
        "echo": "Whether a SQL catalog logs its statements.",
        "rest-page-size": "The names that a REST catalog sends at a time.",
        "scan-planning-mode": "Where the files of a scan are chosen: client or server.",
        "view-endpoints-supported": "Whether a REST catalog has views.",
    }.items()
)
#: The names of other properties of catalogs and file systems begin so.
_CATALOG_PREFIXES = (
    "s3.",
    "s3tables.",
    "adls.",
    "gcs.",
    "hdfs.",
    "hf.",
    "client.",
    "rest.",
    "header.",
    "glue.",
    "dynamodb.",
    "hive.",
    "gcp.",
    "lock-check-",
)

TABLE_PATH: ConfigOption[str | None] = ConfigOption("table-path", _STRING, None, "The directory of the table.")
VERSION_AS_OF: ConfigOption[int | None] = ConfigOption("versionAsOf", _INT, None, "The version to read.")
TIMESTAMP_AS_OF: ConfigOption[str | None] = ConfigOption(
    "timestampAsOf", _STRING, None, "The newest version at this time is read, such as 2024-01-02 03:04:05, in UTC."
)
#: Options of the storage of Delta tables, for deltalake.
_STORAGE = "storage."


class _LakeTableFactory(TableFactory):
    """Makes sources and sinks of a format."""

    def create_source(self, context: FactoryContext) -> ScanTableSource:
        row_type = context.table.resolved_schema.to_physical_row_type()
        source = LakeTableSource(self.identifier, self.reading(context), row_type, context.options)
        _checked(source.source)
        return source

    def create_sink(self, context: FactoryContext) -> DynamicTableSink:
        return LakeTableSink(self.identifier, self.writing(context), context.options, context.is_bounded)

    @abstractmethod
    def reading(self, context: FactoryContext) -> TableSourceBuilder:
        """Returns the builder of the version that the options name."""

    @abstractmethod
    def writing(self, context: FactoryContext) -> TableSinkBuilder: ...


class IcebergTableFactory(_LakeTableFactory):
    """`'connector' = 'iceberg'`. Options of catalogs and file systems are passed on as properties of the catalog."""

    identifier = "iceberg"
    required_options = (CATALOG_NAME,)
    optional_options: Sequence[ConfigOption[Any]] = (
        CATALOG_TYPE,
        CATALOG_DATABASE,
        CATALOG_TABLE,
        SNAPSHOT_ID,
        AS_OF_TIMESTAMP,
        BRANCH,
        TAG,
        STREAMING,
        UPSERT_ENABLED,
        *_REFUSED,
        *_WITHOUT_EFFECT,
        *_CATALOG_PROPERTIES,
    )
    option_prefixes = _CATALOG_PREFIXES

    def reading(self, context: FactoryContext) -> TableSourceBuilder:
        options = context.options
        _check_supported(options)
        builder = TableSource.for_catalog(*self._place(context))
        snapshot, moment = options.get(SNAPSHOT_ID), options.get(AS_OF_TIMESTAMP)
        branch, tag = options.get(BRANCH), options.get(TAG)
        if snapshot is not None:
            builder = _checked(lambda: builder.snapshot_id(snapshot))
        if moment is not None:
            builder = _checked(lambda: builder.as_of_timestamp(moment))
        if branch is not None:
            builder = _checked(lambda: builder.branch(branch))
        return builder if tag is None else _checked(lambda: builder.tag(tag))

    def writing(self, context: FactoryContext) -> TableSinkBuilder:
        _check_supported(context.options)
        _check_writes_newest(context, SNAPSHOT_ID, AS_OF_TIMESTAMP, BRANCH, TAG)
        return TableSink.for_catalog(*self._place(context))

    def _place(self, context: FactoryContext) -> tuple[str, dict[str, str]]:
        """Returns the table's name in the catalog, and the properties of the catalog."""
        options, name = context.options, context.table.identifier
        known = {"connector", SCAN_PARALLELISM.key, SINK_PARALLELISM.key}
        known |= {option.key for option in (*self.required_options, *self.optional_options)}
        passed = {option.key for option in _CATALOG_PROPERTIES}
        properties = {key: text for key, text in options.raw.items() if key in passed or key not in known}
        kind = options.get(CATALOG_TYPE)
        if kind is not None:
            properties["type"] = kind
        database = options.get(CATALOG_DATABASE) or name.database_name
        table = options.get(CATALOG_TABLE) or name.object_name
        return f"{options.get(CATALOG_NAME)}.{database}.{table}", properties


class DeltaTableFactory(_LakeTableFactory):
    """`'connector' = 'delta'`."""

    identifier = "delta"
    required_options = (TABLE_PATH,)
    optional_options = (VERSION_AS_OF, TIMESTAMP_AS_OF)
    option_prefixes = (_STORAGE,)

    def reading(self, context: FactoryContext) -> TableSourceBuilder:
        options = context.options
        builder = TableSource.for_path("delta", *self._place(options))
        version, moment = options.get(VERSION_AS_OF), options.get(TIMESTAMP_AS_OF)
        if version is not None:
            builder = builder.version_as_of(version)
        if moment is not None:
            found = _moment(moment)
            builder = _checked(lambda: builder.as_of_timestamp(found))
        return builder

    def writing(self, context: FactoryContext) -> TableSinkBuilder:
        _check_writes_newest(context, VERSION_AS_OF, TIMESTAMP_AS_OF)
        return TableSink.for_path("delta", *self._place(context.options))

    def _place(self, options: TableOptions) -> tuple[str, dict[str, str]]:
        return options.get(TABLE_PATH) or "", options.prefixed(_STORAGE)


def _check_supported(options: TableOptions) -> None:
    """Raises: UnsupportedOperationError, which names an option of Flink's connector that would change the result."""
    reasons: dict[ConfigOption[Any], str] = {
        option: reason for option, reason in _REFUSED.items() if options.contains(option)
    }
    if options.get(STREAMING):
        reasons[STREAMING] = _IS_STREAMING
    if options.get(UPSERT_ENABLED):
        reasons[UPSERT_ENABLED] = "pyiceberg, which writes the tables, writes no equality deletes"
    for option, reason in reasons.items():
        raise UnsupportedOperationError(f"iceberg: the option '{option.key}' is not supported: {reason}")


def _check_writes_newest(context: FactoryContext, *options: ConfigOption[Any]) -> None:
    """Checks that no version is chosen. Raises: ValidationError, which names the option that chooses one."""
    for option in options:
        if context.options.get(option) is not None:
            raise ValidationError(
                f"Table '{context.table.identifier.as_summary_string()}' cannot be written with '{option.key}', which "
                "chooses the version that is read: write to a table without the option",
                details={"option": option.key},
            )


def _moment(text: str) -> datetime.datetime:
    try:
        found = datetime.datetime.fromisoformat(text)
    except ValueError as error:
        raise ValidationError(
            f"'{TIMESTAMP_AS_OF.key}' is '{text}', but must be a time such as 2024-01-02 03:04:05",
            details={"option": TIMESTAMP_AS_OF.key, "value": text},
        ) from error
    return found if found.tzinfo else found.replace(tzinfo=datetime.UTC)


def _checked(action: Callable[[], Any]) -> Any:
    """Returns the result of an action. Raises: ValidationError about the table or its options."""
    try:
        return action()
    except UnsupportedOperationError:
        raise
    except (FlinkError, ValueError) as error:
        raise ValidationError(error.message if isinstance(error, FlinkError) else str(error)) from error


class _LogicalTableSource(TableSource):
    """A TableSource whose records have the Arrow types of a logical row type."""

    def __init__(self, source: TableSource, row_type: RowType) -> None:
        super().__init__(source.snapshot, source.row_type)
        self._logical_type = row_type

    @property
    def produced_type(self) -> Any:
        return InternalTypeInfo(self._logical_type)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return _LogicalTableReader(context, self.snapshot, self.row_type, InternalTypeInfo(self._logical_type))

    def projected_to(self, columns: list[str]) -> TableSource:
        """Returns itself: the planner of tables has chosen the columns."""
        return self

    def filtered_by(self, predicate: Any) -> TableSource:
        return self


class _LogicalTableReader(TableReader):
    def __init__(self, context: SourceReaderContext, snapshot: Any, row_type: Any, logical: InternalTypeInfo) -> None:
        super().__init__(context, snapshot, row_type)
        self._logical = logical

    def open_split(self, split: TableSplit) -> OpenSplit:
        return _LogicalSplit(super().open_split(split), self._logical)


class _LogicalSplit:
    """A data file that is being read into columns of a logical row type."""

    def __init__(self, content: OpenSplit, logical: InternalTypeInfo) -> None:
        self._content = content
        self._logical = logical

    def read_batch(self) -> Batch | None:
        from flinkpy.records.lanes import to_columns

        batch = self._content.read_batch()
        return None if batch is None else to_columns(batch, self._logical)

    def rest(self, rows_back: int) -> Any:
        return self._content.rest(rows_back)

    def close(self) -> None:
        self._content.close()


@dataclass(frozen=True)
class LakeTableSource(ScanTableSource):
    """Reads the asked columns of one version.

    Attributes:
        row_type: the columns that are read.
    """

    identifier: str
    builder: TableSourceBuilder
    row_type: RowType
    options: TableOptions

    @property
    def summary(self) -> str:
        return f"{self.identifier} table source"

    @property
    def produced_type(self) -> RowType:
        return self.row_type

    @property
    def parallelism(self) -> int | None:
        return self.options.get(SCAN_PARALLELISM)

    def source(self) -> SourceBase:
        found = self.builder.project(*self.row_type.names).build()
        if not isinstance(found, TableSource):
            raise UnsupportedOperationError(
                f"{self.identifier}: the table is one of Hive, which the connector cannot read: use 'filesystem'"
            )
        return _LogicalTableSource(found, self.row_type)

    def with_projection(self, paths: tuple[tuple[int, ...], ...], produced_type: RowType) -> ScanTableSource | None:
        if not paths:
            return None  # a file tells how many records it has by a column
        names = [self.row_type.names[path[0]] for path in paths]
        fields = tuple(RowField(name, each.type) for name, each in zip(names, produced_type.fields))
        return replace(self, row_type=RowType(fields, nullable=False))


@dataclass(frozen=True)
class LakeTableSink(DynamicTableSink):
    """Appends rows: one version of the table for each checkpoint, or for the job in batch mode."""

    identifier: str
    builder: TableSinkBuilder
    options: TableOptions
    is_bounded: bool
    is_overwrite: bool = False

    @property
    def summary(self) -> str:
        return f"{self.identifier} table sink"

    def changelog_mode(self, requested: ChangelogMode) -> ChangelogMode:
        return INSERT_ONLY

    @property
    def parallelism(self) -> int | None:
        return self.options.get(SINK_PARALLELISM)

    def sink(self) -> SinkBase:
        builder = self.builder.overwrite_partitions() if self.is_overwrite else self.builder.append()
        found: SinkBase = _checked(builder.build)
        return found

    def with_overwrite(self) -> DynamicTableSink | None:
        return replace(self, is_overwrite=True) if self.is_bounded else None
