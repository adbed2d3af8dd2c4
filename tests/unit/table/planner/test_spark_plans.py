"""Plans of batch queries for Spark: when Spark is chosen, and which parts of a query it computes."""

from __future__ import annotations

from typing import Any

import pytest
from planning import PlannerFixture

from flinkpy.graph import spark_choice
from flinkpy.sql.functions.registry import call
from flinkpy.sql.rex import InputRef, Literal, RexCall, UserFunctionCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.connectors.table_source import ScanTableSource
from flinkpy.table.planner.batch import program
from flinkpy.table.planner.batch.dialect import NotInEngine
from flinkpy.table.planner.batch.engine_expressions import ExpressionRenderer
from flinkpy.table.planner.batch.spark_dialect import SPARK
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.physical import nodes as ph
from flinkpy.table.udf import ScalarFunction

INT, TEXT = lt.IntType(), lt.VarCharType()


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> PlannerFixture:
    made = PlannerFixture()
    made.configuration.set_string("execution.runtime-mode", "BATCH")
    made.configuration.set_string("execution.batch.backend", "spark")
    monkeypatch.setattr(program, "find_spec", lambda name: name)
    monkeypatch.setattr(ScanTableSource, "is_bounded", True)
    made.table("a", "id BIGINT NOT NULL", "k STRING", "v DECIMAL(10, 2)")
    made.table("b", "id BIGINT NOT NULL", "k STRING", "w INT")
    return made


def plan(tables: PlannerFixture, query: str) -> ph.PhysicalNode:
    return tables.planner._physical([tables.operation(query)], requires_update_before=True)[0]


def engine_of(tables: PlannerFixture, query: str = "SELECT k, COUNT(*) FROM a GROUP BY k") -> str:
    found = plan(tables, query)
    return found.engine if isinstance(found, ph.EngineQuery) else "none"


def test_the_engine_follows_the_backend_of_the_job(tables: PlannerFixture) -> None:
    assert engine_of(tables) == "Spark"
    for key, value, engine in (
        ("table.exec.batch.engine", "DUCKDB", "DuckDB"),
        ("table.exec.batch.engine", "OPERATORS", "none"),
        ("table.exec.batch.engine", "AUTO", "Spark"),
        ("execution.batch.backend", "native", "DuckDB"),
        ("execution.batch.backend", "auto", "DuckDB"),
        ("execution.target", "spark", "Spark"),
    ):
        tables.configuration.set_string(key, value)
        assert engine_of(tables) == engine, key


def test_large_tables_are_read_by_spark_where_the_backend_is_left_open(
    tables: PlannerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.configuration.set_string("execution.batch.backend", "auto")
    monkeypatch.setattr(spark_choice, "spark_obstacle", lambda configuration: None)
    assert engine_of(tables) == "DuckDB"
    monkeypatch.setattr(ScanTableSource, "estimated_size_bytes", 4 << 30)
    assert engine_of(tables) == "Spark"


def test_rows_that_are_only_computed_are_a_query_of_spark(tables: PlannerFixture) -> None:
    assert engine_of(tables, "SELECT id + 1, k FROM a WHERE v > 2") == "Spark"


def test_inputs_and_kernels_have_placeholders_which_plans_show_without_braces(tables: PlannerFixture) -> None:
    found = plan(tables, "SELECT k, UPPER(k), SUM(v) FROM a GROUP BY k")
    assert isinstance(found, ph.EngineQuery)
    assert "{kernel_0}(" in found.query
    assert "FROM {input_0} AS" in found.query
    assert [each.name for each in found.functions] == ["kernel_0"]
    assert "FROM input_0 AS" in found.description()


def test_averages_of_decimals_need_no_kernel(tables: PlannerFixture) -> None:
    found = plan(tables, "SELECT k, AVG(v) AS average FROM a GROUP BY k")
    assert isinstance(found, ph.EngineQuery)
    assert not found.functions


def test_a_kernel_in_the_condition_of_an_outer_join_cuts_the_query(tables: PlannerFixture) -> None:
    found = plan(tables, "SELECT a.id, b.w FROM a LEFT JOIN b ON a.id = b.id AND UPPER(a.k || b.k) = 'X'")
    assert any(isinstance(each, ph.Join) for each in ph.walk(found))
    assert engine_of(tables, "SELECT a.id, b.w FROM a LEFT JOIN b ON a.id = b.id AND a.k = b.k") == "Spark"


def rendered(node: Any) -> tuple[str, list[str]]:
    renderer = ExpressionRenderer(SPARK)
    return renderer.render(node, ["c0", "c1"]), [str(each.expression) for each in renderer.functions]


def test_a_kernel_that_may_fail_in_a_branch_computes_the_whole_case() -> None:
    number, text = InputRef(INT, 0), InputRef(TEXT, 1)
    is_null = RexCall(lt.BooleanType(nullable=False), "IS NULL", (number,))
    parsed = RexCall(INT, "CAST", (text,))
    assert rendered(RexCall(INT, "CASE", (is_null, number, parsed))) == (
        "{kernel_0}(c0, c1)",
        ["CASE(IS NULL($0), $0, CAST($1))"],
    )


def test_literals_have_no_characters_that_spark_reads_otherwise() -> None:
    literal = Literal(lt.VarCharType(nullable=False), "it's ${x} {input_0} \\")
    (text, _) = rendered(call("||", InputRef(TEXT, 1), literal))
    assert text == "(c1 || 'it\\u0027s \\u0024\\u007bx\\u007d \\u007binput_0\\u007d \\u005c')".replace(
        "input_", "input_"
    )
    assert "'" not in text.removeprefix("(c1 || '").removesuffix("')")


class Opened(ScalarFunction):
    def open(self, function_context: Any) -> None:
        self.step = 1

    def eval(self, value: int) -> int:
        return value + self.step


def test_only_functions_of_users_without_open_are_called_by_spark() -> None:
    argument = (InputRef(INT, 0),)
    assert rendered(UserFunctionCall(INT, "plain", abs, argument)) == ("{kernel_0}(c0)", ["plain($0)"])
    for node in (
        UserFunctionCall(INT, "opened", Opened(), argument),
        UserFunctionCall(INT, "random", abs, argument, is_deterministic=False),
    ):
        with pytest.raises(NotInEngine, match=node.name):
            rendered(node)


def test_a_division_checks_its_divisor_unless_it_is_a_literal() -> None:
    number = InputRef(INT, 0)
    assert rendered(operators.arithmetic("/", number, Literal(INT.not_null(), 7)))[0] == (
        "CAST((c0 div CAST(7 AS INT)) AS INT)"
    )
    assert "WHEN c1 = 0 THEN raise_error(" in rendered(operators.arithmetic("/", number, InputRef(INT, 1)))[0]
