"""AggregateInputs: finds the key and value columns of aggregates."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from flinkpy.common.errors import TypeMismatchError, UnsupportedOperationError
from flinkpy.graph.operator_specs import ColumnAggregate, FieldKeySelector
from flinkpy.records.compiling import is_number
from flinkpy.records.lanes import arrow_schema
from flinkpy.state.aggregate_table import COMPILED, AggregateColumn

if TYPE_CHECKING:
    from flinkpy.streaming.operators.stream_operator import OperatorContext


def require_key_of_columns(selector: Any, context: OperatorContext) -> None:
    """Raises: UnsupportedOperationError if the key is not made of columns."""
    if not isinstance(selector, FieldKeySelector):
        raise UnsupportedOperationError(
            f"operator {context.name}: aggregates over columns need a key that is a column: key_by a position or a name"
        )


class AggregateInputs:
    """The key and value columns of the aggregates over one stream.

    Attributes:
        key_names: the names of the key columns in the result.
        aggregates: the aggregates for the state.
        value_positions: for each aggregate, the position of its column or columns; None for a COUNT of rows.

    Raises: TypeMismatchError if a column does not exist, or is not numeric although the aggregate needs numbers.
    """

    def __init__(
        self, schema: pa.Schema, selector: FieldKeySelector, wanted: tuple[ColumnAggregate, ...], operator_name: str
    ) -> None:
        self._schema = schema
        self._operator_name = operator_name
        self._key_positions = [self._position(field) for field in selector.fields]
        self.value_positions: list[int | list[int] | None] = []
        self.key_names = [schema.names[position] for position in self._key_positions]
        self.aggregates = [self._column(aggregate) for aggregate in wanted]

    @property
    def key_types(self) -> list[pa.DataType]:
        """The types of the key columns. A stream without keys has one constant key column."""
        return [self._schema.types[position] for position in self._key_positions] or [pa.int8()]

    def key_columns(self, columns: pa.RecordBatch) -> list[pa.Array]:
        keys = [columns.column(position) for position in self._key_positions]
        return keys or [pa.array(np.zeros(columns.num_rows, dtype=np.int8))]

    def value_columns(self, columns: pa.RecordBatch) -> list[pa.Array | None]:
        """Returns the value column of each aggregate: a struct for several columns, None for a COUNT of rows."""
        return [
            None
            if position is None
            else columns.column(position)
            if isinstance(position, int)
            else _struct([columns.column(each) for each in position], position)
            for position in self.value_positions
        ]

    def _column(self, aggregate: ColumnAggregate) -> AggregateColumn:
        if aggregate.compiled is None:
            position = None if aggregate.column is None else self._position(aggregate.column)
            self.value_positions.append(position)
            return AggregateColumn(aggregate.function, None if position is None else self._schema.types[position])
        positions = [self._position(column) for column in aggregate.columns]
        for position in positions:
            if not is_number(self._schema.types[position]):
                raise TypeMismatchError(
                    f"operator {self._operator_name}: column {self._schema.names[position]!r} is "
                    f"{self._schema.types[position]}, but the compiled aggregate {aggregate.name!r} needs numbers"
                )
        self.value_positions.append(positions)
        return AggregateColumn(
            COMPILED,
            pa.struct([pa.field(str(each), self._schema.types[each]) for each in positions]),
            tuple(pa.array([number]).type for number in aggregate.compiled.initial),
            replace(aggregate.compiled, arrow_type=_arrow_type(aggregate.compiled.output_type)),
        )

    def _position(self, field: int | str) -> int:
        names = self._schema.names
        position = field if isinstance(field, int) else self._schema.get_field_index(field)
        if not 0 <= position < len(names):
            raise TypeMismatchError(f"operator {self._operator_name}: there is no column {field!r} among {names}")
        return position


def _struct(columns: list[pa.Array], positions: list[int]) -> pa.StructArray:
    return pa.StructArray.from_arrays(columns, names=[str(position) for position in positions])


def _arrow_type(type_info: Any) -> pa.DataType:
    schema = arrow_schema(type_info)
    assert schema is not None
    return schema.types[0]
