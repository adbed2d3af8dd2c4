"""The contract of a file format that can be read: `StreamFormat` for lines, `BulkFormat` for files in blocks.

Source: org.apache.flink.connector.file.src.reader.{StreamFormat, BulkFormat}. Differs: both give batches.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

if TYPE_CHECKING:
    from flinkpy.formats.text_line import TextLineFormat
    from flinkpy.records.batch import Batch


@dataclass(frozen=True, slots=True)
class FileSourceSplit:
    """The bytes `offset` to `offset + length` of a file of `file_size` bytes.

    What belongs to it is the format's rule, and every part of the file belongs to exactly one of the splits that cover
    it: to a line format the lines that start in the range, to Parquet the row groups that start in it.
    """

    split_id: str
    path: str
    offset: int
    length: int
    file_size: int

    @property
    def end(self) -> int:
        return self.offset + self.length


class FileBatchReader(Protocol):
    """A split that is being read. Thread: task thread."""

    def read_batch(self) -> Batch | None:
        """The next batch, never an empty one; None at the end."""
        ...

    def close(self) -> None: ...


class FileFormat(ABC):
    """What FileSource needs to know. Pickled into the job, so it must not import pyarrow with its class."""

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
