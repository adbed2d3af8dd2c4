"""Expressions that DuckDB computes itself have exactly the results of flinkpy's kernels, for all edge values."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from sql_edge_values import COMPARISONS, NUMBERS, TIMES, VALUES

from flinkpy.graph.table_specs import EngineTable
from flinkpy.sql.functions.evaluation import compile_expressions
from flinkpy.sql.functions.registry import call
from flinkpy.sql.rex import InputRef, Literal, RexCall, RexNode
from flinkpy.sql.session_settings import DEFAULT_SETTINGS
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import arrow_type_of
from flinkpy.table.planner.batch.dialect import NotInEngine
from flinkpy.table.planner.batch.duckdb_dialect import DUCKDB
from flinkpy.table.planner.batch.engine_expressions import ExpressionRenderer
from flinkpy.table.planner.binder import operators

pytest.importorskip("duckdb")

from flinkpy.streaming.operators.table.engine_session import EngineSession


class Sides:
    """Computes expressions by kernels and by the engine, over all combinations of edge values."""

    def __init__(self, directory: Path) -> None:
        self._session = EngineSession(1, 256 << 20, directory / "engine", "test")
        self._renderer = ExpressionRenderer(DUCKDB)
        self._tables: dict[tuple[lt.LogicalType, ...], str] = {}

    def close(self) -> None:
        self._session.close()

    def _table(self, types: tuple[lt.LogicalType, ...]) -> str:
        name = self._tables.get(types)
        if name is None:
            name = self._tables[types] = f"input_{len(self._tables)}"
            combined = list(itertools.product(*(VALUES[kind] for kind in types)))
            columns = [pa.array(values, arrow_type_of(kind)) for values, kind in zip(zip(*combined), types)]
            self._session.add_table(EngineTable(name, tuple(str(DUCKDB.type_name(kind)) for kind in types)))
            self._session.insert(name, pa.RecordBatch.from_arrays(columns, names_of(types)))
        return name

    def check(self, node: RexNode, *types: lt.LogicalType, itself: bool | None = None) -> None:
        """Compares the values. `itself`: True if the engine must compute the expression without kernels."""
        known, names = len(self._renderer.functions), names_of(types)
        text = self._renderer.render(node, names)
        for function in self._renderer.functions[known:]:
            self._session.add_function(function, DEFAULT_SETTINGS)
        if itself is not None:
            assert ("kernel_" not in text) is itself, text
        fields = [(name, arrow_type_of(kind)) for name, kind in zip(names, types)]
        schema = pa.schema([*fields, ("result", arrow_type_of(node.type))])
        query = f"SELECT {', '.join([*names, text])} FROM {self._table(types)}"
        rows = pa.Table.from_batches(self._session.run(query, schema), schema=schema).combine_chunks().to_batches()[0]
        expected = compile_expressions([node]).evaluate(rows.select(names))[0]
        found = rows.column("result")
        assert list(map(repr, found.to_pylist())) == list(map(repr, expected.to_pylist())), str(node)


def names_of(types: tuple[lt.LogicalType, ...]) -> list[str]:
    return [f"c{place}" for place in range(len(types))]


@pytest.fixture(scope="module")
def sides(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Sides]:
    made = Sides(tmp_path_factory.mktemp("sides"))
    yield made
    made.close()


def column(kind: lt.LogicalType, place: int = 0) -> InputRef:
    return InputRef(kind, place)


def test_comparisons_of_one_type(sides: Sides) -> None:
    for kind in VALUES:
        is_float = isinstance(kind, (lt.FloatType, lt.DoubleType))
        for name in COMPARISONS:
            sides.check(operators.comparison(name, column(kind), column(kind, 1)), kind, kind, itself=not is_float)


def test_comparisons_and_arithmetic_of_exact_numbers(sides: Sides) -> None:
    for left, right in itertools.combinations_with_replacement(NUMBERS, 2):
        for name in ("=", "<", ">="):
            sides.check(operators.comparison(name, column(left), column(right, 1)), left, right)
        for name in ("+", "-", "*"):
            sides.check(operators.arithmetic(name, column(left), column(right, 1)), left, right)


def test_doubles_are_added_and_multiplied_as_in_java(sides: Sides) -> None:
    kind = lt.DoubleType()
    for name in ("+", "-", "*"):
        sides.check(operators.arithmetic(name, column(kind), column(kind, 1)), kind, kind, itself=True)


def test_comparisons_of_doubles_with_literals_know_that_nothing_is_equal_to_nan(sides: Sides) -> None:
    kind = lt.DoubleType()
    for name in ("=", "<>", "<", "<=", ">", ">="):
        sides.check(operators.comparison(name, column(kind), Literal(kind.not_null(), 0.1)), kind, itself=True)


def test_logic_has_three_values(sides: Sides) -> None:
    kind = lt.BooleanType()
    pair = (column(kind), column(kind, 1))
    for name in ("AND", "OR"):
        sides.check(RexCall(kind, name, pair), kind, kind, itself=True)
    sides.check(RexCall(kind, "NOT", pair[:1]), kind, itself=True)
    for name in ("IS NULL", "IS NOT NULL", "IS TRUE", "IS FALSE", "IS NOT TRUE", "IS NOT FALSE"):
        sides.check(RexCall(kind.not_null(), name, pair[:1]), kind, itself=True)
    sides.check(RexCall(kind, "CASE", (pair[0], pair[1], Literal(kind, None))), kind, kind, itself=True)
    sides.check(RexCall(kind, "COALESCE", pair), kind, kind, itself=True)


def test_casts_that_keep_values(sides: Sides) -> None:
    for source, target in itertools.product(VALUES, VALUES):
        node = RexCall(target, "CAST", (column(source),))
        renderer = ExpressionRenderer(DUCKDB)
        renderer.render(node, ["c0"])
        if not renderer.functions:
            sides.check(node, source, itself=True)


def test_functions_of_texts(sides: Sides) -> None:
    kind = lt.VarCharType()
    text = column(kind)

    def number(value: int) -> Literal:
        return Literal(lt.IntType(nullable=False), value)

    for pattern in ("", "%", "_", "a%", "%b_c", "%ü%", "A", "%\n%", "a.c", "__", "%a\\%"):
        literal = Literal(lt.VarCharType(nullable=False), pattern)
        for name in ("LIKE", "NOT LIKE"):
            sides.check(call(name, text, literal), kind, itself="\\" not in pattern)
    sides.check(call("SUBSTRING", text, number(1), number(2)), kind, itself=True)
    sides.check(call("SUBSTRING", text, number(2)), kind, itself=True)
    sides.check(call("SUBSTRING", text, number(-1)), kind, itself=False)
    sides.check(call("CHAR_LENGTH", text), kind, itself=True)
    sides.check(call("||", text, column(kind, 1)), kind, kind, itself=True)
    sides.check(call("UPPER", text), kind, itself=False)


def test_parts_of_dates(sides: Sides) -> None:
    for kind, unit in itertools.product(TIMES, ("YEAR", "QUARTER", "MONTH", "DAY")):
        symbol = Literal(lt.SymbolType(), unit)
        sides.check(RexCall(lt.BigIntType(), "EXTRACT", (symbol, column(kind))), kind, itself=True)


def test_a_condition_may_not_fail_for_rows_that_another_condition_excludes() -> None:
    kind = lt.IntType()
    division = operators.arithmetic("/", Literal(kind.not_null(), 10), column(kind))
    condition = operators.comparison(">", division, Literal(kind.not_null(), 1))
    with pytest.raises(NotInEngine, match="may fail"):
        ExpressionRenderer(DUCKDB).condition(condition, ["c0"])


@pytest.mark.parametrize("name", ["AND", "OR"])
def test_an_operand_of_a_junction_may_not_fail_for_rows_that_one_before_it_excludes(name: str) -> None:
    kind = lt.IntType()
    division = operators.arithmetic("/", Literal(kind.not_null(), 10), column(kind))
    may_fail = operators.comparison(">", division, Literal(kind.not_null(), 1))
    test = RexCall(lt.BooleanType(nullable=False), "IS NULL", (column(kind),))
    with pytest.raises(NotInEngine, match=f"operand of {name} may fail"):
        ExpressionRenderer(DUCKDB).render(RexCall(lt.BooleanType(), name, (test, may_fail)), ["c0"])


def test_values_that_are_not_chosen_do_not_fail(sides: Sides) -> None:
    kind = lt.IntType()
    number, zero = column(kind), Literal(kind.not_null(), 0)
    division = operators.arithmetic("/", Literal(kind.not_null(), 10), number)
    is_zero = operators.comparison("=", number, zero)
    sides.check(RexCall(kind, "IF", (is_zero, zero, division)), kind)
    sides.check(RexCall(kind, "IFNULL", (number, division)), kind)


def test_lists_of_values_stay_lists() -> None:
    kind = lt.IntType()
    tests = [operators.comparison("=", column(kind), Literal(kind.not_null(), value)) for value in (1, 2)]
    text = ExpressionRenderer(DUCKDB).render(operators.or_(tests), ["c0"])
    assert text == "(c0 IN (CAST(1 AS INTEGER), CAST(2 AS INTEGER)))"
