"""Tables of a Hive metastore: files in directories, which the metastore describes.

The program asks the metastore for the location, the columns and the partitions. Then a table is read by a FileSource of
these directories, and written by a FileSink, on both engines. So Spark reads and writes it as it does with other files,
and needs no Hive. After a commit of files, the committer registers the partitions that the metastore does not know.

The client is that of pyiceberg, whose catalogs can be Hive metastores, too. A table of a metastore may be an Iceberg
table.

Source: org.apache.flink.connectors.hive.{HiveTableSource, HiveTableSink}, org.apache.flink.connector.file.table.
MetastoreCommitPolicy. Differs: tables of Parquet and ORC only.
"""

from __future__ import annotations

import copy
import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import (
    ConfigurationError,
    FlinkError,
    InputNotFoundError,
    TableError,
    UnsupportedOperationError,
)
from flinkpy.common.failpoints import failpoint
from flinkpy.connector_api.sink import CommitRequest, Committer, StatefulSinkWriter, WriterContext
from flinkpy.connectors.file_committer import PendingFile
from flinkpy.connectors.file_sink import FileSink
from flinkpy.connectors.file_sink_config import BucketAssigner, OnCheckpointRollingPolicy, OutputFileConfig, Publication
from flinkpy.connectors.file_source import FileSource
from flinkpy.connectors.tables.iceberg import IcebergTable
from flinkpy.connectors.write_mode import WriteMode
from flinkpy.formats.bulk_writer import ColumnBulkWriterFactory, ParquetBulkWriterFactory
from flinkpy.formats.file_format import FileFormat
from flinkpy.formats.input_files import input_path
from flinkpy.formats.orc_format import OrcBulkWriterFactory, OrcFormat
from flinkpy.formats.parquet_format import ParquetFormat
from flinkpy.formats.partitioned_format import (
    PartitionedFormat,
    partition_type_of,
    unescaped,
)
from flinkpy.formats.row_types import project_row_type, row_type_of

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkpy.common.typeinfo import RowTypeInfo
    from flinkpy.records.batch import Batch

#: The input formats of Hive whose files we read and write.
_INPUT_FORMATS = {
    "org.apache.hadoop.hive.ql.io.parquet.MapredParquetInputFormat": "parquet",
    "org.apache.hadoop.hive.ql.io.orc.OrcInputFormat": "orc",
}
#: The number of partitions per call. An answer has some kilobytes for each.
_PARTITIONS_PER_CALL = 500
_SPARK_SCHEMA = "spark.sql.sources.schema"
_SPARK_PROVIDER = "spark.sql.sources.provider"


def is_hive(properties: Mapping[str, str] | None) -> bool:
    """True if these are the properties of a catalog that is a Hive metastore."""
    found = properties or {}
    return found.get("type") == "hive" or found.get("uri", "").startswith("thrift://")


@dataclass(frozen=True)
class HiveLayout:
    """The layout of a table, as the metastore describes it.

    Attributes:
        location: the directory of the table, as a local path or a URI.
        kind: "parquet" or "orc".
        columns: the columns in the files.
        partition_columns: the columns in the names of directories; None for a table without partitions.
        partitions: the directories of the partitions that the metastore knows.
    """

    location: str
    kind: str
    columns: RowTypeInfo
    partition_columns: RowTypeInfo | None
    partitions: tuple[str, ...]

    format = "hive"

    @property
    def row_type(self) -> RowTypeInfo:
        """All columns, those of the directories last."""
        from flinkpy.common.typeinfo import RowTypeInfo

        if self.partition_columns is None:
            return self.columns
        types = [*self.columns.get_field_types(), *self.partition_columns.get_field_types()]
        return RowTypeInfo(types, [*self.columns.get_field_names(), *self.partition_columns.get_field_names()])

    def source(self, columns: Sequence[str] | None) -> HiveTableSource:
        """Returns the source of some columns, or of all."""
        wanted = self.row_type.get_field_names() if columns is None else list(columns)
        project_row_type(self.row_type, wanted)
        names = self.columns.get_field_names()
        # A file tells how many records it has by a column.
        content = project_row_type(self.columns, [name for name in wanted if name in names] or names[:1])
        file_format: FileFormat = ParquetFormat(content) if self.kind == "parquet" else OrcFormat(content)
        if self.partition_columns is None:
            return HiveTableSource(file_format, (self.location,))
        return HiveTableSource(PartitionedFormat(file_format, self.partition_columns, wanted), self.partitions)


