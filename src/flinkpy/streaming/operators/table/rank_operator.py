"""RankOperator: Top-N, the rows of each partition with the lowest ranks.

For each batch it loads the rows of the batch's partitions from a RowTable, sorted, and inserts the records one after
the other into these lists (`rank_kernels`), which notes the changes to emit. Then it brings the table up to date. With
a mini-batch, the changes are those between the lists before and after it.

Source: org.apache.flink.table.runtime.operators.rank.{AppendOnlyTopNFunction,FastTop1Function,RetractableTopNFunction,
UpdatableTopNFunction}.
Differs: a record that breaks the monotonicity of updates is ranked where it belongs among the rows that are kept. Flink
has no mini-batches here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.table_specs import RankSpec, SortLimitSpec
from flinkpy.records.batch import Batch
from flinkpy.records.elements import Watermark
from flinkpy.records.gather import take_joined
from flinkpy.state.backend import KeyContext
from flinkpy.state.key_index import KeyWords
from flinkpy.state.row_table import RowLayout, RowTable
from flinkpy.streaming.operators.keyed_operator import KeyedStateOperator
from flinkpy.streaming.operators.output import Output
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.bundle import Bundle
from flinkpy.streaming.operators.table.order_codes import order_codes
from flinkpy.streaming.operators.table.rank_changes import RankedElements, folded_changes
from flinkpy.streaming.operators.table.rank_kernels import rank_kernels, warm_up
from flinkpy.streaming.operators.table.table_inputs import columns_of, emit_columns, input_schema, is_addition

if TYPE_CHECKING:
    from flinkpy._proto import checkpoint_pb2

_STRATEGIES = ("APPEND", "RETRACT", "UPDATE")
#: The room for changes that are noted before they are emitted.
_MIN_CHANGES = 1 << 17
#: The place of a row among those with equal sort keys. Updates keep it, so the order of addition does not give it.
_PLACE = "place"


class RankOperator(KeyedStateOperator):
    """Thread: task thread."""

    def __init__(
        self,
        spec: RankSpec,
        input_type: Any,
        context: OperatorContext,
        output: Output,
        side_outputs: dict[str, Output],
    ) -> None:
        if spec.function != "ROW_NUMBER":
            raise UnsupportedOperationError(
                f"operator {context.name}: {spec.function} on streaming tables is not supported: use ROW_NUMBER"
            )
        if spec.strategy not in _STRATEGIES:
            raise UnsupportedOperationError(
                f"operator {context.name}: the strategy of a rank must be one of {', '.join(_STRATEGIES)}, "
                f"not {spec.strategy!r}"
            )
        super().__init__(None, (spec.key_selector,), spec.key_type, context, output, side_outputs, KeyContext())
        self._spec = spec
        self._input_type = input_type
        self._schema = input_schema(input_type)
        fields = list(self._schema) + ([pa.field("rank", pa.int64())] if spec.output_rank_number else [])
        self._output_schema = pa.schema(fields) if spec.output_type is None else input_schema(spec.output_type)
        self._order_columns = [field.column for field in spec.order]
        self._key_words = KeyWords([self._schema.types[column] for column in spec.primary_key])
        self._bundle: Bundle | None = None
        if spec.mini_batch is not None:
            self._bundle = Bundle(spec.mini_batch, context.processing_time_service, self._process)
        self._table: RowTable

    def key_of_input(self, input_index: int) -> tuple[Any, Any, Any]:
        return self._spec.key_selector, self.key_type, self._input_type

    def initialize_state(self, restored: checkpoint_pb2.OperatorSubtaskState | None) -> None:
        super().initialize_state(restored)
        spec = self._spec
        layout = RowLayout(
            tuple(self._schema.types),
            spec.partition,
            ints=(_PLACE,) if spec.strategy == "UPDATE" else (),
            ttl_ms=spec.state_ttl_ms,
        )
        self._table = self.backend.row_table("data-state", layout)
        warm_up(spec.strategy)

    # -- data --------------------------------------------------------------------------------------------------------

    def process_batch(self, batch: Batch, input_index: int = 0) -> None:
        if self._bundle is not None:
            self._bundle.add(batch)
        else:
            self._process(batch)

    def prepare_snapshot_pre_barrier(self, checkpoint_id: int) -> None:
        self._finish_bundle()

    def process_watermark(self, watermark: Watermark) -> None:
        self._finish_bundle()
        super().process_watermark(watermark)

    def finish(self) -> None:
        self._finish_bundle()

    def _finish_bundle(self) -> None:
        if self._bundle is not None:
            self._bundle.finish()

    def _process(self, batch: Batch) -> None:
        columns = columns_of(batch, self._input_type)
        is_add = is_addition(batch.kinds, len(columns[0]))
        if self._spec.strategy != "RETRACT" and not is_add.all():
            raise UnsupportedOperationError(
                f"operator {self.context.name}: a rank with the strategy {self._spec.strategy} takes no DELETE and no "
                "UPDATE_BEFORE rows"
            )
        table = self._table
        slots = table.slots_of(table.layout.key_columns(columns))
        lists = _Lists(self, columns, slots, is_add)
        for kinds, elements, ranks in lists.run() if self._bundle is None else lists.run_folded():
            self._emit(columns, lists.rows, kinds, elements, ranks)
        gone, new = lists.outcome()
        added = table.add(slots[new], [column.take(pa.array(new)) for column in columns])
        if self._spec.strategy == "UPDATE":
            lists.store_places(new, added)
        table.remove_rows(lists.rows[gone], slots)

    def _emit(
        self, columns: list[pa.Array], rows: np.ndarray, kinds: np.ndarray, elements: np.ndarray, ranks: np.ndarray
    ) -> None:
        """Emits changes. The elements below len(rows) are rows of the table, the others records of the batch."""
        spec = self._spec
        num_stored = len(rows)
        used = np.unique(elements[elements < num_stored])
        stored = self._table.take(rows[used])
        places = np.where(elements < num_stored, np.searchsorted(used, elements), elements - num_stored + len(used))
        emitted = [take_joined([mine, column], places) for mine, column in zip(stored, columns)]
        if spec.output_rank_number:
            emitted.append(pa.array(ranks))
        emit_columns(self.output, self._output_schema, emitted, kinds)


def create_sort_limit_operator(
    spec: SortLimitSpec, input_type: Any, context: OperatorContext, output: Output, side_outputs: dict[str, Output]
) -> RankOperator:
    """Returns the operator of ORDER BY with LIMIT: a Top-N without partitions and rank numbers.

    Source: org.apache.flink.table.planner.plan.nodes.exec.stream.{StreamExecSortLimit,StreamExecLimit}.
    """
    if spec.limit is None:
        raise UnsupportedOperationError(
            f"operator {context.name}: ORDER BY of a streaming table needs a LIMIT, or a time attribute first"
        )
    rank = RankSpec(
        spec.key_selector,
        "ROW_NUMBER",
        (),
        spec.order,
        spec.offset + 1,
        spec.offset + spec.limit,
        strategy="RETRACT" if spec.needs_retraction else "APPEND",
        generate_update_before=spec.generate_update_before,
        state_ttl_ms=spec.state_ttl_ms,
        mini_batch=spec.mini_batch,
        key_type=spec.key_type,
        input_types=spec.input_types,
        output_type=spec.output_type,
    )
    return RankOperator(rank, input_type, context, output, side_outputs)


class _Lists:
    """The sorted lists of the partitions of a batch. Elements are the rows in the table, then the batch's records.

    Attributes:
        rows: int64[s]: the rows of the table that are elements.
    """

    def __init__(self, operator: RankOperator, columns: list[pa.Array], slots: np.ndarray, is_add: np.ndarray) -> None:
        spec, table = operator._spec, operator._table
        self._operator = operator
        self._is_add = is_add
        keys, first, self._keys = np.unique(slots, return_index=True, return_inverse=True)
        positions, self.rows = table.rows_of(keys)
        num_stored, num_records = len(self.rows), len(slots)
        sort_columns = [columns[column] for column in operator._order_columns]
        if num_stored:
            stored = table.take(self.rows, operator._order_columns)
            sort_columns = [pa.concat_arrays(pair) for pair in zip(stored, sort_columns)]
        self._codes = order_codes(sort_columns, spec.order)
        if not len(self._codes):
            self._codes = np.zeros(num_stored + num_records, dtype=np.int64)
        counts = np.bincount(positions, minlength=len(keys))
        capacities = counts + np.bincount(self._keys, minlength=len(keys))
        if spec.rank_end_column is not None:
            ends = columns[spec.rank_end_column].take(pa.array(first)).fill_null(0).to_numpy().astype(np.int64)
            self._limits = np.clip(ends, 0, capacities)
        else:
            assert spec.rank_end is not None, "a rank has an end"
            self._limits = np.minimum(spec.rank_end, capacities)
        self._offsets = np.cumsum(capacities + 1) - (capacities + 1)
        self._lists = np.zeros(int((capacities + 1).sum()), dtype=np.int64)
        self._sizes = counts.astype(np.int64)
        if num_stored:
            by = [self._codes[:num_stored], positions]
            if spec.strategy == "UPDATE":
                by.insert(0, table.ints(_PLACE, self.rows))
            order = np.lexsort(by)
            begins = np.cumsum(counts) - counts
            self._lists[np.repeat(self._offsets - begins, counts) + np.arange(num_stored)] = order
        self._identities = self._find_identities(columns)

    def _find_identities(self, columns: list[pa.Array]) -> np.ndarray:
        """Returns one number per element: equal ones for rows that a change can mean."""
        operator = self._operator
        strategy, table = operator._spec.strategy, operator._table
        if strategy == "UPDATE":
            key = operator._spec.primary_key
            values = [columns[column] for column in key]
            if len(self.rows):
                values = [pa.concat_arrays(pair) for pair in zip(table.take(self.rows, key), values)]
            return operator._key_words.words(values)[1]
        if strategy == "RETRACT" and not self._is_add.all():
            return np.concatenate([table.words_of(self.rows), table.words_of_columns(columns)])
        return np.zeros(len(self.rows) + len(columns[0]), dtype=np.int64)

    @property
    def _has_ranks(self) -> bool:
        """True if each rank is updated, False if rows are inserted and deleted."""
        return self._operator._spec.output_rank_number or self._operator._spec.rank_start > 1

    def run_folded(self) -> Any:
        """Processes the records. Yields the changes between the lists before and after all of them."""
        before = self._ranked()
        for _ in self.run(is_folded=True):
            raise AssertionError("a folded run yields no changes")
        strategy = self._operator._spec.strategy
        identities = self._identities if strategy == "UPDATE" or not self._is_add.all() else None
        yield folded_changes(
            before,
            self._ranked(),
            self._has_ranks or self._operator._spec.rank_end == 1,
            identities,
            strategy == "UPDATE",
            self._operator._spec.generate_update_before,
        )

    def _ranked(self) -> RankedElements:
        """Returns the elements that have a rank to emit."""
        first = self._operator._spec.rank_start - 1
        counts = np.maximum(np.minimum(self._sizes, self._limits) - first, 0)
        keys = np.repeat(np.arange(len(counts)), counts)
        places = np.arange(len(keys)) - np.repeat(np.cumsum(counts) - counts, counts) + first
        return RankedElements(keys, places + 1, self._lists[self._offsets[keys] + places])

    def run(self, is_folded: bool = False) -> Any:
        """Processes the records. Yields changes: kinds int8[n], elements int64[n], ranks int64[n].

        Args:
            is_folded: True to yield nothing.
        """
        spec = self._operator._spec
        room = max(_MIN_CHANGES, 2 * int(self._limits.max()) + 4)
        kinds = np.empty(room, dtype=np.int8)
        elements, ranks = np.empty(room, dtype=np.int64), np.empty(room, dtype=np.int64)
        loop = rank_kernels(spec.strategy)
        inputs: list[Any] = [self._keys, self._codes]
        if spec.strategy != "APPEND":
            inputs.append(self._identities)
        if spec.strategy == "RETRACT":
            inputs.append(self._is_add)
        inputs.append(len(self.rows))
        begin = 0
        while begin < len(self._keys):
            begin, count = loop(
                *inputs,
                begin,
                self._lists,
                self._offsets,
                self._sizes,
                self._limits,
                self._has_ranks and not is_folded,
                spec.rank_start == 1 and spec.rank_end == 1,
                spec.rank_start,
                spec.generate_update_before,
                kinds,
                elements,
                ranks,
            )
            if count and not is_folded:
                yield kinds[:count].copy(), elements[:count], ranks[:count].copy()

    def outcome(self) -> tuple[np.ndarray, np.ndarray]:
        """Returns the stored elements that are gone, and the records that are in a list now, in order of arrival."""
        num_stored = len(self.rows)
        is_in = np.zeros(num_stored + len(self._keys), dtype=bool)
        is_in[self._members()] = True
        return np.flatnonzero(~is_in[:num_stored]), np.flatnonzero(is_in[num_stored:])

    def _members(self) -> np.ndarray:
        begins = np.cumsum(self._sizes) - self._sizes
        places = np.repeat(self._offsets - begins, self._sizes) + np.arange(int(self._sizes.sum()))
        return self._lists[places]

    def store_places(self, new: np.ndarray, added: np.ndarray) -> None:
        """Stores the place of each row of the lists. The records `new` have been added as the rows `added`."""
        table = self._operator._table
        num_stored = len(self.rows)
        members = self._members()
        row_of = np.empty(num_stored + len(self._keys), dtype=np.int64)
        row_of[:num_stored] = self.rows
        row_of[num_stored + new] = added
        begins = np.cumsum(self._sizes) - self._sizes
        table.set_ints(_PLACE, row_of[members], np.arange(len(members)) - np.repeat(begins, self._sizes))
