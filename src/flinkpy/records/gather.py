"""gather: takes values from several Arrow arrays of one type in any order, and copies each value once.

Arrow can only take from each array, put the results together, and take again. Compiled kernels do it where numba is
installed, for numbers, times and texts. `can_gather` tells.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
import pyarrow as pa


class _Kernels:
    """The compiled kernels, which are loaded on first use."""

    def __init__(self) -> None:
        self._module: Any = None
        self._is_loaded = False
        #: False to use Arrow although numba is installed.
        self.is_enabled = True

    def get(self) -> Any | None:
        """Returns the kernels; None without numba. The first call loads or compiles them."""
        if not self._is_loaded:
            self._is_loaded = True
            if find_spec("numba") is not None:
                self._module = import_module("flinkpy.records.gather_kernels")
                self._module.warm_up()
        return self._module if self.is_enabled else None


kernels = _Kernels()


def can_gather(kind: pa.DataType) -> bool:
    """True if `gather` takes values of this type."""
    return kernels.get() is not None and (_is_text(kind) or _is_fixed(kind))


def _is_text(kind: pa.DataType) -> bool:
    return pa.types.is_string(kind) or pa.types.is_binary(kind)  # type: ignore[no-any-return]


def _is_fixed(kind: pa.DataType) -> bool:
    if pa.types.is_decimal128(kind):
        return True
    return pa.types.is_primitive(kind) and kind.bit_width in (32, 64)  # type: ignore[no-any-return]


def table_of(arrays: Sequence[pa.Array]) -> np.ndarray:
    """Returns int64[len(arrays), 4]: where the buffers of the arrays are. It is valid as long as the arrays exist."""
    table = np.zeros((len(arrays), 4), dtype=np.int64)
    for row, array in zip(table, arrays):
        validity, values, *texts = array.buffers()
        if _is_text(array.type):
            row[0] = 0 if values is None else values.address + 4 * array.offset
            row[1] = texts[0].address if texts and texts[0] is not None else 0
        else:
            row[0] = 0 if values is None else values.address + array.type.bit_width // 8 * array.offset
        if validity is not None and array.null_count:
            row[2], row[3] = validity.address, array.offset
    return table


def gather(
    kind: pa.DataType, table: np.ndarray, has_nulls: bool, sources: np.ndarray, places: np.ndarray
) -> pa.Array | None:
    """Returns the values at `places` of the arrays `sources`.

    Args:
        kind: a type for which `can_gather` is True.
        table: `table_of` the arrays.
        has_nulls: False if none of the arrays has a NULL.
        sources: int64[n]: the number of each value's array.
        places: int64[n].

    Returns: the values; None if their texts have over 2 GB together.
    """
    module: Any = kernels.get()
    count = len(sources)
    validity = None
    if has_nulls:
        is_valid = np.empty(count, dtype=np.bool_)
        module.gather_validity(sources, places, table, is_valid)
        validity = pa.py_buffer(np.packbits(is_valid, bitorder="little"))
    if _is_text(kind):
        offsets = np.empty(count + 1, dtype=np.int32)
        total = module.gather_offsets(sources, places, table, offsets)
        if total >= 1 << 31:
            return None
        data = pa.allocate_buffer(total)
        module.gather_bytes(sources, places, table, offsets, data.address)
        return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(offsets), data])
    values: np.ndarray
    if kind.bit_width == 32:
        values = np.empty(count, dtype=np.int32)
        module.gather_int32(sources, places, table, values)
    else:
        words = kind.bit_width // 64
        values = np.empty(count * words, dtype=np.int64)
        module.gather_words(sources, places, table, words, values)
    return pa.Array.from_buffers(kind, count, [validity, pa.py_buffer(values)])


def take_joined(arrays: Sequence[pa.Array], places: np.ndarray) -> pa.Array:
    """Returns the values at these places of the arrays one after the other. None may be negative."""
    kind = arrays[0].type
    if can_gather(kind):
        begins = np.cumsum([0, *map(len, arrays[:-1])])
        sources = np.searchsorted(begins[1:], places, side="right")
        has_nulls = any(array.null_count for array in arrays)
        values = gather(kind, table_of(arrays), has_nulls, sources, places - begins.take(sources))
        if values is not None:
            return values
    return pa.concat_arrays(arrays).take(pa.array(places))
