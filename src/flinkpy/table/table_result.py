"""TableResult: what `execute_sql` and `Table.execute` return. Source: pyflink.table.table_result."""

from __future__ import annotations

import sys
import unicodedata
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from itertools import islice
from threading import Thread
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.interruptible import wait_for
from flinkpy.common.types import Row, RowKind
from flinkpy.sql.session_settings import DEFAULT_SETTINGS, SessionSettings
from flinkpy.sql.types.logical_types import (
    BinaryType,
    CharType,
    DateType,
    DecimalType,
    LocalZonedTimestampType,
    LogicalType,
    TimestampType,
    TimeType,
    VarBinaryType,
    VarCharType,
)
from flinkpy.table.catalog.resolved_schema import ResolvedSchema

if TYPE_CHECKING:
    import pyarrow as pa

    from flinkpy.common.job_client import JobClient
    from flinkpy.datastream.collected_results import CloseableIterator
    from flinkpy.records.batch import Batch

__all__ = ["ResultKind", "TableResult"]


class ResultKind:
    """How to read a TableResult."""

    #: The statement has succeeded and its only content is "OK".
    SUCCESS = 0
    #: The statement has succeeded, and the rows are worth reading.
    SUCCESS_WITH_CONTENT = 1


class TableResult:
    """The rows of a statement, and its job if it has one.

    The rows can be read once.

    Args:
        schema: the columns of the rows.
        rows: makes the iterator of the rows; None for a query.
        batches: of a query, makes the iterator of the rows as Batches.
        kind: a ResultKind.
        job_client: the job that makes the rows or writes them; None if there is none.
        max_column_width: the width at which printed values of any length are cut.
        has_row_kinds: True to print a column `op` with the kinds of changes.
        is_text: True to print the values of the only column as they are.
        settings: how values are written when they are printed.
    """

    def __init__(
        self,
        schema: ResolvedSchema,
        rows: Callable[[], Iterator[Row]] | None = None,
        kind: int = ResultKind.SUCCESS_WITH_CONTENT,
        job_client: JobClient | None = None,
        *,
        batches: Callable[[], Iterator[Batch]] | None = None,
        max_column_width: int = 30,
        has_row_kinds: bool = False,
        is_text: bool = False,
        settings: SessionSettings = DEFAULT_SETTINGS,
    ) -> None:
        self._schema = schema
        self._rows = rows
        self._batches = batches
        self._kind = kind
        self._job_client = job_client
        self._max_column_width = max_column_width
        self._has_row_kinds = has_row_kinds
        self._is_text = is_text
        self._settings = settings
        #: The batches of a query, once they are read.
        self._opened: _Batches | None = None
        #: Done when `wait` has waited.
        self._awaited: Future[Any] | None = None

    @staticmethod
    def ok() -> TableResult:
        """Returns the result of a statement without rows."""
        schema = ResolvedSchema.physical(("result", VarCharType()))
        return TableResult(schema, lambda: iter([Row("OK")]), ResultKind.SUCCESS)

    @staticmethod
    def of_rows(schema: ResolvedSchema, rows: Sequence[Sequence[Any]]) -> TableResult:
        """Returns the result of a statement that lists something."""
        return TableResult(schema, lambda: iter([Row(*row) for row in rows]), max_column_width=MAX_LISTED_WIDTH)

    @staticmethod
    def of_text(text: str) -> TableResult:
        """Returns the result of a statement that writes a text, such as EXPLAIN. It is printed without a table.

        Source: org.apache.flink.table.utils.print.RawContentStyle.
        """
        schema = ResolvedSchema.physical(("result", VarCharType()))
        return TableResult(schema, lambda: iter([Row(text)]), is_text=True)

    def get_job_client(self) -> JobClient | None:
        """Returns a client of the job; None if the statement has none."""
        return self._job_client

    @property
    def has_row_kinds(self) -> bool:
        """True if the rows are changes of several kinds. Not part of PyFlink's API."""
        return self._has_row_kinds

    def wait(self, timeout_ms: int | None = None) -> None:
        """Waits until the first row of a query can be read, or until the job of an INSERT has ended.

        Raises:
            TimeoutError: that is not so after the time.
            JobExecutionError: the job failed.
        """
        if self._job_client is None:
            return
        timeout_s = None if timeout_ms is None else timeout_ms / 1000
        if self._awaited is None:
            self._awaited = Future()
            reader = Thread(target=_settle, args=(self._awaited, self._await), name="table-result", daemon=True)
            reader.start()
        if not wait_for(self._awaited, timeout_s):
            raise TimeoutError(f"the result is not there after {timeout_ms} ms")
        self._awaited.result()

    def _await(self) -> None:
        """Waits for the first row of a query, or for the end of a job that writes."""
        assert self._job_client is not None
        if self._batches is None:
            self._job_client.get_job_execution_result().result()
        else:
            self._begin().wait()

    def _open(self) -> _Batches:
        """Returns the batches, which only one thread may read."""
        if self._awaited is not None:
            wait_for(self._awaited)
            self._awaited.result()
        return self._begin()

    def _begin(self) -> _Batches:
        assert self._batches is not None
        if self._opened is None:
            self._opened = _Batches(self._batches())
        return self._opened

    def _read(self) -> Iterator[Row]:
        if self._rows is not None:
            return self._rows()
        return _RowsOfBatches(self._open(), self._schema)

    def get_resolved_schema(self) -> ResolvedSchema:
        """Returns the columns of the rows. Beyond PyFlink."""
        return self._schema

    def get_result_kind(self) -> int:
        """Returns a value of ResultKind."""
        return self._kind

    def collect(self) -> CloseableIterator:
        """Returns an iterator of the rows, each with its RowKind. Closing it early cancels the job."""
        from flinkpy.datastream.collected_results import CloseableIterator

        return CloseableIterator(_Closeable(self._read()))

    def collect_batches(self) -> CloseableIterator:
        """Returns an iterator of the rows in columns, as `collect` does in Python objects. Beyond PyFlink.

        Returns:
            RecordBatches with the Arrow types of the columns. If the query has changes, a first column `op` (int8)
            has their RowKinds. Closing it early cancels the job.

        Raises: UnsupportedOperationError if the statement is no query.
        """
        from flinkpy.datastream.collected_results import CloseableIterator

        if self._batches is None:
            raise UnsupportedOperationError("Only the rows of a query come in columns: use collect() here.")
        return CloseableIterator(_Columns(self._open(), self._has_row_kinds))

    def print(self) -> None:
        """Prints the rows to standard output as a table. For a query without end it prints for ever."""
        for line in self.lines():
            sys.stdout.write(f"{line}\n")
            sys.stdout.flush()

    def lines(self) -> Iterator[str]:
        """Yields the lines of `print`. Beyond PyFlink.

        Source: org.apache.flink.table.utils.print.TableauStyle.
        """
        names = list(self._schema.column_names)
        if self._kind == ResultKind.SUCCESS:
            yield "OK"
        elif self._is_text:
            yield from (line for (text,) in self._read() for line in text.splitlines())
        elif self._batches is None:
            texts = [[_text(value) for value in row] for row in self._read()]
            widths = [
                min(max(map(_width, (name, *(each[place] for each in texts)))), self._max_column_width)
                for place, name in enumerate(names)
            ]
            yield from self._table(names, widths, [True] * len(names), iter(texts))
        else:
            types = [column.type for column in self._schema.columns]
            widths = [
                min(max(_type_width(kind), _width(name)), self._max_column_width) for name, kind in zip(names, types)
            ]
            if self._has_row_kinds:
                names, widths = ["op", *names], [2, *widths]
            yield from self._table(names, widths, [False] * len(names), self._rendered())

    def _rendered(self) -> Iterator[list[str]]:
        """Yields the texts of each row of a query, after that of its kind."""
        from flinkpy.table.value_texts import ValueTexts

        values = ValueTexts(self._schema.to_row_type(), self._settings)
        for batch in self._open():
            columns = values.of(batch.values)
            if self._has_row_kinds:
                kinds = [0] * batch.num_rows if batch.kinds is None else batch.kinds.tolist()
                columns = [[_SHORT[RowKind(kind)] for kind in kinds], *columns]
            yield from (list(each) for each in zip(*columns))

    def _table(
        self, names: list[str], widths: list[int], is_left: list[bool], rows: Iterator[list[str]]
    ) -> Iterator[str]:
        border = "+" + "+".join("-" * (width + 2) for width in widths) + "+"
        count = 0
        for count, texts in enumerate(rows, 1):
            if count == 1:
                yield from (border, _line(names, widths, is_left), border)
            yield _line(texts, widths, is_left)
        if not count:
            yield "Empty set"
            return
        yield border
        yield f"{count} row{'' if count == 1 else 's'} in set"


