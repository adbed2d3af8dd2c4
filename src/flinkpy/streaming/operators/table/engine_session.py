"""EngineSession: an in-memory database of DuckDB that computes one query. The only module that imports duckdb.

Tables that do not fit in memory, and intermediate results, are written to a directory by the engine.
"""

from __future__ import annotations

import inspect
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from flinkpy.common.errors import FlinkError, TableRuntimeError, UnsupportedOperationError
from flinkpy.graph.table_specs import EngineFiles, EngineFunction, EngineTable
from flinkpy.sql.functions.evaluation import compile_expressions
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.sql.types.arrow import arrow_type_of, schema_of

#: Rows that are given to the engine at once. Each time costs about a millisecond.
_INSERT_ROWS = 1 << 17
#: Characters of patterns of file names.
_PATTERN = frozenset("*?[]{}")
#: The rows of a batch of the result: 16 of the engine's vectors.
RESULT_ROWS = 1 << 15


class EngineSession:
    """Thread: one at a time; `interrupt` any.

    Args:
        num_threads: the threads of the engine.
        memory_bytes: what the engine may use before it writes to `directory`.
        directory: for files of the engine. It is removed by `close`.
        owner: names the operator in errors.

    Raises:
        UnsupportedOperationError: duckdb is not installed.
    """

    def __init__(self, num_threads: int, memory_bytes: int, directory: Path, owner: str) -> None:
        try:
            import duckdb
        except ImportError as error:
            raise UnsupportedOperationError(
                f"{owner}: this part of the query was planned for DuckDB, which is not installed on this host: "
                "pip install 'flinkpy[duckdb]', or set table.exec.batch.engine to OPERATORS"
            ) from error
        self._engine: Any = duckdb
        self._owner = owner
        self._directory = directory
        self._error: FlinkError | None = None
        self._waiting: dict[str, list[pa.RecordBatch]] = {}
        settings = {
            "threads": num_threads,
            "memory_limit": f"{max(memory_bytes >> 20, 1)}MiB",
            "temp_directory": str(directory),
            # Nothing is downloaded, and no settings or secrets of the user are read.
            "autoinstall_known_extensions": False,
            "autoload_known_extensions": False,
            "allow_persistent_secrets": False,
            "preserve_insertion_order": False,
        }
        self._connection: Any = self._engine.connect(":memory:", config=settings)
        self._connection.execute("SET TimeZone = 'UTC'")

    # -- tables and functions ----------------------------------------------------------------------------------------

    def add_function(self, function: EngineFunction, settings: SessionSettings) -> None:
        """Adds a function that a kernel computes."""
        compiled = compile_expressions([function.expression], settings)
        names = [str(place) for place in range(len(function.types))]
        schema = pa.schema([(name, arrow_type_of(kind)) for name, kind in zip(names, function.types)])
        # The threads of the engine take turns.
        lock = threading.Lock()

        def compute(*columns: Any) -> pa.Array:
            arrays = [_as_array(column, field.type) for column, field in zip(columns, schema)]
            try:
                with lock:
                    values = compiled.evaluate(pa.RecordBatch.from_arrays(arrays, schema=schema))[0]
            except FlinkError as error:
                self._error = error
                raise
            return _for_engine(values)

        # The engine asks for the number of parameters.
        parameters = [inspect.Parameter(f"c{name}", inspect.Parameter.POSITIONAL_ONLY) for name in names]
        compute.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        self._connection.create_function(
            function.name,
            compute,
            [self._engine.type(each) for each in function.engine_types],
            self._engine.type(function.result_type),
            type="arrow",
            null_handling="special",
        )

    def add_table(self, table: EngineTable) -> None:
        """Creates a table without rows."""
        columns = ", ".join(f"c{place} {kind}" for place, kind in enumerate(table.engine_types))
        self._connection.execute(f"CREATE TABLE {table.name} ({columns})")
        self._waiting[table.name] = []

    def add_files(self, files: EngineFiles, should_stop: Callable[[], bool]) -> None:
        """Makes a table of Parquet files: they are read by the query if they have exactly the types of the table, and
        otherwise now, by flinkpy.

        Args:
            should_stop: is asked before each batch that flinkpy reads. True ends the reading early.
        """
        paths = [path for path, _ in files.source.list_files()]
        schema = schema_of(files.row_type.row_type)
        if paths and all(_is_plain(path) and _has_columns(path, files.columns, schema) for path in paths):
            listed = ", ".join(_quoted(path) for path in paths)
            columns = ", ".join(
                f'CAST("{name.replace(chr(34), chr(34) * 2)}" AS {kind}) AS c{place}'
                for place, (name, kind) in enumerate(zip(files.columns, files.engine_types))
            )
            self._run(
                f"CREATE VIEW {files.name} AS SELECT {columns} FROM read_parquet([{listed}], hive_partitioning = false)"
            )
            return
        self.add_table(EngineTable(files.name, files.engine_types))
        for split in files.source.list_splits(1):
            if should_stop():
                return
            reader = files.source.reading_format.open(split, RESULT_ROWS)
            try:
                while not should_stop() and (batch := reader.read_batch()) is not None:
                    if batch.num_rows:
                        self.insert(files.name, batch.values)
            finally:
                reader.close()

    def insert(self, name: str, rows: pa.RecordBatch) -> None:
        """Adds rows to a table."""
        waiting = self._waiting[name]
        waiting.append(rows)
        if sum(each.num_rows for each in waiting) >= _INSERT_ROWS:
            self._flush(name)

    def _flush(self, name: str) -> None:
        waiting = self._waiting[name]
        if not waiting:
            return
        self._waiting[name] = []
        self._connection.register("arriving", pa.Table.from_batches(waiting))
        self._run(f"INSERT INTO {name} SELECT * FROM arriving")
        self._connection.unregister("arriving")

    # -- the query ---------------------------------------------------------------------------------------------------

    def run(self, query: str, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
        """Yields the result in batches of a schema.

        Raises:
            TableRuntimeError: a value has no result, or the engine lacks memory or disk.
        """
        for name in self._waiting:
            self._flush(name)
        reader = self._guarded(lambda: self._connection.sql(query).to_arrow_reader(RESULT_ROWS))
        while True:
            batch = self._guarded(lambda: next(reader, None))
            if batch is None:
                return
            if batch.num_rows:
                columns = [column.cast(field.type) for column, field in zip(batch.columns, schema)]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)

    def _run(self, statement: str) -> None:
        self._guarded(lambda: self._connection.execute(statement))

    def _guarded(self, call: Callable[[], Any]) -> Any:
        try:
            return call()
        except (self._engine.Error, pa.ArrowException, OSError) as error:
            if self._error is not None:
                raise self._error from error
            if isinstance(error, self._engine.OutOfMemoryException):
                raise TableRuntimeError(
                    f"{self._owner}: DuckDB needs more memory than execution.batch.column-operator.memory allows, or "
                    f"more disk in {self._directory}: {error}"
                ) from error
            if isinstance(error, self._engine.OutOfRangeException):
                raise TableRuntimeError(
                    f"{self._owner}: a value is too large for DuckDB. Set table.exec.batch.engine to OPERATORS: "
                    f"there a sum with more than 38 digits is NULL: {error}"
                ) from error
            raise TableRuntimeError(f"{self._owner}: DuckDB cannot compute the query: {error}") from error

    def interrupt(self) -> None:
        """Makes a running query fail. Any thread."""
        self._connection.interrupt()

    def close(self) -> None:
        """Ends the session and removes its files."""
        self._waiting.clear()
        self._connection.close()
        shutil.rmtree(self._directory, ignore_errors=True)


