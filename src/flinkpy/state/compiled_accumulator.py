"""CompiledAccumulator: runs a compiled aggregate function of the user's program over numeric columns.

The accumulator of a key is a tuple of numbers, and each of its fields is a column. For each record the loop computes
`accumulator = add(accumulator, value, ...)`. Rows with a null in one of the aggregate's columns are ignored. The result
of a key without any other row is null.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.records.compiling import all_valid, call_loop, compiled_loop, numbers_of
from flinkpy.records.numpy_dtypes import numpy_dtype
from flinkpy.state.accumulators import Accumulator, FrozenColumns, _grown


class CompiledAccumulator(Accumulator):
    """The accumulators of a compiled aggregate function. Thread: task thread.

    Args:
        value_type: a struct of the aggregated columns.
        function: a CompiledAggregate with `initial`, `add`, `merge` (or None), `result` and the `arrow_type` of the
            result. None if the accumulator is only used for the columns of snapshots.
        types: the types of the columns that hold the accumulators.
    """

    def __init__(self, value_type: pa.DataType, function: Any, types: tuple[pa.DataType, ...]) -> None:
        self._function = function
        self._types = types
        self._num_values = value_type.num_fields
        self.num_columns = len(types) + 1
        self.fields = [np.zeros(0, dtype=numpy_dtype(kind)) for kind in types]
        self.has_value = np.zeros(0, dtype=bool)
        self._loops: dict[str, Callable[..., Any]] = {}

    def grow(self, size: int) -> None:
        for i, field in enumerate(self.fields):
            self.fields[i] = _grown(field, size, self._function.initial[i])
        self.has_value = _grown(self.has_value, size, False)

    def add(self, slots: np.ndarray, values: pa.Array | None) -> None:
        assert isinstance(values, pa.StructArray)
        columns = values.flatten()
        is_valid = all_valid(columns)
        if is_valid is not None:
            rows = np.flatnonzero(is_valid)
            indices = pa.array(rows)
            slots, columns = slots[rows], [column.take(indices) for column in columns]
        numbers = [numbers_of(column) for column in columns]
        call_loop(self._loop("add"), self._function.add, slots, *self.fields, *numbers)
        self.has_value[slots] = True

    def merge(self, slots: np.ndarray, other: CompiledAccumulator, other_slots: np.ndarray) -> None:
        if self._function.merge is None:
            raise UnsupportedOperationError(
                f"the compiled aggregate {self._function.name!r} has no `merge`; sliding and session windows need it"
            )
        # A key without a value has the initial accumulator. Merging it could change the target, so it is skipped.
        has_value = other.has_value.take(other_slots)
        slots, other_slots = slots[has_value], other_slots[has_value]
        known = self.has_value
        call_loop(self._loop("merge"), self._function.merge, slots, other_slots, known, *self.fields, *other.fields)

    def keep(self, slots: np.ndarray) -> None:
        self.fields = [field.take(slots) for field in self.fields]
        self.has_value = self.has_value.take(slots)

    def results(self, slots: np.ndarray) -> pa.Array:
        kind = self._function.arrow_type
        out = np.zeros(len(slots), dtype=numpy_dtype(kind))
        has_value = self.has_value.take(slots)
        call_loop(self._loop("result"), self._function.result, slots, has_value, out, *self.fields)
        return pa.array(out, kind, mask=~has_value)

    def freeze(self, size: int) -> FrozenColumns:
        fields = [field[:size].copy() for field in self.fields]
        has_value = self.has_value[:size].copy()
        types = self._types
        return lambda: [*(pa.array(field, kind) for field, kind in zip(fields, types)), pa.array(has_value)]

    def restore(self, slots: np.ndarray, columns: list[pa.Array]) -> None:
        for field, column in zip(self.fields, columns):
            field[slots] = column.to_numpy(zero_copy_only=False)
        self.has_value[slots] = columns[-1].to_numpy(zero_copy_only=False)

    # -- loops -------------------------------------------------------------------------------------------------------

    def _loop(self, what: str) -> Callable[..., Any]:
        loop = self._loops.get(what)
        if loop is None:
            loop = self._loops[what] = self._compiled(what)
        return loop

    def _compiled(self, what: str) -> Callable[..., Any]:
        fields = [f"f{i}" for i in range(len(self.fields))]
        others = [f"g{i}" for i in range(len(self.fields))]
        values = [f"v{i}" for i in range(self._num_values)]

        function = self._function
        is_scalar = function.is_scalar

        def tuple_of(names: list[str], index: str) -> str:
            return f"{names[0]}[{index}]" if is_scalar else "(" + "".join(f"{name}[{index}], " for name in names) + ")"

        store = "".join(f"        {name}[s] = done{'' if is_scalar else f'[{i}]'}\n" for i, name in enumerate(fields))
        if what == "add":
            arguments = ", ".join([tuple_of(fields, "s"), *(f"{name}[i]" for name in values)])
            source = (
                f"def loop(slots, {', '.join([*fields, *values])}):\n"
                "    for i in range(len(slots)):\n"
                "        s = slots[i]\n"
                f"        done = function({arguments})\n{store}"
            )
            return compiled_loop(source, function.add)
        if what == "merge":
            source = (
                f"def loop(slots, other_slots, has_value, {', '.join([*fields, *others])}):\n"
                "    for i in range(len(slots)):\n"
                "        s = slots[i]\n"
                "        o = other_slots[i]\n"
                "        if has_value[s]:\n"
                f"            done = function({tuple_of(fields, 's')}, {tuple_of(others, 'o')})\n"
                "        else:\n"
                "            has_value[s] = True\n"
                f"            done = {tuple_of(others, 'o')}\n{store}"
            )
            return compiled_loop(source, function.merge)
        source = (
            f"def loop(slots, has_value, out, {', '.join(fields)}):\n"
            "    for i in range(len(slots)):\n"
            "        if has_value[i]:\n"
            "            s = slots[i]\n"
            f"            out[i] = function({tuple_of(fields, 's')})\n"
        )
        return compiled_loop(source, function.result)
