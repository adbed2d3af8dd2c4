"""Plans of batch queries: which parts the engine computes, how they are written, and that nothing sends changes."""

from __future__ import annotations

import pytest
from planning import PlannerFixture

from flinkpy.common.errors import TableProgramError, ValidationError
from flinkpy.table.connectors.table_source import ScanTableSource
from flinkpy.table.planner.batch import program
from flinkpy.table.planner.physical import nodes as ph


@pytest.fixture
def tables(monkeypatch: pytest.MonkeyPatch) -> PlannerFixture:
    made = PlannerFixture()
    made.configuration.set_string("execution.runtime-mode", "BATCH")
    monkeypatch.setattr(program, "find_spec", lambda name: name)
    monkeypatch.setattr(ScanTableSource, "is_bounded", True)
    made.table("a", "id BIGINT NOT NULL", "k STRING", "v DECIMAL(10, 2)", "d DATE")
    made.table("b", "id BIGINT NOT NULL", "k STRING", "w INT")
    return made


def plan(tables: PlannerFixture, query: str) -> ph.PhysicalNode:
    return tables.planner._physical([tables.operation(query)], requires_update_before=True)[0]


def text(tables: PlannerFixture, query: str) -> str:
    """Returns the text of a query that the engine computes as a whole."""
    found = plan(tables, query)
    assert isinstance(found, ph.EngineQuery), found.description()
    assert all(isinstance(each, (ph.TableSourceScan, ph.Values)) for each in found.inputs)
    return found.query


def test_inner_joins_are_one_list_of_tables_with_all_conditions(tables: PlannerFixture) -> None:
    query = "SELECT a.id FROM a JOIN b ON a.id = b.id JOIN a AS c ON c.id = b.id WHERE a.k = 'x' AND b.w > 1"
    found = text(tables, query)
    assert " FROM input_0 AS t1 CROSS JOIN input_1 AS t2 CROSS JOIN input_2 AS t3 WHERE " in found
    for condition in ("(t1.c1 = 'x')", "(t2.c2 > CAST(1 AS INTEGER))", "(t1.c0 = t2.c0)"):
        assert condition in found


def test_an_outer_join_keeps_conditions_of_its_right_side_below_it(tables: PlannerFixture) -> None:
    query = "SELECT a.id, b.w FROM a LEFT JOIN (SELECT * FROM b WHERE w > 1) AS b ON a.id = b.id"
    found = text(tables, query)
    assert "LEFT JOIN (SELECT" in found
    assert "WHERE (t2." in found.partition("LEFT JOIN")[2]


def test_a_computed_column_of_the_optional_side_of_a_join_is_null_where_there_is_no_row(
    tables: PlannerFixture,
) -> None:
    query = "SELECT a.id, b.n FROM a LEFT JOIN (SELECT id, 1 AS n FROM b) AS b ON a.id = b.id"
    found = text(tables, query)
    assert "CAST(1 AS INTEGER)" in found.partition("LEFT JOIN")[2]
    assert "CAST(1 AS INTEGER)" not in found.partition("FROM")[0]


@pytest.mark.parametrize("kind", ["RIGHT", "FULL"])
def test_a_computed_column_of_the_left_side_is_null_where_only_the_right_has_a_row(
    tables: PlannerFixture, kind: str
) -> None:
    query = f"SELECT a.n, b.w FROM (SELECT id, 1 AS n FROM a) AS a {kind} JOIN b ON a.id = b.id"
    found = text(tables, query)
    assert "CAST(1 AS INTEGER)" in found.partition(f"{kind} JOIN")[0].partition("FROM")[2]
    assert "CAST(1 AS INTEGER)" not in found.partition("FROM")[0]


def test_not_in_is_an_anti_join_that_knows_nulls(tables: PlannerFixture) -> None:
    assert " NOT IN (SELECT " in text(tables, "SELECT id FROM a WHERE k NOT IN (SELECT k FROM b)")
    assert " ANTI JOIN " in text(tables, "SELECT id FROM a WHERE id NOT IN (SELECT id FROM b)")


