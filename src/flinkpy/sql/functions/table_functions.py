"""Table functions: return any number of rows for each row of a batch, in columns.

| function | rows for one row |
|---|---|
| UNNEST of an ARRAY | its elements; of elements that are rows the fields, and none for a NULL row |
| UNNEST of a MAP | its keys and values |
| UNNEST of a MULTISET | its elements, each as often as the multiset contains it |
| WITH ORDINALITY | the same, and the position of each row from 1 |
| a user's, general | what the function returns: None, one row, or a list, range or iterator of rows |
| a user's, arrow | the elements of a list: the function returns a ListArray, of structs if there are several columns |

A row is a tuple or a Row; a table function of one column may also return bare values.

Source: org.apache.flink.table.runtime.functions.table.UnnestRowsFunctionBase,
pyflink.fn_execution.utils.operation_utils.normalize_table_function_result.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import FunctionError, TypeMismatchError, UnsupportedOperationError
from flinkpy.common.types import Row
from flinkpy.records.scalar_codecs import ValueMismatch
from flinkpy.sql.functions.user_functions import user_function_failed
from flinkpy.sql.rex import UNNEST, UNNEST_WITH_ORDINALITY, RexCall, RexNode, UserFunctionCall
from flinkpy.sql.types import logical_types as lt
from flinkpy.sql.types.arrow import arrow_type_of
from flinkpy.sql.types.logical_codecs import logical_codec

#: int64[m]: the row of the batch that each result belongs to, in ascending order; then the columns of the results.
TableResult = tuple[np.ndarray, list[pa.Array]]


class TableFunctionCaller(Protocol):
    """Calls one table function."""

    def open(self, context: Any) -> None:
        """Opens the user's function with its FunctionContext."""

    def close(self) -> None: ...

    def call(self, arguments: list[pa.Array], num_rows: int) -> TableResult:
        """Returns the rows for each row of the arguments. Raises: FunctionError if the user's function raises."""
        ...


def table_function_caller(node: RexNode) -> TableFunctionCaller:
    """Returns the caller of a table function. Raises: UnsupportedOperationError for an unknown one."""
    if isinstance(node, UserFunctionCall):
        return _VectorisedCaller(node) if node.kind == "arrow" else _GeneralCaller(node)
    assert isinstance(node, RexCall)
    if node.function in (UNNEST, UNNEST_WITH_ORDINALITY):
        return _Unnest(node)
    raise UnsupportedOperationError(
        f"flinkpy does not have the table function {node.function} yet", details={"function": node.function}
    )


class _Unnest:
    def __init__(self, node: RexCall) -> None:
        assert isinstance(node.type, lt.RowType)
        self._kind = node.arguments[0].type
        self._has_ordinality = node.function == UNNEST_WITH_ORDINALITY
        self._types = [arrow_type_of(each.type) for each in node.type.fields]

    def open(self, context: Any) -> None:
        return

    def close(self) -> None:
        return

    def call(self, arguments: list[pa.Array], num_rows: int) -> TableResult:
        rows, values = _elements(arguments[0], self._kind)
        if self._has_ordinality:
            starts = np.searchsorted(rows, rows)
            values.append(pa.array(np.arange(1, len(rows) + 1) - starts, pa.int32()))
        if pa.types.is_struct(values[0].type):
            # An element that is a NULL row has no result.
            if values[0].null_count:
                kept = np.flatnonzero(values[0].is_valid().to_numpy(zero_copy_only=False))
                rows, values = rows[kept], [each.take(pa.array(kept)) for each in values]
            values = [*values[0].flatten(), *values[1:]]
        return rows, [each if each.type == kind else each.cast(kind) for each, kind in zip(values, self._types)]


def _elements(collection: pa.Array, kind: lt.LogicalType) -> TableResult:
    """Returns the elements of collections, and the row of each. NULL has none. A map has two columns."""
    if collection.null_count:
        # A NULL may still span values, which a copy leaves out.
        collection = collection.take(pa.array(np.arange(len(collection))))
    offsets = collection.offsets.to_numpy()
    rows = np.repeat(np.arange(len(collection)), np.diff(offsets))
    first, size = int(offsets[0]), int(offsets[-1] - offsets[0])
    if isinstance(kind, lt.MapType):
        return rows, [collection.keys.slice(first, size), collection.items.slice(first, size)]
    if isinstance(kind, lt.MultisetType):
        counts = collection.items.slice(first, size).to_numpy(zero_copy_only=False)
        repeated = np.repeat(np.arange(len(rows)), counts)
        return rows[repeated], [collection.keys.slice(first, size).take(pa.array(repeated))]
    return rows, [collection.values.slice(first, size)]