class HiveTableSource(FileSource):
    """Reads the partitions of a table that the metastore knew when the program was built. There may be none."""

    def __init__(
        self,
        file_format: FileFormat,
        paths: Sequence[str],
        is_splittable: bool = True,
        discovery_interval_ms: int | None = None,
    ) -> None:
        super().__init__(file_format, paths or ("/",), is_splittable, discovery_interval_ms)
        self._paths = tuple(map(input_path, paths))

    def _with_format(self, file_format: FileFormat | None) -> FileSource | None:
        return None if file_format is None else HiveTableSource(file_format, self._paths, self._is_splittable)


@dataclass(frozen=True)
class HiveTable:
    """Names a table of a Hive metastore.

    Attributes:
        name: catalog, database and table.
        properties: `uri` of the metastore's service; the others as for pyiceberg, and of the storage.
    """

    name: str
    properties: Mapping[str, str] = dataclasses.field(repr=False)  # may have secrets

    format = "hive"

    @staticmethod
    def of_catalog(identifier: str, properties: Mapping[str, str]) -> HiveTable:
        parts = identifier.split(".") if isinstance(identifier, str) else []
        if len(parts) != 3 or not all(parts):
            raise ConfigurationError(
                f"{identifier!r} does not name a table: give catalog, database and table, such as "
                "'spark_catalog.sales.orders'"
            )
        if not properties.get("uri", "").startswith("thrift://"):
            raise ConfigurationError(
                f"table {identifier}: a Hive metastore needs the property uri, such as thrift://metastore:9083. A "
                "metastore that is embedded in Spark's driver can be reached by that driver only"
            )
        return HiveTable(identifier, dict(properties))

    @contextmanager
    def client(self) -> Iterator[Any]:
        """Yields a client of the metastore. Raises: InputNotFoundError, TableError."""
        try:
            from hive_metastore.ttypes import NoSuchObjectException
            from pyiceberg.catalog.hive import HiveCatalog
        except ImportError as error:
            raise UnsupportedOperationError(
                f"table {self.name}: the Hive metastore needs pyiceberg and thrift, and one cannot be imported "
                f"({error}): pip install 'flinkpy[hive]'"
            ) from error
        details = {"table": self.name}
        try:
            with HiveCatalog._create_hive_client(dict(self.properties)) as client:
                yield client
        except FlinkError:
            raise
        except NoSuchObjectException as error:
            raise InputNotFoundError(f"table {self.name} does not exist: {error.message}", details=details) from error
        except Exception as error:
            uri = self.properties["uri"]
            raise TableError(
                f"table {self.name}, metastore {uri}: {type(error).__name__}: {error}", details=details
            ) from error

    def find(self, with_partitions: bool = True) -> HiveLayout | IcebergTable:
        """Asks the metastore. Returns an IcebergTable if the table is one of Iceberg.

        Raises: InputNotFoundError, TableError, UnsupportedOperationError.
        """
        _, database, table = self.name.split(".")
        with self.client() as client:
            found = client.get_table(database, table)
            if (found.parameters or {}).get("table_type", "").upper() == "ICEBERG":
                return IcebergTable.of_catalog(self.name, {"type": "hive", **self.properties})
            locations: list[str] = []
            if found.partitionKeys and with_partitions:
                names = client.get_partition_names(database, table, -1)
                for start in range(0, len(names), _PARTITIONS_PER_CALL):
                    wanted = names[start : start + _PARTITIONS_PER_CALL]
                    for partition in client.get_partitions_by_names(database, table, wanted):
                        locations.append(_partition_location(self.name, found, partition))
        return layout_of(self.name, found, locations)


def layout_of(name: str, table: Any, partitions: Sequence[str] = ()) -> HiveLayout:
    """Returns the layout of a table.

    Args:
        table: `hive_metastore.ttypes.Table`.
        partitions: the directories of its partitions.

    Raises: UnsupportedOperationError, which names the table.
    """
    parameters, storage = table.parameters or {}, table.sd

    def refuse(reason: str) -> UnsupportedOperationError:
        return UnsupportedOperationError(f"table {name} {reason}", details={"table": name})

    if "VIEW" in (table.tableType or ""):
        raise refuse("is a view of Hive")
    if parameters.get(_SPARK_PROVIDER, "").lower() == "delta":
        raise refuse(f"is a Delta table: use for_path('delta', {storage.location!r})")
    if parameters.get("transactional", "").lower() == "true":
        raise refuse("is transactional (Hive ACID), which only Hive reads and writes")
    if storage.bucketCols:
        raise refuse(f"is bucketed by {', '.join(storage.bucketCols)}, which a writer here would not keep up")
    kind = _INPUT_FORMATS.get(storage.inputFormat or "")
    if kind is None:
        raise refuse(
            f"has the input format {storage.inputFormat}: only Parquet and ORC are supported, so read it by Hive"
        )
    texts = {field.name: field.type for field in storage.cols}
    partition_texts = {field.name: field.type for field in table.partitionKeys or ()}
    spelled = {each.lower(): each for each in _names_of_spark(parameters)}
    if spelled and not {*texts, *partition_texts} <= set(spelled):
        raise refuse("was made by Spark with types that Hive does not know")

    def types(columns: Mapping[str, str]) -> dict[str, Any]:
        return {spelled.get(column, column): arrow_type(text, f"{name}.{column}") for column, text in columns.items()}

    import pyarrow as pa

    return HiveLayout(
        input_path(storage.location),
        kind,
        row_type_of(pa.schema(list(types(texts).items()))),
        partition_type_of(pa.schema(list(types(partition_texts).items()))) if partition_texts else None,
        tuple(map(input_path, partitions)),
    )


