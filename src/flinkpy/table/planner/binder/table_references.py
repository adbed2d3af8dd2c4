"""TableReferenceBinder: turns FROM into a plan and the scope of its columns."""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatchmethod
from typing import TYPE_CHECKING, Any

from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.parser import nodes as ast
from flinkpy.sql.rex import UNNEST, UNNEST_WITH_ORDINALITY, RexCall, RexNode, UserFunctionCall, moved
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.binder.expressions import ExpressionBinder
from flinkpy.table.planner.binder.hints import QueryHints
from flinkpy.table.planner.binder.match_recognize import bind_match
from flinkpy.table.planner.binder.process_table_functions import (
    PROCESS_TABLE_FUNCTIONS,
    bind_process_table_function,
)
from flinkpy.table.planner.binder.program_nodes import BoundTable
from flinkpy.table.planner.binder.scans import TableExpansion
from flinkpy.table.planner.binder.scope import Relation, Scope
from flinkpy.table.planner.binder.vector_search import VECTOR_SEARCH, bind_vector_search
from flinkpy.table.planner.binder.window_functions import WINDOW_FUNCTIONS, bind_window_function
from flinkpy.table.planner.errors import invalid
from flinkpy.table.planner.logical import nodes as rel

if TYPE_CHECKING:
    from flinkpy.table.planner.binder.queries import QueryBinder

_KINDS = {
    "INNER": JoinType.INNER,
    "CROSS": JoinType.INNER,
    "COMMA": JoinType.INNER,
    "LEFT": JoinType.LEFT,
    "RIGHT": JoinType.RIGHT,
    "FULL": JoinType.FULL,
    "LEFT SEMI": JoinType.SEMI,
    "LEFT ANTI": JoinType.ANTI,
}


#: Parts of FROM that are parsed alone.
_MISSING: dict[type[ast.TableReference], str] = {ast.TableSample: "TABLESAMPLE"}


