"""The kernels of `gather`, compiled by numba. Importing this module needs numba.

They read the buffers of Arrow arrays by their addresses. The caller keeps the arrays alive. `sources` and `places` are
int64[n]: for each row the number of its array, and its place in it. An array's entry in `tables` is (address of its
first value or offset, address of the bytes of its texts, address of its validity or 0, first bit of its validity).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba
import numpy as np
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic


def _compiled(function: Callable[..., Any]) -> Callable[..., Any]:
    try:
        return numba.njit(function, cache=True, nogil=True)  # type: ignore[no-any-return]
    except RuntimeError:
        # There is no directory for the cache.
        return numba.njit(function, nogil=True)  # type: ignore[no-any-return]


def _reader(kind: Any) -> Any:
    """Returns a compiled function (address, index) -> the number of this type there."""

    @intrinsic
    def read(typing_context: Any, address: Any, index: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            pointer = builder.inttoptr(arguments[0], context.get_value_type(kind).as_pointer())
            return builder.load(builder.gep(pointer, [arguments[1]]))

        return kind(types.int64, types.int64), generate

    return read


def _copier(typing_context: Any, target: Any, source: Any, size: Any) -> Any:
    """Copies `size` bytes from the address `source` to the address `target`."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte = context.get_value_type(types.uint8).as_pointer()
        to, origin = (builder.inttoptr(address, byte) for address in arguments[:2])
        cgutils.raw_memcpy(builder, to, origin, arguments[2], 1)
        return context.get_dummy_value()

    return types.void(types.int64, types.int64, types.int64), generate


#: A compiled function. Typed as Any, because type checkers see the parameters that numba does not.
_copy: Any = intrinsic(_copier)
_int64_at, _int32_at, _byte_at = _reader(types.int64), _reader(types.int32), _reader(types.uint8)


@_compiled
def gather_words(sources: Any, places: Any, tables: Any, words: int, out: Any) -> None:
    """Values of `words` times 8 bytes."""
    for row in range(len(sources)):
        address = tables[sources[row], 0]
        for word in range(words):
            out[row * words + word] = _int64_at(address, places[row] * words + word)


@_compiled
def gather_int32(sources: Any, places: Any, tables: Any, out: Any) -> None:
    for row in range(len(sources)):
        out[row] = _int32_at(tables[sources[row], 0], places[row])


@_compiled
def gather_offsets(sources: Any, places: Any, tables: Any, out: Any) -> int:
    """Sets the offsets of the gathered texts. Returns their total length, without offsets if it has over 31 bits."""
    total = 0
    out[0] = 0
    for row in range(len(sources)):
        address = tables[sources[row], 0]
        total += _int32_at(address, places[row] + 1) - _int32_at(address, places[row])
        if total >= 1 << 31:
            break
        out[row + 1] = total
    return total


@_compiled
def gather_bytes(sources: Any, places: Any, tables: Any, offsets: Any, out: int) -> None:
    """Copies the bytes of texts to the address `out`."""
    for row in range(len(sources)):
        source = sources[row]
        begin = np.int64(_int32_at(tables[source, 0], places[row]))
        at, length = np.int64(offsets[row]), np.int64(offsets[row + 1] - offsets[row])
        _copy(out + at, tables[source, 1] + begin, length)


@_compiled
def gather_validity(sources: Any, places: Any, tables: Any, out: Any) -> None:
    for row in range(len(sources)):
        source = sources[row]
        address = tables[source, 2]
        bit = tables[source, 3] + places[row]
        out[row] = address == 0 or (_byte_at(address, bit >> 3) >> (bit & 7)) & 1 == 1


def warm_up() -> None:
    """Compiles or loads the kernels, so that no batch waits for it."""
    none, none32, table = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int32), np.empty((0, 4), dtype=np.int64)
    gather_words(none, none, table, 1, none)
    gather_int32(none, none, table, none32)
    gather_offsets(none, none, table, np.empty(1, dtype=np.int32))
    gather_bytes(none, none, table, none32, 0)
    gather_validity(none, none, table, np.empty(0, dtype=np.bool_))
