"""Batch: the unit of records that channels and operators exchange."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


class Batch:
    """Consecutive records of one stream, in order. Never changed in place after it has been passed on.

    Attributes:
        values: n records, as a `pyarrow.RecordBatch` (column lane) or a `list` of Python objects (row lane).
        timestamps: int64[n] event times in ms; None if the stream has none.
        kinds: int8[n] RowKind values; None if every record is an INSERT.
    """

    __slots__ = ("kinds", "timestamps", "values")

    def __init__(
        self,
        values: pa.RecordBatch | list[Any],
        timestamps: np.ndarray | None = None,
        kinds: np.ndarray | None = None,
    ) -> None:
        self.values = values
        self.timestamps = timestamps
        self.kinds = kinds

    @property
    def is_columnar(self) -> bool:
        return not isinstance(self.values, list)

    @property
    def num_rows(self) -> int:
        values = self.values
        return len(values) if isinstance(values, list) else values.num_rows

    def __len__(self) -> int:
        return self.num_rows

    def with_values(self, values: pa.RecordBatch | list[Any]) -> Batch:
        """Returns a batch with other values and the same timestamps and kinds."""
        return Batch(values, self.timestamps, self.kinds)

    def slice(self, offset: int, length: int) -> Batch:
        """Returns the records from `offset` to `offset + length`, without a copy of columns."""
        end = offset + length
        values = self.values
        return Batch(
            values[offset:end] if isinstance(values, list) else values.slice(offset, length),
            None if self.timestamps is None else self.timestamps[offset:end],
            None if self.kinds is None else self.kinds[offset:end],
        )

    def take(self, indices: np.ndarray) -> Batch:
        """Returns the records at `indices` (int64[m]), in that order."""
        values = self.values
        if isinstance(values, list):
            taken: pa.RecordBatch | list[Any] = [values[i] for i in indices.tolist()]
        else:
            taken = values.take(pa.array(indices))
        return Batch(
            taken,
            None if self.timestamps is None else self.timestamps[indices],
            None if self.kinds is None else self.kinds[indices],
        )

    def __repr__(self) -> str:
        lane = "columns" if self.is_columnar else "rows"
        return f"Batch({self.num_rows} {lane})"
