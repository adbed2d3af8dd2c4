"""Aggregate and window functions as text of an engine."""

from __future__ import annotations

from collections.abc import Sequence

from flinkpy.sql.rex import AggregateCall, InputRef, RexCall, RexNode
from flinkpy.sql.types import families as of
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.batch.dialect import INTEGER_BITS, NotInEngine
from flinkpy.table.planner.batch.engine_expressions import ExpressionRenderer
from flinkpy.table.planner.logical import nodes as rel

R = lt.TypeRoot
_RANKS = frozenset({"ROW_NUMBER", "RANK", "DENSE_RANK"})
_BIGINT = lt.BigIntType()
_TWO_VALUES = "SingleValueAggFunction received more than one element."


class AggregateRenderer:
    """Renders the aggregate calls of a node. `over` is the text of an OVER clause, or empty."""

    def __init__(
        self, expressions: ExpressionRenderer, row_type: lt.RowType, columns: Sequence[str], over: str = ""
    ) -> None:
        self._expressions = expressions
        self._dialect = expressions.dialect
        self._row_type = row_type
        self._columns = columns
        self._over = over

    def render(self, call: AggregateCall) -> str:
        """Returns the text, which has the type of the call. Raises: NotInEngine."""
        if call.user_function is not None or call.order:
            raise NotInEngine(call.function)
        if (
            self._over
            and not self._dialect.has_kernels_everywhere
            and (call.is_distinct or call.filter_index is not None)
        ):
            raise NotInEngine(f"DISTINCT or FILTER of {call.function} in OVER")
        types = [self._row_type.fields[place].type for place in call.arguments]
        match call.function:
            case "COUNT" if len(types) <= 1:
                if call.is_distinct and types and types[0].root in of.APPROXIMATE_NUMERIC:
                    # The engine takes 0.0 and -0.0 as one value.
                    raise NotInEngine(f"COUNT of DISTINCT {types[0]}")
                return self._call(call, "count")
            case "SUM" | "MIN" | "MAX" | "AVG" if len(types) == 1:
                return self._of_values(call, types[0])
            case "SINGLE_VALUE" if not self._over:
                count, value = self._call(call, "count", "*"), self._call(call, "any_value")
                return f"CASE WHEN {count} > 1 THEN {self._dialect.failure(_TWO_VALUES)} ELSE {value} END"
            case name if name in _RANKS and self._over:
                return f"CAST({name}(){self._over} AS {self._dialect.type_name(call.type)})"
        raise NotInEngine(call.function)

    def _of_values(self, call: AggregateCall, kind: lt.LogicalType) -> str:
        if call.function in ("MIN", "MAX"):
            # The engine has another order of NaN.
            if kind.root in of.APPROXIMATE_NUMERIC:
                raise NotInEngine(f"{call.function} of {kind}")
            return self._call(call, call.function.lower())
        if kind.root in INTEGER_BITS:
            if call.function == "SUM":
                return self._dialect.integer_sum(self._call(call, "sum"), kind)
            total = self._dialect.integer_sum(self._call(call, "sum"), _BIGINT)
            return self._quotient(call, _BIGINT, total, _BIGINT)
        if isinstance(kind, lt.DecimalType):
            sum_type = lt.DecimalType(38, kind.scale)
            summand = self._dialect.summand(self._columns[call.arguments[0]], kind)
            total = f"CAST({self._call(call, 'sum', summand)} AS {self._dialect.type_name(sum_type)})"
            return total if call.function == "SUM" else self._quotient(call, sum_type, total, lt.DecimalType(20, 0))
        if kind.root is R.DOUBLE:
            return self._call(call, call.function.lower())
        raise NotInEngine(f"{call.function} of {kind}")

    def _quotient(self, call: AggregateCall, sum_type: lt.LogicalType, total: str, count_type: lt.LogicalType) -> str:
        """Returns the average, divided by the kernel of `/`. The sum of no values is NULL, and so is their average."""
        count: RexNode = InputRef(_BIGINT, 1)
        if count_type.root is not R.BIGINT:
            count = RexCall(count_type, "CAST", (count,))
        quotient_type = call.type if isinstance(sum_type, lt.DecimalType) else _BIGINT
        quotient: RexNode = RexCall(quotient_type, "/", (InputRef(sum_type, 0), count))
        if quotient_type.root is not call.type.root:
            quotient = RexCall(call.type, "CAST", (quotient,))
        return self._expressions.over_values(quotient, (sum_type, _BIGINT), [total, self._call(call, "count")])

    def _call(self, call: AggregateCall, name: str, arguments: str | None = None) -> str:
        if arguments is None:
            arguments = ", ".join(self._columns[place] for place in call.arguments) or "*"
        distinct = "DISTINCT " if call.is_distinct and arguments != "*" else ""
        chosen = "" if call.filter_index is None else f" FILTER (WHERE {self._columns[call.filter_index]})"
        return f"{name}({distinct}{arguments}){chosen}{self._over}"


def order_text(order: Sequence[rel.SortField], columns: Sequence[str]) -> str:
    """Returns the keys of ORDER BY."""
    return ", ".join(
        f"{columns[each.column]} {'ASC' if each.ascending else 'DESC'} NULLS {'FIRST' if each.nulls_first else 'LAST'}"
        for each in order
    )


def over_text(partition: Sequence[int], order: Sequence[rel.SortField], frame: str, columns: Sequence[str]) -> str:
    """Returns an OVER clause."""
    parts = []
    if partition:
        parts.append(f"PARTITION BY {', '.join(columns[each] for each in partition)}")
    if order:
        parts.append(f"ORDER BY {order_text(order, columns)}")
    if frame:
        parts.append(frame)
    return f" OVER ({' '.join(parts)})"


def frame_text(group: rel.OverGroup) -> str:
    """Returns the frame of an OVER clause. Raises: NotInEngine for ranges of times and numbers."""
    if not group.is_rows and {group.lower, group.upper} - {None, 0}:
        raise NotInEngine("a RANGE with an offset")
    if not group.order and not group.is_rows:
        return ""

    def bound(value: int | None, unbounded: str) -> str:
        if value is None:
            return f"UNBOUNDED {unbounded}"
        if value == 0:
            return "CURRENT ROW"
        return f"{abs(value)} {'PRECEDING' if value < 0 else 'FOLLOWING'}"

    unit = "ROWS" if group.is_rows else "RANGE"
    return f"{unit} BETWEEN {bound(group.lower, 'PRECEDING')} AND {bound(group.upper, 'FOLLOWING')}"
