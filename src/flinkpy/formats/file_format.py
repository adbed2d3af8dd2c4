"""FileFormat: the interface of formats that a FileSource reads. `StreamFormat` is for lines, `BulkFormat` for blocks.

Source: org.apache.flink.connector.file.src.reader.{StreamFormat, BulkFormat}. Differs: both return batches.
"""

from __future__ import annotations

import copy
from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.formats.bad_records import FAIL, checked_on_error

if TYPE_CHECKING:
    from flinkpy.formats.text_line import TextLineFormat
    from flinkpy.records.batch import Batch


class FilePosition(NamedTuple):
    """A place between two records of a split, from which a restored reader continues.

    Source: org.apache.flink.connector.file.src.util.CheckpointedPosition.
    """

    #: An offset from which the format can begin to read (it defines its meaning), or NO_OFFSET.
    offset: int
    #: Records between the offset and the place, including malformed ones. Without an offset, they count from the start
    #: of the split.
    records_after_offset: int


NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class FileSourceSplit:
    """The bytes `offset` to `offset + length` of a file of `file_size` bytes.

    The format decides which records belong to a split: for lines, those that start in the range; for Parquet, the row
    groups that start in it. Each record belongs to exactly one of the splits that cover the file.

    `position` is set if some records of the split have been read.
    """

    split_id: str
    path: str
    offset: int
    length: int
    file_size: int
    position: FilePosition | None = None

    @property
    def reading_offset(self) -> int | None:
        """The offset from which a restored reader continues; None means the start of the split."""
        if self.position is None or self.position.offset == NO_OFFSET:
            return None
        return self.position.offset

    @property
    def end(self) -> int:
        return self.offset + self.length


class FileBatchReader(Protocol):
    """Reads one split.

    It begins at `split.reading_offset`. The caller drops records after that offset that were read before.
    A reader may also have these attributes:

    * `batch_position`: the FilePosition of the first record of the last batch. Without it, a restored split is read
      from its start, and the records that were emitted before are skipped.
    * `bad_records`: the malformed records of the last batch, if the format's `on_error` is not "fail". Each is a pair:
      the number of records of the batch before it, good or bad, and the BadRecord.

    Thread: task thread.
    """

    def read_batch(self) -> Batch | None:
        """Returns the next batch, or None at the end. A batch is empty only if it has bad records."""
        ...

    def close(self) -> None: ...


class FileFormat(ABC):
    """A format that a FileSource reads. It is pickled into the job, so its module must not import pyarrow.

    Attributes:
        on_error: how malformed records are handled: "fail", "skip" or an OutputTag (`flinkpy.formats.bad_records`).
        knows_bad_records: False if the format supports only "fail".
        uses_spark_reader: True if Spark's own reader of the format may be used, which parses some texts otherwise.
        has_spark_reader: True if Spark has such a reader.
        offsets_are_bytes: True if the offsets of positions are bytes of the file.
    """

    on_error: Any = "fail"
    knows_bad_records = True
    uses_spark_reader = False
    has_spark_reader = False
    offsets_are_bytes = False

    def with_spark_reader(self) -> Any:
        """Returns a copy of this format that Spark may read by its own reader.

        Raises:
            UnsupportedOperationError: the format is not CSV or JSON.
        """
        if not self.has_spark_reader:
            raise UnsupportedOperationError(
                f"{type(self).__name__}: only CSV and JSON have a reader of Spark that differs from flinkpy's"
            )
        changed = copy.copy(self)
        changed.uses_spark_reader = True
        return changed

    def with_on_error(self, on_error: Any) -> Any:
        """Returns a copy of this format with another `on_error`.

        Args:
            on_error: "fail", "skip" or an OutputTag.

        Raises:
            UnsupportedOperationError: the format supports only "fail".
        """
        if checked_on_error(on_error) != FAIL and not self.knows_bad_records:
            raise UnsupportedOperationError(
                f"{type(self).__name__} has no malformed records: on_error can only be 'fail'"
            )
        changed = copy.copy(self)
        changed.on_error = on_error
        return changed

    def projected_to(self, columns: list[str]) -> FileFormat | None:
        """Returns a format that reads only these columns, in this order; None if this format reads all columns."""
        return None

    def filtered_by(self, predicate: Any) -> FileFormat | None:
        """Returns a format that may skip records for which the expression is not true; None if it cannot."""
        return None

    @property
    @abstractmethod
    def produced_type(self) -> Any:
        """The TypeInformation of the records."""

    @abstractmethod
    def is_splittable(self, path: str) -> bool:
        """True if several readers may share this file."""

    @abstractmethod
    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        """Returns a reader of the split. Its batches have at most `max_batch_rows` rows.

        Raises:
            InputNotFoundError: the file is missing or cannot be read.
            InputFormatError: the file has another format.
        """


class StreamFormat(FileFormat):
    """A format that is read line by line."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> TextLineFormat:
        """Returns a format whose records are the lines of a file, as STRING without the line end.

        Args:
            charset_name: the encoding of the files.
        """
        from flinkpy.formats.text_line import TextLineFormat

        return TextLineFormat(charset_name)


class BulkFormat(FileFormat):
    """A format that is read in blocks of records."""
