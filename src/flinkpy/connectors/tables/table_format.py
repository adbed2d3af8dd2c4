"""The interface between TableSource and TableSink and the formats of tables: Iceberg and Delta."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from flinkpy.connectors.write_mode import WriteMode

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkpy.expressions.nodes import Expression

#: The key of the job in the metadata of a version.
JOB_ID = "flinkpy.job-id"


@dataclass(frozen=True, slots=True)
class TableVersion:
    """The version that a program asks for. At most one field is set; without any it is the newest version.

    Attributes:
        number: the id of a snapshot (Iceberg) or the number of a version (Delta).
        timestamp_ms: the newest version that is not later, in milliseconds since 1970.
        reference: the name of a branch or tag (Iceberg).
    """

    number: int | None = None
    timestamp_ms: int | None = None
    reference: str | None = None


@dataclass(frozen=True, slots=True)
class TableSplit:
    """A data file of a table.

    Attributes:
        file: what the format needs to read the file. Pickled with the split.
        predicate: records for which it is not true may be missing. It belongs to the split, because `rows_done` counts
            the records that are left.
        rows_done: the number of records that have been emitted.
    """

    split_id: str
    file: Any
    size_bytes: int
    predicate: Expression | None = None
    rows_done: int = 0


class TableSnapshot(ABC):
    """One version of a table, which never changes. Pickled into the JobGraph.

    Attributes:
        name: the name of the table, for errors and logs.
        schema: the columns of this version.
    """

    name: str
    schema: pa.Schema

    @abstractmethod
    def list_splits(self, predicate: Expression | None) -> list[TableSplit]:
        """Returns the data files that may have records for which the predicate is true. Blocks.

        Raises: TableError, UnsupportedOperationError.
        """

    @abstractmethod
    def read(self, split: TableSplit, columns: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Yields the records of a split, always the same ones in the same order.

        Yields: `RecordBatch` with at least the given columns, by name.
        Raises: TableError.
        """

    def estimated_size_bytes(self) -> int | None:
        """Returns the size of the data files, if it is known without reading the list of files."""
        return None


@dataclass(frozen=True, slots=True)
class TableCommittable:
    """Data files that one writer has written, and that belong to one commit.

    Attributes:
        job_id: the job. Commits name it.
        writer_id: a random id of the writer. Another attempt of a writer has another id.
        number: counts the committables of the writer, from 1. A writer's committables are committed in this order.
        layout: identifies the layout of partitions that the files have.
        files: plain descriptions of the files, which only the format knows. They do not depend on the release of the
            library that writes the table, because checkpoints contain them.
    """

    job_id: str
    writer_id: str
    number: int
    layout: str
    files: tuple[dict[str, Any], ...]


def job_metadata(committables: Sequence[TableCommittable]) -> dict[str, str]:
    """Returns the metadata with which a version of a table names the jobs of its committables."""
    return {JOB_ID: ",".join(sorted({each.job_id for each in committables}))}


class DataFileWriter(ABC):
    """Writes data files that no version of the table contains yet. Thread: task thread."""

    #: The columns of the table.
    schema: pa.Schema
    #: As in TableCommittable.
    layout: str

    @abstractmethod
    def write(self, table: pa.Table) -> list[dict[str, Any]]:
        """Writes the records to new files, one or more per partition, and returns their descriptions.

        Args:
            table: `Table[schema=self.schema]`.
        """

    @abstractmethod
    def delete(self, files: Sequence[dict[str, Any]]) -> None:
        """Deletes files that will not be committed."""


class SinkTable(ABC):
    """A table to write to. Pickled into the JobGraph."""

    name: str

    @abstractmethod
    def open_writer(self) -> DataFileWriter:
        """Returns a writer for the present schema and partitioning of the table. Raises: TableError."""

    @abstractmethod
    def open(self) -> AbstractContextManager[OpenTable]:
        """Connects to the table and reads its newest version. Raises: TableError."""


class OpenTable(ABC):
    """The newest version of a table, to which a committer adds another one."""

    @abstractmethod
    def committed(self, committables: Sequence[TableCommittable]) -> list[TableCommittable]:
        """Returns those of the committables that the version contains."""

    @abstractmethod
    def try_commit(self, committables: Sequence[TableCommittable], mode: WriteMode) -> bool:
        """Makes the next version of the table with the files.

        Returns: False if somebody else has made the next version.
        Raises: TableError, CommitError.
        """
