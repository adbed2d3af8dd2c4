"""The NumPy types of Arrow's numbers.

pyarrow's `to_pandas_dtype` needs pandas in some releases, and flinkpy does not depend on pandas.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

_DTYPES = {
    pa.bool_(): np.bool_,
    pa.int8(): np.int8,
    pa.int16(): np.int16,
    pa.int32(): np.int32,
    pa.int64(): np.int64,
    pa.uint8(): np.uint8,
    pa.uint16(): np.uint16,
    pa.uint32(): np.uint32,
    pa.uint64(): np.uint64,
    pa.float16(): np.float16,
    pa.float32(): np.float32,
    pa.float64(): np.float64,
}


def numpy_dtype(kind: pa.DataType) -> np.dtype:
    """Returns the NumPy type of a column of numbers or booleans.

    Raises:
        KeyError: if the column has another type.
    """
    return np.dtype(_DTYPES[kind])
