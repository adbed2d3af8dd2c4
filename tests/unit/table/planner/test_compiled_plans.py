"""Compiled plans: what is written can be read, and gives the same operators."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from flinkpy.common.errors import TableProgramError, UnsupportedOperationError
from flinkpy.table.planner import explain
from tests.unit.table.planner.planning import PlannerFixture
from tests.unit.table.planner.test_nexmark_plans import FILES, nexmark


def loaded(fixture: PlannerFixture, text: str) -> str:
    """Returns the execution plan of a compiled plan, with the changes of each node."""
    graph = fixture.planner.load_plan(text)
    return explain.execution_text(graph.roots) + "".join(
        explain.physical_text(each, changelog=True) for each in graph.roots
    )


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_plan_of_a_nexmark_query_is_the_same_after_compilation(path: Any) -> None:
    fixture = nexmark()
    given, _, expected = path.read_text().partition("\n----\n")
    sink, _, statement = given.partition("\n\n")
    fixture.table(path.stem, *sink.removeprefix("sink ").replace(", 3)", ",3)").split(", "))
    text = fixture.planner.compile_plan([fixture.operation(statement)])

    graph = fixture.planner.load_plan(text)

    assert "".join(explain.physical_text(each, changelog=True) for each in graph.roots) == expected
    assert fixture.planner.load_plan(text).options == graph.options


INSERT = "INSERT INTO totals SELECT a, SUM(b) FROM numbers WHERE b > 0.5 AND s <> 'x' GROUP BY a"


def fixture() -> PlannerFixture:
    made = PlannerFixture()
    made.table("numbers", "a BIGINT", "b DECIMAL(10, 2)", "s STRING", "t TIMESTAMP(3)", "c AS a + 1")
    made.table("totals", "a BIGINT", "b DECIMAL(38, 2)", key=("a",), color="red")
    return made


def compiled(made: PlannerFixture, **options: str) -> dict[str, Any]:
    for key, value in options.items():
        made.configuration.set_string(key.replace("__", "-").replace("_", "."), value)
    found: dict[str, Any] = json.loads(made.planner.compile_plan([made.operation(INSERT)]))
    return found


def node(plan: dict[str, Any], kind: str) -> dict[str, Any]:
    (found,) = [each for each in plan["nodes"] if each["type"] == kind]
    return found


def test_a_plan_has_the_layout_that_the_documentation_describes() -> None:
    plan = compiled(fixture())
    assert [each["type"] for each in plan["nodes"]] == [
        "stream-exec-table-source-scan_1",
        "stream-exec-calc_1",
        "stream-exec-exchange_1",
        "stream-exec-group-aggregate_1",
        "stream-exec-sink_1",
    ]
    assert plan["formatVersion"] == 1
    assert plan["edges"] == [{"source": number, "target": number + 1} for number in range(1, 5)]
    scan = node(plan, "stream-exec-table-source-scan_1")
    assert scan["outputType"].startswith("ROW<`a` BIGINT, `b` DECIMAL(10, 2), `s` STRING")
    assert scan["table"]["resolvedTable"]["schema"]["columns"][0] == {"name": "a", "type": "BIGINT"}
    sink = node(plan, "stream-exec-sink_1")
    assert sink["table"]["resolvedTable"]["options"] == {"color": "red"}
    assert node(plan, "stream-exec-group-aggregate_1")["changelogMode"] == ["INSERT", "UPDATE"]


@pytest.mark.parametrize(
    ("objects", "parts"),
    [("ALL", {"schema", "options"}), ("SCHEMA", {"schema"}), ("IDENTIFIER", set())],
)
def test_an_option_says_how_much_of_a_table_is_in_the_plan(objects: str, parts: set[str]) -> None:
    plan = compiled(fixture(), table_plan_compile_catalog__objects=objects)
    table = node(plan, "stream-exec-sink_1")["table"]
    assert set(table.get("resolvedTable", {})) == parts
    assert table["identifier"] == ["default_catalog", "default_database", "totals"]


def test_a_plan_with_all_objects_needs_no_catalog() -> None:
    plan = json.dumps(compiled(fixture()))
    assert "GroupAggregate(groupBy=[a]" in loaded(PlannerFixture(), plan)


def test_a_plan_of_names_needs_the_catalog() -> None:
    plan = json.dumps(compiled(fixture(), table_plan_compile_catalog__objects="IDENTIFIER"))
    assert "GroupAggregate(groupBy=[a]" in loaded(fixture(), plan)
    with pytest.raises(TableProgramError, match=r"Cannot resolve table .*numbers"):
        loaded(PlannerFixture(), plan)


def test_a_table_of_another_schema_is_refused() -> None:
    plan = json.dumps(compiled(fixture()))
    other = PlannerFixture()
    other.table("numbers", "a BIGINT", "b DOUBLE")
    with pytest.raises(TableProgramError, match="does not match the schema loaded from the catalog"):
        loaded(other, plan)


def test_an_enforced_plan_does_not_ask_the_catalog() -> None:
    plan = json.dumps(compiled(fixture(), table_plan_compile_catalog__objects="SCHEMA"))
    made = fixture()
    made.configuration.set_string("table.plan.restore.catalog-objects", "ALL_ENFORCED")
    with pytest.raises(TableProgramError, match="lookup is disabled because option"):
        loaded(made, plan)


def test_hinted_options_are_kept_where_the_catalog_has_the_others() -> None:
    made = fixture()
    made.configuration.set_string("table.plan.compile.catalog-objects", "IDENTIFIER")
    insert = INSERT.replace("FROM numbers", "FROM numbers /*+ OPTIONS('mode' = 'I,UB,UA,D') */")
    plan = made.planner.compile_plan([made.operation(insert)])
    assert node(json.loads(plan), "stream-exec-table-source-scan_1")["table"]["dynamicOptions"] == {"mode": "I,UB,UA,D"}
    assert "changelogMode=[I,UB,UA,D]" in loaded(fixture(), plan)


def test_options_of_operators_are_those_of_the_compilation() -> None:
    plan = json.dumps(compiled(fixture(), table_exec_state_ttl="1 h"))
    assert fixture().planner.load_plan(plan).options["table.exec.state.ttl"] == "1 h"


def damaged(change: str) -> dict[str, Any]:
    plan = compiled(fixture())
    calc = node(plan, "stream-exec-calc_1")
    match change:
        case "format":
            plan["formatVersion"] = 2
        case "version":
            calc["type"] = "stream-exec-calc_9"
        case "type":
            calc["type"] = "stream-exec-delta-join_1"
        case "field":
            calc["newField"] = 1
        case "missing":
            del calc["projection"]
        case "expression":
            calc["condition"]["$kind"] = "RexLambda"
        case "edge":
            plan["edges"][0]["source"] = 77
        case "flink":
            plan = {"flinkVersion": "2.3", "nodes": [], "edges": []}
        case "list":
            return []  # type: ignore[return-value]
    return plan


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ("format", "format version 2, and this version of flinkpy reads 1"),
        ("version", "unknown type 'stream-exec-calc_9'.* later version"),
        ("type", "unknown type 'stream-exec-delta-join_1'"),
        ("field", "unknown field 'newField' of 'stream-exec-calc_1'"),
        ("missing", "lacks the field 'projection' of 'stream-exec-calc_1'"),
        ("expression", "unknown kind 'RexLambda'"),
        ("edge", "damaged: node 2 reads node 77"),
        ("flink", "a plan that Flink compiled"),
        ("list", "no compiled plan of flinkpy"),
    ],
)
def test_a_plan_that_this_version_cannot_run_is_refused(change: str, message: str) -> None:
    with pytest.raises(TableProgramError, match=message):
        fixture().planner.load_plan(json.dumps(damaged(change)))


def test_text_that_is_no_json_is_refused() -> None:
    with pytest.raises(TableProgramError, match="no JSON"):
        fixture().planner.load_plan("{")


def test_a_query_cannot_be_compiled() -> None:
    made = fixture()
    with pytest.raises(UnsupportedOperationError, match="only accepts a single SQL statement of type INSERT"):
        made.planner.compile_plan([made.operation("SELECT a FROM numbers")])


#: A plan of format 1 as it was first written. Later versions must read it; never write this file anew.
FIRST_FORMAT = Path(__file__).parents[3] / "recorded" / "compiled_plan_1.json"


def test_a_plan_of_the_first_format_can_be_read() -> None:
    found = loaded(PlannerFixture(), FIRST_FORMAT.read_text())
    assert "GroupAggregate(groupBy=[a], select=[a, SUM(b) AS EXPR$1], changelogMode=[I,UA])" in found
    assert "(b > 0.5:DECIMAL(2, 1))" in found
