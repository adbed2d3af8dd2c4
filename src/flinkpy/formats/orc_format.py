"""Reads and writes ORC files as columns. Reading is beyond PyFlink.

Source: org.apache.flink.orc.{OrcColumnarRowInputFormat, writer.OrcBulkWriterFactory}.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, BinaryIO

from flinkpy.common.errors import InputFormatError, TypeMismatchError, UnsupportedOperationError
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.formats.bad_records import FAIL, BadRecord
from flinkpy.formats.bulk_writer import BulkWriter, ColumnBulkWriterFactory
from flinkpy.formats.file_format import BulkFormat, FileBatchReader, FilePosition, FileSourceSplit
from flinkpy.formats.input_files import not_found_error, open_arrow_file
from flinkpy.formats.parquet_format import find_columns, projected_type
from flinkpy.formats.row_types import project_row_type

if TYPE_CHECKING:
    from flinkpy.formats.slicing import PlacedBadRecord
    from flinkpy.records.batch import Batch


class OrcFormat(BulkFormat):
    """Reads the columns of `row_type` by name. Batches are `RecordBatch[schema=arrow_schema(row_type)]`.

    Stripes are assigned to splits by number: stripe k of n belongs to the split that contains byte k * size / n of the
    file. A damaged stripe counts as one bad record.
    """

    def __init__(self, row_type: RowTypeInfo) -> None:
        self.row_type = row_type

    @property
    def produced_type(self) -> Any:
        return self.row_type

    def projected_to(self, columns: list[str]) -> OrcFormat | None:
        # Without other columns, a damaged stripe might not be found, which would change the bad records.
        return OrcFormat(project_row_type(self.row_type, columns)) if self.on_error == FAIL else None

    def is_splittable(self, path: str) -> bool:
        return True

    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        return _OrcReader(split, self.row_type, max_batch_rows, self.on_error == FAIL)


class _OrcReader:
    """Reads one split. Thread: task thread."""

    def __init__(self, split: FileSourceSplit, row_type: RowTypeInfo, max_batch_rows: int, fails: bool) -> None:
        from flinkpy.formats.slicing import SlicedPieces

        self._path = split.path
        self._row_type = row_type
        self._fails = fails
        self._file = open_orc(split.path)
        self._columns = find_columns(split.path, self._file.schema.names, row_type.get_field_names())
        first = split.reading_offset or 0
        count = self._file.nstripes
        #: Numbers of the stripes that have not been read.
        self._stripes = [
            stripe for stripe in range(first, count) if split.offset <= split.file_size * stripe // count < split.end
        ]
        self._ready = SlicedPieces(max_batch_rows)

    @property
    def batch_position(self) -> FilePosition:
        """Position of the last batch. Its offset is the number of a stripe."""
        return self._ready.position

    @property
    def bad_records(self) -> list[PlacedBadRecord]:
        return self._ready.bad_records

    def read_batch(self) -> Batch | None:
        import pyarrow as pa

        from flinkpy.records.batch import Batch
        from flinkpy.records.lanes import conform

        while not self._ready:
            if not self._stripes:
                return None
            stripe = self._stripes.pop(0)
            try:
                columns = self._file.read_stripe(stripe, self._columns)
                self._ready.add(Batch(conform(columns.select(self._columns), self._row_type)), stripe)
            except TypeMismatchError as error:
                raise InputFormatError(f"{self._path}: {error}", details={"path": self._path}) from error
            except (pa.ArrowException, OSError) as error:
                what = f"{self._path}, stripe {stripe}: {error}"
                if self._fails:
                    details = {"path": self._path, "stripe": str(stripe)}
                    raise InputFormatError(f"{what}; the file is damaged", details=details) from error
                self._ready.add(Batch([]), stripe, [(0, BadRecord(b"", what))])
        return self._ready.take()

    def close(self) -> None:
        self._file = None


def open_orc(path: str) -> Any:
    """Opens a file as `pyarrow.orc.ORCFile`.

    Raises:
        InputNotFoundError: the file is missing or cannot be read.
        InputFormatError: the file is not an ORC file.
    """
    import pyarrow as pa
    from pyarrow import orc

    file = open_arrow_file(path)
    try:
        return orc.ORCFile(file)
    except pa.ArrowException as error:
        raise InputFormatError(f"{path} is not an ORC file: {error}", details={"path": path}) from error
    except OSError as error:
        if error.errno is None:
            raise InputFormatError(f"{path} is not an ORC file: {error}", details={"path": path}) from error
        raise not_found_error(path, error) from error


def orc_row_type(path: str, columns: list[str] | None) -> RowTypeInfo:
    """Returns the type of a file's rows, or of the given columns in their order."""
    return projected_type(path, open_orc(path).schema, columns)


#: ORC properties of Flink's writer_properties, with their names in pyarrow.
_PROPERTIES = {
    "orc.compress": "compression",
    "orc.stripe.size": "stripe_size",
    "orc.compress.size": "compression_block_size",
    "orc.row.index.stride": "row_index_stride",
}
#: Defaults of Flink's writer.
DEFAULT_WRITER_SETTINGS: dict[str, Any] = {"compression": "zlib"}


def orc_settings(properties: dict[str, str]) -> dict[str, Any]:
    """Returns the arguments of `pyarrow.orc.ORCWriter`.

    Raises:
        UnsupportedOperationError: a property is unknown.
        ValueError: a number is malformed.
    """
    settings = dict(DEFAULT_WRITER_SETTINGS)
    for key, value in properties.items():
        name = _PROPERTIES.get(key)
        if name is None:
            raise UnsupportedOperationError(
                f"ORC writer property {key!r} is unknown; known are {', '.join(sorted(_PROPERTIES))}"
            )
        text = str(value).lower()
        settings[name] = ("uncompressed" if text == "none" else text) if name == "compression" else int(value)
    return settings


class OrcBulkWriterFactory(ColumnBulkWriterFactory):
    """Writes ORC files.

    Args:
        row_type: the columns of the files; None means those of the stream.
        settings: arguments of `pyarrow.orc.ORCWriter`.
    """

    def __init__(self, row_type: RowTypeInfo | None, settings: dict[str, Any] | None = None) -> None:
        super().__init__(row_type)
        self._settings = dict(DEFAULT_WRITER_SETTINGS if settings is None else settings)

    def create(self, file: BinaryIO, input_type: Any) -> BulkWriter:
        return _OrcBulkWriter(self, file, input_type, self._settings)


class _OrcBulkWriter:
    def __init__(
        self, factory: OrcBulkWriterFactory, file: BinaryIO, input_type: Any, settings: dict[str, Any]
    ) -> None:
        self._factory = factory
        self._file = file
        self._input_type = input_type
        self._settings = settings
        self._writer: Any = None

    def add(self, batch: Batch) -> None:
        import pyarrow as pa
        from pyarrow import orc

        columns = self._factory.columns_of(batch, self._input_type)
        if self._writer is None:
            self._writer = orc.ORCWriter(self._file, **self._settings)
        try:
            self._writer.write(pa.Table.from_batches([columns]))
        except pa.ArrowNotImplementedError as error:
            raise TypeMismatchError(f"ORC cannot hold the columns {columns.schema}: {error}") from error

    def finish(self) -> None:
        if self._writer is not None:
            self._writer.close()

    def discard(self) -> None:
        import pyarrow as pa

        writer, self._writer = self._writer, None
        if writer is not None:
            try:
                writer.close()
            except (OSError, ValueError, pa.ArrowException):
                # The file is discarded, most likely because of the same error, e.g. a full disk.
                return
