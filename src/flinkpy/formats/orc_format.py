"""OrcFormat: rows of ORC files in columns. Beyond PyFlink, which only writes ORC.

Source: org.apache.flink.orc.OrcColumnarRowInputFormat.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import InputFormatError, TypeMismatchError
from flinkpy.common.typeinfo import RowTypeInfo
from flinkpy.formats.bad_records import FAIL, BadRecord
from flinkpy.formats.file_format import BulkFormat, FileBatchReader, FilePosition, FileSourceSplit
from flinkpy.formats.input_files import not_found_error, open_arrow_file
from flinkpy.formats.parquet_format import find_columns, projected_type
from flinkpy.formats.row_types import project_row_type

if TYPE_CHECKING:
    from flinkpy.formats.slicing import PlacedBadRecord
    from flinkpy.records.batch import Batch


class OrcFormat(BulkFormat):
    """Reads the columns of `row_type`, found by name; batches are `RecordBatch[schema=arrow_schema(row_type)]`.

    The stripes of a file are shared among its splits by their numbers: the k-th of n belongs to the split with the k-th
    n-th part of the file's bytes. A stripe that cannot be read counts as one bad record.
    """

    def __init__(self, row_type: RowTypeInfo) -> None:
        self.row_type = row_type

    @property
    def produced_type(self) -> Any:
        return self.row_type

    def projected_to(self, columns: list[str]) -> OrcFormat | None:
        # A stripe that cannot be read is a bad record: which ones are depends on what is read.
        return OrcFormat(project_row_type(self.row_type, columns)) if self.on_error == FAIL else None

    def is_splittable(self, path: str) -> bool:
        return True

    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        return _OrcReader(split, self.row_type, max_batch_rows, self.on_error == FAIL)


class _OrcReader:
    """Thread: task thread."""

    def __init__(self, split: FileSourceSplit, row_type: RowTypeInfo, max_batch_rows: int, fails: bool) -> None:
        from flinkpy.formats.slicing import SlicedPieces

        self._path = split.path
        self._row_type = row_type
        self._fails = fails
        self._file = open_orc(split.path)
        self._columns = find_columns(split.path, self._file.schema.names, row_type.get_field_names())
        first = split.reading_offset or 0
        count = self._file.nstripes
        #: Those that have not been read.
        self._stripes = [
            stripe for stripe in range(first, count) if split.offset <= split.file_size * stripe // count < split.end
        ]
        self._ready = SlicedPieces(max_batch_rows)

    @property
    def batch_position(self) -> FilePosition:
        """Offsets are numbers of stripes in the file."""
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
    """The `pyarrow.orc.ORCFile`.

    Raises:
        InputNotFoundError: missing or unreadable.
        InputFormatError: no ORC file.
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
    """The type of a file's rows, or of some of its columns in the given order."""
    return projected_type(path, open_orc(path).schema, columns)
