"""Compiles user functions over numbers to machine code with numba, which runs them without the GIL.

numba is imported when the first function is compiled. A program without compiled functions does not need it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import FlinkError, FunctionError, TypeMismatchError, UnsupportedOperationError
from flinkpy.records.numpy_dtypes import numpy_dtype

#: How many lines of an error of numba are shown. The first lines name the problem; the rest is about numba's internals.
_SHOWN_LINES = 6


def name_of(function: Any) -> str:
    return getattr(function, "__qualname__", type(function).__qualname__)


def numba_module() -> Any:
    """Imports numba. Raises: UnsupportedOperationError if it is not installed."""
    try:
        import numba
    except ImportError as error:
        raise UnsupportedOperationError(
            f"compiled functions need numba, which cannot be imported ({error}): pip install 'flinkpy[numba]'"
        ) from error
    return numba


@lru_cache(maxsize=128)
def compiled_loop(source: str, function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function `loop` of `source`, which calls `function`. The first call with given types compiles it.

    Compiling takes some tenths of a second, so the loop is cached.
    """
    numba = numba_module()
    namespace: dict[str, Any] = {"function": numba.njit(function, nogil=True)}
    exec(compile(source, "<compiled loop>", "exec"), namespace)
    return numba.njit(namespace["loop"], nogil=True)  # type: ignore[no-any-return]


def call_loop(loop: Callable[..., Any], function: Any, *arguments: Any) -> Any:
    """Calls a compiled loop over `function`.

    Raises:
        TypeMismatchError: if numba cannot compile the function for these types. Names the function and the types.
        FunctionError: if the function raised an error.
    """
    try:
        return loop(*arguments)
    except FlinkError:
        raise
    except Exception as error:
        name = name_of(function)
        if type(error).__module__.startswith("numba"):
            types = ", ".join(str(each.dtype) for each in arguments if isinstance(each, np.ndarray))
            raise TypeMismatchError(
                f"the function {name} cannot be compiled for columns of {types}: {_shown(error)}",
                details={"function": name},
            ) from error
        raise FunctionError(
            f"the compiled function {name} raised {type(error).__name__}: {error}", details={"function": name}
        ) from error


def _shown(error: Exception) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return " ".join(lines[:_SHOWN_LINES])


def is_number(kind: pa.DataType) -> bool:
    """True if compiled functions accept and return values of this type."""
    return pa.types.is_boolean(kind) or pa.types.is_integer(kind) or kind in (pa.float32(), pa.float64())


def numbers_of(column: pa.Array) -> np.ndarray:
    """Returns the values of a column of numbers. The values at nulls are arbitrary."""
    if pa.types.is_boolean(column.type):
        return column.fill_null(False).to_numpy(zero_copy_only=False)
    if column.null_count:
        column = column.fill_null(0)
    return column.to_numpy(zero_copy_only=False)


def all_valid(columns: list[pa.Array]) -> np.ndarray | None:
    """Returns bool[n], True for rows without nulls; None if no row has a null."""
    is_valid: np.ndarray | None = None
    for column in columns:
        if column.null_count:
            valid = column.is_valid().to_numpy(zero_copy_only=False)
            is_valid = valid if is_valid is None else is_valid & valid
    return is_valid


class ColumnLoop:
    """Applies a function of numbers to whole columns. Thread: any, one at a time.

    Args:
        function: `(a, b, ...) -> number`.
        result_type: the type of the resulting column.
    """

    def __init__(self, function: Callable[..., Any], num_arguments: int, result_type: pa.DataType) -> None:
        self._function = function
        self._result_type = result_type
        names = [f"a{i}" for i in range(num_arguments)]
        values = ", ".join(f"{name}[i]" for name in names)
        head = ", ".join([*names, "out", "is_valid", "has_nulls"])
        self._source = (
            f"def loop({head}):\n"
            "    for i in range(len(out)):\n"
            "        if not has_nulls or is_valid[i]:\n"
            f"            out[i] = function({values})\n"
        )
        self._loop: Callable[..., Any] | None = None

    def __call__(self, columns: list[pa.Array]) -> pa.Array:
        """Returns the result for each row; null if one of the arguments is null."""
        if self._loop is None:
            self._loop = compiled_loop(self._source, self._function)
        is_valid = all_valid(columns)
        out = np.zeros(len(columns[0]), dtype=numpy_dtype(self._result_type))
        values = [numbers_of(column) for column in columns]
        mask = np.zeros(0, dtype=bool) if is_valid is None else is_valid
        call_loop(self._loop, self._function, *values, out, mask, is_valid is not None)
        return pa.array(out, self._result_type, mask=None if is_valid is None else ~is_valid)
