"""Functions that get a whole row as one argument, where an operator calls them with a value per column.

The argument is a Row for functions that are called per row, a pandas.DataFrame or a pyarrow.RecordBatch for
vectorised ones.

Source: pyflink.table.udf.UserDefinedFunctionWrapper._set_takes_row_as_input.
"""

from __future__ import annotations

from typing import Any

from flinkpy.common.types import Row
from flinkpy.functions.table_functions import (
    AggregateFunction,
    AsyncScalarFunction,
    FunctionContext,
    ImperativeAggregateFunction,
    ScalarFunction,
    TableAggregateFunction,
    TableFunction,
    UserDefinedFunction,
)


class _WholeRows(UserDefinedFunction):
    """The base class.

    Args:
        function: the user's function object.
        names: the columns.
        mode: general, pandas or arrow.
    """

    def __init__(self, function: Any, names: tuple[str, ...], mode: str) -> None:
        self.function = function
        self._names = names
        self._mode = mode

    def open(self, function_context: FunctionContext) -> None:
        self.function.open(function_context)

    def close(self) -> None:
        self.function.close()

    def is_deterministic(self) -> bool:
        return bool(self.function.is_deterministic())

    def row(self, values: tuple[Any, ...]) -> Any:
        if self._mode == "pandas":
            import pandas as pd

            return pd.concat(dict(zip(self._names, values, strict=True)), axis=1)
        if self._mode == "arrow":
            import pyarrow as pa

            return pa.RecordBatch.from_arrays(list(values), names=list(self._names))
        row = Row(*values)
        row.set_field_names(list(self._names))
        return row


class _ScalarOfRows(_WholeRows, ScalarFunction):
    def eval(self, *args: Any) -> Any:
        return self.function.eval(self.row(args))


class _AsyncScalarOfRows(_WholeRows, AsyncScalarFunction):
    async def eval(self, *args: Any) -> Any:
        return await self.function.eval(self.row(args))


class _TableOfRows(_WholeRows, TableFunction):
    def eval(self, *args: Any) -> Any:
        return self.function.eval(self.row(args))


class _AggregateOfRows(_WholeRows, ImperativeAggregateFunction[Any, Any]):
    def create_accumulator(self) -> Any:
        return self.function.create_accumulator()

    def accumulate(self, accumulator: Any, *args: Any) -> None:
        self.function.accumulate(accumulator, self.row(args))

    def retract(self, accumulator: Any, *args: Any) -> None:
        self.function.retract(accumulator, self.row(args))

    def merge(self, accumulator: Any, accumulators: Any) -> None:
        self.function.merge(accumulator, accumulators)


class _ValueOfRows(_AggregateOfRows, AggregateFunction[Any, Any]):
    def get_value(self, accumulator: Any) -> Any:
        return self.function.get_value(accumulator)


class _RowsOfRows(_AggregateOfRows, TableAggregateFunction[Any, Any]):
    def emit_value(self, accumulator: Any) -> Any:
        return self.function.emit_value(accumulator)


def taking_rows(function: Any, names: tuple[str, ...], mode: str) -> UserDefinedFunction:
    """Returns a function of one value per column that calls another function with a row of them."""
    kinds: tuple[tuple[type, type[_WholeRows]], ...] = (
        (TableAggregateFunction, _RowsOfRows),
        (AggregateFunction, _ValueOfRows),
        (TableFunction, _TableOfRows),
        (AsyncScalarFunction, _AsyncScalarOfRows),
        (ScalarFunction, _ScalarOfRows),
    )
    wrapper = next(found for kind, found in kinds if isinstance(function, kind))
    return wrapper(function, names, mode)