class TableReferenceBinder:
    """Binds one FROM clause.

    Args:
        outer: the scope around the query.
        hints: the hints of SELECT, which joins take.
    """

    def __init__(self, queries: QueryBinder, outer: Scope | None, hints: QueryHints | None = None) -> None:
        self._queries = queries
        self._outer = outer
        self._hints = hints or QueryHints(())

    def bind_from(self, node: ast.TableReference) -> tuple[rel.RelNode, Scope]:
        """Returns the plan of FROM and the scope of the clauses after it."""
        plan, scope = self._bind_scoped(node)
        return plan, scope

    def bind(self, node: ast.TableReference) -> tuple[rel.RelNode, tuple[Relation, ...]]:
        """Returns the plan of a table reference and the relations in it."""
        plan, scope = self._bind_scoped(node)
        return plan, scope.relations

    @singledispatchmethod
    def _bind_scoped(self, node: ast.TableReference) -> tuple[rel.RelNode, Scope]:
        raise invalid(node, f"flinkpy does not have {_MISSING.get(type(node), type(node).__name__)} yet")

    def _single(self, plan: rel.RelNode, path: tuple[str, ...]) -> tuple[rel.RelNode, Scope]:
        return plan, self._queries.scope([Relation(path, plan.names, 0, plan.row_type)], self._outer)

    @_bind_scoped.register
    def _(self, node: ast.NamedTable) -> tuple[rel.RelNode, Scope]:
        parts = node.name.parts
        if len(parts) == 1:
            common = self._queries.common_table(parts[0])
            if common is not None:
                return self._single(common, parts)
        plan, path = TableExpansion(self._queries).expand(node)
        return self._single(plan, path)

    @_bind_scoped.register
    def _(self, node: BoundTable) -> tuple[rel.RelNode, Scope]:
        return self._single(node.plan, ())

    @_bind_scoped.register
    def _(self, node: ast.DerivedTable) -> tuple[rel.RelNode, Scope]:
        return self._single(self._queries.bind(node.query, self._outer), ())

    @_bind_scoped.register
    def _(self, node: ast.MatchRecognize) -> tuple[rel.RelNode, Scope]:
        plan, scope = self._bind_scoped(node.table)
        return bind_match(self._queries, node, plan, scope, self._outer)

    @_bind_scoped.register
    def _(self, node: ast.AliasedTable) -> tuple[rel.RelNode, Scope]:
        plan, scope = self._bind_scoped(node.table)
        return self._aliased(node, plan, scope)

    def _aliased(self, node: ast.AliasedTable, plan: rel.RelNode, scope: Scope) -> tuple[rel.RelNode, Scope]:
        names = tuple(name for each in scope.relations for name in each.names)
        if node.columns:
            names = tuple(each.last for each in node.columns)
            if len(names) != plan.width:
                raise invalid(
                    node,
                    f"List of column aliases must have same degree as table; table has {plan.width} columns, whereas "
                    f"alias list has {len(names)} columns",
                )
            plan = rel.Project(plan, plan.references(), names)
        relation = Relation((node.alias.last,), names, 0, plan.row_type)
        return plan, self._queries.scope([relation], self._outer)

    @_bind_scoped.register
    def _(self, node: ast.TableFunction) -> tuple[rel.RelNode, Scope]:
        name = node.call.function
        if name in WINDOW_FUNCTIONS and len(node.call.name.parts) == 1:
            return self._single(bind_window_function(self._queries, self._outer, node.call), ())
        if self._is_process_table_function(node.call):
            return self._single(bind_process_table_function(self._queries, self._outer, node.call), ())
        one = rel.Values(((operators.TRUE,),), rel.row_of(("ONE",), (operators.TRUE.type,)))
        plan, scope = self._correlate(one, self._queries.scope([], self._outer), node, JoinType.INNER)
        narrowed = rel.Project(plan, plan.references()[1:], plan.names[1:])
        return self._single(narrowed, scope.relations[-1].path)

    @_bind_scoped.register
    def _(self, node: ast.Unnest) -> tuple[rel.RelNode, Scope]:
        one = rel.Values(((operators.TRUE,),), rel.row_of(("ONE",), (operators.TRUE.type,)))
        plan, _ = self._correlate(one, self._queries.scope([], self._outer), node, JoinType.INNER)
        return self._single(rel.Project(plan, plan.references()[1:], plan.names[1:]), ())

    @_bind_scoped.register
    def _(self, node: ast.Snapshot) -> tuple[rel.RelNode, Scope]:
        raise invalid(node, "FOR SYSTEM_TIME AS OF is supported for the right table of a join only")

    @_bind_scoped.register
    def _(self, node: ast.Join) -> tuple[rel.RelNode, Scope]:
        left, left_scope = self._bind_scoped(node.left)
        join_type = _KINDS[node.kind]
        right_node = node.right
        aliased = right_node if isinstance(right_node, ast.AliasedTable) else None
        if aliased is not None:
            right_node = aliased.table
        temporal = self._temporal_table_function(right_node)
        if temporal is not None:
            assert isinstance(right_node, ast.TableFunction)
            if join_type is not JoinType.INNER:
                raise invalid(node, "A temporal table function can only be joined by an INNER JOIN or CROSS JOIN.")
            right, right_scope = self._versions_at(right_node.call, temporal, left_scope, aliased)
        elif isinstance(right_node, ast.Unnest) or self._is_table_function(right_node):
            return self._join_function(node, left, left_scope, right_node, aliased, join_type)
        elif isinstance(right_node, ast.Snapshot):
            right, right_scope = self._snapshot(right_node, left_scope, aliased)
        elif isinstance(right_node, ast.DerivedTable) and right_node.lateral:
            return self._join_lateral(node, left, left_scope, right_node, aliased, join_type)
        else:
            right, right_scope = self._bind_scoped(node.right)
        scope = self._joined_scope(left, left_scope, right_scope.relations)
        condition = self._condition(node, left_scope, right_scope, left, right, scope)
        hints = self._hints.of_join(left_scope.relations, right_scope.relations)
        plan: rel.RelNode = rel.Join(left, right, join_type, condition, hints)
        return plan, self._retyped(plan, scope, left_scope, join_type)

    def _joined_scope(self, left: rel.RelNode, left_scope: Scope, right: tuple[Relation, ...]) -> Scope:
        moved = [replace(each, first=each.first + left.width) for each in right]
        scope = self._queries.scope([*left_scope.relations, *moved], self._outer)
        scope.merged.update(left_scope.merged)
        return scope

    def _retyped(self, plan: rel.RelNode, scope: Scope, left_scope: Scope, join_type: JoinType) -> Scope:
        """Gives the relations the types that their columns have in the result of the join."""
        relations = left_scope.relations if join_type in (JoinType.SEMI, JoinType.ANTI) else scope.relations
        fields = plan.row_type.fields
        scope.relations = tuple(
            replace(each, row_type=lt.RowType(fields[each.first : each.first + len(each.names)], nullable=False))
            for each in (relations if join_type in (JoinType.SEMI, JoinType.ANTI) else scope.relations)
        )
        return scope

    def _condition(
        self,
        node: ast.Join,
        left_scope: Scope,
        right_scope: Scope,
        left: rel.RelNode,
        right: rel.RelNode,
        scope: Scope,
    ) -> RexNode:
        names = [each.last for each in node.using]
        if node.natural:
            known = right_scope.column_names()
            names = [name for name in left_scope.column_names() if name in known]
        if not names:
            if node.condition is None:
                return operators.TRUE
            return ExpressionBinder(self._queries, scope, clause="ON").condition(node.condition)
        parts = []
        for name in names:
            place = ast.Identifier.of(name)
            a = left_scope.resolve(place)
            b = moved(right_scope.resolve(place), lambda column: column + left.width)
            parts.append(operators.comparison("=", a, b))
            scope.merged[name] = b if node.kind == "RIGHT" else a
        hidden = []
        for relation in scope.relations:
            own = frozenset(offset for offset, name in enumerate(relation.names) if name in names)
            hidden.append(replace(relation, hidden=relation.hidden | own))
        scope.relations = tuple(hidden)
        return operators.and_(parts)

    # -- LATERAL -----------------------------------------------------------------------------------------------------

    def _is_table_function(self, node: ast.TableReference) -> bool:
        if not isinstance(node, ast.TableFunction) or node.call.function in WINDOW_FUNCTIONS:
            return False
        return not self._is_process_table_function(node.call)

    def _is_process_table_function(self, call: ast.FunctionCall) -> bool:
        return call.function in PROCESS_TABLE_FUNCTIONS and self._queries.functions.is_builtin(call.name)

    def _is_vector_search(self, node: ast.TableReference) -> bool:
        is_named = isinstance(node, ast.TableFunction) and node.call.function == VECTOR_SEARCH
        return is_named and self._queries.functions.is_builtin(node.call.name)  # type: ignore[attr-defined]

    def _join_function(
        self,
        node: ast.Join,
        left: rel.RelNode,
        left_scope: Scope,
        function: ast.TableReference,
        alias: ast.AliasedTable | None,
        join_type: JoinType,
    ) -> tuple[rel.RelNode, Scope]:
        if join_type not in (JoinType.INNER, JoinType.LEFT):
            raise invalid(node, f"a {node.kind} JOIN with a table function is not supported; use CROSS or LEFT JOIN")
        plan, scope = self._correlate(left, left_scope, function, join_type, alias)
        if node.condition is not None:
            condition = ExpressionBinder(self._queries, scope, clause="ON").condition(node.condition)
            if condition != operators.TRUE:
                assert isinstance(plan, rel.Correlate)
                plan = replace(plan, condition=condition)
        return plan, scope

    def _correlate(
        self,
        left: rel.RelNode,
        left_scope: Scope,
        node: ast.TableReference,
        join_type: JoinType,
        alias: ast.AliasedTable | None = None,
    ) -> tuple[rel.RelNode, Scope]:
        binder = ExpressionBinder(self._queries, left_scope, clause="FROM")
        call: RexNode
        if isinstance(node, ast.Unnest):
            call, row = self._unnest(node, binder)
            path: tuple[str, ...] = ()
        elif self._is_vector_search(node):
            assert isinstance(node, ast.TableFunction)
            call, row = bind_vector_search(self._queries, binder, node.call)
            path = (node.call.name.last,)
        else:
            assert isinstance(node, ast.TableFunction)
            user = self._queries.functions.user(node.call.name)
            if user is None or user.kind != "TABLE":
                raise invalid(node.call, f"No match found for table function {node.call.name.last}")
            arguments = tuple(binder.bind(each) for each in node.call.arguments)
            result = user.result_type(tuple(each.type for each in arguments))
            row = result if isinstance(result, lt.RowType) else rel.row_of(("EXPR$0",), (result,))
            call = UserFunctionCall(
                row, node.call.name.last, user.function, arguments, user.mode, user.is_deterministic
            )
            path = (node.call.name.last,)
        if alias is not None:
            path = (alias.alias.last,)
            if alias.columns:
                if len(alias.columns) != len(row.fields):
                    raise invalid(
                        alias,
                        f"List of column aliases must have same degree as table; table has {len(row.fields)} columns, "
                        f"whereas alias list has {len(alias.columns)} columns",
                    )
                row = rel.row_of(tuple(each.last for each in alias.columns), tuple(each.type for each in row.fields))
        kind = rel.VectorSearch if self._is_vector_search(node) else rel.Correlate
        plan = kind(left, call, row, join_type)
        scope = self._joined_scope(left, left_scope, (Relation(path, row.names, 0, row),))
        return plan, self._retyped(plan, scope, left_scope, join_type)

    def _unnest(self, node: ast.Unnest, binder: ExpressionBinder) -> tuple[RexNode, lt.RowType]:
        if len(node.collections) > 1:
            raise invalid(node, "UNNEST of several collections is not supported; unnest one after the other")
        values = tuple(binder.bind(each) for each in node.collections)
        names: list[str] = []
        types: list[lt.LogicalType] = []
        for value, written in zip(values, node.collections, strict=True):
            kind = value.type
            if isinstance(kind, lt.MapType):
                names += ["KEY", "VALUE"]
                types += [kind.key, kind.value]
                continue
            if not isinstance(kind, (lt.ArrayType, lt.MultisetType)):
                raise invalid(written, f"Cannot apply 'UNNEST' to arguments of type 'UNNEST(<{kind}>)'")
            element = kind.element
            if isinstance(element, lt.RowType):
                names += element.names
                types += [each.type.as_nullable(each.type.nullable or element.nullable) for each in element.fields]
            else:
                names.append(f"EXPR${len(names)}")
                types.append(element)
        if node.with_ordinality:
            names.append("ORDINALITY")
            types.append(lt.IntType(nullable=False))
        row = rel.row_of(tuple(names), tuple(types))
        name = UNNEST_WITH_ORDINALITY if node.with_ordinality else UNNEST
        return RexCall(row, name, values), row

    def _join_lateral(
        self,
        node: ast.Join,
        left: rel.RelNode,
        left_scope: Scope,
        derived: ast.DerivedTable,
        alias: ast.AliasedTable | None,
        join_type: JoinType,
    ) -> tuple[rel.RelNode, Scope]:
        right = self._queries.bind(derived.query, left_scope)
        names = right.names
        if alias is not None and alias.columns:
            names = tuple(each.last for each in alias.columns)
        path = () if alias is None else (alias.alias.last,)
        relation = Relation(path, names, 0, right.row_type)
        scope = self._joined_scope(left, left_scope, (relation,))
        condition = (
            operators.TRUE
            if node.condition is None
            else ExpressionBinder(self._queries, scope, clause="ON").condition(node.condition)
        )
        plan: rel.RelNode
        if left_scope.is_used_outside:
            plan = rel.LateralJoin(left, right, join_type, condition, left_scope.correlation)
        else:
            plan = rel.Join(left, right, join_type, condition, self._hints.of_join(left_scope.relations, (relation,)))
        return plan, self._retyped(plan, scope, left_scope, join_type)

    def _snapshot(
        self, node: ast.Snapshot, left_scope: Scope, alias: ast.AliasedTable | None
    ) -> tuple[rel.RelNode, Scope]:
        plan, scope = self._bind_scoped(node.table)
        if alias is not None:
            plan, scope = self._aliased(alias, plan, scope)
        return rel.Snapshot(plan, self._period(node.time, left_scope)), scope

    def _period(self, node: ast.Expression, left_scope: Scope) -> RexNode:
        """Returns the time of the left row at which a version is looked up."""
        inner = Scope((), left_scope, 0)
        period = ExpressionBinder(self._queries, inner, clause="FOR SYSTEM_TIME AS OF").bind(node)
        if not isinstance(period.type, (lt.TimestampType, lt.LocalZonedTimestampType)):
            raise invalid(
                node,
                "The system time period specification expects TIMESTAMP or TIMESTAMP WITH LOCAL TIME ZONE type but is "
                f"'{period.type}'",
            )
        return period

    def _temporal_table_function(self, node: ast.TableReference) -> Any:
        """Returns the TemporalTableFunction that a table reference calls; None if it calls none."""
        if not isinstance(node, ast.TableFunction):
            return None
        user = self._queries.functions.user(node.call.name)
        return user if user is not None and user.kind == "TEMPORAL_TABLE" else None

    def _versions_at(
        self, call: ast.FunctionCall, function: Any, left_scope: Scope, alias: ast.AliasedTable | None
    ) -> tuple[rel.RelNode, Scope]:
        """Returns the rows of a temporal table function that are valid at a time of the left row."""
        if len(call.arguments) != 1:
            raise invalid(call, f"{call.name.last} takes one argument: a time attribute of the left table.")
        plan, scope = self._single(function.operation, (call.name.last,))
        if alias is not None:
            plan, scope = self._aliased(alias, plan, scope)
        period = self._period(call.arguments[0], left_scope)
        is_time = lt.is_rowtime if function.has_event_time else lt.is_proctime
        if not is_time(period.type):
            kind = "rowtime" if function.has_event_time else "processing"
            raise invalid(
                call.arguments[0],
                f"Non {kind} timeAttribute [{period.type}] passed as the argument to TemporalTableFunction",
            )
        return rel.Snapshot(plan, period, function.key), scope
