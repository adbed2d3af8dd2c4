"""AggregateHandler: evaluates the aggregate calls of one operator over the accumulators of a GroupTable.

It prepares the arguments, filters and DISTINCT values of a batch. Calls with DISTINCT on the same arguments share one
GroupMap, which has a count for each of their filters.

Source: org.apache.flink.table.planner.codegen.agg.AggsHandlerCodeGenerator, DistinctAggCodeGen.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.functions.table_functions import FunctionContext
from flinkpy.sql.rex import AggregateCall
from flinkpy.sql.types.arrow import arrow_type_of
from flinkpy.state.aggregate_table import USER, AggregateColumn
from flinkpy.state.group_table import GroupMap, GroupTable
from flinkpy.state.key_slots import KeySlots
from flinkpy.state.row_groups import RowGroups
from flinkpy.state.table_accumulators import DISTINCT, SQL

if TYPE_CHECKING:
    from flinkpy.state.backend import KeyedStateBackend

#: The key of operators without grouping columns. All their rows have it.
NO_GROUPING = pa.int8()
#: Kinds of rows that take a row back: UPDATE_BEFORE and DELETE.
_TAKES_BACK = np.array([1, -1, 1, -1], dtype=np.int8)
#: Functions for which DISTINCT changes nothing.
_DISTINCT_IS_IDLE = frozenset({"MIN", "MAX"})
#: Other names of functions.
_NAMES = {"SUM0": "$SUM0", "STDDEV": "STDDEV_SAMP", "VARIANCE": "VAR_SAMP"}
#: Functions with another accumulator if rows may be taken back.
_HAVE_RETRACT_FORMS = frozenset({"MIN", "MAX", "FIRST_VALUE", "LAST_VALUE"})


def weights_of(kinds: np.ndarray | None) -> np.ndarray | None:
    """Returns int8[n]: 1 for INSERT and UPDATE_AFTER, -1 for UPDATE_BEFORE and DELETE; None if all rows add."""
    if kinds is None:
        return None
    weights: np.ndarray = _TAKES_BACK.take(kinds)
    return weights if (weights < 0).any() else None


def key_columns(columns: pa.RecordBatch, grouping: Sequence[int]) -> list[pa.Array]:
    """Returns the grouping columns, or a constant column if there are none."""
    if not grouping:
        return [pa.array(np.zeros(columns.num_rows, dtype=np.int8))]
    return [columns.column(position) for position in grouping]


def key_types(schema: pa.Schema, grouping: Sequence[int]) -> list[pa.DataType]:
    return [schema.field(position).type for position in grouping] or [NO_GROUPING]


def filter_mask(columns: pa.RecordBatch, position: int) -> np.ndarray:
    """Returns bool[n]: true for the rows whose filter column is true. NULL counts as false."""
    column = columns.column(position)
    if column.null_count:
        column = column.fill_null(False)
    mask: np.ndarray = column.to_numpy(zero_copy_only=False)
    return mask


def filtered(weights: np.ndarray | None, mask: np.ndarray | None) -> np.ndarray | None:
    """Returns the weights of the rows, 0 for those that a filter leaves out."""
    if mask is None:
        return weights
    as_weights = mask.view(np.int8)
    return as_weights if weights is None else weights * as_weights


@dataclass(slots=True)
class DistinctView:
    """The distinct values of some arguments.

    Attributes:
        arguments: the columns.
        filters: the filter column of each count; None for all rows.
    """

    arguments: tuple[int, ...]
    filters: list[int | None]

    def place(self, filter_index: int | None) -> int:
        """Returns the number of the count with this filter. Adds it if it is new."""
        if filter_index not in self.filters:
            self.filters.append(filter_index)
        return self.filters.index(filter_index)


@dataclass(frozen=True, slots=True)
class _Call:
    """A call, with the view and the count that decide which of its rows are the first of their value."""

    call: AggregateCall
    column: AggregateColumn
    view: int | None
    count: int


class AggregateHandler:
    """Thread: task thread.

    Args:
        calls: the aggregate calls.
        schema: the schema of their input.
        needs_retraction: True if rows may be taken back. Then `columns` has a hidden COUNT(*), which is `count`.
        operator_name: used in messages.

    Attributes:
        columns: the aggregates of the table: those of the calls, then the hidden one.
        views: the distinct views.
        count: the position of a COUNT(*) without filter; None if there is none.
    """

    def __init__(
        self, calls: Sequence[AggregateCall], schema: pa.Schema, needs_retraction: bool, operator_name: str
    ) -> None:
        self.views: list[DistinctView] = []
        self._calls = [self._prepared(call, schema, needs_retraction, operator_name) for call in calls]
        self.columns = [each.column for each in self._calls]
        self.count = next((i for i, call in enumerate(calls) if _is_count_star(call)), None)
        if needs_retraction and self.count is None:
            self.count = len(self.columns)
            self.columns.append(AggregateColumn(f"{SQL}COUNT"))
        self._maps: list[GroupMap] = []

    def _prepared(self, call: AggregateCall, schema: pa.Schema, needs_retraction: bool, operator_name: str) -> _Call:
        try:
            column = aggregate_column(call, schema, needs_retraction)
            column.create_accumulator()
        except UnsupportedOperationError as error:
            raise UnsupportedOperationError(f"operator {operator_name}: {error.message}") from None
        if not call.is_distinct or call.function in _DISTINCT_IS_IDLE:
            return _Call(call, column, None, 0)
        view = next((i for i, each in enumerate(self.views) if each.arguments == call.arguments), None)
        if view is None:
            view = len(self.views)
            self.views.append(DistinctView(call.arguments, []))
        return _Call(call, column, view, self.views[view].place(call.filter_index))

    def create_maps(self, backend: KeyedStateBackend, table: GroupTable, schema: pa.Schema) -> None:
        """Creates the state of the distinct views."""
        self._maps = [
            backend.group_map(
                f"distinct-{number}",
                table,
                [schema.field(position).type for position in view.arguments],
                [AggregateColumn(f"{SQL}COUNT") for _ in view.filters],
            )
            for number, view in enumerate(self.views)
        ]

    def update(
        self,
        table: GroupTable,
        groups: RowGroups,
        columns: pa.RecordBatch,
        weights: np.ndarray | None,
        is_running: bool,
    ) -> list[pa.Array]:
        """Adds the rows of a batch to their groups, or takes them back.

        Args:
            weights: see `weights_of`.

        Returns: per aggregate of the table, the results of the groups before the batch, followed by those after each
            row (`is_running`) or those of the groups after the batch.
        """
        masks: dict[int | None, np.ndarray | None] = {None: None}

        def mask_of(position: int | None) -> np.ndarray | None:
            if position not in masks:
                assert position is not None
                masks[position] = filter_mask(columns, position)
            return masks[position]

        effects = [
            entries.changes(
                groups,
                [columns.column(position) for position in view.arguments],
                [filtered(weights, mask_of(position)) for position in view.filters],
            )
            for view, entries in zip(self.views, self._maps)
        ]
        results = []
        for each, accumulator in zip(self._calls, table.accumulators):
            if each.view is None:
                own = filtered(weights, mask_of(each.call.filter_index))
            else:
                own = effects[each.view][each.count]
            results.append(accumulator.update(groups, argument_of(each.call, columns), own, is_running))
        for accumulator in table.accumulators[len(self._calls) : len(self.columns)]:
            results.append(accumulator.update(groups, None, weights, is_running))
        return results

    # -- two phases ----------------------------------------------------------------------------------------------

    def local_columns(
        self, table: GroupTable, groups: RowGroups, columns: pa.RecordBatch, weights: np.ndarray | None
    ) -> list[pa.Array]:
        """Aggregates the rows of a bundle in an empty table without maps.

        Returns: per group, the accumulators of the aggregates without distinct values, then for each distinct view the
            lists of its values, one column per argument, and of their counts, one column per filter.
        """
        output = self.accumulators(table, groups, columns, weights)
        for view in self.views:
            pairs = DistinctPairs.of(view, groups.group, columns, weights)
            output += pairs.lists(pairs.group, groups.num_groups)
        return output

    def accumulators(
        self, table: GroupTable, groups: RowGroups, columns: pa.RecordBatch, weights: np.ndarray | None
    ) -> list[pa.Array]:
        """Aggregates rows in an empty table. Returns the accumulators of the aggregates without distinct values."""
        output: list[pa.Array] = []
        for each, accumulator in zip(self._calls, table.accumulators):
            if each.view is None:
                position = each.call.filter_index
                own = filtered(weights, None if position is None else filter_mask(columns, position))
                accumulator.update(groups, argument_of(each.call, columns), own, False)
                output += accumulator.columns(groups.slots)
        for accumulator in table.accumulators[len(self._calls) : len(self.columns)]:
            accumulator.update(groups, None, weights, False)
            output += accumulator.columns(groups.slots)
        return output

    def empty_accumulators(self, table: GroupTable, slots: np.ndarray) -> list[pa.Array]:
        """Returns these slots of the aggregates without distinct values."""
        output: list[pa.Array] = []
        for position, accumulator in enumerate(table.accumulators[: len(self.columns)]):
            if position >= len(self._calls) or self._calls[position].view is None:
                output += accumulator.columns(slots)
        return output

    def merge(
        self, table: GroupTable, groups: RowGroups, columns: list[pa.Array], of_maps: RowGroups | None = None
    ) -> list[pa.Array]:
        """Merges the columns of `local_columns` into the groups.

        Args:
            of_maps: the same groups in the table of the maps; None if that is `table`.

        Returns: per aggregate of the table, the results of the groups before and after, as `update` does.
        """
        of_maps = of_maps or groups
        own: list[list[pa.Array]] = []
        at = 0
        for position, accumulator in enumerate(table.accumulators[: len(self.columns)]):
            is_distinct = position < len(self._calls) and self._calls[position].view is not None
            width = 0 if is_distinct else accumulator.num_columns
            own.append(columns[at : at + width])
            at += width
        views = []
        for view, entries in zip(self.views, self._maps):
            values = columns[at : at + len(view.arguments)]
            counts = columns[at + len(values) : at + len(values) + len(view.filters)]
            at += len(values) + len(counts)
            lengths = counts[0].value_lengths().to_numpy(zero_copy_only=False)
            group = np.repeat(groups.group, lengths)
            flat = [each.flatten() for each in values]
            changes = [each.flatten().to_numpy() for each in counts]
            effects = entries.merge(RowGroups(group, of_maps.slots, of_maps.is_fresh), flat, changes)
            views.append((RowGroups(group, groups.slots, groups.is_fresh), flat, effects))
        results = []
        for position, accumulator in enumerate(table.accumulators[: len(self.columns)]):
            view_number = self._calls[position].view if position < len(self._calls) else None
            if view_number is None:
                results.append(accumulator.update_merged(groups, own[position]))
                continue
            of_value, flat, effects = views[view_number]
            argument = flat[0] if len(flat) == 1 else _struct(flat)
            effect = effects[self._calls[position].count]
            results.append(accumulator.update(of_value, argument, effect, False))
        return results


@dataclass(frozen=True, slots=True)
class DistinctPairs:
    """The distinct pairs of a group and its values in a bundle.

    Attributes:
        group: int64[n]: the group of each pair.
        values: one column per argument, with n rows.
        counts: for each filter, int64[n]: how often the value was added, less how often it was taken back.
        pair_of_row: int64: the pair of each row of the bundle.
    """

    group: np.ndarray
    values: list[pa.Array]
    counts: list[np.ndarray]
    pair_of_row: np.ndarray

    @staticmethod
    def of(view: DistinctView, group: np.ndarray, columns: pa.RecordBatch, weights: np.ndarray | None) -> DistinctPairs:
        """Finds the pairs of rows whose groups are `group`."""
        arguments = [columns.column(position) for position in view.arguments]
        keys = KeySlots([pa.int64(), *(each.type for each in arguments)])
        slots = keys.slots_of([pa.array(group), *arguments])
        of_pair, *values = keys.keys()
        counts = []
        for position in view.filters:
            own = filtered(weights, None if position is None else filter_mask(columns, position))
            added = np.zeros(keys.size, dtype=np.int64)
            np.add.at(added, slots, 1 if own is None else own.astype(np.int64))
            counts.append(added)
        return DistinctPairs(of_pair.to_numpy(), values, counts, slots)

    def lists(self, group: np.ndarray, num_groups: int) -> list[pa.Array]:
        """Returns the values and their counts as lists of these groups, one column per argument and filter."""
        order = np.argsort(group, kind="stable")
        offsets = pa.array(np.searchsorted(group.take(order), np.arange(num_groups + 1)), pa.int32())
        indices = pa.array(order)
        made = [each.take(indices) for each in self.values] + [pa.array(each.take(order)) for each in self.counts]
        return [pa.ListArray.from_arrays(offsets, each) for each in made]


class UserAggregates:
    """Opens and closes the user-defined functions among the aggregates of an operator."""

    def __init__(self, calls: Iterable[AggregateCall]) -> None:
        self._functions = [call.user_function for call in calls if call.user_function is not None]

    def open(self, context: Any) -> None:
        """Opens the functions. `context` is the operator's RuntimeContext."""
        for function in self._functions:
            function.open(FunctionContext(context))

    def close(self) -> None:
        for function in self._functions:
            function.close()