def _names_of_spark(parameters: Mapping[str, str]) -> list[str]:
    """Returns the names of columns as Spark spells them. Hive knows small letters only."""
    text = parameters.get(_SPARK_SCHEMA)
    if text is None:
        count = int(parameters.get(f"{_SPARK_SCHEMA}.numParts", 0))
        text = "".join(parameters[f"{_SPARK_SCHEMA}.part.{number}"] for number in range(count))
    return [field["name"] for field in json.loads(text)["fields"]] if text else []


def _partition_location(name: str, table: Any, partition: Any) -> str:
    """Returns the directory of a partition. Raises: UnsupportedOperationError if its name does not have the values."""
    location = str(partition.sd.location).rstrip("/")
    parts = [part.partition("=") for part in location.split("/")[-len(table.partitionKeys) :]]
    found = [(unescaped(key).lower(), unescaped(value)) for key, _, value in parts]
    wanted = [(key.name.lower(), value) for key, value in zip(table.partitionKeys, partition.values)]
    if found != wanted:
        values = "/".join(f"{key}={value}" for key, value in wanted)
        raise UnsupportedOperationError(
            f"table {name}: partition {values} lies at {location}, which is not named like it", details={"table": name}
        )
    return location


# -- types -------------------------------------------------------------------------------------------------------------


def arrow_type(text: str, column: str) -> pa.DataType:
    """Returns a type of Hive, such as `array<decimal(10,2)>`. Raises: UnsupportedOperationError, names the column."""
    kind, rest = _parse_type(text.replace(" ", ""), column)
    if rest:
        raise UnsupportedOperationError(f"column {column} has the type {text!r}, which is not known")
    return kind


def _parse_type(text: str, column: str) -> tuple[Any, str]:
    """Returns the type at the beginning of a text, and the rest of the text."""
    import pyarrow as pa

    plain = {
        "boolean": pa.bool_(),
        "tinyint": pa.int8(),
        "smallint": pa.int16(),
        "int": pa.int32(),
        "integer": pa.int32(),
        "bigint": pa.int64(),
        "float": pa.float32(),
        "double": pa.float64(),
        "string": pa.string(),
        "varchar": pa.string(),
        "char": pa.string(),
        "binary": pa.binary(),
        "date": pa.date32(),
        "timestamp": pa.timestamp("us"),
    }
    end = next((place for place, letter in enumerate(text) if not (letter.isalnum() or letter == "_")), len(text))
    name, rest = text[:end].lower(), text[end:]
    if name in ("array", "map", "struct") and rest.startswith("<"):
        fields = []
        rest = rest[1:]
        while not rest.startswith(">"):
            field = ""
            if name == "struct":
                field, _, rest = rest.partition(":")
            kind, rest = _parse_type(rest, column)
            fields.append((field, kind))
            rest = rest.removeprefix(",")
        rest = rest[1:]
        kinds = [kind for _, kind in fields]
        if name == "array" and len(kinds) == 1:
            return pa.list_(kinds[0]), rest
        if name == "map" and len(kinds) == 2:
            return pa.map_(*kinds), rest
        if name == "struct":
            return pa.struct(fields), rest
    arguments, _, after = rest[1:].partition(")") if rest.startswith("(") else ("", "", rest)
    if name == "decimal":
        digits = [int(each) for each in arguments.split(",")] if arguments else [10, 0]
        return pa.decimal128(*digits), after
    if name in plain:
        return plain[name], after
    raise UnsupportedOperationError(f"column {column} has the type {text!r}, which is not supported")


# -- writing -----------------------------------------------------------------------------------------------------------