def test_an_order_below_a_projection_stays_the_order_of_the_result(tables: PlannerFixture) -> None:
    found = text(tables, "SELECT id FROM a ORDER BY k DESC, v")
    assert found.endswith("ORDER BY t1.c1 DESC NULLS LAST, t1.c2 ASC NULLS FIRST")


def test_decimals_are_divided_by_the_kernel(tables: PlannerFixture) -> None:
    found = plan(tables, "SELECT k, AVG(v) AS average FROM a GROUP BY k")
    assert isinstance(found, ph.EngineQuery)
    assert "kernel_0(CAST(sum(t1.c2) AS DECIMAL(38, 2)), count(t1.c2))" in found.query
    assert [str(each.expression) for each in found.functions] == ["/($0, CAST($1))"]


def test_constants_are_computed_by_the_planner(tables: PlannerFixture) -> None:
    query = "SELECT COUNT(*) FROM a WHERE d <= DATE '1998-12-01' - INTERVAL '90' DAY"
    assert "<= DATE '1998-09-02')" in text(tables, query)


def test_times_after_the_year_9999_have_texts(tables: PlannerFixture) -> None:
    assert "'3170843-11-0" in constants(tables, "SELECT FROM_UNIXTIME(99999999999999)")


def constants(tables: PlannerFixture, query: str) -> str:
    return tables.planner.explain([tables.operation(query)], ())


@pytest.mark.parametrize(
    ("expression", "shown"),
    [("SQRT(-1)", "NaN:DOUBLE"), ("LN(0)", "-Infinity:DOUBLE"), ("CAST('Infinity' AS DOUBLE)", "Infinity:DOUBLE")],
)
def test_numbers_that_are_not_finite_are_constants_too(tables: PlannerFixture, expression: str, shown: str) -> None:
    assert shown in constants(tables, f"SELECT {expression}")


def test_the_smallest_integer_stays_itself_when_it_is_negated(tables: PlannerFixture) -> None:
    assert "-2147483648" in constants(tables, "SELECT -CAST(-2147483648 AS INT)").partition("== Optimized")[2]


@pytest.mark.parametrize(
    ("expression", "shown"),
    [
        ("DATE '9999-12-31' + INTERVAL '2' YEAR", "select=[+(9999-12-31"),
        ("REPEAT('x', 2)", "select=[REPEAT("),
        (f"REPLACE('aaa', 'a', '{'x' * 2000}')", "select=[REPLACE("),
        ("CAST('x' AS CHAR(100000))", "select=[CAST("),
    ],
)
def test_constants_that_python_cannot_hold_or_that_may_be_long_stay_expressions(
    tables: PlannerFixture, expression: str, shown: str
) -> None:
    made = constants(tables, f"SELECT {expression} FROM a WHERE id > 1")
    assert "== Optimized Physical Plan ==\nCalc(" + shown in made


def test_rows_that_are_only_filtered_flow_through_parallel_operators(tables: PlannerFixture) -> None:
    assert isinstance(plan(tables, "SELECT id + 1 FROM a WHERE k = 'x'"), ph.Calc)


def test_a_condition_that_may_fail_is_evaluated_before_the_region(tables: PlannerFixture) -> None:
    found = plan(tables, "SELECT k, COUNT(*) FROM b WHERE w <> 0 AND 10 / w > 1 GROUP BY k")
    assert isinstance(found, ph.EngineQuery)
    assert isinstance(found.input, ph.Calc)


def test_aggregates_that_the_engine_lacks_are_followed_by_their_final_rows(tables: PlannerFixture) -> None:
    found = plan(tables, "SELECT k, LISTAGG(k) FROM a GROUP BY k")
    assert isinstance(found, ph.FinalRows)
    assert isinstance(found.input, ph.GroupAggregate)


