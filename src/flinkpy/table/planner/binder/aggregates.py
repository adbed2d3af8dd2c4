"""AggregateBinder: binds a SELECT with GROUP BY, HAVING or aggregate functions.

Source: org.apache.calcite.sql2rel.SqlToRelConverter.AggConverter,
org.apache.calcite.sql.validate.AggregatingSelectScope.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from flinkpy.common.errors import ValidationError
from flinkpy.sql.functions.user_aggregates import UserAggregateFunction
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.rex import AggregateCall, InputRef, RexCall, RexNode, rewrite, walk
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder.expressions import RANK_FUNCTIONS, ExpressionBinder
from flinkpy.table.planner.binder.functions import FunctionResolver
from flinkpy.table.planner.binder.json_calls import json_aggregate
from flinkpy.table.planner.binder.scope import Scope
from flinkpy.table.planner.binder.window_functions import interval_millis
from flinkpy.table.planner.errors import invalid
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.rex_nodes import OuterRef, SubQuery
from flinkpy.table.planner.logical.time import as_regular, proctime_type
from flinkpy.table.planner.logical.traversal import rewrite_plan

if TYPE_CHECKING:
    from flinkpy.table.planner.binder.queries import QueryBinder

#: The group windows of GROUP BY, with the number of their arguments.
GROUP_WINDOWS = {"TUMBLE": 2, "HOP": 3, "SESSION": 2}
_AUXILIARY = {"START": "start", "END": "end", "ROWTIME": "rowtime", "PROCTIME": "proctime"}
#: Added to the position of a column of a group window, until the number of aggregates before it is known.
_PROPERTY = 1_000_000
_QUERIES = (ast.ScalarSubquery, ast.Exists, ast.InSubquery, ast.QuantifiedComparison)
_LITERALS = (
    ast.IntegerLiteral,
    ast.DecimalLiteral,
    ast.DoubleLiteral,
    ast.StringLiteral,
    ast.BooleanLiteral,
    ast.NullLiteral,
    ast.IntervalLiteral,
    ast.TimeUnit,
)


def has_aggregates(functions: FunctionResolver, query: ast.Select, others: Iterable[ast.Expression]) -> bool:
    """True if SELECT, QUALIFY or the other expressions call an aggregate function without OVER."""
    nodes = [item.expression for item in query.items] + list(others)
    if query.qualify is not None:
        nodes.append(query.qualify)
    return any(_calls_aggregate(functions, node) for node in nodes)


def _calls_aggregate(functions: FunctionResolver, node: ast.Node) -> bool:
    if isinstance(node, ast.Query):
        return False
    node = json_aggregate(node) or node
    if isinstance(node, ast.FunctionCall) and node.over is None and functions.is_aggregate(node.name):
        return True
    return any(_calls_aggregate(functions, child) for child in node.children())


class AggregateBinder:
    """Binds one SELECT. `binder` binds expressions over the groups; aggregates are collected as it meets them.

    Attributes:
        binder: the binder of SELECT, HAVING and ORDER BY.
    """

    def __init__(
        self,
        queries: QueryBinder,
        plan: rel.RelNode,
        scope: Scope,
        query: ast.Select,
        windows: dict[str, ast.WindowSpecification],
    ) -> None:
        self._queries = queries
        self._functions = queries.functions
        self._plan = plan
        self._scope = scope
        self._query = query
        self._inner = ExpressionBinder(queries, scope, clause="GROUP BY")
        self._argument = ExpressionBinder(queries, scope)
        self.binder = ExpressionBinder(queries, scope, self._hook, windows=windows)
        #: The names that SELECT gives to expressions.
        self._names: dict[ast.Expression, str] = {}
        for place, item in enumerate(query.items):
            self._names.setdefault(json_aggregate(item.expression) or item.expression, queries.alias(item, place))
        self._columns: list[RexNode] = []
        self._column_names: list[str] = []
        self._aggregates: list[AggregateCall] = []
        self._window: tuple[rel.Window, int, ast.FunctionCall] | None = None
        self._properties: tuple[tuple[str, lt.LogicalType], ...] = ()
        self._sets: list[tuple[int, ...]] = []
        self._bind_groups()

    def prepare(self, order_by: list[ast.Expression]) -> rel.RelNode:
        """Returns the input of the aggregation."""
        return self._plan

    # -- GROUP BY ----------------------------------------------------------------------------------------------------

    def _bind_groups(self) -> None:
        elements = () if self._query.group_by is None else self._query.group_by.elements
        choices = [self._element_sets(each) for each in elements]
        chosen = [list(itertools.chain.from_iterable(each)) for each in itertools.product(*choices)]
        self._group_count = 0
        for nodes in chosen:
            places = []
            for node in nodes:
                place = self._group(node)
                if place is not None and place not in places:
                    places.append(place)
            self._sets.append(tuple(sorted(places)))
        self._group_count = len(self._columns)

    def _element_sets(self, node: ast.Expression) -> list[list[ast.Expression]]:
        if isinstance(node, ast.GroupingSets):
            parts = [_row(each) for each in node.elements]
            if node.kind == "ROLLUP":
                return [list(itertools.chain(*parts[:length])) for length in range(len(parts), -1, -1)]
            if node.kind == "CUBE":
                sizes = range(len(parts), -1, -1)
                return [list(itertools.chain(*each)) for size in sizes for each in itertools.combinations(parts, size)]
            nested = [self._element_sets(each) for each in node.elements]
            return [each for sets in nested for each in sets]
        return [_row(node)]

    def _group(self, node: ast.Expression) -> int | None:
        if isinstance(node, ast.FunctionCall) and node.function in GROUP_WINDOWS and len(node.name.parts) == 1:
            self._bind_window(node)
            return None
        if _calls_aggregate(self._functions, node):
            raise invalid(node, "Aggregate expression is illegal in GROUP BY clause")
        return self._column(self._inner.bind(node), node)

    def _bind_window(self, node: ast.FunctionCall) -> None:
        if self._window is not None:
            raise invalid(node, "Only one group window can be in GROUP BY")
        kind = node.function
        if len(node.arguments) not in (GROUP_WINDOWS[kind], GROUP_WINDOWS[kind] + 1):
            raise invalid(node, f"{kind} in GROUP BY needs {GROUP_WINDOWS[kind]} arguments")
        time = self._inner.bind(node.arguments[0])
        streaming = self._queries.context.is_streaming
        fits = lt.is_time_attribute(time.type) if streaming else isinstance(time.type, lt.TimestampType)
        if not fits:
            raise invalid(
                node.arguments[0],
                f"Window can only be defined over a time attribute column, but is {time.type}",
            )
        required = GROUP_WINDOWS[kind]
        sizes = [
            interval_millis(self._inner.bind(each), each, kind, is_offset=place >= required)
            for place, each in enumerate(node.arguments[1:], 1)
        ]
        is_zoned = isinstance(time.type, lt.LocalZonedTimestampType)
        window = (
            rel.Window("HOP", sizes[1], sizes[0], sum(sizes[2:]), is_zoned=is_zoned)
            if kind == "HOP"
            else rel.Window(kind, sizes[0], 0, sum(sizes[1:]), is_zoned=is_zoned)
        )
        bound = lt.TimestampType(3, nullable=False)
        properties: list[tuple[str, lt.LogicalType]] = [("start", bound), ("end", bound)]
        if not lt.is_proctime(time.type):
            properties.append(("rowtime", time.type.not_null()))
        properties.append(("proctime", proctime_type()))
        self._properties = tuple(properties)
        self._window = (window, -1, node)
        self._time = time

    # -- columns of the input ----------------------------------------------------------------------------------------

    def _column(self, value: RexNode, node: ast.Expression | None) -> int:
        """Returns the column of the aggregation's input that has this value."""
        if value in self._columns:
            return self._columns.index(value)
        name = None if node is None else self._names.get(node)
        if name is None:
            name = self._plan.names[value.index] if isinstance(value, InputRef) else f"$f{len(self._columns)}"
        self._columns.append(value)
        self._column_names.append(name)
        return len(self._columns) - 1

    # -- expressions over groups -------------------------------------------------------------------------------------

    def _hook(self, node: ast.Expression) -> RexNode | None:
        node = json_aggregate(node) or node
        if isinstance(node, _LITERALS):
            return None
        if isinstance(node, ast.FunctionCall) and node.over is None and len(node.name.parts) == 1:
            auxiliary = self._auxiliary(node)
            if auxiliary is not None:
                return auxiliary
            if node.function in ("GROUPING", "GROUPING_ID", "GROUP_ID"):
                return self._grouping(node)
        if isinstance(node, ast.FunctionCall) and node.over is None and self._functions.is_aggregate(node.name):
            return self._aggregate(node)
        if isinstance(node, _QUERIES):
            return self._query_over_groups(node)
        if _calls_aggregate(self._functions, node):
            return None
        if isinstance(node, ast.FunctionCall) and node.over is not None:
            return None
        return self._grouped(node)

    def _grouped(self, node: ast.Expression) -> RexNode | None:
        """Returns the value as an expression over grouping columns; None if its parts must be bound one by one."""
        try:
            value = self._argument.bind(node)
        except ValidationError:
            if isinstance(node, ast.Identifier) or self._has_valid_arguments(node):
                raise
            return None

        def change(each: RexNode) -> RexNode | None:
            if each in self._columns[: self._group_count]:
                place = self._columns.index(each)
                return InputRef(self._key_type(place), _GROUPED + place)
            return None

        changed = rewrite(value, change)
        if any(isinstance(each, InputRef) and each.index < _GROUPED for each in walk(changed)):
            if isinstance(node, ast.Identifier):
                raise invalid(node, f"Expression '{'.'.join(node.parts)}' is not being grouped")
            return None

        def back(each: RexNode) -> RexNode | None:
            return InputRef(each.type, each.index - _GROUPED) if isinstance(each, InputRef) else None

        return rewrite(changed, back)

    def _has_valid_arguments(self, node: ast.Expression) -> bool:
        """True for a call that is invalid itself, such as one of a function that does not exist."""
        if not isinstance(node, ast.FunctionCall):
            return False
        try:
            for each in node.arguments:
                self._argument.bind(each)
        except ValidationError:
            return False
        return True

    def _query_over_groups(self, node: ast.Expression) -> RexNode:
        """Returns a subquery whose references to this query's columns mean grouping columns."""
        bound = self.binder.bind_without_hook(node)
        keys = self._columns[: self._group_count]

        def change(each: RexNode) -> RexNode | None:
            own = self._scope.inner(each)
            if own is None:
                return None
            if own not in keys:
                names = self._plan.names
                shown = ", ".join(names[part.index] for part in walk(own) if isinstance(part, InputRef))
                raise invalid(node, f"Expression '{shown}' is not being grouped")
            place = keys.index(own)
            return OuterRef(self._key_type(place), self._scope.correlation, place)

        def changed(each: RexNode) -> RexNode | None:
            return replace(each, plan=rewrite_plan(each.plan, change)) if isinstance(each, SubQuery) else None

        return rewrite(bound, changed)

    def _key_type(self, place: int) -> lt.LogicalType:
        kind = self._columns[place].type
        return kind.as_nullable() if any(place not in each for each in self._sets) else kind

    def _auxiliary(self, node: ast.FunctionCall) -> RexNode | None:
        if self._window is None or "_" not in node.function:
            return None
        kind, _, part = node.function.rpartition("_")
        if kind not in GROUP_WINDOWS or part not in _AUXILIARY:
            return None
        written = self._window[2]
        if kind != written.function or node.arguments != written.arguments:
            raise invalid(
                node,
                f"Call to auxiliary group function '{node.function}' must have matching call to group function "
                f"'{kind}' in GROUP BY clause",
            )
        names = [name for name, _ in self._properties]
        if _AUXILIARY[part] not in names:
            raise invalid(node, "A proctime window cannot provide a rowtime attribute.")
        place = names.index(_AUXILIARY[part])
        return InputRef(self._properties[place][1], _PROPERTY + place)

    def _grouping(self, node: ast.FunctionCall) -> RexNode:
        places = []
        for each in node.arguments:
            value = self._inner.bind(each)
            if value not in self._columns[: self._group_count]:
                raise invalid(each, f"Argument to operator '{node.function}' must be a grouped expression")
            places.append(self._columns.index(value))
        kind = lt.BigIntType(nullable=False)
        name = self._names.get(node, f"$f{self._group_count + len(self._aggregates)}")
        return self._call(AggregateCall("GROUPING", tuple(places), kind, name))

    def _aggregate(self, node: ast.FunctionCall) -> RexNode:
        if any(_calls_aggregate(self._functions, each) for each in node.arguments):
            raise invalid(node, "Aggregate expressions cannot be nested")
        values = [self._argument.bind(each) for each in node.arguments if not isinstance(each, ast.Star)]
        name = self._functions.aggregate_name(node)
        if name in RANK_FUNCTIONS:
            raise invalid(node, f"OVER clause is necessary for window functions: {name}")
        # COUNT of what is never null counts rows.
        if name == "COUNT" and node.quantifier != "DISTINCT" and all(not each.type.nullable for each in values):
            values = []
        written = [each for each in node.arguments if not isinstance(each, ast.Star)]
        places = tuple(self._column(value, each) for value, each in zip(values, written, strict=False))
        filter_index = None
        if node.filter is not None:
            condition = self._argument.condition(node.filter)
            if condition.type.nullable:
                condition = RexCall(lt.BooleanType(nullable=False), "IS TRUE", (condition,))
            filter_index = self._column(condition, None)
        if node.within_group:
            raise invalid(node, f"Aggregate expression '{name}' must not contain a WITHIN GROUP clause")
        if name == "APPROX_COUNT_DISTINCT" and self._queries.context.is_streaming:
            raise invalid(node, "APPROX_COUNT_DISTINCT aggregate function does not support yet for streaming.")
        order = []
        for item in node.order_by:
            ascending = not item.descending
            first = ascending if item.nulls_first is None else item.nulls_first
            order.append((self._column(self._argument.bind(item.expression), item.expression), ascending, first))
        grouped = bool(self._group_count) and all(self._sets) and node.filter is None
        kind = self._functions.aggregate_type(node, tuple(values), is_grouped=grouped or self._window is not None)
        called = self._names.get(node, f"$f{self._group_count + len(self._aggregates)}")
        return self._call(
            AggregateCall(
                name,
                places,
                as_regular(kind),
                called,
                node.quantifier == "DISTINCT",
                filter_index,
                tuple(order),
                self._functions.user_aggregate(node.name, tuple(values)),
                bool(node.ignore_nulls),
            )
        )

    def _call(self, call: AggregateCall) -> RexNode:
        for place, each in enumerate(self._aggregates):
            if replace(call, name=each.name) == each and _is_same(call.user_function, each.user_function):
                return InputRef(each.type, self._group_count + place)
        self._aggregates.append(call)
        return InputRef(call.type, self._group_count + len(self._aggregates) - 1)

    # -- the result --------------------------------------------------------------------------------------------------

    def finish(self, state_ttl_ms: int | None = None) -> rel.RelNode:
        """Returns the aggregation with HAVING, after all expressions were bound.

        Args:
            state_ttl_ms: that of a STATE_TTL hint.
        """
        having = None
        if self._query.having is not None:
            self.binder._clause = "HAVING"
            having = self.binder.condition(self._query.having)
        if self._window is not None:
            plan = self._window_aggregate()
        else:
            if not self._columns:
                # An aggregation such as COUNT(*) reads no column at all.
                below: rel.RelNode = rel.Project(self._plan, (), ())
            else:
                below = rel.Project(self._plan, tuple(self._columns), tuple(self._column_names))
            sets = tuple(dict.fromkeys(self._sets))
            keys = tuple(range(self._group_count))
            is_simple = not sets or sets == (keys,)
            calls = tuple(self._aggregates)
            plan = rel.Aggregate(below, keys, calls, None if is_simple else sets, state_ttl_ms)
        if having is not None:
            plan = rel.Filter(plan, self.resolved(having))
        return plan

    def _window_aggregate(self) -> rel.RelNode:
        assert self._window is not None
        window, _, node = self._window
        if len(set(self._sets)) > 1:
            raise invalid(node, "GROUPING SETS with a group window are not supported; use a window table function")
        time = self._column(self._time, node.arguments[0])
        below = rel.Project(self._plan, tuple(self._columns), rel.unique_names(tuple(self._column_names)))
        return rel.GroupWindowAggregate(
            below, tuple(range(self._group_count)), tuple(self._aggregates), window, time, self._properties
        )

    def resolved(self, value: RexNode) -> RexNode:
        """Returns an expression that `binder` made, over the columns of `finish()`."""

        def change(each: RexNode) -> RexNode | None:
            if isinstance(each, InputRef) and each.index >= _PROPERTY:
                return InputRef(each.type, each.index - _PROPERTY + self._group_count + len(self._aggregates))
            return None

        return rewrite(value, change)


def _is_same(one: UserAggregateFunction | None, other: UserAggregateFunction | None) -> bool:
    return one is other if one is None or other is None else one.is_same(other)


#: Added to the positions of grouping columns while they are told apart from columns of the input.
_GROUPED = 2_000_000


def _row(node: ast.Expression) -> list[ast.Expression]:
    if isinstance(node, ast.RowConstructor) and not node.explicit:
        return list(node.values)
    return [node]
