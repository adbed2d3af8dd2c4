"""Statements and parts of them that the parser accepts and that have no meaning are refused by name and place."""

from __future__ import annotations

import pytest

from flinkpy.common.errors import FlinkError, TableProgramError, UnsupportedOperationError, ValidationError
from flinkpy.sql.parser import nodes as ast
from flinkpy.table import EnvironmentSettings, TableEnvironment
from flinkpy.table.statements.executor import StatementExecutor
from flinkpy.table.statements.refusals import refusal


def session(settings: EnvironmentSettings) -> TableEnvironment:
    made = TableEnvironment.create(settings)
    made.execute_sql("CREATE TABLE n (a INT, b BIGINT, s STRING) WITH ('connector' = 'datagen')")
    made.execute_sql("CREATE TABLE o (a INT, b BIGINT) WITH ('connector' = 'print')")
    return made


@pytest.fixture
def tables() -> TableEnvironment:
    return session(EnvironmentSettings.in_streaming_mode())


@pytest.mark.parametrize(
    ("query", "message"),
    [
        ("SELECT a FROM n TABLESAMPLE BERNOULLI(10)", "line 1, column 15 .*: TABLESAMPLE is not supported"),
        ("SELECT a FROM n WHERE a = ?", r"At line 1, column 27: Dynamic parameters \(\?\)"),
        ("SELECT a FROM n WHERE UNIQUE (SELECT b FROM n)", "line 1, column 23 .*: UNIQUE is not supported"),
        ("SELECT ARRAY(SELECT a FROM n)", "line 1, column 8 .*: ARRAY, MAP and MULTISET of a subquery"),
        ("UPSERT INTO o SELECT a, b FROM n", "UPSERT INTO statement is not supported"),
        ("SELECT SUM(a) IGNORE NULLS OVER (ORDER BY PROCTIME()) FROM n", "NULLS following 'SUM'"),
        ("SELECT FIRST_VALUE(a) RESPECT NULLS OVER (ORDER BY PROCTIME()) FROM n", "RESPECT NULLS is not supported"),
        (
            "SELECT SUM(a) OVER (ORDER BY PROCTIME() ROWS 2 PRECEDING DISALLOW PARTIAL) FROM n",
            "DISALLOW PARTIAL is not supported",
        ),
        ("SELECT a FROM n GROUP BY DISTINCT ROLLUP (a, b)", "GROUP BY DISTINCT is not supported with GROUPING SETS"),
        ("SELECT a FROM n /*+ FOO('x'='y') */", "Hint: FOO should be registered in the HintStrategyTable"),
        ("SELECT * FROM (SELECT a FROM n WHERE a > ?)", "line 1, column 42"),
    ],
)
def test_a_part_without_meaning_is_named_with_its_place(tables: TableEnvironment, query: str, message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        tables.explain_sql(query)


@pytest.mark.parametrize(
    ("statement", "error", "message"),
    [
        ("UPDATE o SET a = 1", TableProgramError, "UPDATE statement is not supported for streaming mode now"),
        ("DELETE FROM o WHERE a = 1", TableProgramError, "DELETE statement is not supported for streaming mode now"),
        ("ANALYZE TABLE o COMPUTE STATISTICS", TableProgramError, "ANALYZE TABLE is not supported for streaming mode"),
        ("BEGIN STATEMENT SET", UnsupportedOperationError, r"BEGIN STATEMENT SET \(at line 1, column 1\)"),
        ("ADD JAR '/x.jar'", UnsupportedOperationError, "no JVM"),
        ("CREATE FUNCTION f AS 'x' LANGUAGE JAVA USING JAR '/x.jar'", UnsupportedOperationError, "no JVM"),
        ("CREATE CONNECTION c WITH ('a' = 'b')", UnsupportedOperationError, r"store of connections.*line 1, column 1"),
        ("SHOW CONNECTIONS", UnsupportedOperationError, "store of connections"),
    ],
)
def test_a_statement_that_is_not_executed_says_why(
    tables: TableEnvironment, statement: str, error: type[FlinkError], message: str
) -> None:
    with pytest.raises(error, match=message):
        tables.execute_sql(statement)


def test_rows_of_tables_cannot_be_changed_in_batch_mode_either() -> None:
    tables = session(EnvironmentSettings.in_batch_mode())
    with pytest.raises(UnsupportedOperationError, match=r"delete operation .*\.o because .* SupportsRowLevelD"):
        tables.execute_sql("DELETE FROM o WHERE a = 1")


def test_each_statement_of_the_parser_is_executed_or_refused_by_its_words() -> None:
    executed = {
        ast.QueryStatement,
        ast.Insert,
        ast.StatementSet,
        ast.Execute,
        ast.ExecutePlan,
        ast.CompilePlan,
        ast.Explain,
        ast.CreateMaterializedTable,
        ast.Delete,
        ast.AnalyzeTable,
        ast.TruncateTable,
        ast.Update,
        ast.Statement,
    }
    registered = vars(StatementExecutor)["execute"].dispatcher.registry
    for each in vars(ast).values():
        if isinstance(each, type) and issubclass(each, ast.Statement) and each not in executed | set(registered):
            made = object.__new__(each)
            object.__setattr__(made, "position", ast.Position(1, 1, 1, 1))
            assert f"execute {each.__name__} (" not in refusal(made).message
