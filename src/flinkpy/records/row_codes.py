"""row_codes: numbers for the rows of a table, equal for equal rows."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from flinkpy.records.nested_values import nested_texts


def row_codes(rows: pa.Table) -> np.ndarray:
    """Returns int64[n]: equal numbers for equal rows, from 0 and without gaps. NULL equals NULL, and NaN equals NaN."""
    codes = np.zeros(rows.num_rows, np.int64)
    for column in rows.columns:
        each = _value_codes(column)
        codes = np.unique(codes * (int(each.max(initial=0)) + 1) + each, return_inverse=True)[1].astype(np.int64)
    return codes


def _value_codes(column: pa.ChunkedArray) -> np.ndarray:
    values = column.combine_chunks()
    if pa.types.is_nested(values.type):
        values = nested_texts(values)
    encoded = values.dictionary_encode(null_encoding="encode")
    return encoded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
