"""PatternValues: computes expressions of MATCH_RECOGNIZE over the rows of matches.

Source: org.apache.flink.table.planner.codegen.MatchCodeGenerator.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.sql.functions.evaluation import compile_expressions
from flinkpy.sql.rex import (
    ALL_ROWS,
    AggregateCall,
    InputRef,
    PatternAggregate,
    PatternNavigation,
    RexCall,
    RexNode,
    rewrite,
)
from flinkpy.sql.session_settings import SessionSettings
from flinkpy.sql.types.arrow import arrow_type_of
from flinkpy.streaming.operators.table.over_frames import frame_results
from flinkpy.streaming.operators.table.table_inputs import take_or_null
from flinkpy.streaming.operators.table.time_columns import timestamps

MATCH_TIMES = ("MATCH_ROWTIME", "MATCH_PROCTIME")


@dataclass(slots=True)
class MatchRows:
    """The rows of m matches, as places in sorted rows.

    Attributes:
        starts: int64[m]: the first row of each.
        counts: int64[m, number of variables]: how many rows each variable has.
        rowtimes: int64[m]: what MATCH_ROWTIME() is, in ms.
        current: the variable to which a row that stands alone belongs, too; None if there is no such row.
        row: the place of that row.
    """

    starts: np.ndarray
    counts: np.ndarray
    rowtimes: np.ndarray
    now_ms: int = 0
    current: int | None = None
    row: int = 0

    def range_of(self, variable: int | None) -> tuple[np.ndarray, np.ndarray]:
        """Returns int64[m], int64[m]: the first row of a variable, and the number of rows, without `row`."""
        if variable is None:
            return self.starts, self.counts.sum(axis=1)
        return self.starts + self.counts[:, :variable].sum(axis=1), self.counts[:, variable]

    def has_row(self, variable: int | None) -> bool:
        return self.current is not None and variable in (None, self.current)

    def places_of(self, variable: int | None, is_first: bool, offset: int) -> np.ndarray:
        """Returns int64[m]: a row of a variable; -1 where there is none."""
        begins, lengths = self.range_of(variable)
        extra = int(self.has_row(variable))
        total = lengths + extra
        place = np.full(len(begins), offset) if is_first else total - 1 - offset
        found = np.where(place < lengths, begins + place, self.row)
        return np.where((place >= 0) & (place < total), found, -1)


class PatternValues:
    """Expressions over PatternNavigations and PatternAggregates. Thread: task thread.

    Args:
        variables: the names of the pattern's variables.
    """

    def __init__(self, expressions: Sequence[RexNode], variables: Sequence[str], settings: SessionSettings) -> None:
        self._variables = list(variables)
        self._parts: list[RexNode] = []
        inner = [rewrite(each, self._place) for each in expressions]
        self._values = compile_expressions(inner, settings)
        self._calls: dict[int, AggregateCall] = {}
        #: By part, the arguments of an aggregate.
        self._arguments: dict[int, Any] = {}
        for place, part in enumerate(self._parts):
            if isinstance(part, PatternAggregate):
                arguments = tuple(range(len(part.arguments)))
                self._calls[place] = AggregateCall(
                    part.function, arguments, part.type, f"${place}", user_function=part.user_function
                )
                self._arguments[place] = compile_expressions(part.arguments, settings)

    def _place(self, node: RexNode) -> RexNode | None:
        is_time = isinstance(node, RexCall) and node.function in MATCH_TIMES
        if not is_time and not isinstance(node, (PatternNavigation, PatternAggregate)):
            return None
        if node not in self._parts:
            self._parts.append(node)
        return InputRef(node.type, self._parts.index(node))

    @property
    def aggregates(self) -> list[AggregateCall]:
        """The aggregates, whose user-defined functions the operator opens."""
        return list(self._calls.values())

    def open(self, context: Any) -> None:
        """Opens the user-defined functions. `context` is a FunctionContext."""
        for each in (self._values, *self._arguments.values()):
            each.open(context)

    def close(self) -> None:
        for each in (self._values, *self._arguments.values()):
            each.close()

    def evaluate(self, rows: pa.RecordBatch, matches: MatchRows) -> list[pa.Array]:
        """Returns one column with m values per expression."""
        values = [self._value(place, part, rows, matches) for place, part in enumerate(self._parts)]
        if not values:
            values = [pa.nulls(len(matches.starts))]
        return self._values.evaluate(pa.RecordBatch.from_arrays(values, [str(place) for place in range(len(values))]))

    def _value(self, place: int, part: RexNode, rows: pa.RecordBatch, matches: MatchRows) -> pa.Array:
        if isinstance(part, RexCall):
            times = matches.rowtimes
            if part.function == "MATCH_PROCTIME":
                times = np.full(len(times), matches.now_ms, dtype=np.int64)
            return timestamps(times, arrow_type_of(part.type))
        assert isinstance(part, (PatternNavigation, PatternAggregate))
        variable = None if part.variable == ALL_ROWS else self._variables.index(part.variable)
        if isinstance(part, PatternNavigation):
            assert isinstance(part.column, InputRef)
            return take_or_null(rows.column(part.column.index), matches.places_of(variable, part.is_first, part.offset))
        places, begins, ends = _rows_of(matches, variable, rows.num_rows)
        # Arguments are computed for the rows of the variable only: for another row they may have no value.
        taken = rows.take(pa.array(places))
        arrays = self._arguments[place].evaluate(taken)
        names = [str(each) for each in range(len(arrays))]
        arguments = pa.RecordBatch.from_arrays(arrays, names) if arrays else taken
        return frame_results(self._calls[place], arguments, begins, ends)


def _rows_of(matches: MatchRows, variable: int | None, num_rows: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Returns int64[k]: the places of the rows of a variable in any match; int64[m], int64[m]: where they begin and
    end among these, by match."""
    begins, lengths = matches.range_of(variable)
    if matches.has_row(variable):
        places = np.append(np.arange(begins[0], begins[0] + lengths[0]), matches.row)
        return places, np.zeros(1, dtype=np.int64), np.array([len(places)])
    changes = np.zeros(num_rows + 1, dtype=np.int64)
    np.add.at(changes, begins, 1)
    np.add.at(changes, begins + lengths, -1)
    is_used = np.cumsum(changes) > 0
    first: np.ndarray = (np.cumsum(is_used) - is_used)[begins]
    return np.flatnonzero(is_used), first, first + lengths