def aggregate_column(call: AggregateCall, schema: pa.Schema, needs_retraction: bool) -> AggregateColumn:
    """Returns the aggregate of a table for a call. Raises: UnsupportedOperationError for an unknown function."""
    function = _NAMES.get(call.function.upper(), call.function.upper())
    if call.user_function is not None:
        arguments = pa.struct([pa.field(str(i), schema.field(each).type) for i, each in enumerate(call.arguments)])
        return AggregateColumn(USER, arguments, (arrow_type_of(call.type),), call.user_function)
    if function == "LISTAGG" and len(call.arguments) > 1:
        return AggregateColumn(f"{SQL}LISTAGG_WS", pa.struct([("0", pa.string()), ("1", pa.string())]))
    if function == "ARRAY_AGG" and call.ignores_nulls:
        function = "ARRAY_AGG_OF_VALUES"
    if len(call.arguments) > 1 and function != "COUNT":
        fields = [pa.field(str(i), schema.field(each).type) for i, each in enumerate(call.arguments)]
        return AggregateColumn(f"{SQL}{function}", pa.struct(fields))
    value_type = schema.field(call.arguments[0]).type if call.arguments else None
    if needs_retraction and function in _HAVE_RETRACT_FORMS:
        function += "_RETRACT"
    return AggregateColumn(f"{SQL}{function}", value_type)


