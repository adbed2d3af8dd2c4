"""Plans aggregates of expressions, and AVG, as a selection, aggregates of columns, and another selection."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

from flinkpy.common.errors import UserError
from flinkpy.common.typeinfo import TypeInformation, Types
from flinkpy.datastream import aggregates as functions
from flinkpy.expressions import decimals
from flinkpy.expressions.nodes import Alias, Call, ColumnReference, Expression
from flinkpy.expressions.types import is_decimal, is_number, result_type
from flinkpy.graph.operator_specs import ColumnAggregate


@dataclass(frozen=True, slots=True)
class AggregatePlan:
    """The steps that compute aggregates.

    Attributes:
        before: the columns to select first, including the keys. None if the stream already has all aggregated columns.
        aggregates: the aggregates, of columns only.
        after: the columns to select from the result, including the keys. None if the result needs no change.
    """

    before: tuple[Alias, ...] | None
    aggregates: tuple[ColumnAggregate, ...]
    after: tuple[Alias, ...] | None


def plan_aggregates(
    keys: list[str], wanted: tuple[ColumnAggregate, ...], columns: Mapping[str, TypeInformation]
) -> AggregatePlan:
    """Returns the plan of the aggregates over a stream with these columns.

    Raises: UserError if an expression does not fit the columns, or two columns of the result have the same name.
    """
    names = [*keys, *(aggregate.name for aggregate in wanted)]
    for name in names:
        if names.count(name) > 1:
            raise UserError(f"aggregate: the result would have two columns {name!r}: give the aggregate another name")
    planner = _Planner(columns)
    after = [Alias(ColumnReference(key), key) for key in keys]
    after.extend(Alias(planner.result_of(aggregate), aggregate.name) for aggregate in wanted)
    needs_after = any(aggregate.function == functions.AVG for aggregate in wanted)
    before = None
    if planner.computed:
        kept = dict.fromkeys([*keys, *planner.columns()])
        before = (
            *(Alias(ColumnReference(name), name) for name in kept if name not in planner.computed),
            *(Alias(expression, name) for name, expression in planner.computed.items()),
        )
    return AggregatePlan(before, tuple(planner.aggregates), tuple(after) if needs_after else None)


class _Planner:
    def __init__(self, columns: Mapping[str, TypeInformation]) -> None:
        self._columns = columns
        #: The expressions that are computed before the aggregation, by the name of their column.
        self.computed: dict[str, Expression] = {}
        self.aggregates: list[ColumnAggregate] = []

    def columns(self) -> list[str]:
        """Returns the names of the columns that are aggregated."""
        names: list[str] = []
        for aggregate in self.aggregates:
            names.extend([aggregate.column] if aggregate.column is not None else aggregate.columns)
        return names

    def result_of(self, aggregate: ColumnAggregate) -> Expression:
        if aggregate.expression is not None:
            aggregate = replace(aggregate, column=self._computed(aggregate), expression=None)
        if aggregate.function != functions.AVG:
            self.aggregates.append(aggregate)
            return ColumnReference(aggregate.name)
        return self._average(aggregate)

    def _computed(self, aggregate: ColumnAggregate) -> str:
        expression: Expression = aggregate.expression
        try:
            result_type(expression, self._columns)
        except UserError as error:
            raise UserError(f"aggregate {aggregate.name!r}: {error.message}") from None
        for name, known in self.computed.items():
            if known.is_same(expression):
                return name
        name = f"_e{len(self.computed)}"
        while name in self._columns:
            name = f"_{name}"
        self.computed[name] = expression
        return name

    def _average(self, aggregate: ColumnAggregate) -> Expression:
        column = aggregate.column
        assert column is not None
        kind = result_type(self.computed.get(column, ColumnReference(column)), self._columns)
        if not is_number(kind):
            raise UserError(f"aggregate {aggregate.name!r}: column {column!r} is a {kind!r}, not a number")
        total = self._hidden(functions.SUM, column)
        number = self._hidden(functions.COUNT, column)
        if is_decimal(kind):
            digits = decimals.digits_of(kind)
            assert digits is not None
            # The division rounds once, to the type of the average.
            return Call("divide", (total, number), (decimals.average_of(digits),))
        double = Types.DOUBLE()
        return Call("divide", (Call("cast", (total,), (double,)), Call("cast", (number,), (double,))))

    def _hidden(self, function: str, column: str) -> Expression:
        for aggregate in self.aggregates:
            if aggregate.function == function and aggregate.column == column:
                return ColumnReference(aggregate.name)
        name = f"_{function.lower()}_{column}"
        self.aggregates.append(ColumnAggregate(name, function, column))
        return ColumnReference(name)
