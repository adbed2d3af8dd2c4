"""Aggregates over columns give the same results in Spark as in flinkpy's own operators."""

from __future__ import annotations

import datetime
import decimal
from typing import Any

import pyarrow as pa
import pytest
from column_engines import TIME, assert_equal, frame_of, natively

from flinkpy.graph.operator_specs import (
    ColumnAggregate,
    ColumnAggregateSpec,
    CompiledAggregate,
    FieldKeySelector,
    WindowAggregateSpec,
)

pytest.importorskip("pyspark")

from flinkpy.spark.columns.aggregates import aggregate_by_key, aggregate_windows
from flinkpy.spark.columns.names import NotExpressible

NAN = float("nan")
DAY = datetime.date(2020, 2, 29)
TIMES = [datetime.datetime(1969, 12, 31, 23, 59, 59, 999_999), datetime.datetime(2400, 1, 1), None]

#: Values of every type: groups with several values and nulls, with only nulls, and with one value.
VALUES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "bytes": (pa.int8(), [127, 127, -128, None, None, 5]),
    "shorts": (pa.int16(), [1, None, -3, None, None, 5]),
    "ints": (pa.int32(), [2**31 - 1, 2**31 - 1, 1, None, None, -5]),
    "longs that overflow": (pa.int64(), [2**63 - 1, 2, -7, None, None, -(2**63)]),
    "booleans": (pa.bool_(), [True, False, True, None, None, False]),
    "floats": (pa.float32(), [0.5, NAN, -1.5, None, None, NAN]),
    "doubles": (pa.float64(), [NAN, 2.0, -0.25, None, None, NAN]),
    "decimals": (
        pa.decimal128(15, 2),
        [decimal.Decimal("0.01"), decimal.Decimal("-9999999999999.99"), None, None, None, 5],
    ),
    "strings": (pa.string(), ["\U0001f600", "\uffee", "", None, None, "z.ä"]),
    "binary": (pa.binary(), [b"\xff", b"\x00", b"", None, None, b"a"]),
    "dates": (pa.date32(), [DAY, datetime.date(1900, 1, 1), datetime.date(9999, 12, 31), None, None, DAY]),
    "timestamps": (pa.timestamp("us"), [*TIMES, None, None, TIMES[0]]),
    "instants": (pa.timestamp("us", tz="UTC"), [*TIMES, None, None, TIMES[0]]),
}
KEYS = ["a", "a", "a", None, None, "b"]
NUMBERS = ("bytes", "shorts", "ints", "longs that overflow", "booleans", "floats", "doubles", "decimals")
CASES = [(kind, function) for kind in VALUES for function in ("COUNT", "COUNT_DISTINCT", "MIN", "MAX")]
CASES += [(kind, function) for kind in NUMBERS for function in ("SUM", "MEAN")]


def table_of(kind: str, **more: Any) -> pa.Table:
    arrow_type, values = VALUES[kind]
    return pa.table({"k.1": KEYS, "v`": pa.array(values, arrow_type), **more})


def by_key(*aggregates: ColumnAggregate, key: tuple[int | str, ...] = ("k.1",)) -> ColumnAggregateSpec:
    return ColumnAggregateSpec(FieldKeySelector(key), aggregates, "FINAL")


def in_spark(session: Any, spec: ColumnAggregateSpec, table: pa.Table) -> pa.Table:
    frame, columns = frame_of(session, table)
    return aggregate_by_key(frame, columns, spec).toArrow()


def test_every_function_over_every_type_gives_equal_values_and_types(session: Any) -> None:
    names = [f"{kind} {function}" for kind, function in CASES]
    columns = {kind: pa.array(values, arrow_type) for kind, (arrow_type, values) in VALUES.items()}
    table = pa.table({"k.1": KEYS, **columns})
    spec = by_key(*(ColumnAggregate(name, function, kind) for name, (kind, function) in zip(names, CASES)))
    assert_equal(natively(spec, table), in_spark(session, spec, table))


@pytest.mark.parametrize("kind", list(VALUES))
def test_a_column_of_every_type_but_floats_is_a_key_and_null_is_one_too(session: Any, kind: str) -> None:
    table = table_of(kind)
    if pa.types.is_floating(VALUES[kind][0]):
        # 0.0 and -0.0 are one key in Spark, but two in flinkpy.
        with pytest.raises(NotExpressible, match="the key column"):
            in_spark(session, by_key(ColumnAggregate("n", "COUNT"), key=(1,)), table)
        return
    spec = by_key(ColumnAggregate("n", "COUNT"), key=(1,))
    assert_equal(natively(spec, table), in_spark(session, spec, table))


def test_an_empty_input_has_no_keys_and_so_no_results(session: Any) -> None:
    table = table_of("ints").slice(0, 0)
    for key in (("k.1",), ()):
        assert in_spark(session, by_key(ColumnAggregate("n", "COUNT"), key=key), table).num_rows == 0


def test_aggregates_that_need_arrival_order_or_python_code_are_not_expressible(session: Any) -> None:
    frame, columns = frame_of(session, table_of("ints"))
    compiled = CompiledAggregate("f", (0,), True, None, None, None, None)
    for aggregate in (
        ColumnAggregate("x", "FIRST", "v`"),
        ColumnAggregate("x", "LAST", "v`"),
        ColumnAggregate("x", "VAR_POP", "v`"),
        ColumnAggregate("x", "COMPILED", columns=("v`",), compiled=compiled),
        ColumnAggregate("x", "SUM", "k.1"),
        ColumnAggregate("x", "SUM", "not there"),
    ):
        with pytest.raises(NotExpressible):
            aggregate_by_key(frame, columns, by_key(aggregate))


STAMPS = [-1, 0, 9, 10, 25, 26]
WINDOWS = {
    "tumbling": {"size_ms": 10, "slide_ms": 10},
    "tumbling with an offset": {"size_ms": 10, "slide_ms": 10, "offset_ms": 3},
    "sliding": {"size_ms": 10, "slide_ms": 4},
    "sliding with an offset": {"size_ms": 12, "slide_ms": 4, "offset_ms": -3},
    "with gaps between them": {"size_ms": 4, "slide_ms": 9},
    "sessions": {"gap_ms": 10},
    "sessions of one ms": {"gap_ms": 1},
}


@pytest.mark.parametrize("windows", list(WINDOWS))
@pytest.mark.parametrize("key", [("k.1",), ()], ids=["keyed", "all"])
def test_windows_have_equal_bounds_results_and_timestamps(session: Any, windows: str, key: tuple[str, ...]) -> None:
    table = table_of("doubles", **{TIME: pa.array(STAMPS, pa.int64())})
    aggregates = (
        ColumnAggregate("n", "COUNT"),
        ColumnAggregate("top", "MAX", "v`"),
        ColumnAggregate("m", "MEAN", "v`"),
    )
    spec = WindowAggregateSpec(FieldKeySelector(key), aggregates, **WINDOWS[windows])
    frame = aggregate_windows(*frame_of(session, table), spec, "windows")
    assert_equal(natively(spec, table), frame.toArrow())


def test_a_record_without_a_timestamp_fails_windows_of_event_time_and_names_them(session: Any) -> None:
    table = table_of("ints", **{TIME: pa.array([1, None, 2, 3, 4, 5], pa.int64())})
    spec = WindowAggregateSpec(FieldKeySelector(("k.1",)), (ColumnAggregate("n", "COUNT"),), size_ms=5, slide_ms=5)
    frame = aggregate_windows(*frame_of(session, table), spec, "per minute")
    with pytest.raises(Exception, match="operator per minute: a record has no timestamp"):
        frame.toArrow()
