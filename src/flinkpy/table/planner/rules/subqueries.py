"""Replaces subqueries by joins, correlated ones included.

Source: org.apache.flink.table.planner.plan.rules.logical.{FlinkSubQueryRemoveRule, SubQueryDecorrelator}.
"""

from __future__ import annotations

from dataclasses import replace

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import AggregateCall, InputRef, Literal, RexCall, RexNode, rewrite, walk
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.rex_nodes import OuterRef, SubQuery
from flinkpy.table.planner.rules.expressions import outer_columns
from flinkpy.table.planner.rules.traversal import expressions_of

_ONE = Literal(lt.BooleanType(nullable=False), True)


def expand_subqueries(plan: rel.RelNode) -> rel.RelNode:
    """Returns the plan without SubQuery and LateralJoin.

    Raises:
        UnsupportedOperationError: a correlated query that no join can replace.
    """
    plan = rel.transform(plan, _expand_lateral)
    return rel.transform(plan, _expand)


def _expand(node: rel.RelNode) -> rel.RelNode:
    if not any(isinstance(each, SubQuery) for part in expressions_of(node) for each in walk(part)):
        return node
    match node:
        case rel.Filter():
            return _expand_filter(node)
        case rel.Project():
            below, expressions = _values(node.input, node.expressions)
            return rel.Project(below, expressions, node.names)
        case rel.Join() if node.join_type is JoinType.INNER:
            joined = rel.Join(node.left, node.right, JoinType.INNER, operators.TRUE, node.hints)
            return _expand_filter(rel.Filter(joined, node.condition))
    raise UnsupportedOperationError(f"a subquery in {type(node).__name__} is not supported")


def _expand_filter(node: rel.Filter) -> rel.RelNode:
    plan: rel.RelNode = node.input
    width = plan.width
    rest: list[RexNode] = []
    for condition in operators.conjuncts(node.condition):
        inner, negated = condition, False
        if isinstance(inner, RexCall) and inner.function == "NOT":
            inner, negated = inner.arguments[0], True
        if isinstance(inner, SubQuery) and inner.kind != "SCALAR" and not _has_subquery(inner.left):
            plan = _semi_join(plan, inner, inner.negated != negated)
        else:
            rest.append(condition)
    plan, values = _values(plan, tuple(rest))
    if values:
        plan = rel.Filter(plan, operators.and_(list(values)))
    if plan.width == width:
        return plan
    return rel.Project(plan, plan.references()[:width], plan.names[:width])


def _has_subquery(nodes: tuple[RexNode, ...]) -> bool:
    return any(isinstance(each, SubQuery) for node in nodes for each in walk(node))


def _semi_join(plan: rel.RelNode, query: SubQuery, negated: bool) -> rel.RelNode:
    """Returns the rows of the plan for which EXISTS, IN or a quantified comparison is true, or false if negated."""
    inner = expand_subqueries(query.plan)
    if query.kind == "EXISTS":
        inner = _without_outer_values(inner, query.correlation)
    right, conditions = _decorrelated(inner, query.correlation)
    width = plan.width
    own = [_joined(each, query.correlation, width) for each in conditions]
    kind = JoinType.ANTI if negated else JoinType.SEMI
    for place, left in enumerate(query.left):
        value = InputRef(right.type_of(place), width + place)
        if query.kind == "IN":
            equal = operators.comparison("=", left, value)
            # NOT IN is not true if one of the values is NULL.
            if negated and equal.type.nullable:
                equal = operators.or_([equal, *(_is_null(each) for each in equal.operands if each.type.nullable)])
            own.append(equal)
        else:
            operator, quantifier = query.kind.split(" ")
            test = operators.comparison(operator, left, value)
            if quantifier == "ALL":
                kind = JoinType.SEMI if negated else JoinType.ANTI
                test = RexCall(lt.BooleanType(nullable=False), "IS NOT TRUE", (test,))
            own.append(test)
    return rel.Join(plan, right, kind, operators.and_(own))


def _is_null(node: RexNode) -> RexNode:
    return RexCall(lt.BooleanType(nullable=False), "IS NULL", (node,))


