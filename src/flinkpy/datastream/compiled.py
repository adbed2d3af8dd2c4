"""Functions of numbers that numba compiles: written for one row, run over columns without the GIL. Beyond PyFlink.

```python
def total(price, quantity):
    return price * quantity if quantity > 0 else 0.0

orders.map_columns(total=compiled(total, Types.DOUBLE()))
orders.filter_batches(compiled(lambda price: price > 10, Types.BOOLEAN()))

last_jump = compiled_aggregate(
    ["price"], initial=(0.0, 0.0), add=lambda acc, price: (price, price - acc[0]), result=lambda acc: acc[1],
    output_type=Types.DOUBLE(),
)
orders.key_by("item").aggregate(jump=last_jump)
```
A function may use what numba's nopython mode supports: arithmetic, branches, loops, `math`, NumPy. It needs numba:
`pip install 'flinkpy[numba]'`. Each task compiles a function once, when its first records arrive.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

import pyarrow as pa

from flinkpy.common.errors import TypeMismatchError
from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation
from flinkpy.datastream import function_checks as checks
from flinkpy.graph.operator_specs import ColumnAggregate, CompiledAggregate
from flinkpy.records.compiling import ColumnLoop, is_number, name_of
from flinkpy.records.lanes import arrow_schema

__all__ = ["CompiledFunction", "compiled", "compiled_aggregate"]

COMPILED = "COMPILED"


def compiled(
    func: Callable[..., Any], output_type: TypeInformation, columns: Sequence[str] | None = None
) -> CompiledFunction:
    """Turns a function of one row's numbers into a function of columns, for `map_columns` and `filter_batches`.

    If one of its arguments is null, the function is not called and the result is null.

    Args:
        func: a function of numbers or booleans that returns a number or a boolean.
        output_type: the type of the result, a number or BOOLEAN.
        columns: the names of the columns that are its arguments. None takes the columns named like its parameters.

    Raises:
        TypeError: it is not a function, or its arguments are unknown.
    """
    _check_function("compiled", func)
    return CompiledFunction(func, _number_type("compiled", output_type), tuple(columns or _arguments(func)))


class CompiledFunction:
    """A compiled function of a RecordBatch that returns an array with one element per row. `compiled` creates it.

    Attributes:
        columns: the names of the columns that are its arguments.
        output_type: the type of its result.
    """

    def __init__(self, func: Callable[..., Any], output_type: TypeInformation, columns: tuple[str, ...]) -> None:
        if not columns:
            raise TypeError(f"compiled: {name_of(func)} has no arguments: it needs at least one column")
        self.columns = columns
        self.output_type = output_type
        self._func = func
        self._loop: ColumnLoop | None = None

    def __call__(self, batch: pa.RecordBatch) -> pa.Array:
        """Returns the results for a batch.

        Raises:
            TypeMismatchError: a column is missing or not of numbers, or numba cannot compile the function.
            FunctionError: the function failed.
        """
        arrays = []
        for name in self.columns:
            position = batch.schema.get_field_index(name)
            if position < 0:
                raise TypeMismatchError(
                    f"the compiled function {name_of(self._func)} needs a column {name!r}, which is not among "
                    f"{batch.schema.names}"
                )
            if not is_number(batch.schema.types[position]):
                raise TypeMismatchError(
                    f"the compiled function {name_of(self._func)} takes numbers, but column {name!r} is "
                    f"{batch.schema.types[position]}"
                )
            arrays.append(batch.column(position))
        if self._loop is None:
            self._loop = ColumnLoop(self._func, len(arrays), _arrow_type(self.output_type))
        return self._loop(arrays)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "_loop": None}


def compiled_aggregate(
    columns: Sequence[str] | str,
    *,
    initial: Any,
    add: Callable[..., Any],
    output_type: TypeInformation,
    merge: Callable[[Any, Any], Any] | None = None,
    result: Callable[[Any], Any] | None = None,
    name: str | None = None,
) -> ColumnAggregate:
    """Creates a custom aggregate, for `KeyedStream.aggregate` and `aggregate` of windows.

    Rows with a null in one of the columns are skipped. If a key or window has only such rows, its result is null.

    Args:
        columns: the names of the columns that `add` is called with.
        initial: the accumulator of a new key: an int (int64), float (float64) or bool, or a tuple of them.
        add: a function of the accumulator and the values that returns the next accumulator, of the same types. The
            records of a key are added in their order.
        output_type: the type of the result, a number or BOOLEAN.
        merge: a function of two accumulators that returns their combination. Sliding and session windows need it.
        result: a function of the accumulator that returns the result. None returns the accumulator, which must then be
            one number.
        name: the name of the result's column. A keyword of `aggregate` sets it too.

    Raises:
        TypeError: an argument is of another kind.
        ValueError: there is no column, or an accumulator that is a tuple has no `result`.
    """
    _check_function("compiled_aggregate: add", add)
    numbers = initial if isinstance(initial, tuple) else (initial,)
    if not numbers or not all(isinstance(number, bool | int | float) for number in numbers):
        raise TypeError(f"compiled_aggregate: initial must be a number or a tuple of numbers, not {initial!r}")
    if merge is not None:
        _check_function("compiled_aggregate: merge", merge)
    if result is not None:
        _check_function("compiled_aggregate: result", result)
    if result is None and isinstance(initial, tuple):
        raise ValueError("compiled_aggregate: an accumulator that is a tuple needs a `result`")
    wanted = (columns,) if isinstance(columns, str) else tuple(columns)
    if not wanted:
        raise ValueError("compiled_aggregate: there is no column to aggregate")
    name = name or name_of(add)
    function = CompiledAggregate(
        name,
        numbers,
        not isinstance(initial, tuple),
        add,
        merge,
        result or _itself,
        _number_type("compiled_aggregate", output_type),
    )
    return ColumnAggregate(name, COMPILED, None, wanted, function)


class AddColumns:
    """The function of a batch that `map_columns` applies."""

    def __init__(self, functions: dict[str, Callable[[pa.RecordBatch], Any]]) -> None:
        self._functions = functions

    def __call__(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        arrays = dict(zip(batch.schema.names, batch.columns))
        for name, function in self._functions.items():
            arrays[name] = function(batch)
        return pa.RecordBatch.from_arrays(list(arrays.values()), names=list(arrays))


def type_with_columns(stream_type: TypeInformation | None, functions: dict[str, CompiledFunction]) -> RowTypeInfo:
    """Returns the type of `map_columns`.

    Raises: TypeError if the stream has no columns, or lacks one that a function needs.
    """
    columns = checks.columns_of_type(stream_type)
    if columns is None:
        raise TypeError("map_columns works on columns: the stream must be of a declared TUPLE or ROW type")
    if not functions:
        raise TypeError("map_columns needs at least one column=compiled(...)")
    for name, function in functions.items():
        if not isinstance(function, CompiledFunction):
            raise TypeError(f"map_columns: {name} must be a compiled(...) function, not {function!r}")
        missing = [column for column in function.columns if column not in columns]
        if missing:
            raise TypeError(
                f"map_columns: {name} is a function of {', '.join(map(repr, missing))}, but the stream has only "
                f"{list(columns)}"
            )
    types = {**columns, **{name: function.output_type for name, function in functions.items()}}
    return RowTypeInfo(list(types.values()), list(types))


def _itself(accumulator: Any) -> Any:
    return accumulator


def _check_function(what: str, func: Any) -> None:
    if isinstance(func, type) or not callable(func):
        raise TypeError(f"{what} takes a function of numbers, not {func!r}")


def _arguments(func: Callable[..., Any]) -> list[str]:
    """Returns the names of the function's parameters."""
    try:
        parameters = inspect.signature(func).parameters.values()
    except (TypeError, ValueError) as error:
        raise TypeError(f"compiled: the arguments of {name_of(func)} are unknown: pass columns=[...]") from error
    if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD, each.KEYWORD_ONLY) for each in parameters):
        raise TypeError(f"compiled: {name_of(func)} has arguments without a position: pass columns=[...]")
    return [each.name for each in parameters]


def _number_type(what: str, type_info: Any) -> TypeInformation:
    if not isinstance(type_info, TypeInformation) or not is_number(_arrow_type(type_info)):
        raise TypeError(f"{what}: output_type must be the type of a number or BOOLEAN, not {type_info!r}")
    return type_info


def _arrow_type(type_info: TypeInformation) -> pa.DataType:
    schema = arrow_schema(type_info)
    return schema.types[0] if schema is not None and len(schema.types) == 1 else pa.null()
