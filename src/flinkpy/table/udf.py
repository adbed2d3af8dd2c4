"""udf, udtf, udaf and udtaf: make functions of Python known to SQL and the Table API. Source: pyflink.table.udf."""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Sequence
from typing import Any

from flinkpy.functions.table_functions import (
    AggregateFunction,
    AsyncScalarFunction,
    DelegatingAsyncScalarFunction,
    DelegatingPandasAggregateFunction,
    DelegatingScalarFunction,
    DelegationTableFunction,
    FunctionContext,
    ImperativeAggregateFunction,
    ScalarFunction,
    TableAggregateFunction,
    TableFunction,
    UserDefinedFunction,
)
from flinkpy.sql.functions.whole_rows import taking_rows
from flinkpy.sql.types.logical_types import LogicalType, RowField, RowType
from flinkpy.table.type_conversion import logical_type_of

__all__ = [
    "AggregateFunction",
    "AsyncScalarFunction",
    "FunctionContext",
    "ScalarFunction",
    "TableAggregateFunction",
    "TableFunction",
    "udaf",
    "udf",
    "udtaf",
    "udtf",
]

_MODES = ("general", "pandas", "arrow")


class UserDefinedFunctionWrapper:
    """A function with its types, as the decorators return it.

    Attributes:
        kind: SCALAR, ASYNC_SCALAR, TABLE, AGGREGATE or TABLE_AGGREGATE.
        mode: general, pandas or arrow (`func_type`).
        function: the function object that operators call.
    """

    kind = "SCALAR"
    #: The names that `alias` gives to the columns of the result.
    alias_names: tuple[str, ...] = ()

    def __init__(
        self,
        func: Any,
        input_types: Any,
        mode: str = "general",
        deterministic: bool | None = None,
        name: str | None = None,
    ) -> None:
        if inspect.isclass(func) or not (isinstance(func, UserDefinedFunction) or callable(func)):
            raise TypeError(f"Invalid function: not a function or callable (__call__ is not defined): {type(func)}")
        if input_types is not None and not isinstance(input_types, (list, tuple)):
            input_types = [input_types]
        self._input_types = None if input_types is None else tuple(map(logical_type_of, input_types))
        if mode not in _MODES:
            raise ValueError(f"The func_type must be one of 'general, pandas' or 'arrow', got {mode}.")
        self.mode = mode
        self._name = str(name or getattr(func, "__name__", type(func).__name__))
        if isinstance(func, UserDefinedFunction):
            if deterministic is not None and deterministic != func.is_deterministic():
                raise ValueError(f"Inconsistent deterministic: {deterministic} and {func.is_deterministic()}")
            self.is_deterministic = func.is_deterministic()
        else:
            self.is_deterministic = True if deterministic is None else deterministic
        self.function = self._wrapped(func)
        functools.update_wrapper(self, func, updated=())

    def _wrapped(self, func: Any) -> Any:
        return func

    @property
    def name(self) -> str:
        return self._name

    def result_type(self, arguments: tuple[LogicalType, ...]) -> LogicalType:
        """Returns the type of the result for arguments of these types; of a table function the row."""
        raise NotImplementedError

    def __call__(self, *args: Any) -> Any:
        """Returns the Expression of a call, for the Table API."""
        from flinkpy.table.expression import Expression, node_of
        from flinkpy.table.expression_nodes import UnresolvedCall

        return Expression(UnresolvedCall(self, tuple(map(node_of, args))))

    def taking_rows(self, names: Sequence[str]) -> UserDefinedFunctionWrapper:
        """Returns a function of all columns of a table, which calls this one with a whole row.

        Args:
            names: the columns.
        """
        wrapper = copy.copy(self)
        wrapper._input_types = None
        wrapper.function = taking_rows(self.function, tuple(names), self.mode)
        return wrapper

    def alias(self, *alias_names: str) -> UserDefinedFunctionWrapper:
        """Returns the function with names for the columns of its result, where an operation takes a whole row."""
        named = copy.copy(self)
        named.alias_names = alias_names
        return named


class UserDefinedScalarFunctionWrapper(UserDefinedFunctionWrapper):
    """The wrapper of `udf`."""

    def __init__(
        self,
        func: Any,
        input_types: Any,
        result_type: Any,
        func_type: str,
        deterministic: bool | None,
        name: str | None,
    ) -> None:
        super().__init__(func, input_types, func_type, deterministic, name)
        if result_type is None:
            raise TypeError("Invalid returnType: returnType should be DataType or str but is None")
        self._result_type = logical_type_of(result_type)

    def _wrapped(self, func: Any) -> Any:
        return func if isinstance(func, UserDefinedFunction) else DelegatingScalarFunction(func)

    def result_type(self, arguments: tuple[LogicalType, ...]) -> LogicalType:
        return self._result_type


class UserDefinedAsyncScalarFunctionWrapper(UserDefinedScalarFunctionWrapper):
    """The wrapper of `udf` for coroutine functions."""

    kind = "ASYNC_SCALAR"

    def _wrapped(self, func: Any) -> Any:
        return func if isinstance(func, UserDefinedFunction) else DelegatingAsyncScalarFunction(func)


