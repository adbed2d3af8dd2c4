"""KernelCall: the facts about one call that a kernel gets besides its operands."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.sql.session_settings import SessionSettings
from flinkpy.sql.types.arrow import arrow_type_of
from flinkpy.sql.types.logical_types import LogicalType

#: The number of rows whose values tell if a column has few distinct values.
_SAMPLE = 1024


class Encodings:
    """Dictionary encodings of the arrays of a batch, each made at most once."""

    def __init__(self) -> None:
        self._encoded: dict[int, tuple[pa.Array, pa.DictionaryArray | None]] = {}

    def of(self, array: pa.Array) -> pa.DictionaryArray | None:
        """Returns the array with each distinct value once; None if more than half of the values are distinct."""
        known = self._encoded.get(id(array))
        if known is None:
            # The array is kept, too: otherwise another one could get its id.
            known = self._encoded[id(array)] = (array, array.dictionary_encode() if _has_repetitions(array) else None)
        return known[1]


class KernelCall:
    """One call in an expression, for one batch.

    Attributes:
        type: the type of the result.
        argument_types: the types of the operands.
        num_rows: the rows of the batch.
        settings: the settings of the session.
        encodings: the dictionary encodings of this batch.
        watermark_ms: the watermark of the operator; None before the first one.
    """

    __slots__ = ("argument_types", "encodings", "name", "num_rows", "settings", "type", "watermark_ms")

    def __init__(
        self,
        name: str,
        type_: LogicalType,
        argument_types: tuple[LogicalType, ...],
        num_rows: int,
        settings: SessionSettings,
        encodings: Encodings,
        watermark_ms: int | None = None,
    ) -> None:
        self.name = name
        self.type = type_
        self.argument_types = argument_types
        self.num_rows = num_rows
        self.settings = settings
        self.encodings = encodings
        self.watermark_ms = watermark_ms

    @property
    def arrow_type(self) -> pa.DataType:
        return arrow_type_of(self.type)

    def null(self) -> pa.Scalar:
        """Returns the null of the result's type."""
        return pa.scalar(None, self.arrow_type)

    def once_per_distinct(self, array: pa.Array, compute: Callable[[pa.Array], pa.Array]) -> pa.Array:
        """Returns `compute(array)`, computed once per distinct value where that pays.

        Args:
            compute: a function of each value alone. It returns an array of the same length.
        """
        encoded = self.encodings.of(array) if isinstance(array, pa.Array) else None
        if encoded is None:
            return compute(array)
        return compute(encoded.dictionary).take(encoded.indices)

    def per_value(self, function: Callable[..., Any], *operands: Any) -> Any:
        """Returns `function` of the Python values of each row; null if one of them is null."""
        arrays = [index for index, operand in enumerate(operands) if isinstance(operand, pa.Array)]
        fixed = [operand.as_py() if isinstance(operand, pa.Scalar) else None for operand in operands]
        if len(arrays) == 1:
            place = arrays[0]

            def compute(values: pa.Array) -> pa.Array:
                results: list[Any] = []
                arguments = list(fixed)
                for value in values.to_pylist():
                    if value is None:
                        results.append(None)
                    else:
                        arguments[place] = value
                        results.append(function(*arguments))
                return pa.array(results, self.arrow_type)

            return self.once_per_distinct(operands[place], compute)
        if not arrays:
            return pa.scalar(function(*fixed), self.arrow_type)
        columns = [
            operand.to_pylist() if isinstance(operand, pa.Array) else [value] * self.num_rows
            for operand, value in zip(operands, fixed)
        ]
        results = [None if None in row else function(*row) for row in map(list, zip(*columns))]
        return pa.array(results, self.arrow_type)


def as_array(operand: Any, num_rows: int) -> pa.Array:
    """Returns an operand as an array of `num_rows` values."""
    return pa.repeat(operand, num_rows) if isinstance(operand, pa.Scalar) else operand


def _has_repetitions(array: pa.Array) -> bool:
    """True if at most half of the values are distinct, as far as a sample tells."""
    if pa.types.is_nested(array.type):
        return False  # Arrow has no dictionaries of lists and structs
    size = len(array)
    if size <= _SAMPLE:
        return size > 1 and pc.count_distinct(array).as_py() * 2 <= size
    step = size // _SAMPLE
    sample = array.take(pa.array(range(0, step * _SAMPLE, step), pa.int32()))
    # A sample of m rows of d equally frequent values repeats about m * m / 2d of them.
    repeated = _SAMPLE - pc.count_distinct(sample).as_py()
    return bool(repeated * size >= _SAMPLE * _SAMPLE)
