"""Results are printed as Flink's tableau, and their changes make up the final rows."""

from __future__ import annotations

from flinkpy.common.types import Row, RowKind
from flinkpy.sql.types.logical_types import BigIntType, IntType, VarCharType
from flinkpy.table.catalog.resolved_schema import ResolvedSchema
from flinkpy.table.table_result import ResultKind, TableResult


class RunningJob:
    """Stands for a job client that is not asked for anything."""


def row(kind: RowKind, *values: object) -> Row:
    made = Row(*values)
    made.set_row_kind(kind)
    return made


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
    changes = [row(RowKind.INSERT, 1, "a"), row(RowKind.UPDATE_BEFORE, 1, None), row(RowKind.DELETE, 12, "x" * 40)]
    result = TableResult(
        schema,
        lambda: iter(changes),
        job_client=RunningJob(),
        has_row_kinds=True,
        is_query=True,  # type: ignore[arg-type]
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
