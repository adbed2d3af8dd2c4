"""Delta tables through deltalake, and data files through Arrow."""

from __future__ import annotations

import dataclasses
import json
import operator
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

import numpy as np

from flinkpy.common.clock import SystemClock
from flinkpy.common.errors import (
    CommitError,
    ConfigurationError,
    FlinkError,
    InputNotFoundError,
    TableError,
    UnsupportedOperationError,
)
from flinkpy.connectors.tables.predicates import comparable_columns, to_filter
from flinkpy.connectors.tables.table_format import (
    DataFileWriter,
    OpenTable,
    SinkTable,
    TableCommittable,
    TableSnapshot,
    TableSplit,
    TableVersion,
    job_metadata,
)
from flinkpy.connectors.write_mode import WriteMode

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkpy.expressions.nodes import Expression

#: The longest text that the statistics of a file contain. A longer one is left out with its counterpart.
_MAX_STATISTICS_CHARACTERS = 32
#: Features of tables that the sink need not know anything of to add files.
_WRITER_FEATURES = frozenset(
    {"appendOnly", "invariants", "deletionVectors", "timestampNtz", "v2Checkpoint", "vacuumProtocolCheck",
     "domainMetadata", "changeDataFeed", "checkConstraints", "generatedColumns", "columnMapping", "inCommitTimestamp"}
)  # fmt: skip
#: Old writer versions stand for lists of features, up to this one. Newer tables name their features.
_LAST_VERSION_WITHOUT_FEATURES = 6


@contextmanager
def _errors_of(name: str) -> Iterator[None]:
    """Raises errors of deltalake and of its storage as errors that name the table."""
    try:
        from deltalake.exceptions import TableNotFoundError
    except ImportError as error:
        raise UnsupportedOperationError(
            f"Delta tables need deltalake, which cannot be imported ({error}): pip install 'flinkpy[delta]'"
        ) from error
    try:
        yield
    except FlinkError:
        raise
    except TableNotFoundError as error:
        raise InputNotFoundError(f"there is no Delta table at {name}: {error}", details={"table": name}) from error
    except Exception as error:
        raise TableError(f"table {name}: {type(error).__name__}: {error}", details={"table": name}) from error


@dataclass(frozen=True)
class DeltaLakeTable:
    """Names a Delta table.

    Attributes:
        name: the path or URI.
        properties: the options of the storage.
    """

    name: str
    properties: Mapping[str, str] = dataclasses.field(repr=False)  # may have secrets

    format = "delta"

    @staticmethod
    def of_path(path: str, properties: Mapping[str, str] | None) -> DeltaLakeTable:
        if not isinstance(path, str) or not path:
            raise ConfigurationError(f"{path!r} is not the path of a Delta table")
        return DeltaLakeTable(path if "://" in path else str(Path(path).absolute()), dict(properties or {}))

    def load(self, version: int | datetime | None = None) -> Any:
        """Returns deltalake's DeltaTable. Raises: InputNotFoundError, TableError."""
        with _errors_of(self.name):
            from deltalake import DeltaTable

            table = DeltaTable(self.name, storage_options=dict(self.properties) or None)
            if version is not None:
                table.load_as_version(version)
            return table

    def file_system(self) -> Any:
        """Returns the directory of the table as Arrow's file system."""
        from deltalake.fs import DeltaStorageHandler
        from pyarrow.fs import PyFileSystem

        where = self.name if "://" in self.name else Path(self.name).as_uri()
        return PyFileSystem(DeltaStorageHandler(where, dict(self.properties) or None))

    def snapshot(self, version: TableVersion) -> DeltaSnapshot:
        """Returns a version of the table. Raises: InputNotFoundError, UnsupportedOperationError, TableError."""
        table = self.load()
        newest = table.version()
        if version.number is not None and not 0 <= version.number <= newest:
            raise InputNotFoundError(
                f"table {self.name} has no version {version.number}; the newest is {newest}",
                details={"table": self.name},
            )
        if version.number is not None:
            table = self.load(version.number)
        elif version.timestamp_ms is not None:
            table = self._load_at(table, version.timestamp_ms)
        with _errors_of(self.name):
            schema = _schema_of(table)
            _check_readable(self.name, table)
            sizes = _add_actions(table).column("size_bytes").to_pylist()
            return DeltaSnapshot(self, table.version(), schema, sum(sizes))

    def _load_at(self, table: Any, timestamp_ms: int) -> Any:
        with _errors_of(self.name):
            versions = [each["version"] for each in table.history() if each["timestamp"] <= timestamp_ms]
        if not versions:
            raise InputNotFoundError(
                f"table {self.name} has no version at or before {timestamp_ms} ms since 1970",
                details={"table": self.name},
            )
        return self.load(max(versions))


