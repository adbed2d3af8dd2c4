"""Operators of ON CONFLICT DO ERROR and DO NOTHING: which of several rows of one primary key a sink gets.

Changes of one key come from several subtasks, so that a row may arrive before the one that it replaces is taken back.
WatermarkTimestampAssigner notes before the exchange how far event time was when a change was made.
ConflictMaterializer keeps changes until the watermark has passed that time in all subtasks. Only then are the rows of
a key known: one is what the sink gets, and several are a conflict.

Source: org.apache.flink.table.runtime.operators.sink.{WatermarkTimestampAssigner, WatermarkCompactingSinkMaterializer}.
"""

from __future__ import annotations

from functools import cache
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import TableRuntimeError
from flinkpy.graph.table_specs import ConflictMaterializeSpec, WatermarkTimestampSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MIN_WATERMARK, Watermark
from flinkpy.state.backend import KeyContext
from flinkpy.state.key_index import KeyWords
from flinkpy.state.row_table import RowLayout, RowTable
from flinkpy.streaming.operators.keyed_operator import KeyedStateOperator
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext, StreamOperator
from flinkpy.streaming.operators.table.rank_kernels import in_python
from flinkpy.streaming.operators.table.table_inputs import (
    DELETE,
    INSERT,
    UPDATE_AFTER,
    columns_of,
    emit_columns,
    input_schema,
    is_addition,
)

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

#: The numbers of a stored row: the watermark when the change was made; 1 for an addition; 1 for the row that was sent.
_TIME, _IS_ADDITION, _IS_SENT = "time", "addition", "sent"


