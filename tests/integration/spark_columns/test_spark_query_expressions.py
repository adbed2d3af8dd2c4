"""Expressions of SQL that Spark computes itself have exactly the results of flinkpy's kernels, for all edge values."""

from __future__ import annotations

import itertools
from typing import Any

import pyarrow as pa
from sql_edge_values import COMPARISONS, NUMBERS, TIMES, VALUES

from flinkpy.graph.table_specs import EngineTable, SparkQuerySpec
from flinkpy.records.batch import Batch
from flinkpy.spark.columns.queries import run_query
from flinkpy.spark.stream_frame import Layout, StreamFrame, frame_of
from flinkpy.sql.functions.evaluation import compile_expressions
from flinkpy.sql.functions.registry import call
from flinkpy.sql.rex import InputRef, Literal, RexCall, RexNode
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import arrow_type_of, schema_of
from flinkpy.sql.types.internal_type_info import InternalTypeInfo
from flinkpy.table.planner.batch.engine_expressions import ExpressionRenderer
from flinkpy.table.planner.batch.spark_dialect import SPARK
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical.nodes import row_of

DOUBLE, INT, BOOLEAN, TEXT = lt.DoubleType(), lt.IntType(), lt.BooleanType(), lt.VarCharType()


class Expressions:
    """Expressions over all combinations of edge values, which Spark computes in one job."""

    def __init__(self) -> None:
        self._columns: list[lt.LogicalType] = []
        self._values: list[list[Any]] = []
        self._places: dict[tuple[lt.LogicalType, ...], int] = {}
        self.nodes: list[RexNode] = []
        self.texts: list[str] = []
        self.renderer = ExpressionRenderer(SPARK)

    def columns(self, *types: lt.LogicalType) -> list[InputRef]:
        """Returns columns with all combinations of values of these types."""
        first = self._places.get(types)
        if first is None:
            first = self._places[types] = len(self._columns)
            self._columns += types
            self._values += map(list, zip(*itertools.product(*(VALUES[kind] for kind in types))))
        return [InputRef(kind, first + place) for place, kind in enumerate(types)]

    def add(self, node: RexNode, *, itself: bool | None = None) -> None:
        """Adds an expression. `itself`: True if Spark must compute it without kernels."""
        text = self.renderer.render(node, [f"c{place}" for place in range(1000)])
        if itself is not None:
            assert ("kernel_" not in text) is itself, text
        self.nodes.append(node)
        self.texts.append(text)

    def check(self, session: Any) -> None:
        """Computes all expressions by Spark and by kernels, and compares the values."""
        num_rows = max(map(len, self._values))
        arrays = [
            pa.array(values + [None] * (num_rows - len(values)), arrow_type_of(kind))
            for values, kind in zip(self._values, self._columns)
        ]
        row_type = row_of(tuple(f"f{place}" for place in range(len(arrays))), tuple(self._columns))
        batch = pa.RecordBatch.from_arrays(arrays, schema=schema_of(row_type))
        stream = frame_of(session, [Batch(batch)], InternalTypeInfo(row_type))
        selected = ", ".join(f"{text} AS c{place}" for place, text in enumerate(self.texts))
        results = row_of(tuple(f"r{n}" for n in range(len(self.nodes))), tuple(each.type for each in self.nodes))
        types = {"input_types": (stream.type_info,), "output_type": InternalTypeInfo(results)}
        table = EngineTable("input_0", ())
        functions = tuple(self.renderer.functions)
        spec = SparkQuerySpec(f"SELECT {selected} FROM {{input_0}}", (table,), functions, **types)
        frame = run_query(session, spec, [stream], "test", None)
        rows = frame.toArrow().combine_chunks().to_batches()[0]
        expected = compile_expressions(self.nodes).evaluate(batch)
        (found,) = (each.values for each in stream_of(frame, results).decode(rows))
        for place, node in enumerate(self.nodes):
            ours, theirs = expected[place].to_pylist(), found.column(place).to_pylist()
            differing = [
                (number, mine, other)
                for number, (mine, other) in enumerate(zip(ours, theirs))
                if repr(mine) != repr(other)
            ]
            number, mine, other = (*differing, (0, None, None))[0]
            assert not differing, f"{node} of row {number}: Spark has {other!r}, the kernel {mine!r}"