def _values(plan: rel.RelNode, expressions: tuple[RexNode, ...]) -> tuple[rel.RelNode, tuple[RexNode, ...]]:
    """Returns the plan with the values of subqueries as further columns, and the expressions over them."""
    known: dict[SubQuery, RexNode] = {}
    for expression in expressions:
        for each in walk(expression):
            if isinstance(each, SubQuery) and each not in known:
                if _has_subquery(each.left):
                    raise UnsupportedOperationError("a subquery on the left side of IN is not supported")
                plan, known[each] = _scalar(plan, each) if each.kind == "SCALAR" else _mark(plan, each)

    def change(each: RexNode) -> RexNode | None:
        return known.get(each) if isinstance(each, SubQuery) else None

    return plan, tuple(rewrite(each, change) for each in expressions)


def _scalar(plan: rel.RelNode, query: SubQuery) -> tuple[rel.RelNode, RexNode]:
    inner = expand_subqueries(query.plan)
    counts = bool(outer_columns(inner, query.correlation)) and _is_count(inner)
    has_one_row = _has_one_row(inner)
    right, conditions = _decorrelated(inner, query.correlation)
    if not has_one_row:
        kind = right.type_of(0).as_nullable()
        call = AggregateCall("SINGLE_VALUE", (0,), kind, right.names[0])
        extra = tuple(range(inner.width, right.width))
        single = rel.Aggregate(right, extra, (call,))
        columns = single.references()
        right = rel.Project(single, (columns[-1], *columns[:-1]), (single.names[-1], *single.names[:-1]))
        shift = 1 - inner.width
        conditions = [_shifted(each, shift) for each in conditions]
    width = plan.width
    own = [_joined(each, query.correlation, width) for each in conditions]
    joined = rel.Join(plan, right, JoinType.LEFT, operators.and_(own))
    value: RexNode = InputRef(joined.type_of(width), width)
    return joined, _or_zero(value) if counts else value


def _is_count(plan: rel.RelNode, column: int = 0) -> bool:
    """True if a column is a global COUNT."""
    place: RexNode = InputRef(plan.type_of(column), column)
    while isinstance(plan, rel.Project) and isinstance(place, InputRef):
        place, plan = plan.expressions[place.index], plan.input
    if not isinstance(plan, rel.Aggregate) or plan.grouping:
        if any(isinstance(each, rel.Aggregate) and _counts(each) for each in rel.walk(plan)) and _has_one_row(plan):
            raise UnsupportedOperationError("an expression over COUNT in a correlated subquery is not supported")
        return False
    return isinstance(place, InputRef) and plan.aggregates[place.index].function == "COUNT"


def _counts(node: rel.Aggregate) -> bool:
    return any(call.function == "COUNT" for call in node.aggregates)


def _or_zero(value: RexNode) -> RexNode:
    """Returns a COUNT that an outer join has made NULL where its group has no rows."""
    zero = operators.cast(Literal(lt.IntType(nullable=False), 0), value.type.not_null())
    return RexCall(value.type.not_null(), "COALESCE", (value, zero))


def _has_one_row(plan: rel.RelNode) -> bool:
    while isinstance(plan, rel.Project):
        plan = plan.input
    return isinstance(plan, rel.Aggregate) and not plan.grouping


def _mark(plan: rel.RelNode, query: SubQuery) -> tuple[rel.RelNode, RexNode]:
    """Returns the plan with a column that is TRUE where EXISTS or IN is true, and NULL elsewhere."""
    if query.kind not in ("EXISTS", "IN"):
        raise UnsupportedOperationError(f"{query.kind} of a subquery is supported as a condition of WHERE only")
    if query.kind == "IN" and query.type.nullable and query.negated:
        raise UnsupportedOperationError("NOT IN of a subquery with NULLs is supported as a condition of WHERE only")
    inner = expand_subqueries(query.plan)
    if query.kind == "EXISTS":
        inner = _without_outer_values(inner, query.correlation)
    right, conditions = _decorrelated(inner, query.correlation)
    first = inner.width if query.kind == "EXISTS" else 0
    keys = tuple(range(first, right.width))
    distinct = rel.Aggregate(right, keys, ())
    marked = rel.Project(distinct, (*distinct.references(), _ONE), (*distinct.names, "$mark"))
    width = plan.width
    own = [_joined(_shifted(each, -first), query.correlation, width) for each in conditions]
    for place, left in enumerate(query.left):
        own.append(operators.comparison("=", left, InputRef(marked.type_of(place), width + place)))
    joined = rel.Join(plan, marked, JoinType.LEFT, operators.and_(own))
    place = joined.width - 1
    test = "IS NULL" if query.negated else "IS NOT NULL"
    return joined, RexCall(lt.BooleanType(nullable=False), test, (InputRef(joined.type_of(place), place),))


