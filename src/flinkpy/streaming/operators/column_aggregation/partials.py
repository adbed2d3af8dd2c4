"""PartialAggregates: computes aggregates over columns from partial results, which Arrow groups and merges.

The partial result of a key is a row: the key columns `k0, k1, ...` and the columns `p0, p1, ...`. Aggregates may share
columns: MEAN is a sum and a count. The results equal those of the accumulators of `flinkpy.state`: nulls are ignored,
sums of integers wrap around at 64 bits, and MIN and MAX are NaN only if all values are. Sums of decimals are exact.
Sums of floats depend on the order in which Arrow adds them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from flinkpy.state.aggregate_table import AggregateColumn

_MERGED_BY = {"sum": "sum", "count": "sum", "min": "min", "max": "max", "first": "first", "last": "last"}


@dataclass(frozen=True, slots=True)
class _Part:
    """One column of partial results. `source` is the index of the value column; None if it counts rows."""

    source: int | None
    function: str


class PartialAggregates:
    """Groups rows into partial results, merges them, and computes the final results.

    Args:
        key_types: the types of the key columns.
        aggregates: the aggregates. COMPILED ones are not supported.
        positions: the position of each aggregate's value column in the input; None if it counts rows.
    """

    def __init__(
        self, key_types: Sequence[pa.DataType], aggregates: Sequence[AggregateColumn], positions: Sequence[Any]
    ) -> None:
        self.key_names = [f"k{i}" for i in range(len(key_types))]
        self._aggregates = list(aggregates)
        #: For each value column: (position in the input, type to cast to or None).
        self._sources: list[tuple[int, pa.DataType | None]] = []
        self._source_types: list[pa.DataType] = []
        self._parts: list[_Part] = []
        #: For each aggregate, the indexes of its columns.
        self._parts_of = [
            [self._part(function, aggregate.value_type, position) for function in _functions_of(aggregate)]
            for aggregate, position in zip(aggregates, positions, strict=True)
        ]
        self.schema = self.merge([self._empty(key_types)]).schema

    @staticmethod
    def can_group(key_types: Sequence[pa.DataType], aggregates: Sequence[AggregateColumn]) -> bool:
        """True if Arrow can group by these keys and compute these aggregates."""
        return all(map(_can_be_key, key_types)) and all(map(_can_aggregate, aggregates))

    # -- partial results ---------------------------------------------------------------------------------------------

    def rows(self, keys: Sequence[pa.Array], columns: pa.RecordBatch) -> pa.RecordBatch:
        """Returns the keys and values of a batch in the form that `group` takes. Copies only columns that are cast."""
        values = [
            columns.column(position) if wanted is None else columns.column(position).cast(wanted, safe=False)
            for position, wanted in self._sources
        ]
        names = [*self.key_names, *(f"s{i}" for i in range(len(values)))]
        return pa.RecordBatch.from_arrays([*map(canonical_key, keys), *values], names=names)

    def group(self, rows: pa.Table) -> pa.Table:
        """Returns one partial result per key, in the order of the keys' first rows."""
        wanted: list[Any] = [
            ([], "count_all") if part.source is None else (f"s{part.source}", part.function) for part in self._parts
        ]
        grouped = rows.group_by(self.key_names, use_threads=False).aggregate(_distinct(wanted))
        made = [
            grouped.column("count_all" if part.source is None else f"s{part.source}_{part.function}")
            for part in self._parts
        ]
        return self._table([grouped.column(name) for name in self.key_names], made)

    def each(self, rows: pa.Table) -> pa.Table:
        """Returns one partial result per row. Used if grouping would hardly reduce the rows."""
        made: list[Any] = []
        for part, wanted in zip(self._parts, self.schema.types[len(self.key_names) :]):
            if part.source is None:
                made.append(pa.array(np.ones(rows.num_rows, dtype=np.int64)))
                continue
            values = rows.column(f"s{part.source}")
            made.append(values.is_valid().cast(wanted) if part.function == "count" else values.cast(wanted))
        return self._table([rows.column(name) for name in self.key_names], made)

    def merge(self, tables: Sequence[pa.Table]) -> pa.Table:
        """Merges partial results to one row per key. For FIRST and LAST the tables must be in order."""
        table = pa.concat_tables(tables)
        names = [f"p{i}" for i in range(len(self._parts))]
        functions = [_MERGED_BY[part.function] for part in self._parts]
        grouped = table.group_by(self.key_names, use_threads=False).aggregate(list(zip(names, functions)))
        merged = [grouped.column(f"{name}_{function}") for name, function in zip(names, functions)]
        return self._table([grouped.column(name) for name in self.key_names], merged)

    # -- results -----------------------------------------------------------------------------------------------------

    def results(self, merged: pa.RecordBatch) -> list[pa.Array]:
        """Returns the result column of each aggregate."""
        width = len(self.key_names)
        return [
            _result(aggregate, [merged.column(width + part) for part in parts])
            for aggregate, parts in zip(self._aggregates, self._parts_of)
        ]

    def _part(self, function: str, value_type: pa.DataType | None, position: int | None) -> int:
        source = None
        if position is not None:
            assert value_type is not None
            wanted = _summable_type(value_type) if function == "sum" else None
            if (position, wanted) not in self._sources:
                self._sources.append((position, wanted))
                self._source_types.append(value_type if wanted is None else wanted)
            source = self._sources.index((position, wanted))
        part = _Part(source, function)
        if part not in self._parts:
            self._parts.append(part)
        return self._parts.index(part)

    def _empty(self, key_types: Sequence[pa.DataType]) -> pa.Table:
        """Returns an empty table of partial results, which has their types."""
        fields = [pa.field(name, _plain(kind)) for name, kind in zip(self.key_names, key_types)]
        fields += [pa.field(f"s{i}", kind) for i, kind in enumerate(self._source_types)]
        return self.group(pa.schema(fields).empty_table())

    def _table(self, keys: list[Any], parts: list[Any]) -> pa.Table:
        return pa.table([*keys, *parts], [*self.key_names, *(f"p{i}" for i in range(len(parts)))])