def window_aggregate_column(call: AggregateCall, schema: pa.Schema, needs_retraction: bool) -> AggregateColumn:
    """Returns the aggregate of a window's table for a call. The distinct values are part of its accumulator.

    Raises: UnsupportedOperationError for an unknown function.
    """
    if not call.is_distinct or call.function.upper() in _DISTINCT_IS_IDLE:
        return aggregate_column(call, schema, needs_retraction)
    if len(call.arguments) > 1:
        raise UnsupportedOperationError(f"{call.function}(DISTINCT) of several columns over windows is not supported")
    if call.user_function is not None:
        raise UnsupportedOperationError(f"{call.function}(DISTINCT) over windows is not supported: it is user-defined")
    value_type = schema.field(call.arguments[0]).type
    if call.function.upper() == "COUNT" and not needs_retraction:
        return AggregateColumn(f"{SQL}COUNT_DISTINCT", value_type)
    function = _NAMES.get(call.function.upper(), call.function.upper())
    return AggregateColumn(f"{SQL}{DISTINCT}{function}", value_type)


def argument_of(call: AggregateCall, columns: pa.RecordBatch) -> pa.Array | None:
    """Returns the argument of a call: a struct if its function takes several or is the user's, None for COUNT(*)."""
    if len(call.arguments) > 1 and call.function.upper() == "COUNT":
        return _null_if_any([columns.column(position) for position in call.arguments])
    if call.arguments and (call.user_function is not None or len(call.arguments) > 1):
        return _struct([columns.column(position) for position in call.arguments])
    return columns.column(call.arguments[0]) if call.arguments else None


def _struct(columns: list[pa.Array]) -> pa.StructArray:
    return pa.StructArray.from_arrays(columns, names=[str(number) for number in range(len(columns))])


def _null_if_any(columns: list[pa.Array]) -> pa.Array:
    """Returns a column that is NULL in the rows in which one of the columns is: COUNT of several counts the others."""
    is_null = np.zeros(len(columns[0]), dtype=bool)
    for column in columns:
        is_null |= column.is_null().to_numpy(zero_copy_only=False)
    return pa.array(np.zeros(len(is_null), dtype=np.int64), mask=is_null)


def _is_count_star(call: AggregateCall) -> bool:
    return call.function.upper() == "COUNT" and not call.arguments and call.filter_index is None
