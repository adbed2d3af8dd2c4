"""CalcOperator: projections and conditions of a changelog in columns."""

from __future__ import annotations

import datetime as dt
from typing import Any

import numpy as np
import pyarrow as pa
from streaming_fakes import OperatorHarness
from table_subtasks import KINDS, row_info

from flinkpy.graph.table_specs import CalcSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.sql.functions.registry import call
from flinkpy.sql.rex import InputRef, Literal, RexNode
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import schema_of

INT, STRING = lt.IntType(), lt.VarCharType()
INPUT = row_info(a=INT, b=STRING)
A, B = InputRef(INT, 0), InputRef(STRING, 1)


def run(projection: list[RexNode], condition: RexNode | None, *rows: tuple[Any, ...]) -> list[tuple[Any, ...]]:
    """Returns what a Calc emits for rows (kind, a, b)."""
    output_type = row_info(**{f"c{index}": node.type for index, node in enumerate(projection)})
    spec = CalcSpec(projection=tuple(projection), condition=condition, input_types=(INPUT,), output_type=output_type)
    harness = OperatorHarness(spec)
    columns = [[row[1 + place] for row in rows] for place in range(2)]
    schema = schema_of(INPUT.row_type)
    values = pa.RecordBatch.from_arrays([pa.array(c, f.type) for c, f in zip(columns, schema)], schema=schema)
    harness.operator.process_batch(Batch(values, None, np.array([KINDS.index(row[0]) for row in rows], np.int8)))
    harness.operator.close()
    emitted = []
    for batch in harness.output.items:
        assert batch.values.schema == schema_of(output_type.row_type)
        found = list(zip(*(column.to_pylist() for column in batch.values.columns))) or [()] * batch.num_rows
        emitted += [(KINDS[kind], *row) for kind, row in zip(batch.kinds.tolist(), found, strict=True)]
    return emitted


def number(value: int) -> Literal:
    return Literal(INT.not_null(), value)


def test_projection_keeps_row_kinds() -> None:
    emitted = run([call("+", A, number(1)), B], None, ("-U", 1, "x"), ("+U", 2, "y"))
    assert emitted == [("-U", 2, "x"), ("+U", 3, "y")]


def test_condition_keeps_rows_for_which_it_is_true() -> None:
    rows = [("+I", 1, "x"), ("-D", 5, None), ("+I", None, "z")]
    assert run([B, A], call(">", A, number(2)), *rows) == [("-D", None, 5)]


def test_nothing_is_emitted_if_no_row_is_left() -> None:
    assert run([A], call("=", A, number(9)), ("+I", 1, "x")) == []


def test_constants_need_no_column() -> None:
    assert run([number(7)], call("IS NOT NULL", B), ("+I", 1, "x"), ("+I", 2, None), ("+I", 3, "y")) == [
        ("+I", 7),
        ("+I", 7),
    ]


def test_current_watermark_is_null_before_the_first_watermark() -> None:
    rowtime = lt.TimestampType(3)
    output_type = row_info(c0=rowtime)
    spec = CalcSpec(
        (call("CURRENT_WATERMARK", InputRef(rowtime, 0)),),
        None,
        input_types=(row_info(ts=rowtime),),
        output_type=output_type,
    )
    harness = OperatorHarness(spec)
    rows = pa.RecordBatch.from_arrays([pa.array([0], pa.timestamp("ms"))], names=["ts"])
    harness.operator.process_batch(Batch(rows))
    harness.operator.process_watermark(Watermark(1500))
    harness.operator.process_batch(Batch(rows))
    found = [batch.values.column(0)[0].as_py() for batch in harness.output.items if isinstance(batch, Batch)]
    assert found == [None, dt.datetime(1970, 1, 1, 0, 0, 1, 500_000)]
