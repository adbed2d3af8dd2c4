"""Batch: the unit that moves through channels, operators and mailboxes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa


class Batch:
    """Some consecutive records of one stream, in order. Immutable once handed on: nobody changes one in place.

    Attributes:
        values: either a `pyarrow.RecordBatch` (column lane) or a `list` of Python objects (row lane), n records.
        timestamps: int64[n] event times in ms, or None where the stream has none.
        kinds: int8[n] RowKind values, or None where every record is an INSERT.
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
        """The same positions with other values: timestamps and kinds carry over."""
        return Batch(values, self.timestamps, self.kinds)

    def slice(self, offset: int, length: int) -> Batch:
        """Records `offset` to `offset + length`, without copying columns."""
        end = offset + length
        values = self.values
        return Batch(
            values[offset:end] if isinstance(values, list) else values.slice(offset, length),
            None if self.timestamps is None else self.timestamps[offset:end],
            None if self.kinds is None else self.kinds[offset:end],
        )

    def take(self, indices: np.ndarray) -> Batch:
        """The records at `indices` (int64[m]), in that order."""
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