def stream_of(frame: Any, row_type: lt.RowType) -> StreamFrame:
    return StreamFrame(frame, InternalTypeInfo(row_type), Layout.COLUMNS)


def number(value: int) -> Literal:
    return Literal(lt.IntType(nullable=False), value)


def test_spark_computes_what_kernels_compute(session: Any) -> None:
    made = Expressions()
    for kind in VALUES:
        left, right = made.columns(kind, kind)
        is_float = isinstance(kind, (lt.FloatType, lt.DoubleType))
        for name in COMPARISONS:
            made.add(operators.comparison(name, left, right), itself=not (is_float and name.startswith("IS ")))
    for one, other in itertools.combinations_with_replacement(NUMBERS, 2):
        left, right = made.columns(one, other)
        for name in ("=", "<", ">="):
            made.add(operators.comparison(name, left, right))
        for name in ("+", "-", "*"):
            made.add(operators.arithmetic(name, left, right), itself=True)
        for divisor in (3, -7, 10):
            made.add(operators.arithmetic("/", left, number(divisor)), itself=True)
    left, right = made.columns(DOUBLE, DOUBLE)
    for name in ("+", "-", "*"):
        made.add(operators.arithmetic(name, left, right), itself=True)
    for name in ("=", "<>", "<", "<=", ">", ">="):
        made.add(operators.comparison(name, left, Literal(DOUBLE.not_null(), 0.1)), itself=True)
    add_logic(made)
    add_casts(made)
    add_texts(made)
    for kind, unit in itertools.product(TIMES, ("YEAR", "QUARTER", "MONTH", "DAY")):
        made.add(
            RexCall(lt.BigIntType(), "EXTRACT", (Literal(lt.SymbolType(), unit), *made.columns(kind))), itself=True
        )
    made.check(session)


def add_logic(made: Expressions) -> None:
    pair = tuple(made.columns(BOOLEAN, BOOLEAN))
    for name in ("AND", "OR"):
        made.add(RexCall(BOOLEAN, name, pair), itself=True)
    made.add(RexCall(BOOLEAN, "NOT", pair[:1]), itself=True)
    for name in ("IS NULL", "IS NOT NULL", "IS TRUE", "IS FALSE", "IS NOT TRUE", "IS NOT FALSE"):
        made.add(RexCall(BOOLEAN.not_null(), name, pair[:1]), itself=True)
    made.add(RexCall(BOOLEAN, "CASE", (pair[0], pair[1], Literal(BOOLEAN, None))), itself=True)
    made.add(RexCall(BOOLEAN, "COALESCE", pair), itself=True)
    (value,) = made.columns(INT)
    division = operators.arithmetic("/", number(10), value)
    is_zero = operators.comparison("=", value, number(0))
    made.add(RexCall(INT, "IF", (is_zero, number(0), division)))
    made.add(
        RexCall(INT, "CASE", (is_zero, number(0), RexCall(INT, "CHAR_LENGTH", (call("UPPER", *made.columns(TEXT)),))))
    )


def add_casts(made: Expressions) -> None:
    for source, target in itertools.product(VALUES, VALUES):
        (value,) = made.columns(source)
        node = RexCall(target, "CAST", (value,))
        renderer = ExpressionRenderer(SPARK)
        renderer.render(node, [f"c{place}" for place in range(1000)])
        if not renderer.functions:
            made.add(node, itself=True)


def add_texts(made: Expressions) -> None:
    text, other = made.columns(TEXT, TEXT)
    for pattern in ("", "%", "_", "a%", "%b_c", "%ü%", "A", "%\n%", "a.c", "__", "%a\\%"):
        literal = Literal(lt.VarCharType(nullable=False), pattern)
        for name in ("LIKE", "NOT LIKE"):
            made.add(call(name, text, literal), itself="\\" not in pattern)
    made.add(call("SUBSTRING", text, number(1), number(2)), itself=True)
    made.add(call("SUBSTRING", text, number(2)), itself=True)
    made.add(call("SUBSTRING", text, number(-1)), itself=False)
    made.add(call("CHAR_LENGTH", text), itself=True)
    made.add(call("||", text, other), itself=True)
    made.add(call("UPPER", text), itself=False)
    for value in ("", "it's", 'a "b"', "\\n", "${x}", "{input_0}", "`", "\t\n\0", "äöü", "😀", "-- no", "'"):
        made.add(call("||", text, Literal(lt.VarCharType(nullable=False), value)), itself=True)
