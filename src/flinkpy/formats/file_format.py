"""The contract of a file format that can be read: `StreamFormat` for lines, `BulkFormat` for files in blocks.

Source: org.apache.flink.connector.file.src.reader.{StreamFormat, BulkFormat}. Differs: both give batches.
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
    """A place between two records of a split, where a restored reader goes on.

    Source: org.apache.flink.connector.file.src.util.CheckpointedPosition.
    """

    #: Where the format can begin to read: an offset that it gave itself, or NO_OFFSET.
    offset: int
    #: Records from there on that come before the place, also those that could not be read; from the start of the split
    #: where there is no offset.
    records_after_offset: int


NO_OFFSET = -1


@dataclass(frozen=True, slots=True)
class FileSourceSplit:
    """The bytes `offset` to `offset + length` of a file of `file_size` bytes.

    What belongs to it is the format's rule, and every part of the file belongs to exactly one of the splits that cover
    it: to a line format the lines that start in the range, to Parquet the row groups that start in it.

    `position` is set where some of its records have been read.
    """

    split_id: str
    path: str
    offset: int
    length: int
    file_size: int
    position: FilePosition | None = None

    @property
    def reading_offset(self) -> int | None:
        """Where a format that gives offsets goes on; None: at the start of the split."""
        if self.position is None or self.position.offset == NO_OFFSET:
            return None
        return self.position.offset

    @property
    def end(self) -> int:
        return self.offset + self.length


class FileBatchReader(Protocol):
    """A split that is being read. Thread: task thread.

    It begins at `split.reading_offset`; records after that offset which have been read before are taken off by the
    caller. Beside these methods it may have

    * `batch_position`, the FilePosition of the first record of the batch last read. Without, a restored split is read
      from its start, and passed over as far as it has been emitted;
    * `bad_records`, where the format's `on_error` is not "fail": those among the records of the batch last read, as
      (how many records of this batch come before it, good or bad; the BadRecord).
    """

    def read_batch(self) -> Batch | None:
        """The next batch, an empty one only with bad records; None at the end."""
        ...

    def close(self) -> None: ...


class FileFormat(ABC):
    """What FileSource needs to know. Pickled into the job, so it must not import pyarrow with its class.

    Attributes:
        on_error: what becomes of records that cannot be read: "fail", "skip" or an OutputTag
            (`flinkpy.formats.bad_records`). A format that does not know more than "fail" sets `knows_bad_records`.
    """

    on_error: Any = "fail"
    knows_bad_records = True

    def with_on_error(self, on_error: Any) -> Any:
        """A copy of this format. Raises: UnsupportedOperationError where this format only fails."""
        if checked_on_error(on_error) != FAIL and not self.knows_bad_records:
            raise UnsupportedOperationError(
                f"{type(self).__name__} has no records that cannot be read by themselves: on_error can only be 'fail'"
            )
        changed = copy.copy(self)
        changed.on_error = on_error
        return changed

    def projected_to(self, columns: list[str]) -> FileFormat | None:
        """A format that reads only these columns, in this order; None: this one reads all."""
        return None

    def filtered_by(self, predicate: Any) -> FileFormat | None:
        """A format that may leave out records for which the expression is not true; None: this one does not."""
        return None

    @property
    @abstractmethod
    def produced_type(self) -> Any:
        """TypeInformation of the records."""

    @abstractmethod
    def is_splittable(self, path: str) -> bool:
        """Whether several readers may share this file."""

    @abstractmethod
    def open(self, split: FileSourceSplit, max_batch_rows: int) -> FileBatchReader:
        """Raises InputNotFoundError, InputFormatError."""


class StreamFormat(FileFormat):
    """A format that is read line by line."""

    @staticmethod
    def text_line_format(charset_name: str = "UTF-8") -> TextLineFormat:
        """Each line is a STRING, without its line end."""
        from flinkpy.formats.text_line import TextLineFormat

        return TextLineFormat(charset_name)


class BulkFormat(FileFormat):
    """A format that is read in blocks of records."""
