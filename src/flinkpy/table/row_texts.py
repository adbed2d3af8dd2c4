"""RowTexts: how the connector `print` writes rows: `+I[1, 110.1, 1970-01-01T00:00:00Z]`.

Source: org.apache.flink.connector.print.table.PrintTableSinkFactory, which prints the java.time values of a Row.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.types import RowKind
from flinkpy.formats.text_form import float_text
from flinkpy.records.batch import Batch
from flinkpy.sql.types import logical_types as lt

_UNITS_PER_SECOND = {"s": 1, "ms": 1_000, "us": 1_000_000, "ns": 1_000_000_000}
_SHORT_KINDS = {kind.value: str(kind) for kind in RowKind}
_NULL = "null"


class RowTexts:
    """Writes batches of rows.

    Args:
        row_type: the columns. Batches have the Arrow types of `sql.types.arrow.arrow_type_of`.
    """

    def __init__(self, row_type: lt.RowType) -> None:
        self._types = [field.type for field in row_type.fields]

    def __call__(self, batch: Batch) -> list[str]:
        """Returns a text for each row."""
        rows: Any = batch.values
        columns = [_texts(column, kind) for column, kind in zip(rows.columns, self._types, strict=True)]
        kinds = np.zeros(batch.num_rows, np.int8) if batch.kinds is None else batch.kinds
        values = zip(*columns) if columns else [()] * batch.num_rows
        return [f"{_SHORT_KINDS[kind]}[{', '.join(row)}]" for kind, row in zip(kinds.tolist(), values, strict=True)]


def _texts(array: pa.Array, kind: lt.LogicalType) -> list[str]:
    """Returns the text of each value of a column."""
    texts = _WRITERS.get(kind.root, _others)(array, kind)
    if array.null_count:
        texts = [
            text if is_valid else _NULL for text, is_valid in zip(texts, array.is_valid().to_pylist(), strict=True)
        ]
    return texts


def _others(array: pa.Array, kind: lt.LogicalType) -> list[str]:
    return [str(value) for value in array.to_pylist()]


def _booleans(array: pa.Array, kind: lt.LogicalType) -> list[str]:
    return ["true" if value else "false" for value in array.to_pylist()]


def _bytes(array: pa.Array, kind: lt.LogicalType) -> list[str]:
    """Java's bytes are signed."""
    return [str(np.frombuffer(value or b"", np.int8).tolist()) for value in array.to_pylist()]


def _floats(array: pa.Array, kind: lt.LogicalType) -> list[str]:
    values = array.fill_null(0).to_numpy(zero_copy_only=False)
    return [float_text(float(value), str(value)) for value in values]


def _doubles(array: pa.Array, kind: lt.LogicalType) -> list[str]:
    return [float_text(value) for value in array.fill_null(0).to_pylist()]


def _dates(array: pa.Array, kind: lt.LogicalType) -> list[str]:
    return _integers(array, pa.int32()).astype("datetime64[D]").astype(str).tolist()


def _times(array: pa.Array, kind: lt.LogicalType) -> list[str]:
    integers = pa.int32() if pa.types.is_time32(array.type) else pa.int64()
    return [text.partition("T")[2] for text in _local_texts(_integers(array, integers), array.type.unit)]


def _timestamps(array: pa.Array, kind: lt.LogicalType) -> list[str]:
    return _local_texts(_integers(array, pa.int64()), array.type.unit)


def _instants(array: pa.Array, kind: lt.LogicalType) -> list[str]:
    seconds, fractions = _split(_integers(array, pa.int64()), array.type.unit)
    return [f"{second}{fraction}Z" for second, fraction in zip(seconds, fractions, strict=True)]


def _integers(array: pa.Array, integers: pa.DataType) -> np.ndarray:
    values: np.ndarray = array.view(integers).fill_null(0).to_numpy(zero_copy_only=False)
    return values


def _local_texts(values: np.ndarray, unit: str) -> list[str]:
    """Writes times without a zone. They have seconds only if these are not zero."""
    seconds, fractions = _split(values, unit)
    return [
        second[:-3] if not fraction and second.endswith(":00") else second + fraction
        for second, fraction in zip(seconds, fractions, strict=True)
    ]


def _split(values: np.ndarray, unit: str) -> tuple[list[str], list[str]]:
    """Returns the texts up to the seconds, and of the fractions, which have 0, 3, 6 or 9 digits."""
    per_second = _UNITS_PER_SECOND[unit]
    seconds, rest = np.divmod(values.astype(np.int64), per_second)
    nanos = rest * (_UNITS_PER_SECOND["ns"] // per_second)
    return seconds.astype("datetime64[s]").astype(str).tolist(), list(map(_fraction, nanos.tolist()))


def _fraction(nanos: int) -> str:
    digits = f"{nanos:09d}"
    while digits.endswith("000"):
        digits = digits[:-3]
    return f".{digits}" if digits else ""


def _rows(array: pa.StructArray, kind: Any) -> list[str]:
    columns = [_texts(array.field(place), field.type) for place, field in enumerate(kind.fields)]
    return [f"{RowKind.INSERT}[{', '.join(row)}]" for row in zip(*columns, strict=True)]


def _arrays(array: pa.ListArray, kind: Any) -> list[str]:
    offsets = array.offsets.to_pylist()
    elements = _texts(array.values.slice(offsets[0], offsets[-1] - offsets[0]), kind.element)
    return [f"[{', '.join(elements[begin:end])}]" for begin, end in _ranges(offsets)]


def _maps(array: pa.MapArray, kind: Any) -> list[str]:
    return _entries(array, kind.key, kind.value)


def _multisets(array: pa.MapArray, kind: Any) -> list[str]:
    return _entries(array, kind.element, lt.IntType())


def _entries(array: pa.MapArray, key_type: lt.LogicalType, value_type: lt.LogicalType) -> list[str]:
    offsets = array.offsets.to_pylist()
    part = (offsets[0], offsets[-1] - offsets[0])
    keys, values = _texts(array.keys.slice(*part), key_type), _texts(array.items.slice(*part), value_type)
    pairs = [f"{key}={value}" for key, value in zip(keys, values, strict=True)]
    return [f"{{{', '.join(pairs[begin:end])}}}" for begin, end in _ranges(offsets)]


def _ranges(offsets: list[int]) -> list[tuple[int, int]]:
    first = offsets[0]
    return [(begin - first, end - first) for begin, end in pairwise(offsets)]


_WRITERS: dict[lt.TypeRoot, Callable[[Any, Any], list[str]]] = {
    lt.TypeRoot.BOOLEAN: _booleans,
    lt.TypeRoot.BINARY: _bytes,
    lt.TypeRoot.VARBINARY: _bytes,
    lt.TypeRoot.FLOAT: _floats,
    lt.TypeRoot.DOUBLE: _doubles,
    lt.TypeRoot.DATE: _dates,
    lt.TypeRoot.TIME_WITHOUT_TIME_ZONE: _times,
    lt.TypeRoot.TIMESTAMP_WITHOUT_TIME_ZONE: _timestamps,
    lt.TypeRoot.TIMESTAMP_WITH_LOCAL_TIME_ZONE: _instants,
    lt.TypeRoot.ARRAY: _arrays,
    lt.TypeRoot.MAP: _maps,
    lt.TypeRoot.MULTISET: _multisets,
    lt.TypeRoot.ROW: _rows,
}
