"""Reads and writes records in Avro files, which are object containers (`avro_container`).

A split is a range of bytes that may begin within a block. It owns the blocks whose preceding sync marker begins in its
range, so neighbouring splits agree on each block without communication.

Source: org.apache.flink.formats.avro.{AvroInputFormat, AvroWriters, AvroBulkWriter},
org.apache.avro.file.DataFileReader. Differs: several subtasks read a file, block by block.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

from flinkpy.common.errors import InputFormatError, TypeMismatchError
from flinkpy.common.types import Row
from flinkpy.formats.avro_container import (
    MAGIC,
    SYNC_BYTES,
    Block,
    DamagedBlockError,
    counted,
    decompressed,
    find_block,
    read_block,
    read_header,
    write_long,
)
from flinkpy.formats.avro_rows import plain_value, row_type_of_avro, to_row_converter
from flinkpy.formats.avro_schema import AvroSchema, GenericRecordAvroTypeInfo, load_fastavro
from flinkpy.formats.bad_records import FAIL, BadRecord
from flinkpy.formats.bulk_writer import BatchWriterFactory, BulkWriter
from flinkpy.formats.file_format import BulkFormat, FileBatchReader, FilePosition, FileSourceSplit
from flinkpy.formats.input_files import is_compressed, open_random

if TYPE_CHECKING:
    from flinkpy.formats.slicing import PlacedBadRecord
    from flinkpy.records.batch import Batch

#: Size of the blocks that are decoded together, so that the schema is processed once for all of them.
_DECODE_BYTES = 4 << 20
#: The maximum number of bytes of a damaged part of a file that its bad record contains.
_DAMAGED_BYTES = 64 << 10
#: Errors that fastavro raises for bytes that are not a record of the schema.
DECODE_ERRORS = (
    EOFError,
    IndexError,
    KeyError,
    ValueError,
    TypeError,
    OverflowError,
    AttributeError,
    ArithmeticError,
    MemoryError,
    struct.error,
)


class AvroFormat(BulkFormat):
    """Reads records in the form of `schema`. They may have been written with an older or newer schema.

    Args:
        schema: schema of the records.
        as_rows: return Rows of `row_type_of_avro(schema)` instead of dicts.
    """

    def __init__(self, schema: AvroSchema, as_rows: bool = False) -> None:
        load_fastavro()
        self.schema = schema
        self._row_type = row_type_of_avro(schema) if as_rows else None

    @property
    def produced_type(self) -> Any:
        return self._row_type or GenericRecordAvroTypeInfo(self.schema)

    def is_splittable(self, path: str) -> bool:
        return not is_compressed(path)

    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        from flinkpy.records.batch import Batch

        if self._row_type is None:
            return AvroReader(split, self.schema, max_batch_rows, self.on_error == FAIL, Batch)
        convert = to_row_converter(self._row_type)
        as_rows = lambda records: Batch(list(map(convert, records)))  # noqa: E731
        return AvroReader(split, self.schema, max_batch_rows, self.on_error == FAIL, as_rows)


class AvroReader:
    """Reads one split. Thread: task thread.

    Args:
        schema: the schema of the records; None for that of the file.
        batch_of: makes a batch of records.
        view: returns the schema to decode a file with, given that of the file, which has the same encoding.
    """

    def __init__(
        self,
        split: FileSourceSplit,
        schema: AvroSchema | None,
        max_batch_rows: int,
        fails: bool,
        batch_of: Callable[[list[Any]], Batch],
        view: Callable[[Any], Any] = lambda schema: schema,
    ) -> None:
        from flinkpy.formats.slicing import SlicedPieces

        self._fastavro = load_fastavro()
        self._split = split
        self._max_batch_rows = max_batch_rows
        self._fails = fails
        self._batch_of = batch_of
        self._ready = SlicedPieces(max_batch_rows)
        self._file = open_random(split.path)
        try:
            self._header = read_header(self._file, split.path)
            written = view(self._header.schema)
            self._writer_schema = self._parse(written)
            #: None if it equals the schema of the writer, which is faster.
            is_same = schema is None or schema.definition == self._header.schema
            self._reader_schema = None if schema is None or is_same else schema.parsed
            start = split.reading_offset
            self._position = self._find(split.offset) if start is None else start
        except BaseException:
            self._file.close()
            raise
        #: Header of an uncompressed container, in which decompressed blocks are decoded.
        text = json.dumps(written).encode()
        metadata = write_long(1) + counted(b"avro.schema") + counted(text) + write_long(0)
        self._plain_header = MAGIC + metadata + self._header.sync

    def _parse(self, schema: Any) -> Any:
        try:
            return self._fastavro.parse_schema(schema)
        except (*DECODE_ERRORS, self._fastavro.schema.SchemaParseException) as error:
            raise self._error("the schema in its header is invalid", error) from error

    @property
    def batch_position(self) -> FilePosition:
        """Position of the last batch. Its offset is that of a block."""
        return self._ready.position

    @property
    def bad_records(self) -> list[PlacedBadRecord]:
        return self._ready.bad_records

    def read_batch(self) -> Batch | None:
        while not self._ready:
            # A block belongs to the split in which its preceding sync marker begins.
            if self._position - SYNC_BYTES >= self._split.end or self._position >= self._split.file_size:
                return None
            start = self._position
            blocks, damage = self._read_blocks()
            records, bad = self._decode(blocks)
            if damage is not None:
                bad.append((len(records) + len(bad), damage))
            self._ready.add(self._batch_of(records), start, bad)
        return self._ready.take()

    def _read_blocks(self) -> tuple[list[Block], BadRecord | None]:
        """Reads some blocks. Returns them, and the damaged part after them or None."""
        blocks: list[Block] = []
        num_records = size_bytes = 0
        while (
            self._position - SYNC_BYTES < self._split.end
            and self._position < self._split.file_size
            and num_records < self._max_batch_rows
            and size_bytes < _DECODE_BYTES
        ):
            try:
                block = read_block(self._file, self._header, self._position, self._split.file_size)
                block = block._replace(data=decompressed(block.data, self._header.codec))
            except DamagedBlockError as error:
                return blocks, self._pass_damage(error)
            blocks.append(block)
            self._position = block.end
            num_records += block.num_records
            size_bytes += len(block.data)
        return blocks, None

    def _pass_damage(self, error: DamagedBlockError) -> BadRecord:
        start = self._position
        reason = f"{self._split.path}, byte {start}: {error}"
        if self._fails:
            details = {"path": self._split.path, "offset": str(start)}
            raise InputFormatError(f"{reason}; the file is damaged or truncated", details=details) from error
        self._position = self._find(start + 1)
        raw = self._file.read_at(min(_DAMAGED_BYTES, self._position - start), start)
        return BadRecord(raw, reason)

    def _find(self, offset: int) -> int:
        return find_block(self._file, self._header, offset, self._split.file_size)

    def _decode(self, blocks: list[Block]) -> tuple[list[Any], list[PlacedBadRecord]]:
        if not blocks:
            return [], []
        counts = (write_long(block.num_records) + write_long(len(block.data)) + block.data for block in blocks)
        content = self._plain_header + b"".join(part + self._header.sync for part in counts)
        try:
            return list(self._fastavro.reader(io.BytesIO(content), self._reader_schema)), []
        except self._fastavro.read.SchemaResolutionError as error:
            raise self._error("the schema it was written with does not fit", error) from error
        except DECODE_ERRORS:
            return self._decode_each(blocks)

    def _decode_each(self, blocks: list[Block]) -> tuple[list[Any], list[PlacedBadRecord]]:
        records: list[Any] = []
        bad: list[PlacedBadRecord] = []
        for block in blocks:
            data = io.BytesIO(block.data)
            for index in range(block.num_records):
                place = data.tell()
                try:
                    record = self._fastavro.schemaless_reader(data, self._writer_schema, self._reader_schema)
                except DECODE_ERRORS as error:
                    # The start of the next record is unknown.
                    lost = block.num_records - index - 1
                    what = f"block at byte {block.start}, record {index} cannot be read"
                    if lost:
                        what += f", and the {lost} after it in the block are lost"
                    failure = self._error(what, error)
                    if self._fails:
                        raise failure from error
                    bad.append((len(records) + len(bad), BadRecord(block.data[place:], str(failure))))
                    break
                records.append(record)
        return records, bad

    def _error(self, what: str, error: BaseException) -> InputFormatError:
        reason = str(error) or type(error).__name__
        return InputFormatError(f"{self._split.path}: {what}: {reason}", details={"path": self._split.path})

    def close(self) -> None:
        self._file.close()


def avro_schema_of_file(path: str) -> AvroSchema:
    """Returns the schema that a file was written with.

    Raises:
        InputNotFoundError: the file is missing or cannot be read.
        InputFormatError: the file is not an Avro file.
    """
    file = open_random(path)
    try:
        return AvroSchema(json.dumps(read_header(file, path).schema))
    finally:
        file.close()


#: Errors that fastavro raises for a record that does not match the schema.
ENCODE_ERRORS = (ValueError, TypeError, KeyError, AttributeError, OverflowError, ArithmeticError, IndexError)
_SHOWN_CHARACTERS = 200


class AvroBulkWriterFactory(BatchWriterFactory):
    """Writes Avro files with records of `schema`, uncompressed by default like Flink's."""

    def __init__(self, schema: AvroSchema, codec: str = "null") -> None:
        super().__init__()
        load_fastavro()
        self._schema = schema
        self._codec = codec

    def create(self, file: BinaryIO, input_type: Any) -> BulkWriter:
        return _AvroBulkWriter(file, self._schema, self._codec, input_type)


