"""PaneWindowOperator: tumbling and sliding windows over columns.

Each record is aggregated once, into its pane. When a window ends, its panes are merged. One vectorised pass merges all
due windows and all their keys.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.graph.operator_specs import WindowAggregateSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import MIN_WATERMARK
from flinkpy.state.aggregate_table import AggregateColumn
from flinkpy.state.key_slots import KeySlots
from flinkpy.state.pane_table import PaneTable
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.windowing_columns.column_window_operator import (
    TABLE_NAME,
    ColumnWindowOperator,
    turns_of,
)
from flinkpy.streaming.operators.windowing_columns.panes import PaneBlocks, Panes, distinct_codes

#: The maximum number of entries of the windows that are merged in one pass.
_MAX_ENTRIES = 65_536
#: Windows with at least this many panes and entries are built from blocks of panes.
_MIN_PANES_FOR_BLOCKS = 8
_MIN_ENTRIES_FOR_BLOCKS = 16_384


class PaneWindowOperator(ColumnWindowOperator):
    """Runs tumbling and sliding windows over columns. Thread: task thread."""

    def __init__(
        self,
        spec: WindowAggregateSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        super().__init__(spec, input_type, context, output, side_outputs)
        self._panes = self.create_panes()
        self._lateness = spec.allowed_lateness_ms if spec.is_event_time else 0
        #: Blocks only contain panes before this one.
        self._blocks_until = MIN_WATERMARK

    def create_panes(self) -> Panes:
        return Panes(self.spec.size_ms, self.spec.slide_ms, self.spec.offset_ms)

    def create_table(self, key_types: list[pa.DataType], aggregates: list[AggregateColumn]) -> None:
        self._table: PaneTable = self.backend.pane_table(TABLE_NAME, key_types, aggregates)
        self._blocks = PaneBlocks(self._table)

    # -- records -----------------------------------------------------------------------------------------------------

    def add(self, batch: Batch, key_columns: list[pa.Array], value_columns: list[pa.Array | None]) -> None:
        assert batch.timestamps is not None
        panes = self._panes.pane_at(batch.timestamps)
        progress = self.latest_progress
        if not self._panes.has_gaps and int(panes.min()) >= self._first_on_time(progress):
            self._table.add(key_columns, panes, value_columns)
            self._note_added(panes)
            return
        self._add_apart(batch, key_columns, panes)

    def _first_kept(self, progress: Any) -> Any:
        """Returns the first pane of a window that still accepts records."""
        return self._panes.first_pane(self._panes.last_ended(progress - self._lateness) + 1)

    def _first_on_time(self, progress: Any) -> Any:
        """Returns the first pane that accepts records without making a window fire immediately."""
        if not self._lateness:
            return self._first_kept(progress)
        return self._panes.last_ended(progress) * self._panes.per_slide + self._panes.per_window

    def _add_apart(self, batch: Batch, key_columns: list[pa.Array], panes: np.ndarray) -> None:
        """Adds a batch in which some records may be late or in no window."""
        progress = self.progress_of(key_columns)
        is_kept = panes >= self._first_kept(progress)
        is_late = ~is_kept
        if self._panes.has_gaps:
            in_gap = self._panes.is_in_gap(panes)
            assert batch.timestamps is not None
            is_late = np.where(in_gap, batch.timestamps + self._lateness <= progress, is_late)
            is_kept &= ~in_gap
        if is_late.any():
            self.late(batch, is_late)
        fires = is_kept & (panes < self._first_on_time(progress))
        self._add_rows(batch, panes, np.flatnonzero(is_kept & ~fires))
        if fires.any():
            self._add_and_fire(batch, panes, np.flatnonzero(fires), progress)

    def _add_rows(self, batch: Batch, panes: np.ndarray, rows: np.ndarray) -> np.ndarray | None:
        if not len(rows):
            return None
        columns = batch.values
        assert isinstance(columns, pa.RecordBatch) and self.inputs is not None
        if len(rows) < len(panes):
            columns, panes = columns.take(pa.array(rows)), panes.take(rows)
        slots = self._table.add(self.inputs.key_columns(columns), panes, self.inputs.value_columns(columns))
        self._note_added(panes)
        return slots

    def _note_added(self, panes: np.ndarray) -> None:
        """Drops blocks with panes that got records. A pane of a fired window gets records if another window is open."""
        if int(panes.min()) < self._blocks_until:
            self._blocks.changed(panes[panes < self._blocks_until])

    # -- results -----------------------------------------------------------------------------------------------------

    def fire(self, time: int) -> None:
        table, arithmetic = self._table, self._panes
        panes = table.panes()
        if not len(panes):
            return
        first, last = arithmetic.last_ended(self.fired_until) + 1, arithmetic.last_ended(time)
        windows = arithmetic.windows_of(panes, first, last)
        if len(windows):
            begins = np.searchsorted(panes, arithmetic.first_pane(windows))
            ends = np.searchsorted(panes, arithmetic.end_pane(windows))
            used = slice(begins[0], ends[-1])
            bounds = np.append(0, np.cumsum(table.sizes()[used]))
            froms, tos = bounds.take(begins - begins[0]), bounds.take(ends - begins[0])
            mean_size = int((tos - froms).sum()) // len(windows)
            if arithmetic.per_window >= _MIN_PANES_FOR_BLOCKS and mean_size >= _MIN_ENTRIES_FOR_BLOCKS:
                self._emit_blocks(windows, panes)
            else:
                self._emit_windows(windows, table.slots_of_panes(panes[used]), froms, tos)
        first_kept = self._first_kept(time)
        self._blocks.drop_before(first_kept)
        table.drop_before(first_kept)

    def _emit_blocks(self, windows: np.ndarray, panes: np.ndarray) -> None:
        arithmetic = self._panes
        for window in windows.tolist():
            self._blocks_until = arithmetic.end_pane(window)
            block = self._blocks.run(panes, arithmetic.first_pane(window), self._blocks_until)
            if len(block.keys):
                slots = np.arange(len(block.keys))
                results = [accumulator.results(slots) for accumulator in block.accumulators]
                self._emit_keys(np.full(len(slots), window), block.keys, results)

    def _emit_windows(self, windows: np.ndarray, slots: np.ndarray, begins: np.ndarray, ends: np.ndarray) -> None:
        """Merges and emits windows. Window i has the entries `slots[begins[i]:ends[i]]`."""
        sizes = ends - begins
        pieces = (np.cumsum(sizes) - sizes) // _MAX_ENTRIES
        starts = np.flatnonzero(np.append(True, pieces[1:] != pieces[:-1])).tolist()
        for start, stop in zip(starts, [*starts[1:], len(windows)]):
            counts = sizes[start:stop]
            numbers = np.repeat(np.arange(stop - start), counts)
            if self._panes.per_window == 1:
                # Each window has one pane, so panes in order are windows in order.
                chosen = slots[begins[start] : ends[stop - 1]]
                self._emit(windows[start:stop].take(numbers), chosen, self._table.results(chosen))
                continue
            ranges = zip(begins[start:stop].tolist(), ends[start:stop].tolist())
            chosen = np.concatenate([slots[begin:end] for begin, end in ranges])
            self._merge(windows[start:stop], numbers, chosen)

    def _merge(self, windows: np.ndarray, numbers: np.ndarray, slots: np.ndarray) -> None:
        """Merges the entries of each window and key. The entry `slots[i]` belongs to window `windows[numbers[i]]`."""
        # Combine the window and the key in one number.
        bits = self._table.num_keys.bit_length()
        codes = (numbers << bits) | self._table.key_numbers(slots)
        distinct, groups = distinct_codes(codes, len(windows) << bits)
        results = self._table.merged_results(groups, slots, len(distinct))
        rows, keys = distinct >> bits, distinct & ((1 << bits) - 1)
        self._emit_keys(windows.take(rows), keys, results)

    def _emit(self, windows: np.ndarray, slots: np.ndarray, results: list[pa.Array]) -> None:
        self._emit_keys(windows, self._table.key_numbers(slots), results)

    def _emit_keys(self, windows: np.ndarray, keys: np.ndarray, results: list[pa.Array], again: bool = False) -> None:
        arithmetic = self._panes
        self.emit(self._table.keys(keys), arithmetic.start_of(windows), arithmetic.end_of(windows), results, again)

    def next_end(self) -> int | None:
        panes = self._table.panes()
        if not len(panes):
            return None
        first = self._panes.last_ended(self.fired_until) + 1
        return int(self._panes.end_of(max(int(self._panes.first_window(panes[0])), first))) - 1

    # -- late records that are still accepted ------------------------------------------------------------------------

    def _add_and_fire(self, batch: Batch, panes: np.ndarray, rows: np.ndarray, progress: Any) -> None:
        """Adds records whose windows have fired but are kept. Each such record makes its windows fire again.

        The records of one key are processed in turns, one after the other. Different keys are independent.
        """
        columns = batch.values
        assert isinstance(columns, pa.RecordBatch) and self.inputs is not None
        table, arithmetic = self._table, self._panes
        progress = np.broadcast_to(progress, len(panes))
        firsts = np.maximum(arithmetic.first_window(panes), arithmetic.last_ended(progress - self._lateness) + 1)
        lasts = np.minimum(arithmetic.last_window(panes), arithmetic.last_ended(progress))
        fired: list[tuple[np.ndarray, np.ndarray, np.ndarray, list[pa.Array]]] = []
        indices = pa.array(rows)
        key_columns = [column.take(indices) for column in self.inputs.key_columns(columns)]
        keys = KeySlots([column.type for column in key_columns]).slots_of(key_columns)
        for turn in turns_of(keys, np.ones(len(rows), dtype=bool)):
            turn_rows = rows.take(turn)
            slots = self._add_rows(batch, panes, turn_rows)
            assert slots is not None
            keys = table.key_numbers(slots)
            counts = lasts.take(turn_rows) - firsts.take(turn_rows) + 1
            records = np.repeat(np.arange(len(turn_rows)), counts)
            # The windows of a record go from the last to the first, as in Flink.
            back = np.arange(len(records)) - np.repeat(np.cumsum(counts) - counts, counts)
            windows = lasts.take(turn_rows).take(records) - back
            window_keys = keys.take(records)
            steps = np.arange(arithmetic.per_window)
            wanted = (windows * arithmetic.per_slide)[:, None] + steps
            found = table.find(np.repeat(window_keys, len(steps)), wanted.ravel())
            is_there = found >= 0
            groups = np.repeat(np.arange(len(windows)), len(steps))[is_there]
            results = table.merged_results(groups, found[is_there], len(windows))
            fired.append((turn_rows.take(records), windows, window_keys, results))
        order = np.argsort(np.concatenate([part[0] for part in fired]), kind="stable")
        results = [pa.concat_arrays(parts).take(pa.array(order)) for parts in zip(*(part[3] for part in fired))]
        windows = np.concatenate([part[1] for part in fired]).take(order)
        self._emit_keys(windows, np.concatenate([part[2] for part in fired]).take(order), results, again=True)
