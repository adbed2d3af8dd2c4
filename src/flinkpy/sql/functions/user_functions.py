"""UserFunctionCaller: calls user-defined scalar functions with columns.

| kind | the function is called with |
|---|---|
| general | the Python values of one row, see `flinkpy.sql.types.logical_codecs` |
| pandas | one `pandas.Series` per argument, for all rows of a batch |
| arrow | one `pyarrow.Array` per argument, for all rows of a batch |

Source: org.apache.flink.table.runtime.operators.python.scalar.PythonScalarFunctionOperator.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from flinkpy.common.error_text import describe, format_user_traceback
from flinkpy.common.errors import FlinkError, FunctionError, TypeMismatchError, UnsupportedOperationError
from flinkpy.records.scalar_codecs import ValueMismatch
from flinkpy.sql.functions.kernel_call import as_array
from flinkpy.sql.rex import ASYNC, UserFunctionCall
from flinkpy.sql.types.arrow import arrow_type_of
from flinkpy.sql.types.logical_codecs import logical_codec


def user_function_failed(name: str, error: Exception) -> FlinkError:
    """Returns the error for a user-defined function that raised: it has the user's traceback."""
    if isinstance(error, FlinkError):
        return error
    return FunctionError(
        f"the function {name} raised {describe(error)}",
        details={"function": name},
        remote_traceback=format_user_traceback(error),
    )


class UserFunctionCaller:
    """Calls one user-defined function. The function is an object with `eval`, or a plain function."""

    def __init__(self, node: UserFunctionCall) -> None:
        if node.kind == ASYNC:
            raise UnsupportedOperationError(
                f"the asynchronous function {node.name} can only be called in SELECT and WHERE",
                details={"function": node.name},
            )
        self._node = node
        self._eval = getattr(node.function, "eval", node.function)
        self._arrow_type = arrow_type_of(node.type)
        self._result = logical_codec(node.type)
        self._arguments = [logical_codec(argument.type) for argument in node.arguments]

    def open(self, context: Any) -> None:
        opened = getattr(self._node.function, "open", None)
        if opened is not None:
            opened(context)

    def close(self) -> None:
        closed = getattr(self._node.function, "close", None)
        if closed is not None:
            closed()

    def call(self, operands: list[Any], num_rows: int) -> pa.Array:
        """Returns the results for all rows.

        Raises:
            FunctionError: if the function raises, or returns another number of values.
            TypeMismatchError: if a result does not have the declared type.
        """
        columns = [as_array(operand, num_rows) for operand in operands]
        try:
            if self._node.kind == "pandas":
                result = self._eval(*(column.to_pandas() for column in columns))
            elif self._node.kind == "arrow":
                result = self._eval(*columns)
            else:
                result = self._per_row(columns, num_rows)
        except Exception as error:
            raise user_function_failed(self._node.name, error) from error
        return result if self._node.kind == "general" else self._vector(result, num_rows)

    def _per_row(self, columns: list[pa.Array], num_rows: int) -> pa.Array:
        evaluate = self._eval
        values = [codec.decode(column) for codec, column in zip(self._arguments, columns)]
        results = [evaluate(*row) for row in zip(*values)] if values else [evaluate() for _ in range(num_rows)]
        try:
            return self._result.encode(results)
        except ValueMismatch as mismatch:
            raise TypeMismatchError(
                f"the function {self._node.name} returned {mismatch.value!r:.120} "
                f"({type(mismatch.value).__name__}), which is not a {self._node.type}"
            ) from None

    def _vector(self, result: Any, num_rows: int) -> pa.Array:
        if isinstance(result, pa.ChunkedArray):
            result = result.combine_chunks()
        if isinstance(result, pa.Scalar):
            result = as_array(result, num_rows)
        if not isinstance(result, pa.Array):
            try:
                result = _from_pandas(result, self._arrow_type)
            except (pa.ArrowException, TypeError, ValueError) as error:
                raise TypeMismatchError(
                    f"the function {self._node.name} returned values that are not {self._node.type}: {error}"
                ) from error
        if len(result) != num_rows:
            raise FunctionError(
                f"the function {self._node.name} returned {len(result)} values for {num_rows} rows; a vectorised "
                "function returns one value per row"
            )
        return result if result.type == self._arrow_type else result.cast(self._arrow_type)


def _from_pandas(result: Any, kind: pa.DataType) -> pa.Array:
    """Returns a Series as a column; a DataFrame as a column of rows, whose fields are its columns in their order."""
    if not pa.types.is_struct(kind) or not hasattr(result, "columns"):
        return pa.Array.from_pandas(result, type=kind)
    if len(result.columns) != kind.num_fields:
        raise ValueError(f"a DataFrame with {len(result.columns)} columns for a row of {kind.num_fields}")
    fields = list(kind)
    columns = [pa.Array.from_pandas(result.iloc[:, place], type=each.type) for place, each in enumerate(fields)]
    return pa.StructArray.from_arrays(columns, fields=fields)