class _AvroBulkWriter:
    def __init__(self, file: BinaryIO, schema: AvroSchema, codec: str, input_type: Any) -> None:
        self._schema = schema
        self._input_type = input_type
        self._writer = load_fastavro().write.Writer(file, schema.parsed, codec=codec)

    def add(self, batch: Batch) -> None:
        from flinkpy.records.lanes import rows_of

        write = self._writer.write
        for record in rows_of(batch, self._input_type):
            try:
                write(plain_value(record))
            except ENCODE_ERRORS as error:
                raise mismatch_error(record, self._schema, error) from error

    def finish(self) -> None:
        self._writer.flush()

    def discard(self) -> None:
        return


def mismatch_error(record: Any, schema: AvroSchema, error: BaseException, converted: Any = None) -> TypeMismatchError:
    """Returns the error for a record that does not match the schema. It names the field if fastavro reports it.

    Args:
        record: the record.
        schema: the schema.
        error: the error of fastavro.
        converted: the record that fastavro got, if it is not `record`.
    """
    from fastavro.validation import ValidationError, validate

    reason = str(error) or type(error).__name__
    try:
        validate(plain_value(record if converted is None else converted), schema.parsed)
    except ValidationError as invalid:
        reason = " ".join(str(invalid).split())
    except ENCODE_ERRORS as invalid:
        if str(invalid) != reason:
            reason = f"{reason}; {invalid}"
    shown = repr(record)
    shown = shown if len(shown) <= _SHOWN_CHARACTERS else shown[:_SHOWN_CHARACTERS] + "..."
    kind = "Row" if isinstance(record, Row) else type(record).__name__
    return TypeMismatchError(
        f"{shown} ({kind}) does not match the Avro schema: {reason}", details={"value": shown, "schema": str(schema)}
    )
