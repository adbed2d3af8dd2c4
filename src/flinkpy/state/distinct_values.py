"""DistinctAccumulator: an aggregate function of SQL over the distinct values of each slot, for windows.

Each slot has its values with how often each was added, less how often it was taken back. The function sees a value once
while that number is positive, in the order in which values first came, when results are asked for.

Source: org.apache.flink.table.planner.codegen.agg.DistinctAggCodeGen.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.state.object_accumulators import Collect, ObjectAccumulator
from flinkpy.state.table_accumulators import create_table_accumulator


class DistinctAccumulator(ObjectAccumulator):
    """Thread: task thread.

    Args:
        function: the name of the function, as `create_table_accumulator` takes it.
        value_type: the type of its argument.
    """

    def __init__(self, function: str, value_type: pa.DataType) -> None:
        self._name = function
        self._value_type = value_type
        super().__init__(Collect(), self._results([]).type)

    def results(self, slots: np.ndarray) -> pa.Array:
        return self._results(self.arrays[0].take(slots).tolist())

    def _results(self, collected: list[Any]) -> pa.Array:
        """Returns the result for each of these counts of values; None stands for no values."""
        values: list[Any] = []
        numbers: list[int] = []
        for number, counts in enumerate(collected):
            for value, count in (counts or {}).items():
                if count > 0:
                    values.append(value)
                    numbers.append(number)
        accumulator = create_table_accumulator(self._name, self._value_type)
        accumulator.grow(len(collected))
        accumulator.add(np.array(numbers, dtype=np.int64), pa.array(values, self._value_type))
        return accumulator.results(np.arange(len(collected)))