@pytest.mark.parametrize(
    "query",
    [
        "SELECT k, COUNT(*) FROM a GROUP BY k",
        "SELECT a.id, b.w FROM a LEFT JOIN b ON a.id = b.id",
        "SELECT a.id, b.w FROM a FULL JOIN b ON a.id = b.id",
        "SELECT id FROM a WHERE NOT EXISTS (SELECT * FROM b WHERE b.id = a.id)",
        "SELECT * FROM (SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id) AS n FROM a) WHERE n <= 2",
        "SELECT id FROM a ORDER BY id",
        "SELECT id FROM a ORDER BY id LIMIT 3 OFFSET 1",
        "SELECT k FROM a EXCEPT SELECT k FROM b",
    ],
)
@pytest.mark.parametrize("engine", ["DUCKDB", "OPERATORS"])
def test_batch_queries_send_inserts_only(tables: PlannerFixture, query: str, engine: str) -> None:
    tables.configuration.set_string("table.exec.batch.engine", engine)
    found = plan(tables, query)
    assert ph.changelog_text(found) == "I"
    assert isinstance(found, ph.EngineQuery) is (engine == "DUCKDB")


def test_explain_shows_the_text_of_the_engine(tables: PlannerFixture) -> None:
    found = tables.planner.explain([tables.operation("SELECT COUNT(*) FROM a")])
    query = "SELECT t2.c0 AS c0 FROM (SELECT count(*) AS c0 FROM input_0 AS t1) AS t2"
    assert f"EngineQuery(engine=[DuckDB], query=[{query}], select=[EXPR$0])" in found


def test_sources_with_changes_and_without_end_are_refused(
    tables: PlannerFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    tables.table("changing", "id BIGINT", mode="I,UB,UA,D")
    with pytest.raises(TableProgramError, match=r"only possible for INSERT-only table sources.*changing"):
        plan(tables, "SELECT COUNT(*) FROM changing")
    monkeypatch.setattr(ScanTableSource, "is_bounded", False)
    with pytest.raises(TableProgramError, match=r"unbounded table '.*a' in batch mode"):
        plan(tables, "SELECT COUNT(*) FROM a")


def test_an_engine_that_is_not_installed_is_named(tables: PlannerFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(program, "find_spec", lambda name: None)
    assert isinstance(plan(tables, "SELECT COUNT(*) FROM a"), ph.FinalRows)
    tables.configuration.set_string("table.exec.batch.engine", "DUCKDB")
    with pytest.raises(ValidationError, match=r"pip install 'flinkpy\[duckdb\]'"):
        plan(tables, "SELECT COUNT(*) FROM a")


def test_joins_by_approximate_numbers_are_left_to_the_operators(tables: PlannerFixture) -> None:
    tables.table("f", "x DOUBLE", "n BIGINT")
    found = plan(tables, "SELECT l.n FROM f l JOIN f r ON l.x = r.x")
    assert not isinstance(found, ph.EngineQuery)
    assert any(isinstance(each, ph.Join) for each in ph.walk(found))


def test_distinct_approximate_numbers_are_counted_by_the_operators(tables: PlannerFixture) -> None:
    tables.table("f", "x DOUBLE", "n BIGINT")
    assert not isinstance(plan(tables, "SELECT COUNT(DISTINCT x) FROM f"), ph.EngineQuery)
    assert isinstance(plan(tables, "SELECT COUNT(x), COUNT(DISTINCT n) FROM f"), ph.EngineQuery)


def test_renamed_columns_keep_their_names(tables: PlannerFixture) -> None:
    ranked = "SELECT *, ROW_NUMBER() OVER (PARTITION BY k ORDER BY id) AS n FROM (VALUES (1, 'a')) AS v(id, k)"
    query = tables.operation(f"SELECT id AS x, k AS y FROM ({ranked}) WHERE n = 1")
    transformation, _ = tables.planner.translate_query(query)
    assert transformation.output_type.row_type.names == ("x", "y")


def test_batch_plans_are_not_compiled(tables: PlannerFixture) -> None:
    with pytest.raises(TableProgramError, match="not supported in batch mode"):
        tables.planner.compile_plan([])
