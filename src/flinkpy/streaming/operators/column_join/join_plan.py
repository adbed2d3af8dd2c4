"""JoinPlan: the key columns of both sides of a join, and the columns of its results."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import TypeMismatchError, UnsupportedOperationError
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.streaming.operators.column_join.build_side import MAX_PAIRS, BuildSide
from flinkpy.streaming.operators.column_join.join_keys import JoinKeys, common_types

KINDS = ("inner", "left", "semi", "anti")


class JoinPlan:
    """Joins batches of the left side with a BuildSide of the right side.

    Attributes:
        how: one of KINDS.
        schema: the schema of the results.
    """

    def __init__(
        self,
        how: str,
        selectors: tuple[FieldKeySelector, FieldKeySelector],
        left: pa.Schema,
        right: pa.Schema,
        operator_name: str,
    ) -> None:
        if how not in KINDS:
            raise UnsupportedOperationError(f"operator {operator_name}: `how` must be one of {KINDS}, not {how!r}")
        self.how = how
        self._left, self._right = left, right
        self._left_keys, self._right_keys = (
            [_position(schema, field, operator_name) for field in selector.fields]
            for schema, selector in ((left, selectors[0]), (right, selectors[1]))
        )
        names = [left.names[position] for position in self._left_keys]
        self._types = common_types(
            [left.types[position] for position in self._left_keys],
            [right.types[position] for position in self._right_keys],
            names,
            operator_name,
        )
        same = {position for position, name in zip(self._right_keys, names) if right.names[position] == name}
        #: The positions of the right side's columns that are in the results.
        self._right_kept = [] if how in ("semi", "anti") else [i for i in range(len(right)) if i not in same]
        fields = [*left, *(right.field(position) for position in self._right_kept)]
        twice = sorted({field.name for field in fields if sum(field.name == other.name for other in fields) > 1})
        if twice:
            raise TypeMismatchError(
                f"operator {operator_name}: both sides have columns {twice}: rename the columns of one side"
            )
        self.schema = pa.schema([pa.field(field.name, field.type) for field in fields])

    def left_keys(self, columns: pa.RecordBatch) -> JoinKeys:
        return JoinKeys([columns.column(position) for position in self._left_keys], self._types)

    def right_keys(self, columns: pa.RecordBatch | pa.Table) -> JoinKeys:
        keys = [columns.column(position) for position in self._right_keys]
        return JoinKeys([_combined(key) if isinstance(key, pa.ChunkedArray) else key for key in keys], self._types)

    def build(self, batches: Sequence[pa.RecordBatch]) -> BuildSide:
        """Returns the build side of the right side's rows, without rows with a null in the key."""
        columns = pa.Table.from_batches(batches, schema=self._right).combine_chunks()
        keys = self.right_keys(columns)
        if keys.is_null is not None:
            columns = columns.filter(pa.array(~keys.is_null)).combine_chunks()
            keys = self.right_keys(columns)
        return BuildSide(columns, keys)

    def join(self, columns: pa.RecordBatch, build: BuildSide) -> Iterator[pa.RecordBatch]:
        """Yields the results for rows of the left side. `build` must contain all their partners."""
        slots = build.slots_of(self.left_keys(columns))
        if self.how in ("semi", "anti"):
            yield from self.chosen(columns, slots >= 0)
            return
        for rows, partners in build.pairs(slots, self.how == "left"):
            yield self.paired(columns, rows, build, partners)

    def chosen(self, columns: pa.RecordBatch, has_partner: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the left side that are the results of a semi or anti join."""
        wanted = has_partner if self.how == "semi" else ~has_partner
        if wanted.all():
            yield self._with_schema(columns.columns)
        elif wanted.any():
            yield self._with_schema(columns.filter(pa.array(wanted)).columns)

    def paired(
        self, columns: pa.RecordBatch, rows: np.ndarray, build: BuildSide, partners: np.ndarray
    ) -> pa.RecordBatch:
        """Returns rows of the left side with their partners. The partner -1 stands for nulls."""
        unmatched = partners < 0
        indices = pa.array(partners, mask=unmatched) if unmatched.any() else pa.array(partners)
        left = columns.columns
        if len(rows) != columns.num_rows or (np.diff(rows) != 1).any():
            left = columns.take(pa.array(rows)).columns
        right = [_combined(build.columns.column(position).take(indices)) for position in self._right_kept]
        return self._with_schema([*left, *right])

    def unmatched(self, columns: pa.RecordBatch, has_partner: np.ndarray) -> Iterator[pa.RecordBatch]:
        """Yields the rows of the left side without a partner, with nulls for the right side's columns."""
        alone = columns.filter(pa.array(~has_partner))
        for start in range(0, alone.num_rows, MAX_PAIRS):
            part = alone.slice(start, MAX_PAIRS)
            nulls = [pa.nulls(part.num_rows, self._right.types[position]) for position in self._right_kept]
            yield self._with_schema([*part.columns, *nulls])

    def _with_schema(self, columns: list[pa.Array]) -> pa.RecordBatch:
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


def _position(schema: pa.Schema, field: int | str, operator_name: str) -> int:
    position = field if isinstance(field, int) else schema.get_field_index(field)
    if not 0 <= position < len(schema):
        raise TypeMismatchError(f"operator {operator_name}: there is no column {field!r} among {schema.names}")
    return position


def _combined(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)