#: Listings show whole names.
MAX_LISTED_WIDTH = 1 << 30
_SHORT = {
    RowKind.INSERT: "+I",
    RowKind.UPDATE_BEFORE: "-U",
    RowKind.UPDATE_AFTER: "+U",
    RowKind.DELETE: "-D",
}
#: The widths of values, by type, that Flink prints before it knows all rows.
_WIDTHS = {"BOOLEAN": 7, "TINYINT": 4, "SMALLINT": 6, "INTEGER": 11, "BIGINT": 20, "FLOAT": 30, "DOUBLE": 30}
_LONGEST = 1 << 20


def _type_width(kind: LogicalType) -> int:
    known = _WIDTHS.get(kind.root.value)
    if known is not None:
        return known
    if isinstance(kind, DecimalType):
        return kind.precision + 2
    if isinstance(kind, DateType):
        return 10
    if isinstance(kind, TimeType):
        return 8 if kind.precision == 0 else 9 + kind.precision
    if isinstance(kind, (TimestampType, LocalZonedTimestampType)):
        return 19 if kind.precision == 0 else 20 + kind.precision
    if isinstance(kind, (CharType, VarCharType, BinaryType, VarBinaryType)):
        return min(kind.length, _LONGEST)
    return _LONGEST


def _text(value: Any) -> str:
    if value is None:
        return "<NULL>"
    return str(value).upper() if isinstance(value, bool) else str(value)