def _is_plain(path: str) -> bool:
    """True for a path that the engine does not take for a pattern."""
    return _PATTERN.isdisjoint(path)


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


def _as_array(column: Any, kind: pa.DataType) -> pa.Array:
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    return array if array.type == kind else array.cast(kind)


def _for_engine(values: pa.Array) -> pa.Array:
    """Returns values in the types that the engine accepts: its timestamps have microseconds or nanoseconds."""
    if pa.types.is_timestamp(values.type) and values.type.unit in ("s", "ms"):
        return values.cast(pa.timestamp("us", values.type.tz))
    return values


def _has_columns(path: str, names: tuple[str, ...], schema: pa.Schema) -> bool:
    """True if a file has these columns, with the types of a schema."""
    try:
        found = pq.read_schema(path)
    except (pa.ArrowException, OSError):
        # The reader of the format says what is wrong with it.
        return False
    if len({each.lower() for each in found.names}) < len(found.names):
        # The engine takes names that differ in case only as one column.
        return False
    return all(
        name in found.names and _plain(found.field(name).type) == field.type for name, field in zip(names, schema)
    )


def _plain(kind: pa.DataType) -> pa.DataType:
    """Returns the type of the values of a column, whose Arrow layout the file does not tell."""
    if isinstance(kind, pa.DictionaryType):
        kind = kind.value_type
    if pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return pa.string()
    if pa.types.is_large_binary(kind) or pa.types.is_binary_view(kind):
        return pa.binary()
    return kind
