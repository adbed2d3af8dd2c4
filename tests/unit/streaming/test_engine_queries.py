"""Operators of batch queries: the one that runs DuckDB, and the one that emits final rows."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from changelogs import Change, materialized, to_batch, to_changes, type_info
from hypothesis import given
from hypothesis import strategies as st
from streaming_fakes import OperatorHarness

from flinkpy.common.errors import InternalError, TableRuntimeError
from flinkpy.graph.table_specs import (
    EngineFiles,
    EngineFunction,
    EngineQuerySpec,
    EngineTable,
    FinalRowsSpec,
    SortField,
)
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MAX_WATERMARK, Watermark
from flinkpy.sql.rex import InputRef, RexCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import schema_of
from flinkpy.streaming.operators.table.engine_session import EngineSession

ROWS = type_info(k=lt.VarCharType(), v=lt.BigIntType())
NUMBERS = type_info(v=lt.BigIntType())


def engine_query(query: str, output: Any, *inputs: Any, functions: tuple[EngineFunction, ...] = ()) -> EngineQuerySpec:
    tables = tuple(
        EngineTable(f"input_{place}", tuple("VARCHAR" if each == pa.string() else "BIGINT" for each in schema.types))
        for place, schema in enumerate(schema_of(info.row_type) for info in inputs)
    )
    return EngineQuerySpec(query, tables, (), functions, 2, input_types=inputs, output_type=output)


def ended(harness: OperatorHarness, num_inputs: int = 1) -> list[Change]:
    """Ends the inputs. Event time must not pass before the rows, which would then be late."""
    harness.watermark(MAX_WATERMARK)
    assert harness.output.items == []
    for place in range(num_inputs):
        harness.operator.end_input(place)
    harness.operator.finish()
    harness.operator.close()
    *batches, watermark = harness.output.items
    assert watermark == Watermark(MAX_WATERMARK)
    return [change for batch in batches for change in to_changes(batch)]


# -- DuckDB ----------------------------------------------------------------------------------------------------------


def test_a_query_joins_all_rows_of_its_inputs() -> None:
    pytest.importorskip("duckdb")
    query = "SELECT a.c0 AS c0, sum(b.c0)::BIGINT AS c1 FROM input_0 AS a JOIN input_1 AS b ON a.c1 = b.c0 GROUP BY 1"
    harness = OperatorHarness(engine_query(query, ROWS, ROWS, NUMBERS))
    for change in (("+I", "a", 1), ("+I", "b", 2), ("+I", None, 3)):
        harness.operator.process_batch(to_batch([change], ROWS), 0)
    harness.operator.process_batch(to_batch([("+I", 1), ("+I", 3), ("+I", 3)], NUMBERS), 1)
    assert sorted(ended(harness, 2), key=repr) == [("+I", "a", 1), ("+I", None, 6)]


def test_an_error_of_a_kernel_leaves_as_it_is() -> None:
    pytest.importorskip("duckdb")
    kind = lt.BigIntType()
    quotient = RexCall(kind, "/", (InputRef(kind, 0), InputRef(kind, 1)))
    function = EngineFunction("kernel_0", quotient, (kind, kind), ("BIGINT", "BIGINT"), "BIGINT")
    query = "SELECT kernel_0(c0, c0 - 1) AS c0 FROM input_0"
    harness = OperatorHarness(engine_query(query, NUMBERS, NUMBERS, functions=(function,)))
    harness.operator.process_batch(to_batch([("+I", 5), ("+I", 1)], NUMBERS))
    with pytest.raises(TableRuntimeError, match="by zero"):
        ended(harness)
    harness.operator.close()


def test_an_error_of_the_engine_names_the_operator() -> None:
    pytest.importorskip("duckdb")
    query = "SELECT CASE WHEN count(*) > 1 THEN error('more than one element') ELSE 0 END AS c0 FROM input_0"
    harness = OperatorHarness(engine_query(query, NUMBERS, NUMBERS))
    harness.operator.process_batch(to_batch([("+I", 5), ("+I", 1)], NUMBERS))
    with pytest.raises(TableRuntimeError, match=r"EngineQuerySpec: .*more than one element"):
        ended(harness)
    harness.operator.close()


def test_a_sum_with_too_many_digits_fails_and_names_the_engine_that_can(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    session = EngineSession(1, 64 << 20, tmp_path / "engine", "test")
    query = f"SELECT sum(v) FROM (VALUES ({'9' * 38}::DECIMAL(38, 0)), ({'9' * 38}::DECIMAL(38, 0))) AS t(v)"
    with pytest.raises(TableRuntimeError, match=r"table\.exec\.batch\.engine to OPERATORS"):
        next(session.run(query, pa.schema([("v", pa.decimal128(38, 0))])))
    session.close()


class ParquetFile:
    """A source of one file, which counts the batches that are read by flinkpy."""

    def __init__(self, path: Path) -> None:
        self._rows = pq.read_table(path).to_batches(max_chunksize=1)
        self._path = path
        self.reading_format = self
        self.num_read = 0

    def list_files(self) -> list[tuple[str, int]]:
        return [(str(self._path), self._path.stat().st_size)]

    def list_splits(self, count: int) -> list[Path]:
        return [self._path]

    def open(self, split: Path, num_rows: int) -> ParquetFile:
        return self

    def read_batch(self) -> Batch | None:
        self.num_read += 1
        return Batch(self._rows[self.num_read - 1]) if self.num_read <= len(self._rows) else None

    def close(self) -> None:
        pass


def test_columns_whose_names_differ_in_case_only_are_told_apart(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    pq.write_table(pa.table({"v": [1, 2], "V": [10, 20]}), tmp_path / "file")
    row_type = type_info(v=lt.BigIntType(), V=lt.BigIntType())
    files = EngineFiles("files", ParquetFile(tmp_path / "file"), ("v", "V"), row_type, ("BIGINT", "BIGINT"))
    session = EngineSession(1, 64 << 20, tmp_path / "engine", "test")
    session.add_files(files, lambda: False)
    schema = schema_of(row_type.row_type)
    (found,) = session.run("SELECT sum(c0)::BIGINT, sum(c1)::BIGINT FROM files", schema)
    session.close()
    assert found.to_pylist() == [{"v": 3, "V": 30}]


def test_reading_of_files_ends_where_the_task_does(tmp_path: Path) -> None:
    pytest.importorskip("duckdb")
    pq.write_table(pa.table({"v": [1, 2, 3]}), tmp_path / "file")
    source = ParquetFile(tmp_path / "file")
    # The types differ, so that the engine does not read the file itself.
    files = EngineFiles("files", source, ("v",), type_info(v=lt.IntType()), ("INTEGER",))
    session = EngineSession(1, 64 << 20, tmp_path / "engine", "test")
    session.add_files(files, lambda: source.num_read == 2)
    session.close()
    assert source.num_read == 2


def test_the_end_of_a_task_interrupts_its_query() -> None:
    pytest.importorskip("duckdb")
    query = "SELECT count(*) AS c0 FROM range(1000000000) AS a, range(1000000000) AS b WHERE a.range % 7 < b.range % 5"
    harness = OperatorHarness(engine_query(query, NUMBERS, NUMBERS))
    harness.operator.end_input(0)
    assert not harness.operator.is_drained
    harness.operator.close()
    assert harness.output.items == []


def test_rows_that_do_not_fit_in_memory_are_sorted_on_disk() -> None:
    pytest.importorskip("duckdb")
    spec = engine_query("SELECT c0, c1 FROM input_0 ORDER BY c1 DESC", ROWS, ROWS)
    limit_bytes = 24 << 20  # of each of the two threads
    harness = OperatorHarness(spec, configuration={"execution.batch.column-operator.memory": f"{limit_bytes}b"})
    count, parts = 70_000, 10
    directory = harness.environment.state.directory / "op-op0" / "engine"
    num_bytes = 0
    for part in range(parts):
        numbers = [(number * 7919) % (count * parts) for number in range(part, count * parts, parts)]
        texts = pc.binary_repeat(pc.cast(pa.array(numbers), pa.string()), 12)
        rows = pa.RecordBatch.from_arrays([texts, pa.array(numbers)], schema=schema_of(ROWS.row_type))
        num_bytes += rows.nbytes
        harness.process(rows)
    assert num_bytes > 2 * limit_bytes
    harness.operator.end_input(0)
    harness.operator.finish()
    harness.operator.close()
    found = pa.concat_arrays([batch.values.column(1) for batch in harness.output.items])
    assert found.equals(pa.array(range(count * parts - 1, -1, -1), pa.int64()))
    assert not directory.exists()


# -- final rows ------------------------------------------------------------------------------------------------------


@st.composite
def changelogs(draw: st.DrawFn) -> list[Change]:
    """Draws changes that only remove rows that are there."""
    present: Counter[tuple[Any, ...]] = Counter()
    changes = []
    for _ in range(draw(st.integers(0, 12))):
        if present and draw(st.booleans()):
            row = draw(st.sampled_from(sorted(present.elements(), key=repr)))
            present[row] -= 1
            present += Counter()
            changes.append((draw(st.sampled_from(["-D", "-U"])), *row))
        else:
            row = (draw(st.sampled_from(["a", "b", None])), draw(st.sampled_from([1, 2, None])))
            present[row] += 1
            changes.append((draw(st.sampled_from(["+I", "+U"])), *row))
    return changes


@given(changelogs(), st.integers(1, 5))
def test_the_final_rows_are_those_of_the_changelog(changes: list[Change], size: int) -> None:
    harness = OperatorHarness(FinalRowsSpec(input_types=(ROWS,), output_type=ROWS))
    for start in range(0, len(changes), size):
        harness.operator.process_batch(to_batch(changes[start : start + size], ROWS))
    assert harness.output.items == []
    found = ended(harness)
    assert {change[0] for change in found} <= {"+I"}
    assert materialized(found) == materialized(changes)


def test_final_rows_are_sorted() -> None:
    order = (SortField(1, ascending=False, nulls_first=False), SortField(0, nulls_first=True))
    harness = OperatorHarness(FinalRowsSpec(order, input_types=(ROWS,), output_type=ROWS))
    rows = [("b", 1), ("a", None), (None, 1), ("a", 1), ("c", 2)]
    harness.operator.process_batch(to_batch([("+I", *row) for row in rows], ROWS))
    assert [change[1:] for change in ended(harness)] == [("c", 2), (None, 1), ("a", 1), ("b", 1), ("a", None)]


def test_an_aggregate_of_no_rows_is_a_row() -> None:
    harness = OperatorHarness(FinalRowsSpec((), (None, 0), input_types=(ROWS,), output_type=ROWS))
    assert ended(harness) == [("+I", None, 0)]


def test_a_change_that_removes_nothing_is_an_error() -> None:
    harness = OperatorHarness(FinalRowsSpec(input_types=(ROWS,), output_type=ROWS))
    harness.operator.process_batch(to_batch([("-D", "a", 1)], ROWS))
    with pytest.raises(InternalError, match="not in the table"):
        harness.operator.finish()
