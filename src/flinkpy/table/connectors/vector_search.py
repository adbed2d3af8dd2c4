"""Searches vectors in the rows of a table that fits into memory: each query is compared with every row.

Source: org.apache.flink.table.functions.VectorSearchFunction. Flink leaves searches to connectors outside of it.
"""

from __future__ import annotations

from enum import Enum
from typing import TYPE_CHECKING, Any, Protocol

from flinkpy.common.errors import TableRuntimeError
from flinkpy.configuration.options import ConfigOption, OptionType
from flinkpy.table.connectors.table_source import VectorSearchFunction

if TYPE_CHECKING:
    import numpy as np
    import pyarrow as pa


class VectorMetric(Enum):
    """How similar two vectors are. Higher scores are more similar.

    COSINE is from -1 to 1; DOT_PRODUCT has no limits; EUCLIDEAN is 1 / (1 + distance).
    """

    COSINE = "COSINE"
    DOT_PRODUCT = "DOT_PRODUCT"
    EUCLIDEAN = "EUCLIDEAN"


METRIC: ConfigOption[str] = ConfigOption(
    "vector-search.metric",
    OptionType.ENUM,
    VectorMetric.COSINE.value,
    "The score of VECTOR_SEARCH: the cosine of the angle, the dot product, or 1 / (1 + the distance).",
    choices=tuple(each.value for each in VectorMetric),
)

#: The number of scores that are computed at once: 32 MiB.
_MAX_SCORES = 1 << 22


class RowReader(Protocol):
    """Reads all rows of a table. It is pickled into the job."""

    def read_all(self) -> pa.RecordBatch: ...


class InMemoryVectorSearch(VectorSearchFunction):
    """Holds all rows and their vectors as one matrix. Thread: task thread.

    Args:
        reader: reads the rows when the function is opened.
        column: the position of the vectors, of type ARRAY<FLOAT> or ARRAY<DOUBLE>.
    """

    def __init__(self, reader: RowReader, column: int, metric: VectorMetric) -> None:
        self._reader = reader
        self._column = column
        self._metric = metric
        self._rows: pa.RecordBatch | None = None
        self._matrix: np.ndarray | None = None

    def open(self, context: Any) -> None:
        import pyarrow as pa
        import pyarrow.compute as pc

        rows = self._reader.read_all()
        known = rows.filter(pc.is_valid(rows.column(self._column)))
        vectors = known.column(self._column)
        lengths = pc.list_value_length(vectors)
        if known.num_rows and pc.min(lengths).as_py() != pc.max(lengths).as_py():
            name = rows.schema.names[self._column]
            raise TableRuntimeError(
                f"The vectors of the column {name!r} have between {pc.min(lengths)} and {pc.max(lengths)} elements. "
                "VECTOR_SEARCH needs vectors of one length."
            )
        length = lengths[0].as_py() if known.num_rows else 0
        matrix = _matrix(vectors, length)
        # A vector with a NULL is no point.
        is_point = ~_is_nan(matrix)
        self._rows = known.filter(pa.array(is_point))
        self._matrix = self._normalised(matrix[is_point])

    def search(self, queries: pa.ListArray, top_k: int) -> tuple[np.ndarray, pa.RecordBatch, np.ndarray]:
        import numpy as np
        import pyarrow as pa
        import pyarrow.compute as pc

        assert self._matrix is not None and self._rows is not None
        num_rows, length = self._matrix.shape
        asked = np.flatnonzero(queries.is_valid().to_numpy(zero_copy_only=False))
        vectors = queries.take(pa.array(asked))
        if num_rows and len(asked):
            other = set(pc.list_value_length(vectors).unique().to_pylist()) - {length}
            if other:
                raise TableRuntimeError(
                    f"VECTOR_SEARCH compares vectors of {length} elements, and a query has {min(other)}."
                )
        count = min(top_k, num_rows)
        if not count or not len(asked):
            nothing = np.empty(0, dtype=np.int64)
            return nothing, self._rows.slice(0, 0), np.empty(0)
        matrix = _matrix(vectors, length)
        is_point = ~_is_nan(matrix)
        asked, matrix = asked[is_point], self._normalised(matrix[is_point])
        step = max(1, _MAX_SCORES // num_rows)
        found, scores = [], []
        for start in range(0, len(asked), step):
            best, best_scores = self._best(matrix[start : start + step], count)
            found.append(best.reshape(-1))
            scores.append(best_scores.reshape(-1))
        places = np.concatenate(found) if found else np.empty(0, dtype=np.int64)
        every_score = np.concatenate(scores) if scores else np.empty(0)
        return np.repeat(asked, count), self._rows.take(pa.array(places)), every_score

    def close(self) -> None:
        self._rows = self._matrix = None

    def _normalised(self, matrix: np.ndarray) -> np.ndarray:
        """Returns vectors of length 1 for COSINE; a vector of zeros stays."""
        import numpy as np

        if self._metric is not VectorMetric.COSINE:
            return matrix
        lengths = np.linalg.norm(matrix, axis=1, keepdims=True)
        result: np.ndarray = matrix / np.where(lengths > 0, lengths, 1.0)
        return result

    def _best(self, queries: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the rows with the highest scores of each query, best first, and these scores."""
        import numpy as np

        scores = self._scores(queries)
        # Rows of equal scores are in their order in the table.
        order = np.argpartition(-scores, count - 1, axis=1)[:, :count]
        order.sort(axis=1)
        chosen = np.take_along_axis(scores, order, axis=1)
        ranked = np.argsort(-chosen, axis=1, kind="stable")
        return np.take_along_axis(order, ranked, axis=1), np.take_along_axis(chosen, ranked, axis=1)

    def _scores(self, queries: np.ndarray) -> np.ndarray:
        import numpy as np

        assert self._matrix is not None
        products: np.ndarray = queries @ self._matrix.T
        if self._metric is not VectorMetric.EUCLIDEAN:
            return products
        squares = (queries**2).sum(axis=1)[:, None] + (self._matrix**2).sum(axis=1)[None, :] - 2 * products
        result: np.ndarray = 1.0 / (1.0 + np.sqrt(np.maximum(squares, 0.0)))
        return result


def _matrix(vectors: pa.ListArray, length: int) -> np.ndarray:
    """Returns float64[n, length]. An element that is NULL is NaN."""
    import numpy as np

    values = vectors.flatten().to_numpy(zero_copy_only=False)
    return np.asarray(values, dtype=np.float64).reshape(len(vectors), length)


def _is_nan(matrix: np.ndarray) -> np.ndarray:
    import numpy as np

    result: np.ndarray = np.isnan(matrix).any(axis=1)
    return result
