"""Avro files of tables: they are read into columns, and written from columns.

Source: org.apache.flink.formats.avro.AvroFileFormatFactory.
"""

from __future__ import annotations

import bz2
import json
import lzma
import os
import zlib
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any, BinaryIO

from flinkpy.common.errors import InputFormatError
from flinkpy.formats.avro_container import MAGIC, SYNC_BYTES, counted, snappy_block, write_long
from flinkpy.formats.avro_schema import AvroSchema, load_fastavro
from flinkpy.formats.bad_records import FAIL
from flinkpy.formats.bulk_writer import BulkWriter, ColumnBulkWriterFactory
from flinkpy.formats.file_format import BulkFormat, FileBatchReader, FileSourceSplit
from flinkpy.formats.input_files import is_compressed
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.formats.avro_schemas import without_logical_types
from flinkpy.table.formats.message_schemas import record_type_of

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkpy.records.batch import Batch

#: Size from which a block is written, as Avro's own writer has it.
_BLOCK_BYTES = 64_000


class AvroTableFiles(BulkFormat):
    """Reads the columns of a table from files with any schema. A column that a file does not have is null."""

    def __init__(self, row_type: RowType) -> None:
        load_fastavro()
        self._row_type = row_type

    @property
    def produced_type(self) -> Any:
        return record_type_of(self._row_type)

    def is_splittable(self, path: str) -> bool:
        return not is_compressed(path)

    def projected_to(self, columns: list[str]) -> AvroTableFiles:
        fields = {field.name: field for field in self._row_type.fields}
        return AvroTableFiles(RowType(tuple(fields[name] for name in columns)))

    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        from flinkpy.formats.avro_format import AvroReader
        from flinkpy.table.formats.avro_columns import AvroColumns

        batch_of = partial(_batch_of, AvroColumns(self._row_type), split.path)
        return AvroReader(split, None, max_batch_rows, self.on_error == FAIL, batch_of, without_logical_types)


def _batch_of(columns: Any, path: str, records: list[Any]) -> Batch:
    from flinkpy.records.batch import Batch
    from flinkpy.table.formats.avro import COLUMN_ERRORS

    try:
        return Batch(columns.batch_of(records))
    except COLUMN_ERRORS as error:
        raise InputFormatError(
            f"{path}: the records do not fit the columns of the table: {error}", details={"path": path}
        ) from error


class AvroTableFileWriterFactory(ColumnBulkWriterFactory):
    """Writes files.

    Args:
        schema: the schema of the rows.
        codec: the compression.
    """

    def __init__(self, row_type: RowType, schema: AvroSchema, codec: str) -> None:
        super().__init__(record_type_of(row_type))
        load_fastavro()
        self._logical_type = row_type
        self._schema = schema
        self._codec = codec

    def create(self, file: BinaryIO, input_type: Any) -> BulkWriter:
        return _AvroFileWriter(self, file, input_type, self._logical_type, self._schema, self._codec)


def _zstandard(data: bytes) -> bytes:
    import pyarrow as pa

    return bytes(pa.Codec("zstd").compress(data, asbytes=True))


def _deflate(data: bytes) -> bytes:
    packer = zlib.compressobj(wbits=-15)
    return packer.compress(data) + packer.flush()


_COMPRESSIONS: dict[str, Callable[[bytes], bytes]] = {
    "null": bytes,
    "deflate": _deflate,
    "snappy": snappy_block,
    "bzip2": bz2.compress,
    "xz": lzma.compress,
    "zstandard": _zstandard,
}


class _AvroFileWriter:
    """Writes one file. Thread: task thread."""

    def __init__(
        self,
        factory: AvroTableFileWriterFactory,
        file: BinaryIO,
        input_type: Any,
        row_type: RowType,
        schema: AvroSchema,
        codec: str,
    ) -> None:
        from flinkpy.table.formats.avro import AvroCoder
        from flinkpy.table.formats.avro_columns import AvroColumns

        self._factory = factory
        self._file = file
        self._input_type = input_type
        self._row_type = row_type
        self._columns = AvroColumns(row_type)
        self._coder = AvroCoder(schema)
        self._compress = _COMPRESSIONS[codec]
        self._sync = os.urandom(SYNC_BYTES)
        self._records: list[bytes] = []
        self._size = 0
        metadata = {"avro.schema": json.dumps(schema.definition), "avro.codec": codec}
        entries = b"".join(counted(key.encode()) + counted(text.encode()) for key, text in metadata.items())
        file.write(MAGIC + write_long(len(metadata)) + entries + write_long(0) + self._sync)

    def add(self, batch: Batch) -> None:
        rows = self._logical(self._factory.columns_of(batch, self._input_type))
        for record in self._coder.encode(self._columns.records_of(rows)):
            self._records.append(record)
            self._size += len(record)
            if self._size >= _BLOCK_BYTES:
                self._write_block()

    def finish(self) -> None:
        if self._records:
            self._write_block()

    def discard(self) -> None:
        return

    def _logical(self, rows: pa.RecordBatch) -> pa.RecordBatch:
        from flinkpy.records.batch import Batch
        from flinkpy.records.lanes import to_columns
        from flinkpy.sql.types.internal_type_info import InternalTypeInfo

        found: pa.RecordBatch = to_columns(Batch(rows), InternalTypeInfo(self._row_type)).values
        return found

    def _write_block(self) -> None:
        count, records, self._records, self._size = len(self._records), b"".join(self._records), [], 0
        self._file.write(write_long(count) + counted(self._compress(records)) + self._sync)