class UserDefinedTableFunctionWrapper(UserDefinedFunctionWrapper):
    """The wrapper of `udtf`."""

    kind = "TABLE"

    def __init__(
        self,
        func: Any,
        input_types: Any,
        result_types: Any,
        deterministic: bool | None,
        name: str | None,
        func_type: str = "general",
    ) -> None:
        if func_type not in ("general", "arrow"):
            raise ValueError(f"The func_type of a table function must be one of 'general' or 'arrow', got {func_type}.")
        super().__init__(func, input_types, func_type, deterministic, name)
        if result_types is None:
            raise TypeError("Invalid result_type: result_type should be DataType or str but is None")
        if not isinstance(result_types, (list, tuple)):
            found = logical_type_of(result_types)
            self._result_type = found if isinstance(found, RowType) else _row((found,))
        else:
            self._result_type = _row(tuple(map(logical_type_of, result_types)))

    def _wrapped(self, func: Any) -> Any:
        return func if isinstance(func, UserDefinedFunction) else DelegationTableFunction(func)

    def result_type(self, arguments: tuple[LogicalType, ...]) -> LogicalType:
        return self._result_type


class UserDefinedAggregateFunctionWrapper(UserDefinedFunctionWrapper):
    """The wrapper of `udaf` and `udtaf`.

    Attributes:
        accumulator_type: the type of the accumulator; None for vectorised functions.
    """

    def __init__(
        self,
        func: Any,
        input_types: Any,
        result_type: Any,
        accumulator_type: Any,
        func_type: str,
        deterministic: bool | None,
        name: str | None,
        is_table_aggregate: bool = False,
    ) -> None:
        super().__init__(func, input_types, func_type, deterministic, name)
        self.kind = "TABLE_AGGREGATE" if is_table_aggregate else "AGGREGATE"
        if isinstance(func, ImperativeAggregateFunction) and func_type == "general":
            result_type = func.get_result_type() if result_type is None else result_type
            accumulator_type = func.get_accumulator_type() if accumulator_type is None else accumulator_type
        if result_type is None:
            raise TypeError("Invalid returnType: returnType should be DataType or str but is None")
        self._result_type = logical_type_of(result_type)
        self.accumulator_type = None if accumulator_type is None else logical_type_of(accumulator_type)

    def _wrapped(self, func: Any) -> Any:
        return func if isinstance(func, UserDefinedFunction) else DelegatingPandasAggregateFunction(func)

    def result_type(self, arguments: tuple[LogicalType, ...]) -> LogicalType:
        return self._result_type


def _row(types: tuple[LogicalType, ...]) -> RowType:
    return RowType(tuple(RowField(f"f{place}", kind) for place, kind in enumerate(types)))


def udf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Makes a scalar function of a function, a ScalarFunction or a coroutine function. It is a decorator, too.

    Args:
        f: the function.
        input_types: the types of the arguments; None to take any.
        result_type: the type of the result: a DataType or its SQL text.
        deterministic: False if calls with equal arguments may differ. True by default.
        name: the name in plans.
        func_type: `general` for a call per row; `pandas` for one with a Series per argument; beyond PyFlink `arrow` for
            one with a pyarrow.Array per argument.

    Example:
        >>> add = udf(lambda i, j: i + j, result_type=DataTypes.BIGINT())
    """

    def make(func: Any) -> Any:
        is_async = isinstance(func, AsyncScalarFunction) or inspect.iscoroutinefunction(func)
        wrapper = UserDefinedAsyncScalarFunctionWrapper if is_async else UserDefinedScalarFunctionWrapper
        return wrapper(func, input_types, result_type, func_type, deterministic, name)

    return make if f is None else make(f)


def udtf(
    f: Any = None,
    input_types: Any = None,
    result_types: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Makes a table function of a function, a generator or a TableFunction. It is a decorator, too.

    Args:
        f: returns None, one row, or a list, range or iterator of rows. A row is a tuple or a Row; a bare value will do
            for one column.
        input_types: the types of the arguments; None to take any.
        result_types: the types of the columns: one, a list of them, or a ROW type with their names.
        deterministic: as in `udf`.
        name: the name in plans.
        func_type: `general` for a call per row; beyond PyFlink `arrow` for one with a pyarrow.Array per argument, which
            returns a pyarrow.ListArray with a list per row, of structs if there are several columns.
    """

    def make(func: Any) -> UserDefinedTableFunctionWrapper:
        return UserDefinedTableFunctionWrapper(func, input_types, result_types, deterministic, name, func_type)

    return make if f is None else make(f)


def udaf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    accumulator_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Makes an aggregate function of an AggregateFunction or of a function of pandas.Series. It is a decorator, too."""

    def make(func: Any) -> UserDefinedAggregateFunctionWrapper:
        return UserDefinedAggregateFunctionWrapper(
            func, input_types, result_type, accumulator_type, func_type, deterministic, name
        )

    return make if f is None else make(f)


def udtaf(
    f: Any = None,
    input_types: Any = None,
    result_type: Any = None,
    accumulator_type: Any = None,
    deterministic: bool | None = None,
    name: str | None = None,
    func_type: str = "general",
) -> Any:
    """Makes a table aggregate function of a TableAggregateFunction. It is a decorator, too."""
    if func_type != "general":
        raise ValueError(f"The func_type must be 'general', got {func_type}.")

    def make(func: Any) -> UserDefinedAggregateFunctionWrapper:
        return UserDefinedAggregateFunctionWrapper(
            func, input_types, result_type, accumulator_type, func_type, deterministic, name, is_table_aggregate=True
        )

    return make if f is None else make(f)
