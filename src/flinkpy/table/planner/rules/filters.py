"""Pushes filters down to where their columns come from, and merges adjacent filters and projections.

Source: org.apache.flink.table.planner.plan.rules.FlinkStreamRuleSets (FILTER_PREPARE_RULES, PROJECT_RULES).
"""

from __future__ import annotations

from dataclasses import replace

from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import InputRef, RexNode, moved
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.rules.expressions import (
    columns_of,
    is_inlinable,
    simplified,
    substituted,
)
from flinkpy.table.planner.rules.outer_joins import without_padding


def push_filters(plan: rel.RelNode) -> rel.RelNode:
    """Returns the plan with each conjunct of its filters as far down as it may be."""
    return _push(plan, [])


def _push(node: rel.RelNode, conditions: list[RexNode]) -> rel.RelNode:
    """Returns the node filtered by the conditions, which are over its columns."""
    match node:
        case rel.Filter():
            own = operators.conjuncts(simplified(node.condition))
            return _push(node.input, [*own, *(each for each in conditions if each not in own)])
        case rel.Project() if is_inlinable(node.expressions):
            below = [simplified(substituted(each, node.expressions)) for each in conditions]
            return replace(node, input=_push(node.input, below))
        case rel.Join():
            return _push_join(node, conditions)
        case rel.SetOperation() if node.kind == "UNION":
            return replace(node, parts=tuple(_push(part, conditions) for part in node.parts))
        case rel.Aggregate() if node.grouping and node.grouping_sets is None:
            count = len(node.grouping)
            below, here = _split(conditions, lambda each: max(columns_of(each), default=0) < count)
            keys = dict(enumerate(node.grouping))
            pushed = _push(node.input, [moved(each, keys) for each in below])
            return _filtered(replace(node, input=pushed), here)
        case rel.Correlate() if node.join_type is JoinType.INNER:
            width = node.input.width
            below, here = _split(conditions, lambda each: max(columns_of(each), default=0) < width)
            own, above = _split(here, lambda each: min(columns_of(each)) >= width)
            condition = operators.and_([*operators.conjuncts(node.condition), *own]) if own else node.condition
            return _filtered(replace(node, input=_push(node.input, below), condition=condition), above)
        case rel.OverAggregate() if conditions:
            keys_of_all = set.intersection(*(set(group.partition) for group in node.groups))
            below, here = _split(conditions, lambda each: bool(columns_of(each)) and columns_of(each) <= keys_of_all)
            return _filtered(replace(node, input=_push(node.input, below)), here)
        case rel.Match() if conditions:
            count, keys = len(node.partition), dict(enumerate(node.partition))
            below, here = _split(conditions, lambda each: max(columns_of(each), default=count) < count)
            pushed = _push(node.input, [moved(each, keys) for each in below])
            return _filtered(replace(node, input=pushed), here)
    inputs = tuple(_push(each, []) for each in node.inputs)
    return _filtered(node.with_inputs(inputs) if inputs else node, conditions)


def _split(conditions: list[RexNode], test: object) -> tuple[list[RexNode], list[RexNode]]:
    yes: list[RexNode] = []
    no: list[RexNode] = []
    for each in conditions:
        (yes if is_inlinable((each,)) and test(each) else no).append(each)  # type: ignore[operator]
    return yes, no


def _filtered(node: rel.RelNode, conditions: list[RexNode]) -> rel.RelNode:
    if not conditions:
        return node
    condition = operators.and_(conditions)
    return node if condition == operators.TRUE else rel.Filter(node, condition)


def _push_join(node: rel.Join, conditions: list[RexNode]) -> rel.RelNode:
    """Pushes conditions above and in the join to the inputs, as far as the kind of the join allows it."""
    width = node.left.width
    own = operators.conjuncts(simplified(node.condition))
    is_snapshot = isinstance(node.right, rel.Snapshot)
    kind = node.join_type if is_snapshot else without_padding(node.join_type, conditions, width)
    to_left: list[RexNode] = []
    to_right: list[RexNode] = []
    stay: list[RexNode] = []
    above: list[RexNode] = []
    for each in conditions:
        side = _side(each, width) if is_inlinable((each,)) else None
        if side == "left" and kind in (JoinType.INNER, JoinType.LEFT, JoinType.SEMI, JoinType.ANTI):
            to_left.append(each)
        elif side == "right" and kind in (JoinType.INNER, JoinType.RIGHT) and not is_snapshot:
            to_right.append(each)
        elif kind is JoinType.INNER and is_inlinable((each,)):
            own.append(each)
        else:
            above.append(each)
    for each in own:
        side = _side(each, width) if is_inlinable((each,)) else None
        if side == "left" and kind in (JoinType.INNER, JoinType.RIGHT, JoinType.SEMI):
            to_left.append(each)
        elif (
            side == "right"
            and kind in (JoinType.INNER, JoinType.LEFT, JoinType.SEMI, JoinType.ANTI)
            and (not is_snapshot)
        ):
            to_right.append(each)
        elif each not in stay:
            stay.append(each)
    left = _push(node.left, to_left)
    right = _push(node.right, [moved(each, lambda place: place - width) for each in to_right])
    joined = replace(node, left=left, right=right, join_type=kind, condition=operators.and_(stay))
    return _filtered(joined, above)


