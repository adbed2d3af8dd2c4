"""SinkUpsertMaterializer: brings changes of rows with one primary key into an order that an upsert sink can take.

Changes of one sink key may come from several upstream keys, so that a row may be deleted after its successor has been
inserted. The operator keeps the rows of each primary key in the order of their arrival, and emits the last one. A row
that is taken back before the end of the list changes nothing.

Source: org.apache.flink.table.runtime.operators.sink.SinkUpsertMaterializer.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.graph.table_specs import SinkMaterializeSpec
from flinkpy.records.batch import Batch
from flinkpy.records.gather import take_joined
from flinkpy.state.backend import KeyContext
from flinkpy.state.key_index import KeyWords
from flinkpy.state.row_table import RowLayout, RowTable
from flinkpy.streaming.operators.keyed_operator import KeyedStateOperator
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.rank_kernels import in_python
from flinkpy.streaming.operators.table.table_inputs import columns_of, emit_columns, input_schema, is_addition

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

#: The place of a row in the list of its key.
_PLACE = "place"


def materialize(
    keys: Any,
    identities: Any,
    is_add: Any,
    replaces: Any,
    num_stored: Any,
    lists: Any,
    offsets: Any,
    sizes: Any,
    kinds: Any,
    elements: Any,
) -> Any:
    """Changes the lists record by record, and notes the changes to emit. Returns their number.

    Elements are the stored rows, then the records. The list of key k is at `lists[offsets[k]:]`. Elements with the same
    number in `identities` are the same row. `replaces`: an added row replaces the same row.
    """
    n = 0
    for i in range(len(keys)):
        key, element = keys[i], num_stored + i
        start, size = offsets[key], sizes[key]
        found = -1
        if replaces or not is_add[i]:
            for j in range(size):
                if identities[lists[start + j]] == identities[element]:
                    found = j
                    break
        if is_add[i]:
            if found < 0:
                found = size
                sizes[key] = size + 1
            lists[start + found] = element
            kinds[n], elements[n] = (2 if size else 0), element
            n += 1
        elif found >= 0:
            for j in range(found, size - 1):
                lists[start + j] = lists[start + j + 1]
            sizes[key] = size - 1
            if size == 1:
                kinds[n], elements[n] = 3, element
                n += 1
            elif found == size - 1:
                kinds[n], elements[n] = 2, lists[start + size - 2]
                n += 1
    return n


@cache
def _loop() -> Any:
    if find_spec("numba") is None:
        return in_python(materialize)
    import numba

    return numba.njit(cache=True, nogil=True)(materialize)


def _warm_up() -> None:
    """Compiles or loads the loop, so that no batch waits for it."""
    none, flags, kinds = np.empty(0, dtype=np.int64), np.empty(0, dtype=np.bool_), np.empty(0, dtype=np.int8)
    _loop()(none, none, flags, True, 0, none, none, none, kinds, none)


class SinkUpsertMaterializer(KeyedStateOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: SinkMaterializeSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(None, (spec.key_selector,), spec.key_type, context, output, side_outputs, KeyContext())
        self._spec = spec
        self._input_type = input_type
        self._schema = input_schema(input_type)
        self._output_schema = self._schema if spec.output_type is None else input_schema(spec.output_type)
        self._upsert_words = KeyWords([self._schema.types[column] for column in spec.upsert_key])
        self._table: RowTable

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self._spec.key_selector, self.key_type, self._input_type

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        spec = self._spec
        layout = RowLayout(tuple(self._schema.types), spec.primary_key, None, (_PLACE,), spec.state_ttl_ms)
        self._table = self.backend.row_table("values", layout)
        _warm_up()

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = columns_of(batch, self._input_type)
        table = self._table
        slots = table.slots_of(table.layout.key_columns(columns))
        keys, key_of_record = np.unique(slots, return_inverse=True)
        positions, rows = table.rows_of(keys)
        num_stored, num_records = len(rows), len(slots)
        counts = np.bincount(positions, minlength=len(keys))
        capacities = counts + np.bincount(key_of_record, minlength=len(keys))
        offsets = np.cumsum(capacities) - capacities
        lists = np.zeros(num_stored + num_records, dtype=np.int64)
        begins = np.cumsum(counts) - counts
        order = np.lexsort([table.ints(_PLACE, rows), positions])
        lists[np.repeat(offsets - begins, counts) + np.arange(num_stored)] = order
        sizes = counts.astype(np.int64)
        kinds, elements = np.empty(num_records, dtype=np.int8), np.empty(num_records, dtype=np.int64)
        number = _loop()(
            key_of_record,
            self._identities(rows, columns),
            is_addition(batch.kinds, num_records),
            bool(self._spec.upsert_key),
            num_stored,
            lists,
            offsets,
            sizes,
            kinds,
            elements,
        )
        self._emit(columns, rows, kinds[:number], elements[:number])
        starts = np.cumsum(sizes) - sizes
        within = np.arange(int(sizes.sum())) - np.repeat(starts, sizes)
        self._store(columns, slots, rows, lists[np.repeat(offsets, sizes) + within], within)

    def _identities(self, rows: np.ndarray, columns: list[pa.Array]) -> np.ndarray:
        key = self._spec.upsert_key
        if not key:
            return np.concatenate([self._table.words_of(rows), self._table.words_of_columns(columns)])
        values = [columns[column] for column in key]
        if len(rows):
            values = [pa.concat_arrays(pair) for pair in zip(self._table.take(rows, key), values)]
        return self._upsert_words.words(values)[1]

    def _emit(self, columns: list[pa.Array], rows: np.ndarray, kinds: np.ndarray, elements: np.ndarray) -> None:
        if not len(elements):
            return
        used = np.unique(elements[elements < len(rows)])
        places = np.where(elements < len(rows), np.searchsorted(used, elements), elements - len(rows) + len(used))
        stored = self._table.take(rows[used])
        emitted = [take_joined([mine, column], places) for mine, column in zip(stored, columns)]
        emit_columns(self.output, self._output_schema, emitted, kinds.copy())

    def _store(
        self, columns: list[pa.Array], slots: np.ndarray, rows: np.ndarray, members: np.ndarray, within: np.ndarray
    ) -> None:
        """Brings the table up to date. `members` are the elements of all lists, `within` their places."""
        table = self._table
        num_stored = len(rows)
        is_in = np.zeros(num_stored + len(slots), dtype=bool)
        is_in[members] = True
        new = np.flatnonzero(is_in[num_stored:])
        indices = pa.array(new)
        added = table.add(slots[new], [column.take(indices) for column in columns])
        row_of = np.empty(len(is_in), dtype=np.int64)
        row_of[:num_stored] = rows
        row_of[num_stored + new] = added
        table.set_ints(_PLACE, row_of[members], within)
        table.remove_rows(rows[~is_in[:num_stored]], slots)
