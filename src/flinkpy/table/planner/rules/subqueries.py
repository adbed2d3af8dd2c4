"""Replaces subqueries by joins, correlated ones included.

Source: org.apache.flink.table.planner.plan.rules.logical.{FlinkSubQueryRemoveRule, SubQueryDecorrelator}.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import AggregateCall, InputRef, Literal, RexCall, RexNode, moved, rewrite, walk
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.rex_nodes import OuterRef, SubQuery
from flinkpy.table.planner.logical.traversal import expressions_of, rewrite_plan
from flinkpy.table.planner.rules.dependent_joins import count_or_zero, join_with_values, same_values
from flinkpy.table.planner.rules.expressions import (
    columns_of,
    has_subquery,
    is_inlinable,
    outer_columns,
    substituted,
)
from flinkpy.table.planner.rules.join_conditions import conditions_on_partner

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
        case rel.Join() if node.join_type in (JoinType.LEFT, JoinType.RIGHT, JoinType.FULL):
            return _expand_outer_join(node)
    raise UnsupportedOperationError(f"a subquery in {type(node).__name__} is not supported")


def _expand_outer_join(node: rel.Join) -> rel.RelNode:
    """Filters the input that may be missing in the result by conditions on it; the inputs get the other values."""
    width = node.left.width
    filtered_side = {JoinType.LEFT: range(width, node.width), JoinType.RIGHT: range(width)}.get(
        node.join_type, range(0)
    )
    filters: list[RexNode] = []
    rest: list[RexNode] = []
    for each in operators.conjuncts(node.condition):
        is_filter = has_subquery(each) and filtered_side and columns_of(each) <= set(filtered_side)
        (filters if is_filter else rest).append(each)
    node = replace(node, condition=operators.and_(rest))
    if filters and node.join_type is JoinType.RIGHT:
        node = replace(node, left=_expand_filter(rel.Filter(node.left, operators.and_(filters))))
    elif filters:
        filtered = rel.Filter(node.right, operators.and_([_over_right(each, width) for each in filters]))
        node = replace(node, right=_expand_filter(filtered))
    return _join_with_subqueries(node) if has_subquery(node.condition) else node


def _join_with_subqueries(node: rel.Join) -> rel.RelNode:
    """Returns the join whose inputs have the values of the subqueries in its condition as further columns."""
    width = node.left.width
    of_left: list[SubQuery] = []
    of_right: list[SubQuery] = []
    for each in dict.fromkeys(each for each in walk(node.condition) if isinstance(each, SubQuery)):
        columns = columns_of(each)
        if columns and max(columns) < width:
            of_left.append(each)
        elif not columns or min(columns) >= width:
            of_right.append(each)
        else:
            raise UnsupportedOperationError(
                f"a subquery in the condition of a {node.join_type.name} JOIN that refers to both inputs is not "
                "supported; compute it in a query below the join"
            )
    left = _with_values(node.left, of_left)
    right = _with_values(node.right, [_over_right(each, width) for each in of_right])
    values: dict[RexNode, RexNode] = dict(zip(of_left, left.references()[width:], strict=True))
    first = left.width + node.right.width
    for place, each in enumerate(of_right):
        values[each] = InputRef(right.type_of(node.right.width + place), first + place)

    def change(each: RexNode) -> RexNode | None:
        if isinstance(each, InputRef) and each.index >= width:
            return InputRef(each.type, each.index - width + left.width)
        return values.get(each) if isinstance(each, SubQuery) else None

    joined = rel.Join(left, right, node.join_type, rewrite(node.condition, change), node.hints)
    references = joined.references()
    return rel.Project(joined, (*references[:width], *references[left.width : first]), node.names)


def _with_values(plan: rel.RelNode, queries: Sequence[RexNode]) -> rel.RelNode:
    """Returns the plan with the values of subqueries as further columns."""
    if not queries:
        return plan
    below, values = _values(plan, tuple(queries))
    names = (*plan.names, *(f"$f{plan.width + place}" for place in range(len(values))))
    return rel.Project(below, (*below.references()[: plan.width], *values), rel.unique_names(names))


def _over_right(condition: RexNode, width: int) -> RexNode:
    """Returns a condition on the right input of a join over this input alone.

    Args:
        width: the number of columns of the left input.
    """
    correlations = {each.correlation for each in walk(condition) if isinstance(each, SubQuery)}

    def moved(each: RexNode) -> RexNode | None:
        if isinstance(each, OuterRef) and each.correlation in correlations:
            return OuterRef(each.type, each.correlation, each.index - width)
        if isinstance(each, SubQuery):
            left = tuple(rewrite(value, moved) for value in each.left)
            return replace(each, plan=rewrite_plan(each.plan, outer_moved), left=left)
        return InputRef(each.type, each.index - width) if isinstance(each, InputRef) else None

    def outer_moved(each: RexNode) -> RexNode | None:
        return moved(each) if isinstance(each, OuterRef) else None

    return rewrite(condition, moved)


def _expand_filter(node: rel.Filter) -> rel.RelNode:
    plan: rel.RelNode = node.input
    width = plan.width
    rest: list[RexNode] = []
    for condition in operators.conjuncts(node.condition):
        inner, negated = condition, False
        if isinstance(inner, RexCall) and inner.function == "NOT":
            inner, negated = inner.arguments[0], True
        if isinstance(inner, SubQuery) and inner.kind == "EXISTS" and _has_one_row(inner.plan):
            rest.append(operators.FALSE if inner.negated != negated else operators.TRUE)
        elif isinstance(inner, SubQuery) and inner.kind != "SCALAR" and not _has_subquery(inner.left):
            plan = _semi_join(plan, inner, inner.negated != negated)
        else:
            rest.append(condition)
    plain = [each for each in rest if not has_subquery(each)]
    if plain and len(plain) < len(rest):
        plan, rest = rel.Filter(plan, operators.and_(plain)), [each for each in rest if has_subquery(each)]
    plan, values = _values(plan, tuple(rest), is_condition=True)
    if values:
        plan = rel.Filter(plan, operators.and_(list(values)))
    if plan.width == width:
        return plan
    return rel.Project(plan, plan.references()[:width], plan.names[:width])


def _has_subquery(nodes: tuple[RexNode, ...]) -> bool:
    return any(has_subquery(node) for node in nodes)


def _semi_join(plan: rel.RelNode, query: SubQuery, negated: bool) -> rel.RelNode:
    """Returns the rows of the plan for which EXISTS, IN or a quantified comparison is true, or false if negated."""
    inner = expand_subqueries(query.plan)
    if query.kind == "EXISTS":
        inner = _without_outer_values(inner, query.correlation)
    right, conditions = _uncorrelated(plan, inner, query.correlation)
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
                test = _test("IS NOT TRUE", test)
            own.append(test)
    return rel.Join(plan, right, kind, operators.and_(own))


def _test(name: str, node: RexNode) -> RexNode:
    return RexCall(lt.BooleanType(nullable=False), name, (node,))


def _is_null(node: RexNode) -> RexNode:
    return _test("IS NULL", node)


def _values(
    plan: rel.RelNode, expressions: tuple[RexNode, ...], *, is_condition: bool = False
) -> tuple[rel.RelNode, tuple[RexNode, ...]]:
    """Returns the plan with the values of subqueries as further columns, and the expressions over them.

    Args:
        is_condition: True if rows are dropped for which an expression is NULL, as for those for which it is false.
    """
    known: dict[SubQuery, RexNode] = {}
    tests = _plain_tests(expressions) if is_condition else set()
    for expression in expressions:
        for each in walk(expression):
            if isinstance(each, SubQuery) and each not in known:
                if _has_subquery(each.left):
                    raise UnsupportedOperationError("a subquery on the left side of IN is not supported")
                if each.kind == "SCALAR":
                    plan, known[each] = _scalar(plan, each)
                else:
                    plan, known[each] = _mark(plan, each, null_is_false=each in tests)

    def change(each: RexNode) -> RexNode | None:
        return known.get(each) if isinstance(each, SubQuery) else None

    return plan, tuple(rewrite(each, change) for each in expressions)


def _plain_tests(conditions: tuple[RexNode, ...]) -> set[SubQuery]:
    """Returns the subqueries that are operands of AND and OR only, so that their NULL means the same as FALSE."""
    found: set[SubQuery] = set()
    elsewhere: set[SubQuery] = set()

    def visit(node: RexNode) -> None:
        if isinstance(node, SubQuery):
            found.add(node)
        elif isinstance(node, RexCall) and node.function in ("AND", "OR"):
            for each in node.arguments:
                visit(each)
        else:
            elsewhere.update(each for each in walk(node) if isinstance(each, SubQuery))

    for condition in conditions:
        visit(condition)
    return found - elsewhere


# -- values of one row -------------------------------------------------------------------------------------------------


def _scalar(plan: rel.RelNode, query: SubQuery) -> tuple[rel.RelNode, RexNode]:
    inner = expand_subqueries(query.plan)
    found = _above_aggregate(inner, query.correlation)
    if found is not None:
        plan, values = _with_aggregates(plan, *found, query.correlation)
        return plan, values[0]
    right, conditions = _uncorrelated(plan, inner, query.correlation)
    call = AggregateCall("SINGLE_VALUE", (0,), right.type_of(0).as_nullable(), right.names[0])
    keys, conditions = _keys_of(conditions)
    single = rel.Aggregate(right, keys, (call,))
    columns = single.references()
    right = rel.Project(single, (columns[-1], *columns[:-1]), (single.names[-1], *single.names[:-1]))
    width = plan.width
    own = [_joined(_shifted(each, 1), query.correlation, width) for each in conditions]
    # A key that no row of the plan has may have several rows, of which SINGLE_VALUE must not know.
    wanted = conditions_on_partner(plan, own)
    right = rel.Filter(right, operators.and_(wanted)) if wanted else right
    joined = rel.Join(plan, right, JoinType.LEFT, operators.and_(own))
    return joined, InputRef(joined.type_of(width), width)


def _above_aggregate(plan: rel.RelNode, correlation: int) -> tuple[tuple[RexNode, ...], rel.Aggregate] | None:
    """Returns the columns of a query over its global aggregation; None if it is another query."""
    values = plan.references()
    while isinstance(plan, rel.Project):
        if not is_inlinable(plan.expressions) or any(_is_outer(each, correlation) for each in plan.expressions):
            return None
        values = tuple(substituted(each, plan.expressions) for each in values)
        plan = plan.input
    return (values, plan) if isinstance(plan, rel.Aggregate) and not plan.grouping else None


def _with_aggregates(
    plan: rel.RelNode, values: tuple[RexNode, ...], aggregate: rel.Aggregate, correlation: int
) -> tuple[rel.RelNode, tuple[RexNode, ...]]:
    """Joins the results of a global aggregation. Returns the values, which are over these results, in the join.

    They are computed above the join, because COUNT is 0 and not NULL for rows of the plan that nothing is found for.
    """
    is_correlated = bool(outer_columns(aggregate, correlation))
    right, conditions = _uncorrelated(plan, aggregate, correlation, leaves_out_empty=True)
    width = plan.width
    own = [_joined(each, correlation, width) for each in conditions]
    joined = rel.Join(plan, right, JoinType.LEFT, operators.and_(own))
    results = [
        count_or_zero(each) if is_correlated and call.function == "COUNT" else each
        for call, each in zip(aggregate.aggregates, joined.references()[width:], strict=False)
    ]
    return joined, tuple(substituted(each, results) for each in values)


def _has_one_row(plan: rel.RelNode) -> bool:
    while isinstance(plan, rel.Project) or (isinstance(plan, rel.Sort) and plan.limit is None and not plan.offset):
        plan = plan.input
    return isinstance(plan, rel.Aggregate) and not plan.grouping and plan.grouping_sets is None


# -- marks -------------------------------------------------------------------------------------------------------------


def _mark(plan: rel.RelNode, query: SubQuery, *, null_is_false: bool) -> tuple[rel.RelNode, RexNode]:
    """Returns the plan with further columns, and the value of EXISTS, IN or a quantified comparison over them."""
    inner = expand_subqueries(query.plan)
    if query.kind == "EXISTS":
        if _has_one_row(inner):
            return plan, operators.FALSE if query.negated else operators.TRUE
        inner = _without_outer_values(inner, query.correlation)
    elif query.kind != "IN" or (_may_be_null(query, inner) and len(query.left) > 1):
        return _counted(plan, query, inner)
    right, conditions = _uncorrelated(plan, inner, query.correlation, by_keys=True)
    needs_null = query.kind == "IN" and _may_be_null(query, inner) and (query.negated or not null_is_false)
    joined, mark = _marked(plan, query, right, conditions)
    if not needs_null:
        return joined, _test("IS NULL" if query.negated else "IS NOT NULL", mark)
    joined, (total, known) = _sizes(joined, right, conditions, query.correlation)
    zero = operators.cast(Literal(lt.IntType(nullable=False), 0), total.type.not_null())
    unknown = operators.or_([_is_null(query.left[0]), operators.comparison("<", known, total)])
    value = operators.case(
        [
            (_test("IS NOT NULL", mark), operators.TRUE),
            (operators.comparison("=", total, zero), operators.FALSE),
            (unknown, Literal(lt.BooleanType(), None)),
        ],
        operators.FALSE,
    )
    return joined, operators.not_(value) if query.negated else value


def _may_be_null(query: SubQuery, inner: rel.RelNode) -> bool:
    types = [each.type for each in query.left] + [each.type for each in inner.row_type.fields[: len(query.left)]]
    return any(each.nullable for each in types)


def _marked(
    plan: rel.RelNode, query: SubQuery, right: rel.RelNode, conditions: list[RexNode]
) -> tuple[rel.RelNode, RexNode]:
    """Returns the plan with a column that is TRUE where the query has a row for it, and NULL elsewhere."""
    keys, conditions = _keys_of(conditions)
    count = len(query.left)
    groups = (*range(count), *keys)
    if not groups:
        # An aggregate without keys has a row even where the query has none.
        right, groups = rel.Project(right, (_ONE,), ("$exists",)), (0,)
    distinct = rel.Aggregate(right, groups, ())
    marked = rel.Project(distinct, (*distinct.references(), _ONE), (*distinct.names, "$mark"))
    width = plan.width
    own = [_joined(_shifted(each, count), query.correlation, width) for each in conditions]
    for place, left in enumerate(query.left):
        own.append(operators.comparison("=", left, InputRef(marked.type_of(place), width + place)))
    joined = rel.Join(plan, marked, JoinType.LEFT, operators.and_(own))
    place = joined.width - 1
    return joined, InputRef(joined.type_of(place), place)


def _sizes(
    plan: rel.RelNode, right: rel.RelNode, conditions: list[RexNode], correlation: int
) -> tuple[rel.RelNode, tuple[RexNode, RexNode]]:
    """Returns the plan with the number of rows of the query, and of those whose first column is not NULL."""
    keys, conditions = _keys_of(conditions)
    kind = lt.BigIntType(nullable=False)
    calls = (AggregateCall("COUNT", (), kind, "$total"), AggregateCall("COUNT", (0,), kind, "$known"))
    sizes = rel.Aggregate(right, keys, calls)
    width = plan.width
    own = [_joined(each, correlation, width) for each in conditions]
    joined = rel.Join(plan, sizes, JoinType.LEFT, operators.and_(own))
    *_, total, known = joined.references()
    return joined, (count_or_zero(total), count_or_zero(known))


def _counted(plan: rel.RelNode, query: SubQuery, inner: rel.RelNode) -> tuple[rel.RelNode, RexNode]:
    """Counts the rows of the query for which a comparison is true, and for which it is unknown."""
    negated = query.negated

    def outer(each: RexNode) -> RexNode | None:
        return OuterRef(each.type, query.correlation, each.index) if isinstance(each, InputRef) else None

    left = [rewrite(each, outer) for each in query.left]
    operator, quantifier = ("=", "SOME") if query.kind == "IN" else query.kind.split(" ")
    pairs = zip(left, inner.references(), strict=False)
    test = operators.and_([operators.comparison(operator, a, b) for a, b in pairs])
    if quantifier == "ALL":
        # All comparisons are true unless one is false.
        test, negated = operators.not_(test), not negated
    flags = rel.Project(inner, (_test("IS TRUE", test), _is_null(test)), ("$true", "$unknown"))
    kind = lt.BigIntType(nullable=False)
    calls = tuple(AggregateCall("COUNT", (), kind, name, False, place) for place, name in enumerate(flags.names))
    aggregate = rel.Aggregate(flags, (), calls)
    joined, counts = _with_aggregates(plan, aggregate.references(), aggregate, query.correlation)
    zero = operators.cast(Literal(lt.IntType(nullable=False), 0), kind)
    true, unknown = (operators.comparison(">", _or_zero(each), zero) for each in counts)
    value = operators.case([(true, operators.TRUE), (unknown, Literal(lt.BooleanType(), None))], operators.FALSE)
    return joined, operators.not_(value) if negated else value


def _or_zero(value: RexNode) -> RexNode:
    return count_or_zero(value) if isinstance(value, InputRef) else value


def _expand_lateral(node: rel.RelNode) -> rel.RelNode:
    if not isinstance(node, rel.LateralJoin):
        return node
    inner = expand_subqueries(node.right)
    found = _above_aggregate(inner, node.correlation) if node.condition == operators.TRUE else None
    if found is not None:
        # A global aggregation has a row for each outer row, also if it aggregates none.
        joined, values = _with_aggregates(node.left, *found, node.correlation)
        return rel.Project(joined, (*joined.references()[: node.left.width], *values), node.names)
    right, conditions = _uncorrelated(node.left, inner, node.correlation)
    own = [_joined(each, node.correlation, node.left.width) for each in conditions]
    condition = operators.and_([*own, *operators.conjuncts(node.condition)])
    joined = rel.Join(node.left, right, node.join_type, condition)
    if joined.width == node.width:
        return joined
    return rel.Project(joined, joined.references()[: node.width], node.names)


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


def _uncorrelated(
    plan: rel.RelNode,
    inner: rel.RelNode,
    correlation: int,
    *,
    by_keys: bool = False,
    leaves_out_empty: bool = False,
) -> tuple[rel.RelNode, list[RexNode]]:
    """Returns a query without references to outer columns, and the conditions that join it to the outer plan.

    Args:
        by_keys: True if the conditions have to be equalities with columns of the query.
        leaves_out_empty: as in `join_with_values`.

    Returns:
        the query: its columns, then columns that the conditions need.
        the conditions, over its columns and OuterRefs.
    """
    pulled = _pulled_up(inner, correlation)
    if pulled is not None and not (by_keys and any(_inner_column(each, correlation) is None for each in pulled[1])):
        return pulled
    columns = tuple(sorted(outer_columns(inner, correlation)))
    references = [plan.references()[each] for each in columns]
    names = tuple(plan.names[each] for each in columns)
    values = rel.Aggregate(rel.Project(plan, tuple(references), names), tuple(range(len(columns))), ())
    right = join_with_values(inner, correlation, values, columns, leaves_out_empty=leaves_out_empty)
    outer = [OuterRef(each.type, correlation, column) for each, column in zip(references, columns, strict=True)]
    return right, operators.conjuncts(same_values(outer, right.references()[-len(columns) :]))


def _pulled_up(plan: rel.RelNode, correlation: int) -> tuple[rel.RelNode, list[RexNode]] | None:
    """Returns what `_decorrelated` does; None if a condition on outer columns cannot be pulled out of the query."""
    try:
        return _decorrelated(plan, correlation)
    except UnsupportedOperationError:
        return None


def _keys_of(conditions: list[RexNode]) -> tuple[tuple[int, ...], list[RexNode]]:
    """Returns the columns of a query that conditions use, and the conditions over these columns alone."""
    keys = tuple(sorted(columns_of(*conditions)))
    places = {column: place for place, column in enumerate(keys)}
    return keys, [moved(each, places) for each in conditions]


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
    aggregate = replace(plan, input=below, grouping=grouping)
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
    if not isinstance(condition, RexCall) or condition.function not in ("=", "IS NOT DISTINCT FROM"):
        return None
    for inner, outer in (condition.arguments, condition.arguments[::-1]):
        if isinstance(inner, InputRef) and not any(isinstance(each, InputRef) for each in walk(outer)):
            return inner.index
    return None


def _decorrelated_join(plan: rel.Join, correlation: int) -> tuple[rel.RelNode, list[RexNode]]:
    is_inner = plan.join_type is JoinType.INNER
    if not is_inner and outer_columns(plan.right, correlation):
        raise UnsupportedOperationError("a correlated subquery in the right input of an outer join is not supported")
    if plan.join_type in (JoinType.RIGHT, JoinType.FULL) and outer_columns(plan.left, correlation):
        raise UnsupportedOperationError(
            "a correlated subquery in the left input of a right or full outer join is not supported"
        )
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