def _side(condition: RexNode, width: int) -> str | None:
    columns = columns_of(condition)
    if not columns:
        return None
    if max(columns) < width:
        return "left"
    return "right" if min(columns) >= width else None


def merge_projections(plan: rel.RelNode) -> rel.RelNode:
    """Returns the plan with adjacent projections merged."""

    def change(node: rel.RelNode) -> rel.RelNode:
        if not isinstance(node, rel.Project) or not isinstance(node.input, rel.Project):
            return node
        below = node.input
        if not (is_inlinable(below.expressions) or _used_once(node, below)):
            return node
        merged = tuple(simplified(substituted(each, below.expressions)) for each in node.expressions)
        names = node.field_names
        if isinstance(node, rel.Project):
            return rel.Project(below.input, merged, names)
        return node

    return rel.transform(plan, change)


def _used_once(node: rel.Project, below: rel.Project) -> bool:
    """True if each expression below that must not be repeated is passed on at most once and as it is."""
    fixed = [place for place, each in enumerate(below.expressions) if not is_inlinable((each,))]
    for place in fixed:
        uses = [each for each in node.expressions if place in columns_of(each)]
        if len(uses) > 1 or any(not isinstance(each, InputRef) for each in uses):
            return False
    return True


def push_join_keys(plan: rel.RelNode) -> rel.RelNode:
    """Returns the plan with equality conditions of joins between columns only.

    An expression such as `MOD(a, 10) = b` becomes a column of the input, so that rows can be partitioned by it.
    """

    def change(node: rel.RelNode) -> rel.RelNode:
        if not isinstance(node, rel.Join):
            return node
        width = node.left.width
        left: list[RexNode] = list(node.left.references())
        right: list[RexNode] = list(node.right.references())
        pairs: list[tuple[RexNode, RexNode] | RexNode] = []
        for each in operators.conjuncts(node.condition):
            sides = _equality(each, width)
            pairs.append(each if sides is None else sides)
        added_left = [a for pair in pairs if isinstance(pair, tuple) and not isinstance(a := pair[0], InputRef)]
        is_snapshot = isinstance(node.right, rel.Snapshot)
        added_right = [
            b
            for pair in pairs
            if isinstance(pair, tuple) and not isinstance(b := pair[1], InputRef) and not is_snapshot
        ]
        if not added_left and not added_right:
            return node
        left += list(dict.fromkeys(added_left))
        right += list(dict.fromkeys(added_right))
        shift = len(left) - width
        conditions: list[RexNode] = []
        for pair in pairs:
            if not isinstance(pair, tuple):
                conditions.append(moved(pair, lambda place: place if place < width else place + shift))
                continue
            a, b = pair
            a_ref: RexNode = a if isinstance(a, InputRef) else InputRef(a.type, left.index(a))
            if isinstance(b, InputRef) or b in right:
                b = InputRef(b.type, len(left) + right.index(b))
            else:
                b = moved(b, lambda place: place + len(left))
            conditions.append(operators.comparison("=", a_ref, b))
        new_left = _with_columns(node.left, left)
        new_right = _with_columns(node.right, right)
        joined = rel.Join(new_left, new_right, node.join_type, operators.and_(conditions), node.hints)
        kept = [*range(width), *(len(left) + place for place in range(node.right.width))]
        if node.join_type in (JoinType.SEMI, JoinType.ANTI):
            kept = list(range(width))
        references = joined.references()
        return rel.Project(joined, tuple(references[place] for place in kept), node.names)

    return rel.transform(plan, change)


def _with_columns(node: rel.RelNode, columns: list[RexNode]) -> rel.RelNode:
    if len(columns) == node.width:
        return node
    extra = tuple(f"$f{place}" for place in range(node.width, len(columns)))
    return rel.Project(node, tuple(columns), (*node.names, *extra))


def _equality(condition: RexNode, width: int) -> tuple[RexNode, RexNode] | None:
    """Returns the sides of an equality of the two inputs, each over its own input; None for other conditions."""
    from flinkpy.sql.rex import RexCall

    if not isinstance(condition, RexCall) or condition.function != "=" or not is_inlinable((condition,)):
        return None
    a, b = condition.arguments
    sides = _side(a, width), _side(b, width)
    if sides == ("right", "left"):
        a, b, sides = b, a, ("left", "right")
    if sides != ("left", "right"):
        return None
    return a, moved(b, lambda place: place - width)