def _width(text: str) -> int:
    """Returns the columns of a terminal that a text takes."""
    return sum(2 if unicodedata.east_asian_width(each) in "WF" else 1 for each in text)


def _line(texts: Sequence[str], widths: Sequence[int], is_left: Sequence[bool]) -> str:
    return "|" + "|".join(f" {_fitted(*each)} " for each in zip(texts, widths, is_left)) + "|"


def _fitted(text: str, width: int, is_left: bool) -> str:
    missing = width - _width(text)
    if missing < 0:
        cut, used = "", 0
        for character in text:
            used += _width(character)
            if used > width - 3:
                break
            cut += character
        text = cut + "..."
        missing = width - _width(text)
    return text + " " * missing if is_left else " " * missing + text


def _settle(pending: Future[Any], action: Callable[[], None]) -> None:
    try:
        action()
        pending.set_result(None)
    except BaseException as error:  # noqa: BLE001 - raised by the waiting thread
        pending.set_exception(error)


class _Batches(Iterator["Batch"]):
    """Batches with rows, the first of which can be waited for."""

    def __init__(self, batches: Any) -> None:
        self._batches = batches
        self._first: list[Batch] = []

    def wait(self) -> None:
        """Waits for the first batch, or for the end."""
        if not self._first:
            self._first = [*islice(self, 1)]

    def __next__(self) -> Batch:
        if self._first:
            return self._first.pop()
        return next(batch for batch in self._batches if batch.num_rows)

    def close(self) -> None:
        self._batches.close()


class _RowsOfBatches(Iterator[Row]):
    """The rows of batches as Python objects, with their kinds."""

    def __init__(self, batches: _Batches, schema: ResolvedSchema) -> None:
        from flinkpy.records.lanes import rows_of
        from flinkpy.sql.types.internal_type_info import InternalTypeInfo

        type_info = InternalTypeInfo(schema.to_row_type())
        self._batches = batches
        self._rows = (row for batch in batches for row in rows_of(batch, type_info))

    def __next__(self) -> Row:
        return next(self._rows)

    def close(self) -> None:
        self._batches.close()


class _Columns(Iterator["pa.RecordBatch"]):
    """The columns of Batches, after their kinds."""

    def __init__(self, batches: _Batches, has_kinds: bool) -> None:
        self._batches = batches
        self._has_kinds = has_kinds

    def __next__(self) -> pa.RecordBatch:
        import numpy as np
        import pyarrow as pa

        batch = next(self._batches)
        columns = batch.values
        assert isinstance(columns, pa.RecordBatch)
        if not self._has_kinds:
            return columns
        kinds = np.zeros(batch.num_rows, np.int8) if batch.kinds is None else batch.kinds
        return columns.add_column(0, pa.field("op", pa.int8(), nullable=False), pa.array(kinds))

    def close(self) -> None:
        self._batches.close()


class _Closeable(Iterator[Row]):
    """An iterator with `close`, which closes the job's results if the rows come from a job."""

    def __init__(self, rows: Iterator[Row]) -> None:
        self._rows = rows

    def __next__(self) -> Row:
        return next(self._rows)

    def close(self) -> None:
        close = getattr(self._rows, "close", None)
        if close is not None:
            close()