class WatermarkTimestampAssigner(StreamOperator):
    """Appends the watermark at which a change comes as a BIGINT column. Thread: task thread."""

    def __init__(
        self,
        spec: WatermarkTimestampSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(context, output, side_outputs)
        self._input_type = input_type
        self._schema = input_schema(spec.output_type)
        self._watermark = MIN_WATERMARK

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        columns = columns_of(batch, self._input_type)
        times = pa.array(np.full(batch.num_rows, self._watermark, dtype=np.int64))
        emit_columns(self.output, self._schema, [*columns, times], batch.kinds)

    def process_watermark(self, watermark: Watermark) -> None:
        self._watermark = watermark.timestamp
        super().process_watermark(watermark)


def compact(
    starts: Any,
    is_sent: Any,
    is_add: Any,
    times: Any,
    identities: Any,
    words: Any,
    replaces: Any,
    kept: Any,
    debts: Any,
) -> Any:
    """Finds the rows of each key.

    Args:
        starts: the first element of each key, and the number of elements at the end. The sent row is the first one.
        is_sent, is_add, times, identities, words: of each element. Rows with one identity are the same row for the
            input, those with the same word are equal.
        replaces: an added row replaces the one of its identity.
        kept, debts: room for one number per element of a key.

    Returns: for each key the element that is its first row, and the number of its rows.
    """
    num_keys = len(starts) - 1
    first, counts = np.full(num_keys, -1, dtype=np.int64), np.zeros(num_keys, dtype=np.int64)
    for key in range(num_keys):
        size = num_debts = 0
        time = times[starts[key]]
        for i in range(starts[key], starts[key + 1]):
            if times[i] != time:
                time, num_debts = times[i], 0
            if is_sent[i] or is_add[i]:
                found = -1
                for j in range(num_debts):
                    # The row was taken back before it came.
                    if words[debts[j]] == words[i]:
                        found = j
                        break
                if found >= 0 and not is_sent[i]:
                    num_debts -= 1
                    debts[found] = debts[num_debts]
                    continue
                found = -1
                if replaces:
                    for j in range(size):
                        if identities[kept[j]] == identities[i]:
                            found = j
                            break
                if found < 0:
                    found = size
                    size += 1
                kept[found] = i
                continue
            found = -1
            for j in range(size):
                if identities[kept[j]] == identities[i]:
                    found = j
                    break
            if found < 0:
                debts[num_debts] = i
                num_debts += 1
                continue
            for j in range(found, size - 1):
                kept[j] = kept[j + 1]
            size -= 1
        counts[key] = size
        if size:
            first[key] = kept[0]
    return first, counts


@cache
def _loop() -> Any:
    if find_spec("numba") is None:
        return in_python(compact)
    import numba

    return numba.njit(cache=True, nogil=True)(compact)


class ConflictMaterializer(KeyedStateOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: ConflictMaterializeSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(None, (spec.key_selector,), spec.key_type, context, output, side_outputs, KeyContext())
        self._spec = spec
        self._input_type = input_type
        self._schema = input_schema(spec.output_type)
        types = self._schema.types
        self._layout = RowLayout(
            tuple(types), spec.primary_key, None, (_TIME, _IS_ADDITION, _IS_SENT), spec.state_ttl_ms
        )
        self._upsert_words = KeyWords([types[column] for column in spec.upsert_key])
        self._table: RowTable

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self._spec.key_selector, self.key_type, self._input_type

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        self._table = self.backend.row_table("watermark-buffer", self._layout)

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        *columns, times = columns_of(batch, self._input_type)
        count = batch.num_rows
        table = self._table
        table.add(
            table.slots_of(table.layout.key_columns(columns)),
            columns,
            {
                _TIME: times.to_numpy(zero_copy_only=False),
                _IS_ADDITION: is_addition(batch.kinds, count).astype(np.int64),
                _IS_SENT: np.zeros(count, dtype=np.int64),
            },
        )

    def process_watermark(self, watermark: Watermark) -> None:
        self._compact(watermark.timestamp)
        super().process_watermark(watermark)

    def finish(self) -> None:
        self._compact(None)
        super().finish()

    def _compact(self, time: int | None) -> None:
        """Sends what is known of the rows of keys. None: the input has ended, and all is known.

        Raises: TableRuntimeError if there are several rows of one key, and that is an error.
        """
        table = self._table
        rows = table.live_rows()
        is_sent, times = table.ints(_IS_SENT, rows) == 1, table.ints(_TIME, rows)
        is_due = ~is_sent if time is None else ~is_sent & (times <= time)
        if not is_due.any():
            return
        slots = table.slots_of_rows(rows)
        is_member = is_due | (is_sent & np.isin(slots, np.unique(slots[is_due])))
        rows, slots, times, is_sent = rows[is_member], slots[is_member], times[is_member], is_sent[is_member]
        order = np.lexsort((table.sequence(rows), times, ~is_sent, slots))
        rows, slots, times, is_sent = rows[order], slots[order], times[order], is_sent[order]
        starts = np.append(np.flatnonzero(np.append(True, slots[1:] != slots[:-1])), len(slots))
        words = table.words_of(rows)
        key = self._spec.upsert_key
        identities = self._upsert_words.words(table.take(rows, key))[1] if key else words
        room = int(np.diff(starts).max())
        first, counts = _loop()(
            starts,
            is_sent,
            table.ints(_IS_ADDITION, rows) == 1,
            times,
            identities,
            words,
            bool(key),
            np.empty(room, dtype=np.int64),
            np.empty(room, dtype=np.int64),
        )
        if self._spec.on_conflict == "ERROR" and (counts > 1).any():
            raise self._conflict(table, rows[first[counts > 1][:1]])
        self._send(rows, words, is_sent, starts, first, counts)

    def _conflict(self, table: RowTable, row: np.ndarray) -> TableRuntimeError:
        names = [self._schema.names[each] for each in self._spec.primary_key]
        values = [column[0].as_py() for column in table.take(row, self._spec.primary_key)]
        shown = ", ".join(f"{name}={value!r}" for name, value in zip(names, values, strict=True))
        return TableRuntimeError(
            "Primary key constraint violation: multiple distinct records with the same primary key detected: "
            f"[{shown}]. Use ON CONFLICT DO NOTHING to keep the first record."
        )

    def _send(
        self,
        rows: np.ndarray,
        words: np.ndarray,
        is_sent: np.ndarray,
        starts: np.ndarray,
        first: np.ndarray,
        counts: np.ndarray,
    ) -> None:
        """Emits the changes of keys and stores the rows that the sink has."""
        begins = starts[:-1]
        had_row = is_sent[begins]
        chosen = np.where(first < 0, begins, first)
        # The sent row stays if there are several, although the input may have taken it back since.
        stays = had_row & (counts > 1)
        chosen = np.where(stays, begins, chosen)
        is_gone = counts == 0
        is_same = had_row & (words[chosen] == words[begins])
        kinds = np.full(len(begins), INSERT, dtype=np.int8)
        kinds[had_row] = UPDATE_AFTER
        kinds[is_gone] = DELETE
        emitted = np.flatnonzero(np.where(is_gone, had_row, ~is_same))
        if len(emitted):
            emit_columns(self.output, self._schema, self._table.take(rows[chosen[emitted]]), kinds[emitted])
        kept = np.zeros(len(rows), dtype=bool)
        kept[chosen[~is_gone]] = True
        self._table.set_ints(_IS_SENT, rows[kept], np.ones(int(kept.sum()), dtype=np.int64))
        self._table.remove(rows[~kept])
