"""QueryBinder: turns the queries of a statement into logical plans.

Source: org.apache.flink.table.planner.calcite.FlinkPlannerImpl, org.apache.calcite.sql2rel.SqlToRelConverter.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable
from functools import singledispatchmethod

from flinkpy.graph.table_specs import SortField
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.rex import InputRef, Literal, RexNode, walk
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.binder.aggregates import AggregateBinder, has_aggregates
from flinkpy.table.planner.binder.expressions import ExpressionBinder
from flinkpy.table.planner.binder.functions import FunctionResolver
from flinkpy.table.planner.binder.hints import QueryHints
from flinkpy.table.planner.binder.overs import expand_over_calls
from flinkpy.table.planner.binder.program_nodes import BoundQuery
from flinkpy.table.planner.binder.scope import Relation, Scope
from flinkpy.table.planner.binder.table_references import TableReferenceBinder
from flinkpy.table.planner.context import PlannerContext
from flinkpy.table.planner.errors import invalid
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.rex_nodes import OverCall

_correlations = itertools.count(1)


class QueryBinder:
    """Binds one query and those inside it.

    Args:
        context: catalogs, functions and settings.
        tables: the queries of WITH around this one, by name.
    """

    def __init__(self, context: PlannerContext, tables: dict[str, rel.RelNode] | None = None) -> None:
        self.context = context
        self.functions: FunctionResolver = context.functions
        self._tables = tables or {}

    # -- entry points ------------------------------------------------------------------------------------------------

    def bind(self, query: ast.Query, outer: Scope | None = None) -> rel.RelNode:
        """Returns the plan of a query. `outer` is the scope that a subquery may refer to."""
        return self._bind(query, outer)

    def subquery(self, query: ast.Query, scope: Scope) -> rel.RelNode:
        return self._bind(query, scope)

    def scope(self, relations: Iterable[Relation], outer: Scope | None) -> Scope:
        return Scope(tuple(relations), outer, next(_correlations))

    def common_table(self, name: str) -> rel.RelNode | None:
        """Returns the plan of a query of WITH; None if there is none of this name."""
        return self._tables.get(name)

    @singledispatchmethod
    def _bind(self, query: ast.Query, outer: Scope | None) -> rel.RelNode:
        raise invalid(query, f"{type(query).__name__} is not supported as a query")

    # -- queries -----------------------------------------------------------------------------------------------------

    @_bind.register
    def _(self, query: ast.With, outer: Scope | None) -> rel.RelNode:
        if query.recursive:
            raise invalid(query, "recursive queries are not supported")
        binder = QueryBinder(self.context, dict(self._tables))
        for table in query.tables:
            plan = binder.bind(table.query, outer)
            if table.columns:
                plan = renamed(plan, tuple(each.last for each in table.columns), table)
            binder._tables[table.name.last] = plan
        return binder.bind(query.query, outer)

    @_bind.register
    def _(self, query: BoundQuery, outer: Scope | None) -> rel.RelNode:
        plan: rel.RelNode = query.plan
        return plan

    @_bind.register
    def _(self, query: ast.Values, outer: Scope | None) -> rel.RelNode:
        return self._values(query, outer)

    @_bind.register
    def _(self, query: ast.ExplicitTable, outer: Scope | None) -> rel.RelNode:
        plan, _ = TableReferenceBinder(self, outer).bind(ast.NamedTable(query.name, position=query.position))
        return plan

    @_bind.register
    def _(self, query: ast.SetOperation, outer: Scope | None) -> rel.RelNode:
        return self._set_operation(query, outer)

    @_bind.register
    def _(self, query: ast.OrderedQuery, outer: Scope | None) -> rel.RelNode:
        offset = self._count(query.offset, "OFFSET") or 0
        limit = self._count(query.limit, "LIMIT")
        if isinstance(query.query, ast.Select):
            return self._select(query.query, outer, query.order_by, offset, limit)
        plan = self._bind(query.query, outer)
        scope = self.scope([Relation((), plan.names, 0, plan.row_type)], outer)
        fields, keys = [], list(plan.references())
        for item in query.order_by:
            node = item.expression
            key = (
                plan.references()[self._ordinal(node, plan.width)]
                if isinstance(node, ast.IntegerLiteral)
                else ExpressionBinder(self, scope).bind(node)
            )
            fields.append(sort_field(item, self._position(key, keys)))
        return self._sorted(plan, keys, fields, plan.width, offset, limit)

    @_bind.register
    def _(self, query: ast.Select, outer: Scope | None) -> rel.RelNode:
        return self._select(query, outer, (), 0, None)

    # -- SELECT ------------------------------------------------------------------------------------------------------

    def _select(
        self,
        query: ast.Select,
        outer: Scope | None,
        order_by: tuple[ast.OrderItem, ...],
        offset: int,
        limit: int | None,
    ) -> rel.RelNode:
        hints = QueryHints(query.hints)
        plan, scope = self._from(query, outer, hints)
        if query.where is not None:
            binder = ExpressionBinder(self, scope, clause="WHERE")
            condition = binder.condition(query.where)
            if any(isinstance(each, OverCall) for each in walk(condition)):
                raise invalid(query.where, "Windowed aggregate expression is illegal in WHERE clause")
            plan = rel.Filter(plan, condition)
        windows = {each.name.last: each.specification for each in query.windows}
        order_items = self._order_expressions(query, order_by)
        if query.group_by is not None or query.having is not None or has_aggregates(self.functions, query, order_items):
            aggregates = AggregateBinder(self, plan, scope, query, windows)
            binder, plan = aggregates.binder, aggregates.prepare(order_items)
        else:
            binder = ExpressionBinder(self, scope, windows=windows)
            aggregates = None
        names, expressions = self._items(query, scope, binder, is_aggregate=aggregates is not None)
        keys = list(expressions)
        fields = [
            sort_field(item, self._order_position(item, node, query, keys, names, binder))
            for item, node in zip(order_by, order_items, strict=True)
        ]
        qualify = None if query.qualify is None else binder.condition(query.qualify)
        if aggregates is not None:
            plan = aggregates.finish(hints.of_aggregate(scope.relations))
            keys = [aggregates.resolved(key) for key in keys]
            qualify = None if qualify is None else aggregates.resolved(qualify)
        if aggregates is not None or len(scope.relations) > 1:
            hints.check_names()
        if query.quantifier == "DISTINCT" and len(keys) > len(expressions):
            raise invalid(query, "ORDER BY of SELECT DISTINCT may name columns of the result only")
        plan = self._projected(plan, keys, names, qualify)
        if query.quantifier == "DISTINCT":
            plan = rel.Aggregate(plan, tuple(range(plan.width)), ())
        if not order_by and limit is None and not offset:
            return plan
        return self._sorted(plan, list(plan.references()), fields, len(expressions), offset, limit)

    def _from(self, query: ast.Select, outer: Scope | None, hints: QueryHints) -> tuple[rel.RelNode, Scope]:
        if query.from_ is None:
            one = rel.Values(
                ((Literal(lt.IntType(nullable=False), 0),),), rel.row_of(("ZERO",), (lt.IntType(nullable=False),))
            )
            return one, self.scope([], outer)
        return TableReferenceBinder(self, outer, hints).bind_from(query.from_)

    def _items(
        self, query: ast.Select, scope: Scope, binder: ExpressionBinder, *, is_aggregate: bool
    ) -> tuple[list[str], list[RexNode]]:
        names: list[str] = []
        expressions: list[RexNode] = []
        for item in query.items:
            node = item.expression
            if isinstance(node, ast.Star):
                for name, value in scope.expand_star(node.qualifier):
                    names.append(name)
                    expressions.append(binder.bind(ast.Identifier.of(name)) if is_aggregate else value)
                continue
            names.append(self.alias(item, len(names)))
            expressions.append(binder.bind(node))
        return names, expressions

    @staticmethod
    def alias(item: ast.SelectItem, place: int) -> str:
        """Returns the name of a column: its alias, the last part of its name, or `EXPR$` and its place."""
        if item.alias is not None:
            return item.alias.last
        if isinstance(item.expression, ast.Identifier):
            return item.expression.last
        if isinstance(item.expression, ast.FieldAccess):
            return item.expression.field.last
        return f"EXPR${place}"

    def _projected(
        self, plan: rel.RelNode, keys: list[RexNode], names: list[str], qualify: RexNode | None
    ) -> rel.RelNode:
        """Adds SELECT's projection, with OVER aggregates below it. Keys beyond the names are for ORDER BY."""
        hidden = (
            plan.names[key.index] if isinstance(key, InputRef) else f"$sort{place}"
            for place, key in enumerate(keys[len(names) :])
        )
        unique = rel.unique_names((*names, *hidden))
        if qualify is not None:
            plan = expand_over_calls(rel.Project(plan, (*keys, qualify), (*unique, "$qualify")))
            plan = rel.Filter(plan, InputRef(qualify.type, len(keys)))
            return rel.Project(plan, plan.references()[:-1], unique)
        return expand_over_calls(rel.Project(plan, tuple(keys), unique))

    # -- ORDER BY and LIMIT ------------------------------------------------------------------------------------------

    def _order_expressions(self, query: ast.Select, order_by: tuple[ast.OrderItem, ...]) -> list[ast.Expression]:
        """Returns the expressions with aliases of SELECT replaced by what they stand for."""
        aliases = {item.alias.last: item.expression for item in query.items if item.alias is not None}
        result = []
        for item in order_by:
            node = item.expression
            if isinstance(node, ast.Identifier) and len(node.parts) == 1:
                node = aliases.get(node.last, node)
            result.append(node)
        return result

    def _order_position(
        self,
        item: ast.OrderItem,
        node: ast.Expression,
        query: ast.Select,
        keys: list[RexNode],
        names: list[str],
        binder: ExpressionBinder,
    ) -> int:
        written = item.expression
        if isinstance(written, ast.IntegerLiteral):
            return self._ordinal(written, len(names))
        if isinstance(written, ast.Identifier) and len(written.parts) == 1 and written.last in names:
            return names.index(written.last)
        return self._position(binder.bind(node), keys)

    @staticmethod
    def _ordinal(node: ast.IntegerLiteral, width: int) -> int:
        if not 1 <= node.value <= width:
            raise invalid(node, "Ordinal out of range")
        return node.value - 1

    @staticmethod
    def _position(key: RexNode, keys: list[RexNode]) -> int:
        if key not in keys:
            keys.append(key)
        return keys.index(key)

    def _sorted(
        self,
        plan: rel.RelNode,
        keys: list[RexNode],
        fields: list[SortField],
        width: int,
        offset: int,
        limit: int | None,
    ) -> rel.RelNode:
        if len(keys) > plan.width:
            extra = tuple(f"$sort{place}" for place in range(len(keys) - plan.width))
            plan = rel.Project(plan, tuple(keys), (*plan.names, *extra))
        if fields or limit is not None or offset:
            plan = rel.Sort(plan, tuple(fields), offset, limit)
        if plan.width > width:
            plan = rel.Project(plan, plan.references()[:width], plan.names[:width])
        return plan

    def _count(self, node: ast.Expression | None, clause: str) -> int | None:
        if node is None:
            return None
        value = ExpressionBinder(self, self.scope([], None)).bind(node)
        if not isinstance(value, Literal) or not isinstance(value.value, int):
            raise invalid(node, f"{clause} must be a whole number")
        return value.value

    # -- VALUES and set operations -----------------------------------------------------------------------------------

    def _values(self, query: ast.Values, outer: Scope | None) -> rel.RelNode:
        scope = self.scope([], outer)
        rows: list[list[RexNode]] = []
        for row in query.rows:
            parts = row.values if isinstance(row, ast.RowConstructor) else (row,)
            rows.append([ExpressionBinder(self, scope).bind(each) for each in parts])
            if len(rows[-1]) != len(rows[0]):
                raise invalid(
                    row,
                    "Values passed to VALUES operator must have compatible types: a row has "
                    f"{len(rows[-1])} columns, not {len(rows[0])}",
                )
        types: list[lt.LogicalType] = []
        for place in range(len(rows[0])):
            kind = operators.common_type([row[place] for row in rows])
            if kind is None:
                raise invalid(
                    query, f"Values passed to VALUES operator must have compatible types in column {place + 1}"
                )
            types.append(kind)
        names = tuple(f"EXPR${place}" for place in range(len(types)))
        cast = [[operators.cast(value, kind) for value, kind in zip(row, types, strict=True)] for row in rows]
        row_type = rel.row_of(names, tuple(types))
        if all(isinstance(value, Literal) for row in cast for value in row):
            return rel.Values(tuple(tuple(row) for row in cast), row_type)  # type: ignore[arg-type]
        zero = lt.IntType(nullable=False)
        one = rel.Values(((Literal(zero, 0),),), rel.row_of(("ZERO",), (zero,)))
        parts_ = tuple(rel.Project(one, tuple(row), names) for row in cast)
        return parts_[0] if len(parts_) == 1 else rel.SetOperation("UNION", True, parts_)

    def _set_operation(self, query: ast.SetOperation, outer: Scope | None) -> rel.RelNode:
        left, right = self._bind(query.left, outer), self._bind(query.right, outer)
        if left.width != right.width:
            raise invalid(query, f"Column count mismatch in {query.kind}")
        columns: list[lt.LogicalType] = []
        for place, (a, b) in enumerate(zip(left.references(), right.references(), strict=True)):
            kind = a.type if a.type == b.type else operators.common_type((a, b))
            if kind is None:
                raise invalid(
                    query,
                    f"Type mismatch in column {place + 1} of {query.kind}: {a.type} and {b.type}",
                )
            columns.append(kind)
        parts = tuple(coerced(part, columns, left.names) for part in (left, right))
        flat: list[rel.RelNode] = []
        for part in parts:
            same = isinstance(part, rel.SetOperation) and part.kind == query.kind == "UNION" and part.all and query.all
            flat += part.inputs if same else (part,)
        plan: rel.RelNode = rel.SetOperation(query.kind, query.all, tuple(flat))
        if query.kind == "UNION" and not query.all:
            plan = rel.SetOperation("UNION", True, tuple(flat))
            plan = rel.Aggregate(plan, tuple(range(plan.width)), ())
        return plan


def coerced(plan: rel.RelNode, types: list[lt.LogicalType], names: tuple[str, ...]) -> rel.RelNode:
    """Returns the plan with its columns cast to the types; the plan itself if they have them."""
    casts = tuple(operators.cast(each, kind) for each, kind in zip(plan.references(), types, strict=True))
    if casts == plan.references():
        return plan
    return rel.Project(plan, casts, names)


def renamed(plan: rel.RelNode, names: tuple[str, ...], node: ast.Node) -> rel.RelNode:
    """Returns the plan with other names of columns. Raises: ValidationError if there are too many or too few."""
    if len(names) != plan.width:
        raise invalid(
            node,
            f"List of column aliases must have same degree as table; table has {plan.width} columns, whereas alias "
            f"list has {len(names)} columns",
        )
    return rel.Project(plan, plan.references(), names)


def sort_field(item: ast.OrderItem, column: int) -> SortField:
    """Returns the sort direction. As in Flink, NULL is the smallest value unless the query says otherwise."""
    ascending = not item.descending
    return SortField(column, ascending, ascending if item.nulls_first is None else item.nulls_first)
