"""Iceberg tables through pyiceberg.

Some of pyiceberg's functions that are used here are private, because its public ones write a file and commit it in one
step, or hold a whole data file in memory. So the extra `iceberg` names the releases that are known to have them.
"""

from __future__ import annotations

import dataclasses
import itertools
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

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

#: The key of the committables in the summary of a snapshot, as `writer:number,writer:number`.
COMMITTED = "flinkpy.committed"

#: The fields of a data file that commits need, in pyiceberg's names.
_FILE_FIELDS = (
    "file_path",
    "partition",
    "record_count",
    "file_size_in_bytes",
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
    "split_offsets",
    "sort_order_id",
)
#: The fields that readers need. Statistics would make splits many times larger.
_SPLIT_FIELDS = ("file_path", "partition", "record_count", "file_size_in_bytes")
_MAIN_BRANCH = "main"


@contextmanager
def _errors_of(name: str) -> Iterator[None]:
    """Raises errors of pyiceberg and of its storage as errors that name the table."""
    try:
        from pyiceberg.exceptions import NoSuchNamespaceError, NoSuchTableError
    except ImportError as error:
        raise UnsupportedOperationError(
            f"Iceberg tables need pyiceberg, which cannot be imported ({error}): pip install 'flinkpy[iceberg]'"
        ) from error
    try:
        yield
    except FlinkError:
        raise
    except (NoSuchTableError, NoSuchNamespaceError, FileNotFoundError) as error:
        raise InputNotFoundError(f"table {name}: {error}", details={"table": name}) from error
    except Exception as error:
        raise TableError(f"table {name}: {type(error).__name__}: {error}", details={"table": name}) from error


@dataclass(frozen=True)
class IcebergTable:
    """Names an Iceberg table: one of a catalog, or one at a path.

    Attributes:
        name: catalog, namespace and table, or the path.
        catalog: the name of the catalog; None for a table at a path.
        properties: the properties of the catalog, or of the storage.
    """

    name: str
    catalog: str | None
    properties: Mapping[str, str] = dataclasses.field(repr=False)  # may have secrets

    format = "iceberg"

    @staticmethod
    def of_catalog(identifier: str, properties: Mapping[str, str] | None) -> IcebergTable:
        parts = identifier.split(".") if isinstance(identifier, str) else []
        if len(parts) < 3 or not all(parts):
            raise ConfigurationError(
                f"{identifier!r} does not name a table: give catalog, namespace and table, such as 'lake.sales.orders'"
            )
        return IcebergTable(identifier, parts[0], dict(properties or {}))

    @staticmethod
    def of_path(path: str, properties: Mapping[str, str] | None) -> IcebergTable:
        return IcebergTable(path.rstrip("/"), None, dict(properties or {}))

    @contextmanager
    def open(self) -> Iterator[Any]:
        """Yields pyiceberg's Table with the newest metadata. Raises: InputNotFoundError, TableError."""
        with _errors_of(self.name):
            from pyiceberg.catalog import load_catalog
            from pyiceberg.table import StaticTable

            if self.catalog is None:
                yield StaticTable.from_metadata(self.name, dict(self.properties))
                return
            catalog = load_catalog(self.catalog, **self.properties)
            try:
                yield catalog.load_table(self.name.split(".", 1)[1])
            finally:
                catalog.close()

    def snapshot(self, version: TableVersion) -> IcebergSnapshot:
        """Returns a version of the table. Raises: InputNotFoundError, TableError."""
        with self.open() as table:
            found = _find_snapshot(table, version)
            if found is None and version != TableVersion():
                known = ", ".join(str(each.snapshot_id) for each in table.snapshots())
                raise InputNotFoundError(
                    f"table {self.name} has no {_describe(version)}; its snapshots are {known or 'none'}",
                    details={"table": self.name},
                )
            schema = table.schema()
            if version != TableVersion() and found is not None and found.schema_id is not None:
                # An earlier version has its own columns; the newest has those of the table.
                schema = table.schemas()[found.schema_id]
            return IcebergSnapshot(
                table=self,
                metadata_location=table.metadata_location,
                io_properties=dict(table.io.properties),
                snapshot_id=None if found is None else found.snapshot_id,
                is_newest=version == TableVersion(),
                size_bytes=None if found is None else _total_size(found),
                schema_id=schema.schema_id,
                schema=_arrow_schema(schema),
            )


