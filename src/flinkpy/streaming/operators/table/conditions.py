"""PairCondition: the rest of a join's condition, evaluated over pairs of rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.functions.table_functions import FunctionContext
from flinkpy.sql.functions import CompiledExpressions, compile_expressions
from flinkpy.sql.rex import RexNode, input_columns, moved
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.streaming.operators.table.table_inputs import MAX_ROWS


def expressions(nodes: Sequence[RexNode], settings: SessionSettings) -> CompiledExpressions:
    """Returns expressions ready to be computed over RecordBatches."""
    return compile_expressions(list(nodes), settings)


class PairCondition:
    """A condition over the columns of the left row, then those of the right row. It is true, or false or unknown.

    Attributes:
        columns: the columns that it uses.
    """

    def __init__(self, condition: RexNode, settings: SessionSettings) -> None:
        self.columns = input_columns([condition])
        positions = {column: position for position, column in enumerate(self.columns)}
        self._compiled = expressions([moved(condition, positions)], settings)

    def open(self, context: Any) -> None:
        """Opens the user-defined functions in the condition. `context` is the operator's RuntimeContext."""
        self._compiled.open(FunctionContext(context))

    def close(self) -> None:
        self._compiled.close()

    def mask(self, values: Sequence[pa.Array], length: int) -> np.ndarray:
        """Returns bool[length]: true for the pairs that meet the condition. `values` are those of `columns`."""
        names = [f"c{column}" for column in self.columns]
        if names:
            pairs = pa.RecordBatch.from_arrays(list(values), names=names)
        else:
            pairs = pa.RecordBatch.from_struct_array(pa.array([{}] * length, pa.struct([])))
        return as_mask(self._compiled.evaluate_condition(pairs))

    def mask_of(self, length: int, values_of: Callable[[slice], Sequence[pa.Array]]) -> np.ndarray:
        """Returns bool[length]: true for the pairs that meet the condition. It looks at some of the pairs at a time.

        Args:
            values_of: returns the values of `columns` for some of the pairs.
        """
        masks = []
        for start in range(0, length, MAX_ROWS):
            part = slice(start, min(start + MAX_ROWS, length))
            masks.append(self.mask(values_of(part), part.stop - part.start))
        return np.concatenate(masks) if masks else np.zeros(0, dtype=bool)


def pair_condition(condition: RexNode | None, settings: SessionSettings) -> PairCondition | None:
    """Returns the condition ready to run; None if there is none."""
    return None if condition is None else PairCondition(condition, settings)


def as_mask(mask: Any) -> np.ndarray:
    """Returns a mask as bool[n]. NULL is false."""
    if isinstance(mask, np.ndarray):
        return mask
    values: np.ndarray = mask.fill_null(False).to_numpy(zero_copy_only=False)
    return values
