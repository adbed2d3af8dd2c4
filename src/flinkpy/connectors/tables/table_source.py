"""TableSource: reads one version of an Iceberg or Delta table as typed columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import ConfigurationError
from flinkpy.common.time import Instant
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.connector_api.source import (
    Boundedness,
    SourceBase,
    SourceReader,
    SourceReaderContext,
    SplitEnumerator,
    SplitEnumeratorContext,
)
from flinkpy.connectors.split_enumerator import StaticSplitEnumerator
from flinkpy.connectors.split_reader import OpenSplit, SequentialSplitReader
from flinkpy.connectors.tables.table_format import TableSnapshot, TableSplit, TableVersion
from flinkpy.formats.row_types import project_row_type, row_type_of

if TYPE_CHECKING:
    from flinkpy.connectors.file_source import FileSource
    from flinkpy.expressions.nodes import Expression
    from flinkpy.records.batch import Batch

#: The formats of `for_path`.
PATH_FORMATS = ("delta", "iceberg")


class TableSource(SourceBase):
    """Reads one version of a table. Create it with `for_catalog` or `for_path`.

    The builder finds the version when it builds the source. All attempts of the job, and all engines, read this
    version, whatever is written meanwhile. Filters and selections of columns that follow the source skip partitions,
    files and columns.

    Args:
        snapshot: the version.
        row_type: the columns to read.
        predicate: records for which it is not true may be left out.

    Example:
        >>> source = TableSource.for_catalog("lake.sales.orders").project("id", "amount").build()
        >>> orders = env.from_source(source, WatermarkStrategy.no_watermarks(), "orders")

    Source: the builders of org.apache.iceberg.flink.source.IcebergSource and io.delta.flink.source.DeltaSource.
    """

    boundedness = Boundedness.BOUNDED

    def __init__(self, snapshot: TableSnapshot, row_type: RowTypeInfo, predicate: Expression | None = None) -> None:
        self.snapshot = snapshot
        self.row_type = row_type
        self._predicate = predicate

    @staticmethod
    def for_catalog(identifier: str, properties: Mapping[str, str] | None = None) -> TableSourceBuilder:
        """Reads an Iceberg table of a catalog, or a table of a Hive metastore.

        Needs `pip install 'flinkpy[iceberg]'`, for a Hive metastore `'flinkpy[hive]'`.

        Args:
            identifier: the names of the catalog, the namespace and the table: `"lake.sales.orders"`.
            properties: the properties of the catalog for pyiceberg, such as `{"type": "rest", "uri": "https://..."}`,
                or `{"type": "hive", "uri": "thrift://metastore:9083"}`, also for tables of Hive that are not of
                Iceberg. Without them pyiceberg's own configuration is used, which every process of the cluster must
                then have.
        """
        from flinkpy.connectors.tables.hive import HiveTable, is_hive
        from flinkpy.connectors.tables.iceberg import IcebergTable

        if properties is not None and is_hive(properties):
            return TableSourceBuilder(HiveTable.of_catalog(identifier, properties))
        return TableSourceBuilder(IcebergTable.of_catalog(identifier, properties))

    @staticmethod
    def for_path(table_format: str, path: str, properties: Mapping[str, str] | None = None) -> TableSourceBuilder:
        """Reads a table that lies at a path or URI, without a catalog.

        Args:
            table_format: "delta", which needs `pip install 'flinkpy[delta]'`, or "iceberg" for tables of a Hadoop
                catalog.
            path: the directory of the table. For Iceberg also a metadata file.
            properties: the options of the storage, for deltalake or pyiceberg.
        """
        if table_format == "delta":
            from flinkpy.connectors.tables.delta import DeltaLakeTable

            return TableSourceBuilder(DeltaLakeTable.of_path(path, properties))
        if table_format == "iceberg":
            from flinkpy.connectors.tables.iceberg import IcebergTable

            return TableSourceBuilder(IcebergTable.of_path(path, properties))
        raise ConfigurationError(f"{table_format!r} is not a format of tables: use {' or '.join(PATH_FORMATS)}")

    @property
    def produced_type(self) -> RowTypeInfo:
        return self.row_type

    def projected_to(self, columns: list[str]) -> TableSource:
        return TableSource(self.snapshot, project_row_type(self.row_type, columns), self._predicate)

    def filtered_by(self, predicate: Any) -> TableSource:
        return TableSource(self.snapshot, self.row_type, predicate)

    def estimated_size_bytes(self) -> int | None:
        return self.snapshot.estimated_size_bytes()

    def infer_parallelism(self, upper_bound: int) -> int | None:
        return max(1, min(upper_bound, len(self._list_splits())))

    def create_enumerator(self, context: SplitEnumeratorContext) -> SplitEnumerator:
        return StaticSplitEnumerator(context, self._list_splits, blocking=True)

    def restore_enumerator(self, context: SplitEnumeratorContext, state: Any) -> SplitEnumerator:
        return StaticSplitEnumerator(context, self._list_splits, blocking=True, state=state)

    def _list_splits(self) -> list[TableSplit]:
        return self.snapshot.list_splits(self._predicate)

    def create_reader(self, context: SourceReaderContext) -> SourceReader:
        return TableReader(context, self.snapshot, self.row_type)

    def __repr__(self) -> str:
        return f"TableSource({self.snapshot.name})"


class TableSourceBuilder:
    """Builds a TableSource. By default it reads all columns of the newest version.

    Args:
        table: an IcebergTable, DeltaLakeTable or HiveTable.
    """

    def __init__(self, table: Any) -> None:
        self._table = table
        self._columns: tuple[str, ...] | None = None
        self._version = TableVersion()

    def project(self, *columns: str) -> TableSourceBuilder:
        """Sets the columns to read, in this order."""
        if not columns or not all(isinstance(name, str) for name in columns):
            raise TypeError(f"project needs the names of columns, not {columns!r}")
        self._columns = columns
        return self

    def snapshot_id(self, snapshot_id: int) -> TableSourceBuilder:
        """Reads a snapshot of an Iceberg table, given by its id."""
        return self._set_version("snapshot_id", "iceberg", TableVersion(number=snapshot_id))

    def version_as_of(self, version: int) -> TableSourceBuilder:
        """Reads a version of a Delta table, given by its number."""
        return self._set_version("version_as_of", "delta", TableVersion(number=version))

    def as_of_timestamp(self, timestamp: datetime | Instant | int) -> TableSourceBuilder:
        """Reads the newest version that was made at or before a time.

        Args:
            timestamp: a datetime with a time zone, an Instant, or milliseconds since 1970.
        """
        if isinstance(timestamp, datetime):
            if timestamp.tzinfo is None:
                raise ValueError(f"{timestamp!r} has no time zone, so it does not name a moment")
            timestamp_ms = int(timestamp.timestamp() * 1000)
        elif isinstance(timestamp, Instant):
            timestamp_ms = timestamp.to_epoch_milli()
        else:
            timestamp_ms = int(timestamp)
        return self._set_version("as_of_timestamp", "", TableVersion(timestamp_ms=timestamp_ms))

    def branch(self, name: str) -> TableSourceBuilder:
        """Reads the newest snapshot of a branch of an Iceberg table."""
        return self._set_version("branch", "iceberg", TableVersion(reference=name))

    def tag(self, name: str) -> TableSourceBuilder:
        """Reads the snapshot that has a tag in an Iceberg table."""
        return self._set_version("tag", "iceberg", TableVersion(reference=name))

    def build(self) -> TableSource | FileSource:
        """Reads the metadata of the table, and returns the source. It is a FileSource for a table of Hive.

        Raises:
            InputNotFoundError: the table or the version does not exist.
            UnsupportedOperationError: a library is missing, or it cannot read this table.
            ValueError: a column does not exist.
        """
        table = self._table
        if table.format == "hive":
            table = table.find()
        if table.format == "hive":
            if self._version != TableVersion():
                raise ConfigurationError(f"{self._table.name} is a table of Hive, which has no versions")
            return table.source(self._columns)  # type: ignore[no-any-return]
        snapshot: TableSnapshot = table.snapshot(self._version)
        row_type = row_type_of(snapshot.schema)
        if self._columns is not None:
            row_type = project_row_type(row_type, self._columns)
        return TableSource(snapshot, row_type)

    def _set_version(self, setting: str, table_format: str, version: TableVersion) -> TableSourceBuilder:
        # A Hive metastore has tables of Iceberg, too.
        if table_format not in ("", self._table.format) and (table_format, self._table.format) != ("iceberg", "hive"):
            raise ConfigurationError(f"{setting} is for tables of {table_format}, and {self._table.name} is not one")
        if self._version != TableVersion():
            raise ConfigurationError(f"{setting}: the version of {self._table.name} has been set already")
        self._version = version
        return self


class TableReader(SequentialSplitReader):
    """Reads data files. Thread: task thread."""

    def __init__(self, context: SourceReaderContext, snapshot: TableSnapshot, row_type: RowTypeInfo) -> None:
        super().__init__(context)
        self._snapshot = snapshot
        self._row_type = row_type

    def open_split(self, split: TableSplit) -> OpenSplit:
        return _OpenFile(split, self._snapshot.read(split, self._row_type.get_field_names()), self._row_type)


class _OpenFile:
    """A data file that is being read."""

    def __init__(self, split: TableSplit, batches: Iterator[Any], row_type: RowTypeInfo) -> None:
        self._split = split
        self._batches = batches
        self._row_type = row_type
        self._num_read = 0

    def read_batch(self) -> Batch | None:
        from flinkpy.records.batch import Batch
        from flinkpy.records.lanes import conform

        for columns in self._batches:
            start = self._num_read
            self._num_read += columns.num_rows
            dropped = min(max(self._split.rows_done - start, 0), columns.num_rows)
            if dropped < columns.num_rows:
                wanted = columns.select(self._row_type.get_field_names()).slice(dropped)
                return Batch(conform(wanted, self._row_type))
        return None

    def rest(self, rows_back: int) -> TableSplit:
        return replace(self._split, rows_done=max(self._num_read - rows_back, self._split.rows_done))

    def close(self) -> None:
        close = getattr(self._batches, "close", None)
        if close is not None:
            close()