def _schema_of(table: Any) -> pa.Schema:
    import pyarrow as pa

    return pa.schema(table.schema().to_arrow()).remove_metadata()


def _add_actions(table: Any) -> pa.Table:
    """Returns the data files of a version: path, size_bytes, partition, ..."""
    import pyarrow as pa

    return pa.table(table.get_add_actions())


def _check_readable(name: str, table: Any) -> None:
    mapping = table.metadata().configuration.get("delta.columnMapping.mode", "none")
    if mapping != "none":
        raise UnsupportedOperationError(
            f"table {name} has delta.columnMapping.mode={mapping}, which only Spark with Delta's jar can read: set "
            "execution.batch.backend: spark and execution.batch.spark.conf.spark.jars.packages",
            details={"table": name},
        )


@dataclass(frozen=True)
class DeltaSnapshot(TableSnapshot):
    """A version of a Delta table."""

    table: DeltaLakeTable
    version: int
    schema: pa.Schema
    size_bytes: int

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.table.name

    def estimated_size_bytes(self) -> int:
        return self.size_bytes

    def _filter(self, predicate: Expression | None) -> Any:
        return to_filter(predicate, comparable_columns(self.schema), _ArrowFilters(self.schema))

    def list_splits(self, predicate: Expression | None) -> list[TableSplit]:
        table = self.table.load(self.version)
        with _errors_of(self.name):
            import pyarrow as pa
            import pyarrow.dataset as ds

            file_format, file_system = _parquet_format(), self.table.file_system()
            fragments = [
                file_format.make_fragment(path, filesystem=file_system, partition_expression=known)
                for path, known in table._table.dataset_partitions(self.schema, None)
            ]
            dataset = ds.FileSystemDataset(fragments, self.schema, file_format, file_system)
            wanted = {each.path for each in dataset.get_fragments(self._filter(predicate))}
            deleted = _deleted_rows(self.name, pa.table(table.deletion_vectors().read_all()))
            splits: list[TableSplit] = []
            for action in _add_actions(table).to_pylist():
                path = unquote(action["path"])
                if "://" in path:
                    raise UnsupportedOperationError(
                        f"table {self.name} refers to a file of another table, {path}. Shallow clones cannot be read",
                        details={"table": self.name},
                    )
                if path in wanted:
                    file = {
                        "path": path,
                        "partition": action.get("partition") or {},
                        "deleted": deleted.pop(path, None),
                    }
                    splits.append(TableSplit(str(len(splits) + 1), file, action["size_bytes"], predicate))
            return splits

    def read(self, split: TableSplit, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with _errors_of(self.name):
            import pyarrow as pa
            import pyarrow.compute as pc
            import pyarrow.dataset as ds

            known = None
            for name, value in split.file["partition"].items():
                field = pc.field(name)
                part = field.is_null() if value is None else field == pa.scalar(value, self.schema.field(name).type)
                known = part if known is None else known & part
            fragment = _parquet_format().make_fragment(
                split.file["path"], filesystem=self.table.file_system(), partition_expression=known
            )
            deleted = split.file["deleted"]
            scanner = ds.Scanner.from_fragment(
                fragment,
                schema=self.schema,
                columns=list(columns),
                # The deleted records are known by their position in the whole file.
                filter=self._filter(split.predicate) if deleted is None else None,
            )
            start = 0
            for batch in scanner.to_batches():
                if deleted is not None:
                    batch, start = _without(batch, start, deleted), start + batch.num_rows
                if batch.num_rows:
                    yield batch


def _parquet_format() -> Any:
    import pyarrow.dataset as ds

    # Spark writes old timestamps in a form that Arrow would otherwise read as nanoseconds, which end in 2262.
    options = ds.ParquetReadOptions(coerce_int96_timestamp_unit="us")
    return ds.ParquetFileFormat(
        read_options=options, default_fragment_scan_options=ds.ParquetFragmentScanOptions(pre_buffer=True)
    )


def _deleted_rows(name: str, vectors: pa.Table) -> dict[str, np.ndarray]:
    """Returns the positions of deleted records by file, as int64[n], in order."""
    found: dict[str, np.ndarray] = {}
    root = (name if "://" in name else Path(name).as_uri()).rstrip("/") + "/"
    for file, kept in zip(vectors.column("filepath").to_pylist(), vectors.column("selection_vector")):
        mask = np.asarray(kept.values.to_numpy(zero_copy_only=False), bool)
        found[unquote(file.removeprefix(root))] = np.flatnonzero(~mask)
    return found


def _without(batch: pa.RecordBatch, start: int, deleted: np.ndarray) -> pa.RecordBatch:
    """Returns a batch without the deleted records. Its first record is at position `start` of the file."""
    import pyarrow as pa

    first, last = np.searchsorted(deleted, (start, start + batch.num_rows))
    if first == last:
        return batch
    mask = np.ones(batch.num_rows, bool)
    mask[deleted[first:last] - start] = False
    return batch.filter(pa.array(mask))


_COMPARISONS: dict[str, Callable[[Any, Any], Any]] = {
    "equals": operator.eq,
    "notEquals": operator.ne,
    "lessThan": operator.lt,
    "lessThanOrEqual": operator.le,
    "greaterThan": operator.gt,
    "greaterThanOrEqual": operator.ge,
}


class _ArrowFilters:
    """Makes Arrow's expressions."""

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema

    def _scalar(self, column: str, value: Any) -> Any:
        import pyarrow as pa

        kind = self._schema.field(column).type
        try:
            return pa.scalar(value, kind)
        except (pa.ArrowException, OverflowError):
            # The type of the column does not hold the value; Arrow compares it with a wider type.
            return pa.scalar(value)

    def compare(self, function: str, column: str, value: Any) -> Any:
        import pyarrow.compute as pc

        return _COMPARISONS[function](pc.field(column), self._scalar(column, value))

    def is_in(self, column: str, values: list[Any]) -> Any:
        either = self.compare("equals", column, values[0])
        for value in values[1:]:
            either = either | self.compare("equals", column, value)
        return either

    def is_null(self, column: str) -> Any:
        import pyarrow.compute as pc

        return pc.field(column).is_null()

    def is_not_null(self, column: str) -> Any:
        import pyarrow.compute as pc

        return pc.field(column).is_valid()

    def starts_with(self, column: str, prefix: str) -> Any:
        import pyarrow.compute as pc

        return pc.starts_with(pc.field(column), prefix)

    def both(self, one: Any, other: Any) -> Any:
        return one & other

    def either(self, one: Any, other: Any) -> Any:
        return one | other


class DeltaSinkTable(SinkTable):
    """A Delta table. Each committable is an application transaction (`txn`) of the version that contains it.

    The id of the application names the job and the writer; its version is the number of the committable.
    """

    def __init__(self, table: DeltaLakeTable) -> None:
        self._table = table
        self.name = table.name

    def open_writer(self) -> DataFileWriter:
        table = self._table.load()
        with _errors_of(self.name):
            _check_writable(self.name, table)
            return _DeltaWriter(self._table, table)

    @contextmanager
    def open(self) -> Iterator[OpenTable]:
        with _errors_of(self.name):
            yield _OpenDeltaTable(self.name, self._table.load())


class _OpenDeltaTable(OpenTable):
    def __init__(self, name: str, table: Any) -> None:
        self._name = name
        self._table = table

    def committed(self, committables: Sequence[TableCommittable]) -> list[TableCommittable]:
        return [
            each
            for each in committables
            if (last := self._table.transaction_version(_application(each))) is not None and last >= each.number
        ]

    def try_commit(self, committables: Sequence[TableCommittable], mode: WriteMode) -> bool:
        from deltalake import CommitProperties, Transaction
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction

        partition_by = list(self._table.metadata().partition_columns)
        for each in committables:
            if each.layout != json.dumps(partition_by):
                raise CommitError(
                    f"table {self._name}: it is partitioned by {partition_by}, and was partitioned by {each.layout} "
                    "when the job wrote its files, so they cannot be committed. Start the job again",
                    details={"table": self._name},
                )
        files = [file for each in committables for file in each.files]
        actions: list[Any] = [AddAction(**file, data_change=True) for file in files]
        how = "append"
        if mode is WriteMode.OVERWRITE or (mode is WriteMode.OVERWRITE_PARTITIONS and not partition_by):
            how = "overwrite"
        elif mode is WriteMode.OVERWRITE_PARTITIONS:
            actions += _removals(self._name, self._table, files, partition_by)
        # deltalake would repeat a refused commit without a look at what has been committed meanwhile.
        properties = CommitProperties(
            custom_metadata=job_metadata(committables),
            max_commit_retries=0,
            app_transactions=[Transaction(_application(each), each.number) for each in committables],
        )
        try:
            self._table.create_write_transaction(
                actions, how, self._table.schema(), partition_by, commit_properties=properties
            )
        except CommitFailedError:
            return False
        return True


def _application(committable: TableCommittable) -> str:
    return f"flinkpy-{committable.job_id}-{committable.writer_id}"


def _removals(name: str, table: Any, files: Sequence[Mapping[str, Any]], partition_by: list[str]) -> list[Any]:
    """Returns the removals of the files in the partitions of the new files."""
    import pyarrow as pa
    from deltalake.transaction import RemoveAction

    def key(values: Mapping[str, str | None]) -> tuple[str | None, ...]:
        return tuple(values[column] for column in partition_by)

    replaced = {key(file["partition_values"]) for file in files}
    with_vectors = _deleted_rows(name, pa.table(table.deletion_vectors().read_all()))
    now_ms = SystemClock().now_ms()
    removals = []
    for action in _add_actions(table).to_pylist():
        values = {column: _partition_text(action["partition"][column]) for column in partition_by}
        if key(values) not in replaced:
            continue
        path = unquote(action["path"])
        if path in with_vectors:
            raise UnsupportedOperationError(
                f"table {name}: a partition to be replaced has deletion vectors, which deltalake cannot remove. Run "
                "REORG TABLE ... APPLY (PURGE), or overwrite the whole table",
                details={"table": name},
            )
        removals.append(RemoveAction(action["path"], True, now_ms, action["size_bytes"], values))
    return removals


def _check_writable(name: str, table: Any) -> None:
    """Raises: UnsupportedOperationError if files of the sink could break a rule of the table."""
    configuration, protocol = table.metadata().configuration, table.protocol()
    reasons = [key for key in configuration if key.startswith("delta.constraints.")]
    if configuration.get("delta.columnMapping.mode", "none") != "none":
        reasons.append("delta.columnMapping.mode")
    for field in json.loads(table.schema().to_json())["fields"]:
        reasons += [key for key in field["metadata"] if key in _COLUMN_RULES]
    if protocol.min_writer_version > _LAST_VERSION_WITHOUT_FEATURES:
        reasons += sorted(set(protocol.writer_features or ()) - _WRITER_FEATURES)
    if reasons:
        raise UnsupportedOperationError(
            f"table {name} has {', '.join(reasons)}, which the sink does not support", details={"table": name}
        )


#: Rules of columns that the sink does not apply.
_COLUMN_RULES = frozenset({"delta.invariants", "delta.generationExpression", "delta.identity.start", "CURRENT_DEFAULT"})


class _DeltaWriter(DataFileWriter):
    def __init__(self, source: DeltaLakeTable, table: Any) -> None:
        self._name = source.name
        self._file_system = source.file_system()
        self._partition_by = list(table.metadata().partition_columns)
        self.schema = _schema_of(table)
        self.layout = json.dumps(self._partition_by)

    def write(self, table: pa.Table) -> list[dict[str, Any]]:
        with _errors_of(self._name):
            return [self._write_file(part, values) for values, part in _partitions(table, self._partition_by)]

    def _write_file(self, table: pa.Table, values: dict[str, str | None]) -> dict[str, Any]:
        import pyarrow.parquet as pq

        # Partition values are in the log, so the name of the directory carries no meaning.
        path = f"part-{uuid.uuid4()}.snappy.parquet"
        with self._file_system.open_output_stream(path) as stream:
            pq.write_table(table, stream, compression="snappy")
        return {
            "path": path,
            "size": self._file_system.get_file_info(path).size,
            "partition_values": values,
            "modification_time": SystemClock().now_ms(),
            "stats": json.dumps(file_statistics(table)),
        }

    def delete(self, files: Sequence[dict[str, Any]]) -> None:
        with _errors_of(self._name):
            for file in files:
                self._file_system.delete_file(file["path"])


def _partitions(table: pa.Table, partition_by: list[str]) -> Iterator[tuple[dict[str, str | None], pa.Table]]:
    """Yields the records of each partition without the partition columns, and the partition's values as texts."""
    import pyarrow as pa

    if not partition_by:
        yield {}, table
        return
    kept = [name for name in table.column_names if name not in partition_by]
    numbered = table.select(partition_by).append_column("__row", pa.array(np.arange(table.num_rows)))
    for group in numbered.group_by(partition_by, use_threads=False).aggregate([("__row", "list")]).to_batches():
        for index in range(group.num_rows):
            values = {name: _partition_text(group.column(name)[index].as_py()) for name in partition_by}
            rows = group.column("__row_list")[index].values
            yield values, table.select(kept).take(rows)


def _partition_text(value: Any) -> str | None:
    """Returns a value as Delta's log has it. Source: the Delta protocol, "Partition Value Serialization"."""
    if value is None or value == "":
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime):
        utc = value if value.tzinfo is None else value.astimezone(UTC)
        return utc.strftime("%Y-%m-%d %H:%M:%S.%f")
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, bytes):
        return value.decode("latin-1").encode("unicode_escape").decode("ascii")
    return str(value)