def canonical_key(column: pa.Array) -> pa.Array:
    """Returns the column with equal bits for equal keys: there is one NaN, and -0.0 is not 0.0."""
    if pa.types.is_dictionary(column.type):
        return column.cast(column.type.value_type)
    if not pa.types.is_floating(column.type):
        return column
    numbers = column.to_numpy(zero_copy_only=False).copy()
    numbers[np.isnan(numbers)] = np.nan
    mask = column.is_null().to_numpy(zero_copy_only=False) if column.null_count else None
    return pa.array(numbers, column.type, mask=mask, from_pandas=False)


def _plain(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _can_be_key(kind: pa.DataType) -> bool:
    types = pa.types
    plain = _plain(kind)
    return not (types.is_nested(plain) or types.is_null(plain) or types.is_float16(plain) or _is_view(plain))


def _can_aggregate(aggregate: AggregateColumn) -> bool:
    types, kind = pa.types, aggregate.value_type
    function = aggregate.function.upper()
    if kind is None or function == "COUNT":
        return function == "COUNT"
    if types.is_float16(kind) or _is_view(kind):
        return False
    if function in ("SUM", "MEAN"):
        return types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind) or types.is_decimal(kind)
    if types.is_decimal(kind):
        return function in ("MIN", "MAX")
    if types.is_string(kind) or types.is_large_string(kind) or types.is_binary(kind) or types.is_large_binary(kind):
        return function in ("MIN", "MAX", "FIRST", "LAST")
    is_plain = types.is_integer(kind) or types.is_floating(kind) or types.is_boolean(kind)
    is_time = types.is_temporal(kind) and not types.is_interval(kind)
    return function in ("MIN", "MAX", "FIRST", "LAST") and (is_plain or is_time)


def _is_view(kind: pa.DataType) -> bool:
    return pa.types.is_string_view(kind) or pa.types.is_binary_view(kind)


def _functions_of(aggregate: AggregateColumn) -> tuple[str, ...]:
    function = aggregate.function.lower()
    return ("sum", "count") if function == "mean" else (function,)


def _summable_type(kind: pa.DataType) -> pa.DataType | None:
    """Returns the type that values are cast to before they are summed; None if no cast is needed."""
    if pa.types.is_unsigned_integer(kind) or pa.types.is_boolean(kind):
        return pa.int64()
    if pa.types.is_decimal(kind) and not pa.types.is_decimal128(kind):
        return pa.decimal128(38, kind.scale)
    return None


def _result(aggregate: AggregateColumn, parts: list[pa.Array]) -> pa.Array:
    if aggregate.function.upper() != "MEAN":
        return parts[0]
    sums, counts = parts
    is_null = pc.equal(counts, 0)
    divisor = pc.if_else(is_null, pa.scalar(1, pa.int64()), counts).cast(pa.float64(), safe=False)
    return pc.if_else(is_null, pa.scalar(None, pa.float64()), pc.divide(sums.cast(pa.float64(), safe=False), divisor))


def _distinct(wanted: list[Any]) -> list[Any]:
    return list({(str(column), function): (column, function) for column, function in wanted}.values())