class _UserCaller:
    """The base class of the callers of users' functions."""

    def __init__(self, node: UserFunctionCall) -> None:
        assert isinstance(node.type, lt.RowType)
        self._name = node.name
        self._function = node.function
        self._eval = getattr(node.function, "eval", node.function)
        self._row = node.type
        self._arguments = [logical_codec(argument.type) for argument in node.arguments]

    def open(self, context: Any) -> None:
        opened = getattr(self._function, "open", None)
        if opened is not None:
            opened(context)

    def close(self) -> None:
        closed = getattr(self._function, "close", None)
        if closed is not None:
            closed()


class _GeneralCaller(_UserCaller):
    """Calls a function once per row with Python values."""

    def __init__(self, node: UserFunctionCall) -> None:
        super().__init__(node)
        self._results = [logical_codec(each.type) for each in self._row.fields]

    def call(self, arguments: list[pa.Array], num_rows: int) -> TableResult:
        columns = [codec.decode(column) for codec, column in zip(self._arguments, arguments)]
        calls: Any = zip(*columns) if columns else [()] * num_rows
        rows: list[int] = []
        results: list[Any] = []
        width, evaluate = len(self._results), self._eval
        try:
            for number, values in enumerate(calls):
                for result in _iterated(evaluate(*values)):
                    rows.append(number)
                    results.append(result)
        except Exception as error:
            raise user_function_failed(self._name, error) from error
        if width == 1:
            encoded = [[self._single(each) for each in results]]
        else:
            plain = [self._plain(each) for each in results]
            encoded = [[each[place] for each in plain] for place in range(width)]
        return np.array(rows, dtype=np.int64), self._encoded(encoded)

    def _single(self, result: Any) -> Any:
        if isinstance(result, (tuple, Row)):
            return self._plain(result)[0]
        return result

    def _plain(self, result: Any) -> Any:
        """Returns the fields of a row. Raises: FunctionError for another number of columns."""
        values = result._values if isinstance(result, Row) else result
        if not isinstance(values, (tuple, list)) or len(values) != len(self._results):
            raise FunctionError(
                f"the table function {self._name} returned {result!r:.120}, but its rows have "
                f"{len(self._results)} columns ({', '.join(self._row.names)})"
            )
        return values

    def _encoded(self, columns: list[list[Any]]) -> list[pa.Array]:
        arrays = []
        for codec, field, column in zip(self._results, self._row.fields, columns):
            try:
                arrays.append(codec.encode(column))
            except ValueMismatch as mismatch:
                raise TypeMismatchError(
                    f"the table function {self._name} returned {mismatch.value!r:.120} "
                    f"({type(mismatch.value).__name__}) for the column {field.name}, which is not a {field.type}"
                ) from None
        return arrays


def _iterated(result: Any) -> Any:
    """Returns the rows in the result of a general table function."""
    if result is None:
        return ()
    return result if isinstance(result, (list, range, Iterator)) else (result,)


class _VectorisedCaller(_UserCaller):
    """Calls a function once per batch with Arrow arrays."""

    def __init__(self, node: UserFunctionCall) -> None:
        super().__init__(node)
        self._types = [arrow_type_of(each.type) for each in self._row.fields]

    def call(self, arguments: list[pa.Array], num_rows: int) -> TableResult:
        try:
            result = self._eval(*arguments)
        except Exception as error:
            raise user_function_failed(self._name, error) from error
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        if not isinstance(result, pa.ListArray) or len(result) != num_rows:
            raise FunctionError(
                f"the table function {self._name} must return a pyarrow.ListArray of {num_rows} lists, one per row, "
                f"but returned {result!r:.120}"
            )
        rows, (values,) = _elements(result, lt.ArrayType(self._row))
        columns = values.flatten() if pa.types.is_struct(values.type) else [values]
        if len(columns) != len(self._types):
            raise FunctionError(
                f"the table function {self._name} returned {len(columns)} columns, but its rows have "
                f"{len(self._types)} ({', '.join(self._row.names)})"
            )
        try:
            return rows, [each.cast(kind) for each, kind in zip(columns, self._types)]
        except pa.ArrowException as error:
            raise TypeMismatchError(
                f"the table function {self._name} returned values that are not {self._row}: {error}"
            ) from error
