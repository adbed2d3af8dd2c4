"""KeyedLookupJoinOperator: a lookup join of an updating input, which keeps the rows that it has found.

The table may have changed when a row is taken back. So a deletion is not looked up: it takes back the rows that were
sent for the row of its key.

Source: org.apache.flink.table.runtime.operators.join.lookup.KeyedLookupJoinWrapper.
Differs: an INNER join takes nothing back for a row that had found nothing; Flink sends a deletion with NULLs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.graph.table_specs import JoinType, KeyedLookupJoinSpec
from flinkpy.records.batch import Batch
from flinkpy.records.segments import Groups
from flinkpy.state.backend import KeyContext
from flinkpy.state.key_index import KeyIndex, KeyWords
from flinkpy.state.row_table import RowLayout, RowTable
from flinkpy.streaming.operators.keyed_operator import KeyedStateOperator
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.lookup_join_operator import Lookups
from flinkpy.streaming.operators.table.lookup_joiner import LookupJoiner, Matches
from flinkpy.streaming.operators.table.table_inputs import (
    DELETE,
    MAX_ROWS,
    columns_of,
    emit_columns,
    input_schema,
    is_addition,
    take_or_null,
)

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

#: 1 for a key whose row has found nothing.
_IS_MISSING = "is_missing"
_NOTHING = -1


class KeyedLookupJoinOperator(KeyedStateOperator):
    """Thread: task thread."""

    _found: RowTable

    def __init__(
        self,
        spec: KeyedLookupJoinSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(None, (spec.key_selector,), spec.key_type, context, output, side_outputs, KeyContext())
        self._spec = spec
        self._input_type = input_type
        self._joiner = LookupJoiner(spec.join, input_type, context)
        self._lookups = Lookups(spec.join, self._joiner)
        self._is_left = spec.join.join_type is JoinType.LEFT
        self._is_open = False

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self._spec.key_selector, self.key_type, self._input_type

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        types = input_schema(self._input_type).types
        key_types = [types[column] for column in self._spec.key]
        table_types = input_schema(self._spec.join.table_type).types
        self._columns = list(range(len(key_types), len(key_types) + len(table_types)))
        layout = RowLayout(
            (*key_types, *table_types),
            tuple(range(len(key_types))),
            ints=(_IS_MISSING,),
            ttl_ms=self._spec.state_ttl_ms,
        )
        self._found = self.backend.row_table("values", layout)

    def open(self) -> None:
        super().open()
        self._is_open = True
        self._joiner.open(self.create_runtime_context())

    def close(self) -> None:
        if self._is_open:
            self._is_open = False
            self._joiner.close()
        super().close()

    # -- data --------------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = columns_of(batch, self._input_type)
        is_add = is_addition(batch.kinds, len(columns[0]))
        keys = [columns[column] for column in self._spec.key]
        numbers, _ = KeyIndex(KeyWords([key.type for key in keys])).slots_of(keys)
        groups = Groups(numbers)
        added = np.flatnonzero(is_add)
        request = self._joiner.request(batch.take(added))
        matches = self._joiner.matches(request, self._lookups.found(request.asked))
        positions = added[matches.positions]
        entries = [(positions, matches.rows)]
        stored = self._found.take(np.empty(0, dtype=np.int64), self._columns)
        if len(added) < len(is_add):
            taken_back, stored = self._taken_back(keys, groups, is_add, positions, matches)
            entries.append(taken_back)
        self._store(keys, groups, is_add, positions, matches)
        self._emit(batch, columns, is_add, entries, [*zip(matches.table.columns, stored)])

    def _taken_back(
        self, keys: list[pa.Array], groups: Groups, is_add: np.ndarray, positions: np.ndarray, matches: Matches
    ) -> tuple[tuple[np.ndarray, np.ndarray], list[pa.Array]]:
        """Finds the rows that were sent for the rows that are deleted.

        Returns: pairs of a position in the batch and a row: of `matches.table`, or after those a row from the state;
        the columns of the rows from the state.
        """
        before = np.full(len(is_add), _NOTHING)
        before[groups.order[1:]] = np.where(groups.group_of[1:] == groups.group_of[:-1], groups.order[:-1], _NOTHING)
        deleted = np.flatnonzero(~is_add)
        previous = before[deleted]
        # The row was added in this batch.
        own = deleted[(previous >= 0) & is_add[previous]]
        starts = np.searchsorted(positions, before[own])
        counts = np.searchsorted(positions, before[own], side="right") - starts
        own_positions = np.repeat(own, counts)
        within = np.arange(len(own_positions)) - np.repeat(np.cumsum(counts) - counts, counts)
        own_rows = matches.rows[np.repeat(starts, counts) + within]
        # The row was added by an earlier batch.
        old = deleted[previous < 0]
        indices = pa.array(old)
        slots = self._found.find([key.take(indices) for key in keys])
        places, rows = self._found.rows_of(slots)
        is_missing = self._found.ints(_IS_MISSING, rows) == 1
        old_rows = np.where(is_missing, _NOTHING, matches.table.num_rows + np.arange(len(rows)))
        old_positions = old[places]
        # A key that is unknown, because its state has expired, takes back nothing but the row of NULLs.
        unknown = np.setdiff1d(deleted, np.concatenate([own_positions, old_positions]))
        all_positions = np.concatenate([own_positions, old_positions, unknown])
        all_rows = np.concatenate([own_rows, old_rows, np.full(len(unknown), _NOTHING)])
        if not self._is_left:
            all_positions, all_rows = all_positions[all_rows >= 0], all_rows[all_rows >= 0]
        return (all_positions, all_rows), self._found.take(rows, self._columns)

    def _store(
        self, keys: list[pa.Array], groups: Groups, is_add: np.ndarray, positions: np.ndarray, matches: Matches
    ) -> None:
        """Keeps what the last row of each key has found."""
        table = self._found
        lasts = groups.lasts
        indices = pa.array(lasts)
        _, old = table.rows_of(table.find([key.take(indices) for key in keys]))
        table.remove(old)
        is_kept = np.zeros(len(is_add), dtype=bool)
        is_kept[lasts[is_add[lasts]]] = True
        has_match = np.zeros(len(is_add), dtype=bool)
        has_match[positions[matches.rows >= 0]] = True
        pairs = is_kept[positions] & (matches.rows >= 0)
        missing = np.flatnonzero(is_kept & ~has_match)
        places = np.concatenate([positions[pairs], missing])
        rows = np.concatenate([matches.rows[pairs], np.full(len(missing), _NOTHING)])
        if not len(places):
            return
        taken = pa.array(places)
        key_columns = [key.take(taken) for key in keys]
        columns = [*key_columns, *(take_or_null(column, rows) for column in matches.table.columns)]
        table.add(table.slots_of(key_columns), columns, {_IS_MISSING: (rows < 0).astype(np.int64)})

    def _emit(
        self,
        batch: Batch,
        columns: list[pa.Array],
        is_add: np.ndarray,
        entries: list[tuple[np.ndarray, np.ndarray]],
        right: list[tuple[pa.Array, pa.Array]],
    ) -> None:
        positions, rows = (np.concatenate([entry[part] for entry in entries]) for part in range(2))
        order = np.argsort(positions, kind="stable")
        positions, rows = positions[order], rows[order]
        kinds = None
        if batch.kinds is not None:
            kinds = np.where(is_add, batch.kinds, DELETE).astype(np.int8)[positions]
        table = [pa.concat_arrays(parts) for parts in right]
        for start in range(0, len(positions), MAX_ROWS):
            part = slice(start, start + MAX_ROWS)
            indices = pa.array(positions[part])
            values = [column.take(indices) for column in columns]
            values += [take_or_null(column, rows[part]) for column in table]
            emit_columns(self.output, self._joiner.output_schema, values, None if kinds is None else kinds[part])
