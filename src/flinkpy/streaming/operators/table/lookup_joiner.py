"""LookupJoiner: finds the keys that a lookup join asks for, and joins a batch with the rows found.

Each key is asked once per batch, and not at all if the cache knows it. A key with NULL finds nothing. Output rows have
the kind of their input row.

Source: org.apache.flink.table.runtime.operators.join.lookup.LookupJoinRunner,
org.apache.flink.table.runtime.functions.table.lookup.CachingLookupFunction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.table_specs import JoinType, LookupJoinSpec
from flinkpy.records.batch import Batch
from flinkpy.state.key_index import KeyIndex, KeyWords
from flinkpy.streaming.operators.stream_operator import OperatorContext
from flinkpy.streaming.operators.table.conditions import as_mask, expressions, pair_condition
from flinkpy.streaming.operators.table.lookup_cache import LookupCache
from flinkpy.streaming.operators.table.table_inputs import (
    MAX_ROWS,
    columns_of,
    input_schema,
    null_rows,
    take_or_null,
)
from flinkpy.streaming.operators.table.two_table_join import with_lonely

#: Rows of the table by key: int64[m], ascending: the position of the key of each row; the rows.
Found = tuple[np.ndarray, pa.RecordBatch]


@dataclass(frozen=True)
class LookupRequest:
    """A batch with its keys.

    Attributes:
        columns: those of the batch.
        positions: the rows of the batch whose keys have no NULL.
        key_of_position: for each of them the number of its key.
        asked: the distinct keys to look up.
        places: the numbers of these keys; the others are known.
        known: the rows that the cache had, by the numbers of their keys.
    """

    batch: Batch
    columns: list[pa.Array]
    positions: np.ndarray
    key_of_position: np.ndarray
    asked: pa.RecordBatch
    places: np.ndarray
    known: Found


@dataclass(frozen=True)
class Matches:
    """The pairs of a lookup join.

    Attributes:
        positions: int64[m], ascending: rows of the batch.
        rows: int64[m]: rows of `table`; negative for a row of NULL, which LEFT joins have.
        table: the rows that were found.
    """

    positions: np.ndarray
    rows: np.ndarray
    table: pa.RecordBatch


class LookupJoiner:
    """Thread: task thread.

    Attributes:
        nothing: no rows.
    """

    def __init__(self, spec: LookupJoinSpec, input_type: Any, context: OperatorContext) -> None:
        if spec.join_type not in (JoinType.INNER, JoinType.LEFT):
            raise UnsupportedOperationError(
                f"operator {context.name}: a lookup join is an INNER or LEFT join, not {spec.join_type.value}"
            )
        self._spec = spec
        self._input_type = input_type
        self._schema = input_schema(input_type)
        self._table_schema = input_schema(spec.table_type)
        self._key_names = [self._table_schema.names[column] for column, _ in spec.keys]
        self._keys = expressions([expression for _, expression in spec.keys], spec.settings)
        self._table_condition = None if spec.condition is None else expressions([spec.condition], spec.settings)
        self._condition = pair_condition(spec.join_condition, spec.settings)
        self._clock = context.processing_time_service
        self._cache: LookupCache | None = None
        self.output_schema = input_schema(spec.output_type)
        empty = pa.RecordBatch.from_pylist([], schema=self._table_schema)
        self.nothing: Found = (np.empty(0, dtype=np.int64), empty)

    @property
    def _parts(self) -> list[Any]:
        return [part for part in (self._keys, self._table_condition, self._condition) if part is not None]

    def open(self, context: Any) -> None:
        """Opens the user-defined functions in expressions, then the connector's function."""
        for part in self._parts:
            part.open(context)
        self._spec.lookup.open(context)

    def close(self) -> None:
        self._spec.lookup.close()
        for part in self._parts:
            part.close()

    # -- keys --------------------------------------------------------------------------------------------------------

    def request(self, batch: Batch) -> LookupRequest:
        """Returns the keys to look up for a batch."""
        columns = columns_of(batch, self._input_type)
        keys = self._keys.evaluate(pa.RecordBatch.from_arrays(columns, schema=self._schema))
        is_null = null_rows(keys)
        positions = np.arange(len(columns[0])) if is_null is None else np.flatnonzero(~is_null)
        indices = pa.array(positions)
        keys = [key.take(indices) for key in keys]
        numbers, firsts = KeyIndex(KeyWords([key.type for key in keys])).slots_of(keys)
        chosen = pa.array(firsts)
        distinct = pa.RecordBatch.from_arrays([key.take(chosen) for key in keys], names=self._key_names)
        places = np.arange(distinct.num_rows)
        known = self.nothing
        if self._spec.cache is not None and distinct.num_rows:
            if self._cache is None:
                self._cache = LookupCache(
                    self._spec.cache, distinct.schema, self._table_schema, self._clock.current_time_ms
                )
            is_known, *found = self._cache.find(distinct.columns)
            known = (found[0], found[1])
            places = np.flatnonzero(~is_known)
            distinct = distinct.take(pa.array(places))
        return LookupRequest(batch, columns, positions, numbers, distinct, places, known)

    # -- rows --------------------------------------------------------------------------------------------------------

    def joined(self, request: LookupRequest, found: Found) -> Iterator[Batch]:
        """Yields the output for a request, in the order of its rows, in batches of bounded size.

        Args:
            found: the rows of `request.asked`.
        """
        matches = self.matches(request, found)
        kinds = request.batch.kinds
        for start in range(0, len(matches.positions), MAX_ROWS):
            positions, rows = (each[start : start + MAX_ROWS] for each in (matches.positions, matches.rows))
            indices = pa.array(positions)
            values = [column.take(indices) for column in request.columns]
            values += [take_or_null(column, rows) for column in matches.table.columns]
            made = pa.RecordBatch.from_arrays(values, schema=self.output_schema)
            own = None if kinds is None else kinds[positions]
            yield Batch(made, None, own if own is not None and own.any() else None)

    def matches(self, request: LookupRequest, found: Found) -> Matches:
        """Returns the rows of a request with the rows of the table that they join."""
        key_of_row, table = merged(request, found)
        if self._cache is not None and request.asked.num_rows:
            self._cache.put(request.asked.columns, *found)
        if self._table_condition is not None and table.num_rows:
            kept = np.flatnonzero(as_mask(self._table_condition.evaluate_condition(table)))
            key_of_row, table = key_of_row[kept], table.take(pa.array(kept))
        positions, rows = self._pairs(request, key_of_row)
        return Matches(*self._meeting(request.columns, positions, rows, table), table)

    @staticmethod
    def _pairs(request: LookupRequest, key_of_row: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pairs of a position in the batch, ascending, and a row of the table."""
        num_keys = int(request.key_of_position.max()) + 1 if len(request.key_of_position) else 0
        starts = np.searchsorted(key_of_row, np.arange(num_keys))
        counts = np.diff(starts, append=len(key_of_row))
        repeats = counts[request.key_of_position]
        positions = np.repeat(request.positions, repeats)
        within = np.arange(len(positions)) - np.repeat(np.cumsum(repeats) - repeats, repeats)
        return positions, np.repeat(starts[request.key_of_position], repeats) + within

    def _meeting(
        self, columns: list[pa.Array], positions: np.ndarray, rows: np.ndarray, table: pa.RecordBatch
    ) -> tuple[np.ndarray, np.ndarray]:
        """Returns the pairs that meet the condition, in a LEFT join with those of a row of NULL."""
        condition = self._condition
        if condition is not None and len(positions):
            num_left = len(columns)

            def values_of(part: slice) -> list[pa.Array]:
                left, right = pa.array(positions[part]), pa.array(rows[part])
                return [
                    columns[column].take(left) if column < num_left else table.column(column - num_left).take(right)
                    for column in condition.columns
                ]

            mask = condition.mask_of(len(positions), values_of)
            positions, rows = positions[mask], rows[mask]
        if self._spec.join_type is JoinType.LEFT:
            alone = np.ones(len(columns[0]), dtype=bool)
            alone[positions] = False
            positions, rows = with_lonely(positions, rows, np.flatnonzero(alone))
        return positions, rows


def merged(request: LookupRequest, found: Found) -> Found:
    """Returns the rows of all keys of a request: those that were known, and those that were found."""
    known_keys, known_rows = request.known
    keys = request.places[found[0]]
    if not len(known_keys):
        return keys, found[1]
    keys = np.concatenate([known_keys, keys])
    order = np.argsort(keys, kind="stable")
    rows = pa.concat_batches([known_rows, found[1].cast(known_rows.schema)])
    return keys[order], rows.take(pa.array(order))


def missing_keys(found: Found, num_keys: int) -> np.ndarray:
    """Returns int64[n]: the keys for which nothing was found."""
    return np.setdiff1d(np.arange(num_keys), found[0])


def with_more(found: Found, missing: np.ndarray, more: Found) -> Found:
    """Adds the rows that were found for the missing keys when they were asked again."""
    keys = np.concatenate([found[0], missing[more[0]]])
    order = np.argsort(keys, kind="stable")
    rows = pa.concat_batches([found[1], more[1].cast(found[1].schema)])
    return keys[order], rows.take(pa.array(order))
