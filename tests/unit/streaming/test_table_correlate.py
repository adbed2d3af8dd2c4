"""CorrelateOperator: UNNEST and table functions of users, on changelogs."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from streaming_fakes import OperatorHarness
from table_subtasks import KINDS, row_info

from flinkpy.common.errors import FunctionError, TypeMismatchError
from flinkpy.common.types import Row
from flinkpy.graph.table_specs import CorrelateSpec, JoinType
from flinkpy.records.batch import Batch
from flinkpy.sql.functions.registry import call
from flinkpy.sql.rex import UNNEST, UNNEST_WITH_ORDINALITY, InputRef, RexCall, RexNode, UserFunctionCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import schema_of
from flinkpy.table.udf import FunctionContext, TableFunction, udtf

INT, STRING = lt.IntType(), lt.VarCharType()
Rows = list[tuple[Any, ...]]


def rows_of(**fields: lt.LogicalType) -> lt.RowType:
    return lt.RowType(tuple(lt.RowField(name, kind) for name, kind in fields.items()))


def unnest(kind: lt.LogicalType, *, with_ordinality: bool = False, **columns: lt.LogicalType) -> RexCall:
    name = UNNEST_WITH_ORDINALITY if with_ordinality else UNNEST
    return RexCall(rows_of(**columns), name, (InputRef(kind, 1),))


def user_call(function: Any, argument: lt.LogicalType, **columns: lt.LogicalType) -> UserFunctionCall:
    wrapper = udtf(function, result_types=list(columns.values()))
    return UserFunctionCall(rows_of(**columns), wrapper.name, wrapper.function, (InputRef(argument, 1),))


def run(node: RexNode, rows: Rows, *, left: bool = False, condition: RexNode | None = None, cut: int = 0) -> Rows:
    """Returns what the operator emits for rows (kind, id, argument), which come in batches of `cut` rows."""
    input_type = row_info(id=INT, value=node.operands[0].type)
    assert isinstance(node.type, lt.RowType)
    output = {"id": INT, "value": node.operands[0].type} | {each.name: each.type for each in node.type.fields}
    spec = CorrelateSpec(
        node,
        JoinType.LEFT if left else JoinType.INNER,
        condition,
        input_types=(input_type,),
        output_type=row_info(**output),
    )
    harness = OperatorHarness(spec)
    schema = schema_of(input_type.row_type)
    emitted: Rows = []
    for start in range(0, len(rows), cut or max(1, len(rows))):
        part = rows[start : start + (cut or len(rows))]
        arrays = [pa.array([row[1 + place] for row in part], field.type) for place, field in enumerate(schema)]
        kinds = np.array([KINDS.index(row[0]) for row in part], np.int8)
        harness.operator.process_batch(Batch(pa.RecordBatch.from_arrays(arrays, schema=schema), None, kinds))
    harness.operator.close()
    for batch in harness.output.items:
        kinds = [0] * batch.num_rows if batch.kinds is None else batch.kinds.tolist()
        found = zip(*(column.to_pylist() for column in batch.values.columns))
        emitted += [(KINDS[kind], row[0], *row[2:]) for kind, row in zip(kinds, found, strict=True)]
    return emitted


def test_elements_of_an_array_get_the_kind_of_their_row() -> None:
    node = unnest(lt.ArrayType(INT), x=INT)
    assert run(node, [("-U", 1, [7, None]), ("+U", 1, []), ("-D", 2, None), ("+I", 3, [9])]) == [
        ("-U", 1, 7),
        ("-U", 1, None),
        ("+I", 3, 9),
    ]


def test_a_left_join_keeps_rows_without_elements() -> None:
    node = unnest(lt.ArrayType(INT), x=INT)
    assert run(node, [("+I", 1, []), ("-D", 2, [5, 6]), ("+U", 3, None)], left=True) == [
        ("+I", 1, None),
        ("-D", 2, 5),
        ("-D", 2, 6),
        ("+U", 3, None),
    ]


def test_fields_of_rows_are_columns_and_null_rows_have_no_result() -> None:
    element = rows_of(x=INT, y=STRING)
    node = unnest(lt.ArrayType(element), with_ordinality=True, x=INT, y=STRING, o=INT)
    rows = [("+I", 1, [None, {"x": 1, "y": "a"}, {"x": 2, "y": None}]), ("+I", 2, [{"x": 3, "y": "c"}])]
    assert run(node, rows) == [("+I", 1, 1, "a", 2), ("+I", 1, 2, None, 3), ("+I", 2, 3, "c", 1)]


def test_maps_have_keys_and_values_and_multisets_repeat_elements() -> None:
    entries = [("+I", 1, [("a", 1), ("b", None)]), ("+I", 2, None), ("+I", 3, [("c", 3)])]
    assert run(unnest(lt.MapType(STRING, INT), k=STRING, v=INT), entries) == [
        ("+I", 1, "a", 1),
        ("+I", 1, "b", None),
        ("+I", 3, "c", 3),
    ]
    counted = [("+I", 1, [("a", 2), ("b", 1)])]
    assert run(unnest(lt.MultisetType(STRING), x=STRING), counted) == [("+I", 1, "a"), ("+I", 1, "a"), ("+I", 1, "b")]


def test_a_condition_sees_the_row_and_the_result() -> None:
    node = unnest(lt.ArrayType(INT), x=INT)
    condition = call(">", InputRef(INT, 2), InputRef(INT, 0))
    rows = [("+I", 1, [1, 2, 3]), ("+I", 5, [4])]
    assert run(node, rows, condition=condition) == [("+I", 1, 2), ("+I", 1, 3)]
    assert run(node, rows, condition=condition, left=True) == [("+I", 1, 2), ("+I", 1, 3), ("+I", 5, None)]


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.integers(0, 3), st.none() | st.lists(st.integers(0, 9), max_size=3))),
    st.booleans(),
    st.integers(1, 5),
)
def test_results_do_not_depend_on_batches(rows: Rows, left: bool, cut: int) -> None:
    expected = [
        (kind, key, *values)
        for kind, key, array in rows
        for values in [(x, place + 1) for place, x in enumerate(array or [])] or ([(None, None)] if left else [])
    ]
    node = unnest(lt.ArrayType(INT), with_ordinality=True, x=INT, o=INT)
    assert run(node, rows, left=left, cut=cut) == expected


def test_a_function_may_return_iterators_lists_single_rows_or_nothing() -> None:
    results: dict[str, Any] = {
        "none": None,
        "list": [("a", 1), Row("b", 2)],
        "row": ("c", 3),
        "iterator": iter([Row("d", 4)]),
    }
    node = user_call(results.__getitem__, STRING, word=STRING, n=INT)
    rows = [("+I", number, key) for number, key in enumerate(results)]
    assert run(node, rows) == [("+I", 1, "a", 1), ("+I", 1, "b", 2), ("+I", 2, "c", 3), ("+I", 3, "d", 4)]


def test_a_function_of_one_column_may_return_bare_values() -> None:
    assert run(user_call(lambda n: [*range(n)], INT, x=INT), [("+I", 1, 2)]) == [("+I", 1, 0), ("+I", 1, 1)]


class _Opened(TableFunction):
    def open(self, function_context: FunctionContext) -> None:
        self.prefix = function_context.get_job_parameter("prefix", "p")

    def eval(self, value: int) -> Iterator[str]:
        yield f"{self.prefix}{value}"


def test_functions_are_opened_with_the_parameters_of_the_job() -> None:
    assert run(user_call(_Opened(), INT, x=STRING), [("+I", 1, 8)]) == [("+I", 1, "p8")]


def test_a_vectorised_function_returns_a_list_per_row() -> None:
    wrapper = udtf(
        lambda values: pa.array([[{"a": v, "b": str(v)}] * v for v in values.to_pylist()]),
        result_types=["INT", "STRING"],
        func_type="arrow",
    )
    node = UserFunctionCall(rows_of(a=INT, b=STRING), "f", wrapper.function, (InputRef(INT, 1),), wrapper.mode)
    assert run(node, [("+I", 1, 0), ("-D", 2, 2)]) == [("-D", 2, 2, "2"), ("-D", 2, 2, "2")]


def test_errors_name_the_function() -> None:
    def broken(value: int) -> int:
        raise KeyError(value)

    with pytest.raises(FunctionError, match="the function broken raised KeyError: 4") as failure:
        run(user_call(broken, INT, x=INT), [("+I", 1, 4)])
    assert "raise KeyError(value)" in failure.value.remote_traceback
    with pytest.raises(FunctionError, match="its rows have 2 columns"):
        run(user_call(lambda value: (value,), INT, x=INT, y=INT), [("+I", 1, 4)])
    with pytest.raises(TypeMismatchError, match="for the column x, which is not a INT"):
        run(user_call(lambda value: f"{value}", INT, x=INT), [("+I", 1, 4)])
