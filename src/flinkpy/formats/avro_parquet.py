"""Reads and writes Avro records in Parquet files.

Source: org.apache.flink.formats.parquet.avro.{AvroParquetReaders, AvroParquetWriters}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from flinkpy.common.errors import TypeMismatchError
from flinkpy.formats.avro_schema import AvroSchema, GenericRecordAvroTypeInfo, load_fastavro
from flinkpy.formats.bad_records import FAIL
from flinkpy.formats.bulk_writer import BatchWriterFactory, BulkWriter, RowGroupWriter
from flinkpy.formats.file_format import FileBatchReader, FilePosition, FileSourceSplit, StreamFormat

if TYPE_CHECKING:
    from flinkpy.formats.avro_arrow import AvroColumns
    from flinkpy.formats.parquet_format import RowGroups
    from flinkpy.formats.slicing import PlacedBadRecord
    from flinkpy.records.batch import Batch


class AvroParquetFormat(StreamFormat):
    """Reads records of `schema` as dicts. Other columns of the files are skipped."""

    def __init__(self, schema: AvroSchema) -> None:
        from flinkpy.formats.avro_arrow import AvroColumns

        load_fastavro()
        AvroColumns(schema)  # raises now if columns cannot hold the records
        self.schema = schema

    @property
    def produced_type(self) -> Any:
        return GenericRecordAvroTypeInfo(self.schema)

    def is_splittable(self, path: str) -> bool:
        return True

    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        from flinkpy.formats.avro_arrow import AvroColumns
        from flinkpy.formats.parquet_format import RowGroups, open_parquet

        columns = AvroColumns(self.schema)
        file = open_parquet(split.path)
        names = columns.column_names(split.path, file.schema_arrow.names)
        return _AvroParquetReader(RowGroups(split, file, names, max_batch_rows, self.on_error == FAIL), columns)


class _AvroParquetReader:
    """Reads one split. Thread: task thread."""

    def __init__(self, groups: RowGroups, columns: AvroColumns) -> None:
        self._groups = groups
        self._columns = columns

    @property
    def batch_position(self) -> FilePosition:
        return self._groups.position

    @property
    def bad_records(self) -> list[PlacedBadRecord]:
        return self._groups.bad_records

    def read_batch(self) -> Batch | None:
        from flinkpy.records.batch import Batch

        columns = self._groups.read()
        if columns is None:
            return None
        return Batch([] if self._groups.bad_records else self._columns.records_of(columns))

    def close(self) -> None:
        self._groups.close()


class AvroParquetWriterFactory(BatchWriterFactory):
    """Writes records of `schema` to Parquet files, which also contain the schema."""

    def __init__(self, schema: AvroSchema) -> None:
        super().__init__()
        load_fastavro()
        self._schema = schema

    def create(self, file: BinaryIO, input_type: Any) -> BulkWriter:
        return _AvroParquetWriter(file, self._schema, input_type)


class _AvroParquetWriter:
    def __init__(self, file: BinaryIO, schema: AvroSchema, input_type: Any) -> None:
        from flinkpy.formats.avro_arrow import AvroColumns

        self._schema = schema
        self._columns = AvroColumns(schema)
        self._input_type = input_type
        self._groups = RowGroupWriter(file)

    def add(self, batch: Batch) -> None:
        import pyarrow as pa

        from flinkpy.formats.avro_format import ENCODE_ERRORS
        from flinkpy.formats.avro_rows import plain_value
        from flinkpy.records.lanes import rows_of

        records = [plain_value(record) for record in rows_of(batch, self._input_type)]
        try:
            self._groups.add(self._columns.columns_of(records))
        except (*ENCODE_ERRORS, pa.ArrowException) as error:
            raise self._first_mismatch(records, error) from error

    def _first_mismatch(self, records: list[Any], error: BaseException) -> TypeMismatchError:
        import pyarrow as pa

        from flinkpy.formats.avro_format import ENCODE_ERRORS, mismatch_error

        for record in records:
            try:
                self._columns.columns_of([record])
            except (*ENCODE_ERRORS, pa.ArrowException) as found:
                return mismatch_error(record, self._schema, found)
        return TypeMismatchError(f"the records do not fit the Avro schema {self._schema}: {error}")

    def finish(self) -> None:
        self._groups.finish()

    def discard(self) -> None:
        self._groups.discard()
