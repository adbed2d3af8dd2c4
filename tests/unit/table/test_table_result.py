"""Results are printed as Flink's tableau, and their changes make up the final rows."""

from __future__ import annotations

import datetime
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.time import Instant
from flinkpy.common.types import Row, RowKind
from flinkpy.records.batch import Batch
from flinkpy.records.lanes import to_columns
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.sql.types.logical_types import BigIntType, IntType, VarCharType
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.table_result import ResultKind, TableResult


class RunningJob:
    """Stands for a job client that is not asked for anything."""


def query(
    schema: ResolvedSchema, *changes: tuple[RowKind, Any], has_row_kinds: bool = True, **options: Any
) -> TableResult:
    """Returns the result of a query with a batch per change."""
    type_info = InternalTypeInfo(schema.to_row_type())
    batches = [
        Batch(to_columns(Batch([Row(*values)]), type_info).values, None, np.array([kind.value], np.int8))
        for kind, values in changes
    ]
    return TableResult(
        schema,
        job_client=RunningJob(),  # type: ignore[arg-type]
        batches=lambda: iter([Batch(batches[0].values.slice(0, 0)), *batches]),  # type: ignore[union-attr]
        has_row_kinds=has_row_kinds,
        **options,
    )


def test_a_listing_is_as_wide_as_its_longest_text() -> None:
    schema = ResolvedSchema.physical(("table name", VarCharType()))
    result = TableResult.of_rows(schema, [("orders",), ("customers_of_the_month",)])
    assert list(result.lines()) == [
        "+------------------------+",
        "| table name             |",
        "+------------------------+",
        "| orders                 |",
        "| customers_of_the_month |",
        "+------------------------+",
        "2 rows in set",
    ]


def test_changes_of_a_query_are_printed_with_their_kind_as_they_come() -> None:
    schema = ResolvedSchema.physical(("n", IntType()), ("name", VarCharType()))
    result = query(
        schema,
        (RowKind.INSERT, (1, "a")),
        (RowKind.UPDATE_BEFORE, (1, None)),
        (RowKind.DELETE, (12, "x" * 40)),
    )
    assert list(result.lines()) == [
        "+----+-------------+--------------------------------+",
        "| op |           n |                           name |",
        "+----+-------------+--------------------------------+",
        "| +I |           1 |                              a |",
        "| -U |           1 |                         <NULL> |",
        "| -D |          12 | xxxxxxxxxxxxxxxxxxxxxxxxxxx... |",
        "+----+-------------+--------------------------------+",
        "3 rows in set",
    ]


def test_wide_characters_take_two_columns() -> None:
    result = TableResult.of_rows(ResolvedSchema.physical(("名", VarCharType())), [("数据",)])
    assert list(result.lines())[1:4] == ["| 名   |", "+------+", "| 数据 |"]


def test_no_rows_are_an_empty_set_and_a_statement_without_rows_is_ok() -> None:
    empty = TableResult.of_rows(ResolvedSchema.physical(("n", BigIntType())), [])
    assert list(empty.lines()) == ["Empty set"]
    assert list(TableResult.ok().lines()) == ["OK"]
    assert TableResult.ok().get_result_kind() == ResultKind.SUCCESS


def test_a_table_without_a_job_is_ready_at_once() -> None:
    TableResult.ok().wait(1)
    with TableResult.ok().collect() as rows:
        assert [list(each) for each in rows] == [["OK"]]


def test_a_text_of_many_lines_is_printed_without_a_table() -> None:
    result = TableResult.of_text("== Plan ==\nCalc(select=[a])\n")
    assert list(result.lines()) == ["== Plan ==", "Calc(select=[a])"]
    assert [tuple(each) for each in TableResult.of_text("a\nb").collect()] == [("a\nb",)]


def test_values_of_a_query_are_printed_as_casts_to_strings_in_the_time_zone_of_the_session() -> None:
    schema = ResolvedSchema.physical(
        ("at", lt.TimestampType(3)),
        ("instant", lt.LocalZonedTimestampType(0)),
        ("flags", lt.ArrayType(lt.BooleanType())),
        ("pair", lt.RowType.of(("a", IntType()), ("b", VarCharType()))),
        ("raw", lt.VarBinaryType()),
    )
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, 678000)
    values = (moment, Instant(0, 0), [True, None], Row(1, "x"), b"\x01\xff")
    result = query(
        schema,
        (RowKind.INSERT, values),
        has_row_kinds=False,
        settings=SessionSettings("Asia/Tokyo"),
        max_column_width=24,
    )
    line = list(result.lines())[3]
    assert [each.strip() for each in line.strip("|").split("|")] == [
        "2026-01-02 03:04:05.678",
        "1970-01-01 09:00:00",
        "[TRUE, NULL]",
        "(1, x)",
        "x'01ff'",
    ]


def test_a_query_that_was_waited_for_gives_all_rows_as_objects_or_columns() -> None:
    schema = ResolvedSchema.physical(("n", BigIntType()))
    changes = [(RowKind.INSERT, (1,)), (RowKind.UPDATE_AFTER, (2,))]
    rows = query(schema, *changes)
    rows.wait()
    assert [(row.get_row_kind(), *row) for row in rows.collect()] == [(kind, *values) for kind, values in changes]
    columns = query(schema, *changes)
    columns.wait()
    found = pa.Table.from_batches(list(columns.collect_batches()))
    assert found.to_pydict() == {"op": [0, 2], "n": [1, 2]}
    with pytest.raises(UnsupportedOperationError, match=r"collect\(\)"):
        TableResult.ok().collect_batches()


def test_a_wait_that_timed_out_goes_on_and_no_row_is_lost() -> None:
    schema = ResolvedSchema.physical(("n", BigIntType()))
    template = query(schema, *((RowKind.INSERT, (n,)) for n in range(3)), has_row_kinds=False)
    may_come = threading.Event()

    def slow() -> Iterator[Batch]:
        may_come.wait()
        assert template._batches is not None
        yield from template._batches()

    result = TableResult(schema, job_client=RunningJob(), batches=slow)  # type: ignore[arg-type]
    for _ in range(2):
        with pytest.raises(TimeoutError):
            result.wait(1)
    may_come.set()
    assert [row[0] for row in result.collect()] == [0, 1, 2]
