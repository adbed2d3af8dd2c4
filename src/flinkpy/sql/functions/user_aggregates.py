"""UserAggregateFunction: a user-defined aggregate function with the types that a query calls it with.

| kind | the function is called |
|---|---|
| general | row by row, with an accumulator: an AggregateFunction |
| pandas | once for all rows of a group, window or frame, with a pandas.Series per argument |
| arrow | the same with a pyarrow.Array per argument |

Source: pyflink.fn_execution.table.aggregate_fast, pyflink.fn_execution.table.operations.StreamGroupWindowAggregate.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from flinkpy.common.errors import TypeMismatchError
from flinkpy.common.types import Row
from flinkpy.records.scalar_codecs import ValueMismatch
from flinkpy.sql.functions.user_functions import user_function_failed
from flinkpy.sql.types.arrow import arrow_type_of
from flinkpy.sql.types.logical_codecs import logical_codec
from flinkpy.sql.types.logical_types import LogicalType


@dataclass(eq=False)
class UserAggregateFunction:
    """Thread: task thread. Each operator has its own copy, since specs are pickled.

    Attributes:
        name: the name under which the query calls it.
        function: the user's function object.
        kind: general, pandas or arrow.
    """

    name: str
    function: Any
    kind: str
    argument_types: tuple[LogicalType, ...]
    result_type: LogicalType

    def __post_init__(self) -> None:
        self._is_open = False

    def is_deterministic(self) -> bool:
        """True if equal rows always give the same result."""
        check = getattr(self.function, "is_deterministic", None)
        return True if check is None else bool(check())

    def is_same(self, other: UserAggregateFunction | None) -> bool:
        """True if the other one has the same function and types."""
        return other is not None and self.function is other.function and self.argument_types == other.argument_types

    @property
    def is_vectorised(self) -> bool:
        return self.kind != "general"

    def open(self, context: Any) -> None:
        """Opens the user's function with its FunctionContext, once."""
        if not self._is_open:
            self._is_open = True
            self._called("open", context)

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._called("close")

    def _called(self, method: str, *arguments: Any) -> Any:
        try:
            return getattr(self.function, method)(*arguments)
        except Exception as error:
            raise user_function_failed(self.name, error) from error

    # -- values ------------------------------------------------------------------------------------------------------

    def decoded(self, columns: list[pa.Array]) -> list[tuple[Any, ...]]:
        """Returns the arguments of each row as Python values."""
        values = [logical_codec(kind).decode(column) for kind, column in zip(self.argument_types, columns)]
        return list(zip(*values))

    def encoded(self, results: list[Any]) -> pa.Array:
        """Returns results as a column. Raises: TypeMismatchError for values of another type."""
        try:
            return logical_codec(self.result_type).encode(results)
        except ValueMismatch as mismatch:
            raise TypeMismatchError(
                f"the function {self.name} returned {mismatch.value!r:.120} ({type(mismatch.value).__name__}), which "
                f"is not a {self.result_type}"
            ) from None

    # -- accumulators ------------------------------------------------------------------------------------------------

    def create(self) -> Any:
        """Returns an empty accumulator; that of a vectorised function is the list of its rows."""
        return [] if self.is_vectorised else self._called("create_accumulator")

    def accumulate(self, accumulator: Any, values: tuple[Any, ...]) -> None:
        if self.is_vectorised:
            accumulator.append(values)
        else:
            self._called("accumulate", accumulator, *values)

    def retract(self, accumulator: Any, values: tuple[Any, ...]) -> None:
        if not self.is_vectorised:
            self._called("retract", accumulator, *values)
        elif values in accumulator:
            accumulator.remove(values)

    def merge(self, accumulator: Any, other: Any) -> None:
        if self.is_vectorised:
            accumulator.extend(other)
        else:
            self._called("merge", accumulator, [other])

    def value(self, accumulator: Any) -> Any:
        """Returns the result; None for a vectorised function without rows."""
        if not self.is_vectorised:
            return self._called("get_value", accumulator)
        if not accumulator:
            return None
        columns = [logical_codec(kind).encode(list(each)) for kind, each in zip(self.argument_types, zip(*accumulator))]
        if self.kind == "pandas":
            columns = [column.to_pandas() for column in columns]
        try:
            result = self._vectorised(columns)
        except Exception as error:
            raise user_function_failed(self.name, error) from error
        if isinstance(result, pa.Scalar):
            column = pa.array([result.as_py()], arrow_type_of(self.result_type))
            return logical_codec(self.result_type).decode(column)[0]
        # NumPy's numbers become Python's.
        return result.item() if hasattr(result, "item") else result

    def _vectorised(self, columns: list[Any]) -> Any:
        accumulator = self.function.create_accumulator()
        self.function.accumulate(accumulator, *columns)
        return self.function.get_value(accumulator)


@dataclass(eq=False)
class UserTableAggregateFunction(UserAggregateFunction):
    """A user-defined table aggregate function. Its result is the ARRAY of the rows that it emits for a group."""

    def value(self, accumulator: Any) -> list[Any]:
        """Returns the rows, which later changes of the accumulator do not change."""
        try:
            return [_as_row(each) for each in self.function.emit_value(accumulator)]
        except Exception as error:
            raise user_function_failed(self.name, error) from error


def _as_row(value: Any) -> tuple[Any, ...]:
    """Returns a row as a tuple; a bare value is the only one of its row."""
    return tuple(value) if isinstance(value, (Row, tuple, list)) else (value,)
