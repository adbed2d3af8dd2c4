"""ColumnOperations: what a DataStream of columns can do with expressions. Beyond PyFlink's DataStream; the names are
those of its Table.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from flinkpy.common.errors import UnsupportedOperationError, UserError
from flinkpy.common.typeinfo import RowTypeInfo, TypeInformation, Types
from flinkpy.datastream import aggregates as functions
from flinkpy.datastream import function_checks as checks
from flinkpy.expressions.nodes import Alias, Call, ColumnReference, Expression
from flinkpy.expressions.types import output_columns, result_type
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.operator_specs import ColumnAggregate
from flinkpy.graph.transformation import OperatorTransformation, Transformation

if TYPE_CHECKING:
    from flinkpy.datastream.base_stream import DataStream

_ORDERS = {"orderAsc": "ascending", "orderDesc": "descending"}
_MERGED = {functions.COUNT: functions.SUM, functions.SUM: functions.SUM}
_UNSPLIT = (functions.COUNT_DISTINCT, *functions.SPREADS)


class ColumnOperations:
    """A part of DataStream."""

    _transformation: Transformation

    if TYPE_CHECKING:

        def _one_input(self, name: str, spec: specs.OperatorSpec) -> DataStream: ...
        def _types(self, output_type: TypeInformation | None) -> dict[str, Any]: ...

    def select(self, *expressions: Expression | str) -> DataStream:
        """Computes one column per expression. Beyond PyFlink's DataStream; the names are those of its Table.

        Args:
            expressions: names of columns, or expressions of `flinkpy.datastream.expressions`. An expression without an
                alias gets the name `_c0`, `_c1`, ... of its position.

        Returns:
            a stream of ROWs with these columns.

        Raises:
            UserError: a column does not exist (the error names it and those that do), the types do not fit, or two
                columns have the same name.

        Example:
            ```
            stream.select("name", (col("price") * 2).alias("twice"))
            ```
        """
        if not expressions:
            raise ValueError("select needs at least one expression")
        named = tuple(_named(expression, place) for place, expression in enumerate(expressions))
        columns = output_columns(named, self._columns("select"), "select")
        output_type = RowTypeInfo(list(columns.values()), list(columns))
        return self._beside("Select", specs.SelectSpec(named, **self._types(output_type)))

    def aggregate_columns(self, *aggregates: ColumnAggregate, **named: ColumnAggregate) -> DataStream:
        """Aggregates all records of a bounded stream into one row. Beyond PyFlink.

        The row is emitted when the input ends. If there is no record, COUNT is 0 and the other aggregates are null.

        Args:
            aggregates: aggregates of `flinkpy.datastream.aggregates`, except `first` and `last`, over columns or
                expressions.
            named: more aggregates, each with the name of its column.

        Raises:
            UnsupportedOperationError: a source of the stream is unbounded, or the aggregate is not available here.

        Example:
            ```
            orders.aggregate_columns(count(), total=sum_("price"))
            ```
        """
        from flinkpy.datastream.aggregate_plan import plan_aggregates

        columns = self._columns("aggregate_columns")
        self._check_bounded("aggregate_columns")
        wanted = tuple(map(_mean_as_avg, functions.named(aggregates, named)))
        for aggregate in wanted:
            if aggregate.compiled is not None or aggregate.function in (functions.FIRST, functions.LAST):
                raise UnsupportedOperationError(
                    f"aggregate_columns: {aggregate.name!r} is not one of count, count_distinct, sum_, min_, max_, "
                    "mean, avg, var_pop, var_samp, stddev_pop and stddev_samp"
                )
        plan = plan_aggregates([], wanted, columns)
        stream: Any = self if plan.before is None else self.select(*plan.before)
        if any(aggregate.function in _UNSPLIT for aggregate in plan.aggregates):
            # Partial results of these cannot be merged, so one subtask gets the aggregated columns of all records.
            names = dict.fromkeys(each.column for each in plan.aggregates if each.column is not None)
            whole = stream.select(*names).global_()._aggregated("Global Aggregation", plan.aggregates)
            whole.force_non_parallel()
            return whole if plan.after is None else whole.select(*plan.after)
        partial = stream._aggregated("Local Aggregation", plan.aggregates)
        merging = tuple(
            replace(aggregate, function=_MERGED.get(aggregate.function, aggregate.function), column=aggregate.name)
            for aggregate in plan.aggregates
        )
        types = partial._types(partial.get_type())
        total = partial.global_()._one_input("Global Aggregation", specs.GlobalColumnAggregateSpec(merging, **types))
        total.force_non_parallel()
        return total if plan.after is None else total.select(*plan.after)

    def sort_columns(self, *keys: Expression | str, limit: int | None = None) -> DataStream:
        """Sorts all records of a bounded stream. They are emitted when the input ends. Beyond PyFlink.

        Nulls come first in ascending order and last in descending order, as in Flink. The last step has parallelism 1;
        without a limit it holds all records in memory.

        Args:
            keys: names of columns (ascending), or `col(name).asc` or `col(name).desc`.
            limit: the number of records to keep. No subtask then sends more records than that to the last step.

        Raises:
            UserError: there is no such column.
            UnsupportedOperationError: a source of the stream is unbounded.

        Example:
            ```
            stream.sort_columns(col("revenue").desc, "name", limit=10)
            ```
        """
        columns = self._columns("sort_columns")
        self._check_bounded("sort_columns")
        if not keys and limit is None:
            raise ValueError("sort_columns needs a column or a limit")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int) or limit < 1):
            raise ValueError(f"sort_columns: the limit must be a number of records of at least 1, not {limit!r}")
        order = tuple(map(_sort_key, keys))
        for name, _ in order:
            try:
                result_type(ColumnReference(name), columns)
            except UserError as error:
                raise UserError(f"sort_columns: {error.message}") from None
        spec = specs.SortColumnsSpec(order, limit, **self._types(self._transformation.output_type))
        stream: Any = self if limit is None else self._one_input("Local Sort", spec)
        ordered: DataStream = stream.global_()._one_input("Sort" if limit is None else "Sort, Limit", spec)
        ordered.force_non_parallel()
        return ordered

    def _beside(self, name: str, spec: specs.OperatorSpec) -> DataStream:
        """Adds an operator. It has one subtask if its input is limited to one, so that the records keep their order."""
        stream = self._one_input(name, spec)
        before = self._transformation
        if isinstance(before, OperatorTransformation) and before.is_non_parallel:
            stream.force_non_parallel()
        return stream

    def _aggregated(self, name: str, aggregates: tuple[ColumnAggregate, ...]) -> DataStream:
        columns = self._columns("aggregate_columns")
        types = [functions.result_type(aggregate, columns) for aggregate in aggregates]
        output_type = RowTypeInfo(types, [aggregate.name for aggregate in aggregates])
        return self._one_input(name, specs.GlobalColumnAggregateSpec(aggregates, **self._types(output_type)))

    def _columns(self, method: str) -> dict[str, TypeInformation]:
        """Returns the types of the columns by name. Raises: UserError if the stream is not of a TUPLE or ROW type."""
        columns = checks.columns_of_type(self._transformation.output_type)
        if columns is None:
            raise UserError(f"{method} works on columns: the stream must be of a declared TUPLE or ROW type")
        return columns

    def _check_bounded(self, method: str) -> None:
        unbounded = unbounded_source([self._transformation])
        if unbounded is not None:
            raise UnsupportedOperationError(
                f"{method} emits its result when its input ends, but the source '{unbounded}' is unbounded"
            )


def unbounded_source(transformations: Sequence[Transformation]) -> str | None:
    """Returns the name of an unbounded source that these transformations read; None if all are bounded."""
    pending, seen = list(transformations), set()
    while pending:
        transformation = pending.pop()
        if transformation.id in seen:
            continue
        seen.add(transformation.id)
        pending.extend(transformation.inputs)
        if not isinstance(transformation, OperatorTransformation) or not transformation.is_source:
            continue
        if not transformation.is_bounded:
            return transformation.display_name
    return None


def _named(expression: Any, place: int) -> Alias:
    if isinstance(expression, str):
        return Alias(ColumnReference(expression), expression)
    if isinstance(expression, Alias):
        return expression
    if isinstance(expression, ColumnReference):
        return Alias(expression, expression.name)
    if isinstance(expression, Expression):
        return Alias(expression, f"_c{place}")
    raise TypeError(f"select takes expressions (col(...), lit(...)) and names of columns, not {expression!r}")


def _mean_as_avg(aggregate: ColumnAggregate) -> ColumnAggregate:
    """Returns MEAN as AVG of a DOUBLE, which gives the same result. Returns other aggregates unchanged."""
    if aggregate.function != functions.MEAN:
        return aggregate
    value: Any = aggregate.expression
    if value is None:
        assert aggregate.column is not None
        value = ColumnReference(aggregate.column)
    as_double = Call("cast", (value,), (Types.DOUBLE(),))
    return replace(aggregate, function=functions.AVG, column=None, expression=as_double)


def _sort_key(key: Any) -> tuple[str, str]:
    if isinstance(key, str):
        return key, "ascending"
    order = "ascending"
    if isinstance(key, Call) and key.function in _ORDERS:
        order, key = _ORDERS[key.function], key.arguments[0]
    if not isinstance(key, ColumnReference):
        raise TypeError(
            f"sort_columns takes columns, col(name).asc and col(name).desc, not {key!r}: select() it before"
        )
    return key.name, order
