"""Functions of BITMAP, a set of 32-bit integers. A negative INT is the number with the same 32 bits.

Source: org.apache.flink.table.runtime.functions.scalar.Bitmap*Function.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from flinkpy.common.errors import TableRuntimeError
from flinkpy.records.roaring_bitmap import bitmap_bytes, bitmap_text, bitmap_values
from flinkpy.sql.functions.registry import scalar_per_value
from flinkpy.sql.functions.results import BIGINT, BYTES, INT, STRING
from flinkpy.sql.types import logical_types as lt

_BITMAP = lt.BitmapType()


def _of(data: bytes) -> np.ndarray:
    try:
        return bitmap_values(data)
    except ValueError as error:
        raise TableRuntimeError(f"invalid BITMAP: {error}") from None


@scalar_per_value("BITMAP_BUILD", "ARRAY<INT>", returns=_BITMAP)
def bitmap_build(values: list[int | None]) -> bytes:
    present = np.array([value for value in values if value is not None], dtype=np.int32)
    return bitmap_bytes(np.unique(present.view(np.uint32)))


@scalar_per_value("BITMAP_AND", "BITMAP, BITMAP", returns=_BITMAP)
def bitmap_and(left: bytes, right: bytes) -> bytes:
    return bitmap_bytes(np.intersect1d(_of(left), _of(right), assume_unique=True))


@scalar_per_value("BITMAP_ANDNOT", "BITMAP, BITMAP", returns=_BITMAP)
def bitmap_andnot(left: bytes, right: bytes) -> bytes:
    return bitmap_bytes(np.setdiff1d(_of(left), _of(right), assume_unique=True))


@scalar_per_value("BITMAP_OR", "BITMAP, BITMAP", returns=_BITMAP)
def bitmap_or(left: bytes, right: bytes) -> bytes:
    return bitmap_bytes(np.union1d(_of(left), _of(right)))


@scalar_per_value("BITMAP_XOR", "BITMAP, BITMAP", returns=_BITMAP)
def bitmap_xor(left: bytes, right: bytes) -> bytes:
    return bitmap_bytes(np.setxor1d(_of(left), _of(right), assume_unique=True))


@scalar_per_value("BITMAP_CARDINALITY", "BITMAP", returns=BIGINT)
def bitmap_cardinality(data: bytes) -> int:
    return len(_of(data))


@scalar_per_value("BITMAP_FROM_BYTES", "BINARY_STRING", returns=_BITMAP, may_fail=True)
def bitmap_from_bytes(data: bytes) -> bytes:
    return bitmap_bytes(_of(data))


@scalar_per_value("BITMAP_TO_BYTES", "BITMAP", returns=BYTES)
def bitmap_to_bytes(data: bytes) -> bytes:
    return data


@scalar_per_value("BITMAP_TO_ARRAY", "BITMAP", returns=lambda call: lt.ArrayType(INT, nullable=call.any_nullable))
def bitmap_to_array(data: bytes) -> list[int]:
    values: list[int] = _of(data).view(np.int32).tolist()
    return values


@scalar_per_value("BITMAP_TO_STRING", "BITMAP", returns=STRING)
def bitmap_to_string(data: bytes) -> Any:
    return bitmap_text(data)
