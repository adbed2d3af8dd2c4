"""TO_CHANGELOG and FROM_CHANGELOG: their values, their plans, and the errors of wrong arguments."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pytest

from flinkpy.common.errors import TableRuntimeError, ValidationError
from flinkpy.common.types import RowKind
from flinkpy.sql.functions.changelog_functions import FromChangelog, ToChangelog
from flinkpy.table import EnvironmentSettings, TableEnvironment
from flinkpy.table.expressions import descriptor, map_

KINDS = np.array([0, 1, 2, 3, 0], np.int8)
ALL = tuple((kind, kind.name) for kind in RowKind)


@pytest.fixture
def tables() -> TableEnvironment:
    made = TableEnvironment.create(EnvironmentSettings.in_streaming_mode())
    made.execute_sql("CREATE TABLE t (op STRING, k INT, v BIGINT) WITH ('connector' = 'datagen')")
    return made


def test_changes_become_rows_with_their_codes() -> None:
    (codes, column), kinds = ToChangelog(ALL).process([pa.array(range(5))], KINDS)
    assert kinds is None and column.to_pylist() == [0, 1, 2, 3, 4]
    assert codes.to_pylist() == ["INSERT", "UPDATE_BEFORE", "UPDATE_AFTER", "DELETE", "INSERT"]


def test_changes_without_a_code_are_dropped() -> None:
    chosen = ((RowKind.INSERT, "u"), (RowKind.UPDATE_AFTER, "u"))
    (codes, column), _ = ToChangelog(chosen).process([pa.array(range(5))], KINDS)
    assert codes.to_pylist() == ["u", "u", "u"] and column.to_pylist() == [0, 2, 4]
    (codes, _), _ = ToChangelog(chosen).process([pa.array([1, 2])], None)
    assert codes.to_pylist() == ["u", "u"]


def test_rows_become_the_changes_that_to_changelog_was_given() -> None:
    columns, _ = ToChangelog(ALL).process([pa.array(range(5))], KINDS)
    (column,), kinds = FromChangelog(0, tuple((name, kind) for kind, name in ALL)).process(columns, None)
    assert kinds is not None and kinds.tolist() == KINDS.tolist() and column.to_pylist() == [0, 1, 2, 3, 4]


@pytest.mark.parametrize(
    ("code", "message"), [("x", "invalid op code 'x'. Defined op codes are: c, d"), (None, "NULL")]
)
def test_a_row_without_a_known_code_fails(code: str | None, message: str) -> None:
    function = FromChangelog(1, (("c", RowKind.INSERT), ("d", RowKind.DELETE)))
    with pytest.raises(TableRuntimeError, match=message):
        function.process([pa.array([1, 2]), pa.array(["c", code])], None)


def test_to_changelog_is_only_appended_to_and_gets_rows_before_updates(tables: TableEnvironment) -> None:
    query = "SELECT * FROM TO_CHANGELOG(input => (SELECT k, COUNT(*) AS n FROM t GROUP BY k), op => DESCRIPTOR(code))"
    assert tables.sql_query(query).get_resolved_schema().column_names == ("code", "k", "n")
    text = tables.explain_sql(query)
    assert "ProcessTableFunction(invocation=[TO_CHANGELOG(TABLE(#0), DESCRIPTOR('code')" in text


def test_from_changelog_is_a_table_with_all_changes(tables: TableEnvironment) -> None:
    from flinkpy.table import ExplainDetail

    query = "SELECT * FROM FROM_CHANGELOG(TABLE t)"
    assert tables.sql_query(query).get_resolved_schema().column_names == ("k", "v")
    text = tables.explain_sql(query, ExplainDetail.CHANGELOG_MODE)
    assert "select=[k, v], changelogMode=[I,UB,UA,D])" in text


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ("TO_CHANGELOG(TABLE t PARTITION BY k)", "ROW SEMANTICS"),
        ("TO_CHANGELOG(1)", "First argument must be a table for TO_CHANGELOG"),
        ("TO_CHANGELOG(TABLE t, DESCRIPTOR(a, b))", "must contain exactly one column name"),
        ("TO_CHANGELOG(TABLE t, op_mapping => MAP['INSERTS', 'x'])", "Unknown change operation: 'INSERTS'"),
        ("TO_CHANGELOG(TABLE t, op_mapping => MAP['INSERT, INSERT', 'x'])", "Duplicate change operation: 'INSERT'"),
        ("TO_CHANGELOG(TABLE t, mapping => MAP['INSERT', 'x'])", "has no argument MAPPING|has no argument mapping"),
        ("TO_CHANGELOG(TABLE t, op_mapping => 'x')", "must be a constant MAP literal"),
        ("FROM_CHANGELOG(TABLE t, DESCRIPTOR(k))", "must be of STRING type, but was 'INT'"),
        ("FROM_CHANGELOG(TABLE t, DESCRIPTOR(kk))", "op column 'kk' does not exist .*did you mean 'k'"),
        ("FROM_CHANGELOG(TABLE t, op_mapping => MAP['u', 'UPDATE_AFTER'])", "must include UPDATE_BEFORE"),
        ("FROM_CHANGELOG(TABLE t, op_mapping => MAP['a', 'INSERT', 'b', 'INSERT'])", "Use comma-separated keys"),
    ],
)
def test_a_wrong_argument_is_named(tables: TableEnvironment, call: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        tables.sql_query(f"SELECT * FROM {call}")


def test_methods_of_table_are_the_functions_of_sql(tables: TableEnvironment) -> None:
    counted = tables.sql_query("SELECT k, COUNT(*) AS n FROM t GROUP BY k")
    codes = map_("INSERT, UPDATE_AFTER", "u", "DELETE", "d").as_argument("op_mapping")
    log = counted.to_changelog(descriptor("code").as_argument("op"), codes)
    assert log.get_resolved_schema().column_names == ("code", "k", "n")
    assert "TO_CHANGELOG(TABLE(#0), DESCRIPTOR('code'), MAP('INSERT', 'u', 'UPDATE_AFTER', 'u'" in log.explain()
    back = tables.from_path("t").from_changelog()
    assert back.get_resolved_schema().column_names == ("k", "v") and "FROM_CHANGELOG(" in back.explain()
    with pytest.raises(ValidationError, match="The op column 'kind' does not exist"):
        tables.from_path("t").from_changelog(descriptor("kind").as_argument("op"))