def _find_snapshot(table: Any, version: TableVersion) -> Any:
    if version.number is not None:
        return table.snapshot_by_id(version.number)
    if version.timestamp_ms is not None:
        return table.snapshot_as_of_timestamp(version.timestamp_ms)
    if version.reference is not None:
        return table.snapshot_by_name(version.reference)
    return table.current_snapshot()


def _describe(version: TableVersion) -> str:
    if version.number is not None:
        return f"snapshot {version.number}"
    if version.timestamp_ms is not None:
        return f"snapshot at or before {version.timestamp_ms} ms since 1970"
    return f"branch or tag {version.reference!r}"


def _total_size(snapshot: Any) -> int | None:
    summary = snapshot.summary
    size = None if summary is None else summary.additional_properties.get("total-files-size")
    return None if size is None else int(size)


def _arrow_schema(schema: Any) -> pa.Schema:
    """Returns the columns of an Iceberg schema, without Iceberg's ids of fields."""
    from pyiceberg.io.pyarrow import schema_to_pyarrow

    return schema_to_pyarrow(schema, include_field_ids=False).remove_metadata()


@dataclass(frozen=True)
class IcebergSnapshot(TableSnapshot):
    """A snapshot of an Iceberg table.

    Attributes:
        metadata_location: the metadata file. Readers need no catalog, and see the table as the program has seen it.
        snapshot_id: None for a table that has no snapshot, and so no records.
        is_newest: True if the program asked for the newest version.
        schema_id: Iceberg's id of the schema.
    """

    table: IcebergTable
    metadata_location: str
    io_properties: dict[str, str] = dataclasses.field(repr=False)  # may have secrets
    snapshot_id: int | None
    is_newest: bool
    size_bytes: int | None
    schema_id: int
    schema: pa.Schema

    @property
    def name(self) -> str:  # type: ignore[override]
        return self.table.name

    def estimated_size_bytes(self) -> int | None:
        return self.size_bytes

    def _load(self) -> Any:
        from pyiceberg.table import StaticTable

        return StaticTable.from_metadata(self.metadata_location, self.io_properties)

    def _row_filter(self, table: Any, predicate: Expression | None) -> Any:
        from pyiceberg.expressions import AlwaysTrue

        # pyiceberg looks up the columns of filters in the newest schema, also for older snapshots.
        newest = {field.name for field in table.schema().fields}
        kinds = {name: kind for name, kind in comparable_columns(self.schema).items() if name in newest}
        found = to_filter(predicate, kinds, _IcebergFilters())
        return AlwaysTrue() if found is None else found

    def list_splits(self, predicate: Expression | None) -> list[TableSplit]:
        if self.snapshot_id is None:
            return []
        with _errors_of(self.name):
            table = self._load()
            scan = table.scan(row_filter=self._row_filter(table, predicate), snapshot_id=self.snapshot_id)
            try:
                tasks = list(scan.plan_files())
            except ValueError as error:
                # The only error of this kind: equality deletes.
                raise UnsupportedOperationError(
                    f"table {self.name}: {error}. Compact the table, or read it in Spark with Iceberg's jar",
                    details={"table": self.name},
                ) from error
            return [_split_of(number, task, predicate) for number, task in enumerate(tasks, 1)]

    def read(self, split: TableSplit, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        with _errors_of(self.name):
            from pyiceberg.io.pyarrow import ArrowScan, _read_all_delete_files
            from pyiceberg.table import FileScanTask

            table = self._load()
            file = _data_file(split.file["file"])
            deletes = {_data_file(each) for each in split.file["deletes"]}
            task = FileScanTask(data_file=file, delete_files=deletes)
            projected = table.schemas()[self.schema_id].select(*columns)
            reader = ArrowScan(table.metadata, table.io, projected, self._row_filter(table, split.predicate))
            positions = _read_all_delete_files(table.io, [task])
            yield from reader._record_batches_from_scan_tasks_and_deletes([task], positions)


def _split_of(number: int, task: Any, predicate: Expression | None) -> TableSplit:
    described = {
        "file": _plain(task.file, _SPLIT_FIELDS),
        "deletes": [_plain(each, _SPLIT_FIELDS) for each in task.delete_files],
    }
    return TableSplit(str(number), described, task.file.file_size_in_bytes, predicate)


def _plain(data_file: Any, fields: Sequence[str], spec_id: int | None = None) -> dict[str, Any]:
    """Returns fields of a data file as plain values, which do not depend on the release of pyiceberg."""
    made: dict[str, Any] = {
        "content": int(data_file.content),
        "file_format": str(data_file.file_format.value),
        "spec_id": data_file.spec_id if spec_id is None else spec_id,
    }
    for field in fields:
        value = getattr(data_file, field)
        if field == "partition":
            value = [value[index] for index in range(len(value))]
        elif isinstance(value, Mapping):
            value = dict(value)
        made[field] = value
    return made


def _data_file(plain: Mapping[str, Any]) -> Any:
    """Returns pyiceberg's DataFile for plain values."""
    from pyiceberg.manifest import DataFile, DataFileContent, FileFormat
    from pyiceberg.typedef import Record

    values = dict(plain)
    spec_id = values.pop("spec_id")
    values["content"] = DataFileContent(values["content"])
    values["file_format"] = FileFormat(values["file_format"])
    values["partition"] = Record(*values["partition"])
    made = DataFile.from_args(**values)
    made.spec_id = spec_id
    return made


#: The classes of pyiceberg for comparisons.
_COMPARISONS = {
    "equals": "EqualTo",
    "notEquals": "NotEqualTo",
    "lessThan": "LessThan",
    "lessThanOrEqual": "LessThanOrEqual",
    "greaterThan": "GreaterThan",
    "greaterThanOrEqual": "GreaterThanOrEqual",
}


class _IcebergFilters:
    """Makes pyiceberg's expressions."""

    def __init__(self) -> None:
        from pyiceberg import expressions

        self._made_by: Any = expressions

    def compare(self, function: str, column: str, value: Any) -> Any:
        return getattr(self._made_by, _COMPARISONS[function])(column, value)

    def is_in(self, column: str, values: list[Any]) -> Any:
        return self._made_by.In(column, set(values))

    def is_null(self, column: str) -> Any:
        return self._made_by.IsNull(column)

    def is_not_null(self, column: str) -> Any:
        return self._made_by.NotNull(column)

    def starts_with(self, column: str, prefix: str) -> Any:
        return self._made_by.StartsWith(column, prefix)

    def both(self, one: Any, other: Any) -> Any:
        return self._made_by.And(one, other)

    def either(self, one: Any, other: Any) -> Any:
        return self._made_by.Or(one, other)


class IcebergSinkTable(SinkTable):
    """An Iceberg table of a catalog. Each snapshot that a job makes names the job and the committables in its summary.

    Args:
        table: a table of a catalog, because only a catalog can make a new version of a table.
    """

    def __init__(self, table: IcebergTable) -> None:
        self._table = table
        self.name = table.name

    def open_writer(self) -> DataFileWriter:
        with self._table.open() as table:
            return _IcebergWriter(self.name, table.metadata, table.io)

    @contextmanager
    def open(self) -> Iterator[OpenTable]:
        with self._table.open() as table:
            yield _OpenIcebergTable(self.name, table)


class _OpenIcebergTable(OpenTable):
    def __init__(self, name: str, table: Any) -> None:
        self._name = name
        self._table = table

    def committed(self, committables: Sequence[TableCommittable]) -> list[TableCommittable]:
        highest: dict[str, int] = {}
        for snapshot in self._table.snapshots():
            summary = snapshot.summary
            listed = "" if summary is None else summary.additional_properties.get(COMMITTED, "")
            for entry in filter(None, listed.split(",")):
                writer_id, _, number = entry.partition(":")
                highest[writer_id] = max(int(number), highest.get(writer_id, 0))
        return [each for each in committables if highest.get(each.writer_id, 0) >= each.number]

    def try_commit(self, committables: Sequence[TableCommittable], mode: WriteMode) -> bool:
        from pyiceberg.exceptions import CommitFailedException, ValidationException

        table = self._table
        spec_id = table.metadata.default_spec_id
        for each in committables:
            if each.layout != str(spec_id):
                raise CommitError(
                    f"table {self._name}: its partitioning has changed from spec {each.layout} to {spec_id} since the "
                    "job wrote its files, so they cannot be committed. Start the job again",
                    details={"table": self._name},
                )
        files = [_data_file(plain) for each in committables for plain in each.files]
        summary = {
            **job_metadata(committables),
            COMMITTED: ",".join(f"{each.writer_id}:{each.number}" for each in committables),
        }
        # pyiceberg would repeat a refused commit without a look at what has been committed meanwhile.
        settings = {**table.metadata.properties, "commit.retry.num-retries": "0"}
        table.metadata = table.metadata.model_copy(update={"properties": settings})
        try:
            with table.transaction() as transaction:
                update = transaction.update_snapshot(snapshot_properties=summary)
                with update.merge_append() if mode is WriteMode.APPEND else update.overwrite() as producer:
                    for old in _files_to_replace(table, files, mode):
                        producer.delete_data_file(old)
                    for file in files:
                        producer.append_data_file(file)
        except (CommitFailedException, ValidationException):
            return False
        return True


def _files_to_replace(table: Any, files: Sequence[Any], mode: WriteMode) -> list[Any]:
    """Returns the data files of the newest snapshot that an overwrite removes."""
    from pyiceberg.manifest import ManifestContent

    snapshot = table.current_snapshot()
    if mode is WriteMode.APPEND or snapshot is None:
        return []
    spec_id = table.metadata.default_spec_id
    partitions = {file.partition for file in files}
    found = []
    for manifest in snapshot.manifests(table.io):
        if manifest.content != ManifestContent.DATA:
            continue
        for entry in manifest.fetch_manifest_entry(table.io, discard_deleted=True):
            file = entry.data_file
            if mode is WriteMode.OVERWRITE or (manifest.partition_spec_id == spec_id and file.partition in partitions):
                found.append(file)
    return found


class _IcebergWriter(DataFileWriter):
    def __init__(self, name: str, metadata: Any, io: Any) -> None:
        self._name = name
        self._metadata = metadata
        self._io = io
        self._write_id = uuid.uuid4()
        self._counter = itertools.count(0)
        self.schema = _arrow_schema(metadata.schema())
        self.layout = str(metadata.default_spec_id)

    def write(self, table: pa.Table) -> list[dict[str, Any]]:
        from pyiceberg.io.pyarrow import _dataframe_to_data_files

        with _errors_of(self._name):
            made = _dataframe_to_data_files(self._metadata, table, self._io, self._write_id, self._counter)
            return [_plain(file, _FILE_FIELDS, self._metadata.default_spec_id) for file in made]

    def delete(self, files: Sequence[dict[str, Any]]) -> None:
        with _errors_of(self._name):
            for file in files:
                self._io.delete(file["file_path"])