def _expand_lateral(node: rel.RelNode) -> rel.RelNode:
    if not isinstance(node, rel.LateralJoin):
        return node
    inner = expand_subqueries(node.right)
    # A global aggregation has a row for each outer row, also if it aggregates none.
    has_one_row = _has_one_row(inner) and node.condition == operators.TRUE
    counts = {place for place in range(inner.width) if has_one_row and _is_count(inner, place)}
    right, conditions = _decorrelated(inner, node.correlation)
    own = [_joined(each, node.correlation, node.left.width) for each in conditions]
    condition = operators.and_([*own, *operators.conjuncts(node.condition)])
    joined = rel.Join(node.left, right, JoinType.LEFT if has_one_row else node.join_type, condition)
    if joined.width == node.width and not counts:
        return joined
    width = node.left.width
    columns = tuple(
        _or_zero(each) if place - width in counts else each
        for place, each in enumerate(joined.references()[: node.width])
    )
    return rel.Project(joined, columns, node.names)


# -- correlation ------------------------------------------------------------------------------------------------------


def _joined(condition: RexNode, correlation: int, width: int) -> RexNode:
    """Returns a condition of a correlated query as one of a join: outer columns first, then those of the query."""

    def change(each: RexNode) -> RexNode | None:
        if isinstance(each, OuterRef) and each.correlation == correlation:
            return InputRef(each.type, each.index)
        return InputRef(each.type, each.index + width) if isinstance(each, InputRef) else None

    return rewrite(condition, change)


def _shifted(node: RexNode, shift: int) -> RexNode:
    return rewrite(node, lambda each: InputRef(each.type, each.index + shift) if isinstance(each, InputRef) else None)


def _is_outer(node: RexNode, correlation: int) -> bool:
    return any(isinstance(each, OuterRef) and each.correlation == correlation for each in walk(node))


def _without_outer_values(plan: rel.RelNode, correlation: int) -> rel.RelNode:
    """Returns the query of EXISTS without the values of its SELECT, which do not matter."""
    if isinstance(plan, rel.Project) and any(_is_outer(each, correlation) for each in plan.expressions):
        return rel.Project(plan.input, (_ONE,), ("$exists",))
    return plan


def _decorrelated(plan: rel.RelNode, correlation: int) -> tuple[rel.RelNode, list[RexNode]]:
    """Pulls the conditions on outer columns out of a query.

    Returns:
        the query without them: its columns, then columns that the conditions need.
        the conditions, over its columns and OuterRefs.
    """
    if not outer_columns(plan, correlation):
        return plan, []
    match plan:
        case rel.Filter():
            below, conditions = _decorrelated(plan.input, correlation)
            own = operators.conjuncts(plan.condition)
            kept = [each for each in own if not _is_outer(each, correlation)]
            conditions += [each for each in own if _is_outer(each, correlation)]
            return (rel.Filter(below, operators.and_(kept)) if kept else below), conditions
        case rel.Project():
            below, conditions = _decorrelated(plan.input, correlation)
            if not any(_is_outer(each, correlation) for each in plan.expressions):
                return _extended(below, plan.expressions, plan.names, conditions)
        case rel.Aggregate() if plan.grouping_sets is None:
            return _decorrelated_aggregate(plan, correlation)
        case rel.Join():
            return _decorrelated_join(plan, correlation)
        case rel.Sort() if plan.limit is None and not plan.offset:
            return _decorrelated(plan.input, correlation)
    raise UnsupportedOperationError(
        f"a correlated subquery refers to a column of the query around it in {type(plan).__name__}, where no join can "
        "replace it; write the query with a join"
    )