def file_statistics(table: pa.Table) -> dict[str, Any]:
    """Returns the statistics of a data file: the number of records, and bounds of columns where they are exact enough.

    Bounds of floating-point numbers are left out, because NaN has no place among them.
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    lowest: dict[str, Any] = {}
    highest: dict[str, Any] = {}
    nulls: dict[str, int] = {}
    for field in table.schema:
        kind, values = field.type, table.column(field.name)
        if pa.types.is_nested(kind):
            continue
        nulls[field.name] = values.null_count
        known = (
            pa.types.is_integer(kind)
            or pa.types.is_string(kind)
            or pa.types.is_date(kind)
            or pa.types.is_timestamp(kind)
        )
        if not known or values.null_count == len(values):
            continue
        bounds = pc.min_max(values).as_py()
        least, most = bounds["min"], bounds["max"]
        if isinstance(least, str) and max(len(least), len(most)) > _MAX_STATISTICS_CHARACTERS:
            continue
        lowest[field.name], highest[field.name] = _bound(least, False), _bound(most, True)
    return {"numRecords": table.num_rows, "minValues": lowest, "maxValues": highest, "nullCount": nulls}


def _bound(value: Any, is_upper: bool) -> Any:
    """Returns a bound for JSON. Times have milliseconds there, so an upper one is rounded up."""
    if isinstance(value, datetime):
        if is_upper and value.microsecond % 1000:
            value += timedelta(milliseconds=1)
        zone = "" if value.tzinfo is None else "Z"
        return value.strftime("%Y-%m-%dT%H:%M:%S.") + f"{value.microsecond // 1000:03d}{zone}"
    return value.isoformat() if isinstance(value, date) else value