class HiveTableSink(FileSink):
    """Writes the files of a table, and registers its new partitions.

    Args:
        table: the table.
        layout: what the metastore says of it.
        mode: what happens to the files that it has.
    """

    def __init__(self, table: HiveTable, layout: HiveLayout, mode: WriteMode) -> None:
        factory: ColumnBulkWriterFactory = (
            ParquetBulkWriterFactory(layout.row_type)
            if layout.kind == "parquet"
            else OrcBulkWriterFactory(layout.row_type)
        )
        partitions = layout.partition_columns
        super().__init__(
            layout.location,
            factory.create,
            BucketAssigner.base_path_bucket_assigner()
            if partitions is None
            else BucketAssigner.column_bucket_assigner(*partitions.get_field_names()),
            OnCheckpointRollingPolicy(),
            OutputFileConfig("part", f".{layout.kind}"),
            publication=Publication(mode),
        )
        self.table = table
        self.layout = layout

    def create_writer(self, context: WriterContext) -> HiveTableWriter:
        return self._hive_writer(context, None)

    def restore_writer(self, context: WriterContext, states: list[Any]) -> HiveTableWriter:
        return self._hive_writer(context, states)

    def _hive_writer(self, context: WriterContext, states: list[Any] | None) -> HiveTableWriter:
        inner: Any = _TypedContext(context, self.layout.row_type)
        return HiveTableWriter(self._writer(inner, states), self.table.name, context.input_type, self.layout.row_type)

    def create_committer(self) -> Committer:
        return HiveCommitter(super().create_committer(), self.table, self.layout)

    def __repr__(self) -> str:
        return f"HiveTableSink({self.table.name})"


class _TypedContext:
    """Implements WriterContext for records of the table's type."""

    def __init__(self, context: WriterContext, input_type: Any) -> None:
        self._context = context
        self.input_type = input_type

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)


class HiveTableWriter(StatefulSinkWriter):
    """Gives the records the columns of the table, in its order. Thread: task thread."""

    def __init__(self, writer: Any, name: str, input_type: Any, row_type: RowTypeInfo) -> None:
        self._writer = writer
        self._name = name
        self._input_type = input_type
        self._row_type = row_type

    def write(self, batch: Batch) -> None:
        import pyarrow as pa

        from flinkpy.connectors.tables.table_sink import conform_to_table
        from flinkpy.records.lanes import arrow_schema, to_columns

        if batch.kinds is not None and batch.kinds.any():
            raise UnsupportedOperationError(
                f"table {self._name}: the sink adds records, and cannot write updates and deletes of a changelog"
            )
        if not batch.num_rows:
            return
        columns = to_columns(batch, self._input_type)
        schema = arrow_schema(self._row_type)
        assert schema is not None and not isinstance(columns.values, list)
        if columns.values.schema != schema:
            table = conform_to_table(pa.Table.from_batches([columns.values]), schema, self._name)
            columns = columns.with_values(table.combine_chunks().to_batches()[0])
        self._writer.write(columns)

    def write_watermark(self, timestamp: int) -> None:
        self._writer.write_watermark(timestamp)

    def flush(self, end_of_input: bool) -> None:
        self._writer.flush(end_of_input)

    def prepare_commit(self) -> list[Any]:
        return self._writer.prepare_commit()  # type: ignore[no-any-return]

    def snapshot_state(self, checkpoint_id: int) -> list[Any]:
        return self._writer.snapshot_state(checkpoint_id)  # type: ignore[no-any-return]

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._writer.notify_checkpoint_complete(checkpoint_id)

    def close(self) -> None:
        self._writer.close()


class HiveCommitter(Committer):
    """Publishes files, then registers their partitions. Repeating both has no effect. Thread: task thread."""

    def __init__(self, files: Committer, table: HiveTable, layout: HiveLayout) -> None:
        self._files = files
        self._table = table
        self._layout = layout

    def commit(self, requests: list[CommitRequest]) -> None:
        self._files.commit(requests)
        if self._layout.partition_columns is None:
            return
        committables = [request.get_committable() for request in requests]
        directories = sorted({each.bucket for each in committables if isinstance(each, PendingFile)})
        failpoint("hive_sink.before_partitions")
        for start in range(0, len(directories), _PARTITIONS_PER_CALL):
            self._register(directories[start : start + _PARTITIONS_PER_CALL])

    def _register(self, directories: Sequence[str]) -> None:
        _, database, name = self._table.name.split(".")
        with self._table.client() as client:
            from hive_metastore.ttypes import AddPartitionsRequest, Partition

            table = client.get_table(database, name)
            partitions = []
            for directory in directories:
                storage = copy.copy(table.sd)
                storage.location = f"{table.sd.location.rstrip('/')}/{directory}"
                values = [unescaped(part.partition("=")[2]) for part in directory.split("/")]
                partitions.append(Partition(values, database, name, 0, 0, storage, {}))
            client.add_partitions_req(AddPartitionsRequest(database, name, partitions, True, False))

    def close(self) -> None:
        self._files.close()
