"""AvroFormat: records of Avro object container files.

Source: org.apache.flink.formats.avro.AvroInputFormat. Differs: a file is read by several subtasks, block by block.
"""

from __future__ import annotations

import io
import json
import struct
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InputFormatError
from flinkpy.formats.avro_container import (
    MAGIC,
    SYNC_BYTES,
    Block,
    DamagedBlockError,
    decompressed,
    find_block,
    read_block,
    read_header,
    write_long,
)
from flinkpy.formats.avro_rows import row_type_of_avro, to_row_converter
from flinkpy.formats.avro_schema import AvroSchema, GenericRecordAvroTypeInfo, load_fastavro
from flinkpy.formats.bad_records import FAIL, BadRecord
from flinkpy.formats.file_format import BulkFormat, FileBatchReader, FilePosition, FileSourceSplit
from flinkpy.formats.input_files import is_compressed, open_random

if TYPE_CHECKING:
    from flinkpy.formats.slicing import PlacedBadRecord
    from flinkpy.records.batch import Batch

#: Blocks are decoded together until so much is there: the schema is looked at once for all of them.
_DECODE_BYTES = 4 << 20
#: So much of a damaged part of a file is given as a bad record.
_DAMAGED_BYTES = 64 << 10
#: What fastavro raises for bytes that are not a record of the schema.
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
    """Reads records as `schema` has them, whatever older or newer schema they were written with.

    Args:
        as_rows: give Rows of `row_type_of_avro(schema)`, instead of dicts.
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
        convert = None if self._row_type is None else to_row_converter(self._row_type)
        return _AvroReader(split, self.schema, max_batch_rows, self.on_error == FAIL, convert)


class _AvroReader:
    """Thread: task thread."""

    def __init__(
        self, split: FileSourceSplit, schema: AvroSchema, max_batch_rows: int, fails: bool, convert: Any
    ) -> None:
        from flinkpy.formats.slicing import SlicedPieces

        self._fastavro = load_fastavro()
        self._split = split
        self._max_batch_rows = max_batch_rows
        self._fails = fails
        self._convert = convert
        self._ready = SlicedPieces(max_batch_rows)
        self._file = open_random(split.path)
        try:
            self._header = read_header(self._file, split.path)
            self._writer_schema = self._parse(self._header.schema)
            #: None: the records are as they were written, which is faster.
            self._reader_schema = None if self._header.schema == schema.definition else schema.parsed
            start = split.reading_offset
            self._position = self._find(split.offset) if start is None else start
        except BaseException:
            self._file.close()
            raise
        #: Of a container without compression, which the blocks are decoded in.
        text = json.dumps(self._header.schema).encode()
        metadata = write_long(1) + _counted(b"avro.schema") + _counted(text) + write_long(0)
        self._plain_header = MAGIC + metadata + self._header.sync

    def _parse(self, schema: Any) -> Any:
        try:
            return self._fastavro.parse_schema(schema)
        except (*DECODE_ERRORS, self._fastavro.schema.SchemaParseException) as error:
            raise self._error("the schema in its header is none", error) from error

    @property
    def batch_position(self) -> FilePosition:
        """Offsets are those of blocks."""
        return self._ready.position

    @property
    def bad_records(self) -> list[PlacedBadRecord]:
        return self._ready.bad_records

    def read_batch(self) -> Batch | None:
        from flinkpy.records.batch import Batch

        while not self._ready:
            # A block belongs to the split that its preceding marker begins in.
            if self._position - SYNC_BYTES >= self._split.end or self._position >= self._split.file_size:
                return None
            start = self._position
            blocks, damage = self._read_blocks()
            records, bad = self._decode(blocks)
            if damage is not None:
                bad.append((len(records) + len(bad), damage))
            if self._convert is not None:
                records = list(map(self._convert, records))
            self._ready.add(Batch(records), start, bad)
        return self._ready.take()

    def _read_blocks(self) -> tuple[list[Block], BadRecord | None]:
        """Some blocks, and what there is behind them in the place of a block."""
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
            raise self._error("it was written with a schema that does not fit", error) from error
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
                    # Where the next record begins, nobody knows.
                    lost = block.num_records - index - 1
                    what = f"block at byte {block.start}, record {index} cannot be read"
                    if lost:
                        what += f", and so are the {lost} after it in the block"
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


def _counted(data: bytes) -> bytes:
    return write_long(len(data)) + data


def avro_schema_of_file(path: str) -> AvroSchema:
    """What the file was written with.

    Raises:
        InputNotFoundError, InputFormatError
    """
    file = open_random(path)
    try:
        return AvroSchema(json.dumps(read_header(file, path).schema))
    finally:
        file.close()
