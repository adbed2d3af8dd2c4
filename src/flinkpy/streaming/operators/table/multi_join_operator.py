"""StreamingMultiJoinOperator: a chain of inner and left joins over one key, without results of the joins in between.

The rows of each input are kept in a RowTable by key. A batch comes from one input, so the other tables do not change
while it is processed. Its rows are joined input by input: a `_Tuples` holds, for each partial result, the record of the
batch that caused it and its row of each input so far. The results are in the order of the records.

At the input of the batch a left join has to know how many rows each partial result before it had matched. The number
is counted in the table, and followed through the batch: the first match takes the padded result back, and
after the last one is gone the padded result comes again.

Source: org.apache.flink.table.runtime.operators.join.stream.StreamingMultiJoinOperator.
Differs: Flink looks up the rows of an input by all columns of its equality conditions; here they are found by the
common key alone, and the other equalities are checked for each pair.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.graph.table_specs import JoinType, MultiJoinSpec
from flinkpy.records.batch import Batch
from flinkpy.state.backend import KeyContext
from flinkpy.state.row_groups import RowGroups, running_counts
from flinkpy.state.row_table import RowLayout, RowTable
from flinkpy.streaming.operators.keyed_operator import KeyedStateOperator
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.conditions import PairCondition, pair_condition
from flinkpy.streaming.operators.table.table_inputs import (
    DELETE,
    INSERT,
    MAX_ROWS,
    columns_of,
    emit_columns,
    input_schema,
    is_addition,
    null_rows,
    take_or_null,
)
from flinkpy.streaming.operators.table.two_table_join import taken, with_lonely

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

#: Records that are joined together. A record has several partial results, which are all in memory.
_RECORDS_AT_ONCE = 8_192
#: The row of an input that matched nothing.
_PADDING = -1


@dataclass(frozen=True, slots=True)
class _Tuples:
    """Partial results.

    Attributes:
        records: int64[n]: the position in the batch of the record that causes each, ascending.
        kinds: int8[n]: the kind of each change.
        rows: int64[n] for each input so far: a row of its table, or _PADDING. For the input of the batch: 0 for the
            record itself.
    """

    records: np.ndarray
    kinds: np.ndarray
    rows: tuple[np.ndarray, ...]

    def take(self, indices: np.ndarray, *added: np.ndarray) -> _Tuples:
        """Returns the results at these indices, with the rows of further inputs."""
        rows = tuple(each[indices] for each in self.rows)
        return _Tuples(self.records[indices], self.kinds[indices], (*rows, *added))


class StreamingMultiJoinOperator(KeyedStateOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: MultiJoinSpec,
        input_types: Sequence[Any],
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(None, spec.key_selectors, spec.key_type, context, output, side_outputs, KeyContext())
        self._spec = spec
        self._input_types = input_types
        self._schemas = [input_schema(each) for each in input_types]
        self._output_schema = input_schema(spec.output_type)
        #: For each output column, its input and its column there.
        self._places = [(number, at) for number, schema in enumerate(self._schemas) for at in range(len(schema))]
        #: The conditions of inputs 1, 2, ...
        self._conditions = [pair_condition(each.condition, spec.settings) for each in spec.steps]
        #: The rows of each input; `initialize_state` sets them.
        self._tables: list[RowTable] = []

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self.key_selectors[input_index], self.key_type, self._input_types[input_index]

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        for number, schema in enumerate(self._schemas):
            info = self._spec.inputs[number]
            layout = RowLayout(
                tuple(schema.types),
                self._spec.keys[number],
                () if info.join_key_is_unique else info.unique_key,
                ttl_ms=self._spec.state_ttl_ms[number],
            )
            self._tables.append(self.backend.row_table(f"multi-join-input-{number}", layout))

    def open(self) -> None:
        super().open()
        for condition in self._conditions:
            if condition is not None:
                condition.open(self.create_runtime_context())

    def close(self) -> None:
        for condition in self._conditions:
            if condition is not None:
                condition.close()
        super().close()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        for start in range(0, batch.num_rows, _RECORDS_AT_ONCE):
            part = batch
            if batch.num_rows > _RECORDS_AT_ONCE:
                part = batch.slice(start, min(_RECORDS_AT_ONCE, batch.num_rows - start))
            _Pass(self, part, input_index).run()


class _Pass:
    """Joins one batch of one input."""

    def __init__(self, operator: StreamingMultiJoinOperator, batch: Batch, source: int) -> None:
        self._operator = operator
        self._tables = operator._tables
        self._spec = operator._spec
        self._source = source
        self._columns = columns_of(batch, operator._input_types[source])
        self._length = len(self._columns[0])
        self._kinds = np.zeros(self._length, dtype=np.int8) if batch.kinds is None else batch.kinds
        self._is_add = is_addition(batch.kinds, self._length)
        keys = [self._columns[each] for each in self._spec.keys[source]]
        self._unmatchable = null_rows(keys)
        keys = keys or self._tables[source].layout.key_columns(self._columns)
        #: For each table, the slot of each record's key.
        self._slots = [table.find(keys) for table in self._tables]
        if self._unmatchable is not None:
            for slots in self._slots:
                slots[self._unmatchable] = -1

    def run(self) -> None:
        tuples = self._first()
        if self._source == 0:
            self._store()
        for number in range(1, len(self._tables)):
            if number == self._source:
                tuples = self._with_records(tuples)
            else:
                tuples = self._with_table(tuples, number)
        self._emit(tuples)

    def _first(self) -> _Tuples:
        if self._source == 0:
            return _Tuples(np.arange(self._length), self._kinds, (np.zeros(self._length, dtype=np.int64),))
        records, rows = self._tables[0].rows_of(self._slots[0])
        return _Tuples(records, self._kinds[records], (rows,))

    # -- one input more ----------------------------------------------------------------------------------------------

    def _with_table(self, tuples: _Tuples, number: int) -> _Tuples:
        """Joins the rows of an input that is in state."""
        places, rows = self._tables[number].rows_of(self._slots[number][tuples.records])
        kept = self._meeting(tuples.take(places, rows), number)
        places, rows = places[kept], rows[kept]
        if self._spec.steps[number - 1].join_type is JoinType.LEFT:
            alone = np.ones(len(tuples.records), dtype=bool)
            alone[places] = False
            places, rows = with_lonely(places, rows, np.flatnonzero(alone))
        return tuples.take(places, rows)

    def _with_records(self, tuples: _Tuples) -> _Tuples:
        """Joins the records of the batch with what is before their input, and stores them."""
        number = self._source
        own = np.zeros(len(tuples.records), dtype=np.int64)
        kept = np.flatnonzero(self._meeting(tuples.take(np.arange(len(own)), own), number))
        tuples, own = tuples.take(kept), own[kept]
        if self._spec.steps[number - 1].join_type is JoinType.INNER:
            self._store()
            return tuples.take(np.arange(len(own)), own)
        groups = _groups(tuples)
        counts = self._matches_in_state(tuples, groups)
        replaced = self._store()
        is_add = self._is_add[tuples.records]
        before = _counts_before(groups, counts, np.where(is_add, np.where(replaced[tuples.records], 0, 1), -1))
        revoked = np.flatnonzero(is_add & (before == 0))
        padded = np.flatnonzero(~is_add & (before == 1))
        every = np.arange(len(own))
        order = np.argsort(np.concatenate([3 * revoked, 3 * every + 1, 3 * padded + 2]), kind="stable")
        indices = np.concatenate([revoked, every, padded])[order]
        rows = np.concatenate([np.full(len(revoked), _PADDING), own, np.full(len(padded), _PADDING)])[order]
        kinds = np.concatenate([np.full(len(revoked), DELETE), tuples.kinds, np.full(len(padded), INSERT)])[order]
        joined = tuples.take(indices, rows)
        return _Tuples(joined.records, kinds, joined.rows)

    def _matches_in_state(self, tuples: _Tuples, groups: RowGroups) -> np.ndarray:
        """Returns int64[m]: for each partial result, the rows of this input that it matched before the batch."""
        number = self._source
        firsts = np.empty(groups.num_groups, dtype=np.int64)
        firsts[groups.group[::-1]] = np.arange(groups.num_rows)[::-1]
        results = tuples.take(firsts)
        # Removed rows have no slot, so a table without this key has no rows.
        places, rows = self._tables[number].rows_of(self._slots[number][results.records])
        kept = self._meeting(results.take(places, rows), number, from_table=True)
        return np.bincount(places[kept], minlength=len(firsts))

    def _store(self) -> np.ndarray:
        """Brings the table of the batch's input up to date. Returns a mask of the additions that replaced a row."""
        table, is_add = self._tables[self._source], self._is_add
        changes = None if is_add.all() else is_add
        if self._unmatchable is None:
            return table.apply(self._columns, changes)
        replaced = np.zeros(self._length, dtype=bool)
        kept = np.flatnonzero(~self._unmatchable)
        indices = pa.array(kept)
        columns = [column.take(indices) for column in self._columns]
        replaced[kept] = table.apply(columns, None if changes is None else changes[kept])
        return replaced

    # -- conditions and columns --------------------------------------------------------------------------------------

    def _meeting(self, tuples: _Tuples, number: int, *, from_table: bool = False) -> np.ndarray:
        """Returns bool[n]: true for the results whose last row, of this input, meets the condition of its join.

        Args:
            from_table: True if the rows of the batch's input are rows of its table.
        """
        step = self._spec.steps[number - 1]
        mask = np.ones(len(tuples.records), dtype=bool)
        for each in step.requires:
            mask &= tuples.rows[each] != _PADDING
        condition = self._operator._conditions[number - 1]
        if condition is not None:
            mask[mask] = self._meeting_condition(tuples.take(np.flatnonzero(mask)), condition, from_table=from_table)
        return mask

    def _meeting_condition(self, tuples: _Tuples, condition: PairCondition, *, from_table: bool) -> np.ndarray:
        return condition.mask_of(
            len(tuples.records), lambda part: self._values(tuples, part, condition.columns, from_table=from_table)
        )

    def _values(
        self, tuples: _Tuples, part: slice, wanted: Sequence[int], *, from_table: bool = False
    ) -> list[pa.Array]:
        """Returns output columns of some of the results."""
        by_input: dict[int, list[int]] = {}
        for column in wanted:
            number, at = self._operator._places[column]
            by_input.setdefault(number, []).append(at)
        found: dict[tuple[int, int], pa.Array] = {}
        for number, columns in by_input.items():
            rows = tuples.rows[number][part]
            if number == self._source and not from_table:
                indices = np.where(rows == _PADDING, _PADDING, tuples.records[part])
                values = [take_or_null(self._columns[each], indices) for each in columns]
            else:
                values = taken(self._tables[number], rows, columns)
            found.update(zip([(number, each) for each in columns], values, strict=True))
        return [found[self._operator._places[column]] for column in wanted]

    def _emit(self, tuples: _Tuples) -> None:
        schema = self._operator._output_schema
        for start in range(0, len(tuples.records), MAX_ROWS):
            part = slice(start, start + MAX_ROWS)
            values = self._values(tuples, part, range(len(schema)))
            emit_columns(self._operator.output, schema, values, tuples.kinds[part])


def _groups(tuples: _Tuples) -> RowGroups:
    """Returns the groups of equal partial results."""
    group = np.zeros(len(tuples.records), dtype=np.int64)
    for rows in tuples.rows:
        _, group = np.unique(group * (int(rows.max(initial=0)) + 2) + rows + 1, return_inverse=True)
    count = int(group.max(initial=-1)) + 1
    return RowGroups(group.astype(np.int64), np.arange(count), np.zeros(count, dtype=bool))


def _counts_before(groups: RowGroups, counts: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Returns int64[n]: the number of matches of each row's group before it.

    Args:
        counts: int64[m]: the numbers before the batch.
        steps: int64[n]: by how much each row changes the number of its group.
    """
    after = running_counts(groups, counts, steps.astype(np.int8))
    previous = groups.previous
    return np.where(previous >= 0, after[previous], counts[groups.group]) if len(after) else after