def _extended(
    below: rel.RelNode, expressions: tuple[RexNode, ...], names: tuple[str, ...], conditions: list[RexNode]
) -> tuple[rel.RelNode, list[RexNode]]:
    """Returns a projection with the columns that the conditions need at its end, and the conditions over it."""
    columns = list(expressions)
    places: dict[int, int] = {}
    for condition in conditions:
        for each in walk(condition):
            if isinstance(each, InputRef) and each.index not in places:
                places[each.index] = len(columns)
                columns.append(each)
    extra = tuple(f"$c{place}" for place in range(len(expressions), len(columns)))

    def change(each: RexNode) -> RexNode | None:
        return InputRef(each.type, places[each.index]) if isinstance(each, InputRef) else None

    project = rel.Project(below, tuple(columns), (*names, *extra))
    return project, [rewrite(each, change) for each in conditions]


def _decorrelated_aggregate(plan: rel.Aggregate, correlation: int) -> tuple[rel.RelNode, list[RexNode]]:
    """Groups by the columns of equality conditions, too, so that each outer row finds its group."""
    below, conditions = _decorrelated(plan.input, correlation)
    keys: list[int] = []
    for condition in conditions:
        inner = _inner_column(condition, correlation)
        if inner is None:
            raise UnsupportedOperationError(
                "a correlated subquery with an aggregate may compare columns of the query around it by '=' only"
            )
        if inner not in keys and inner not in plan.grouping:
            keys.append(inner)
    grouping = (*plan.grouping, *keys)
    aggregate = rel.Aggregate(below, grouping, plan.aggregates)
    count = len(plan.grouping)
    references = aggregate.references()
    order = [*range(count), *range(len(grouping), aggregate.width), *range(count, len(grouping))]
    project = rel.Project(
        aggregate, tuple(references[each] for each in order), tuple(aggregate.names[each] for each in order)
    )
    places = {column: order.index(place) for place, column in enumerate(grouping)}

    def change(each: RexNode) -> RexNode | None:
        return InputRef(each.type, places[each.index]) if isinstance(each, InputRef) else None

    return project, [rewrite(each, change) for each in conditions]


def _inner_column(condition: RexNode, correlation: int) -> int | None:
    if not isinstance(condition, RexCall) or condition.function != "=":
        return None
    for inner, outer in (condition.arguments, condition.arguments[::-1]):
        if isinstance(inner, InputRef) and not any(isinstance(each, InputRef) for each in walk(outer)):
            return inner.index
    return None


def _decorrelated_join(plan: rel.Join, correlation: int) -> tuple[rel.RelNode, list[RexNode]]:
    is_inner = plan.join_type is JoinType.INNER
    if not is_inner and outer_columns(plan.right, correlation):
        raise UnsupportedOperationError("a correlated subquery in the right input of an outer join is not supported")
    left, left_conditions = _decorrelated(plan.left, correlation)
    right, right_conditions = _decorrelated(plan.right, correlation)
    old_left, old_right = plan.left.width, plan.right.width
    shift = left.width - old_left

    def moved(each: RexNode) -> RexNode | None:
        if isinstance(each, InputRef) and each.index >= old_left:
            return InputRef(each.type, each.index + shift)
        return None

    own = [rewrite(each, moved) for each in operators.conjuncts(plan.condition)]
    kept = [each for each in own if not _is_outer(each, correlation)]
    pulled = [each for each in own if _is_outer(each, correlation)]
    if pulled and not is_inner:
        raise UnsupportedOperationError("a correlated condition of an outer join is not supported")
    joined = replace(plan, left=left, right=right, condition=operators.and_(kept))
    conditions = [*left_conditions, *(_shifted(each, left.width) for each in right_conditions), *pulled]
    if plan.join_type in (JoinType.SEMI, JoinType.ANTI):
        return joined, left_conditions
    references = joined.references()
    columns = (*references[:old_left], *references[left.width : left.width + old_right])
    return _extended(joined, columns, plan.names, conditions)
