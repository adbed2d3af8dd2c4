"""Recognises GROUP BY, joins and ranks of the windows of a window table function.

Source: org.apache.flink.table.planner.plan.metadata.FlinkRelMdWindowProperties,
org.apache.flink.table.planner.plan.rules.physical.stream.PullUpWindowTableFunctionIntoWindowAggregateRule.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from flinkpy.graph.table_specs import JoinType
from flinkpy.sql.rex import InputRef, RexCall, RexNode
from flinkpy.sql.types.logical_types import LogicalType
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.rules.expressions import columns_of
from flinkpy.table.planner.rules.grouping_sets import column_of
from flinkpy.table.planner.rules.pruning import call_columns, call_over


@dataclass(frozen=True, slots=True)
class WindowProperties:
    """The columns of a node that are bounds of windows.

    Attributes:
        starts, ends, times: the columns with window_start, window_end and window_time.
        time_type: the type of the time attribute that the windows are of.
    """

    starts: frozenset[int]
    ends: frozenset[int]
    times: frozenset[int]
    window: rel.Window
    time_type: LogicalType

    def mapped(self, mapping: dict[int, list[int]]) -> WindowProperties | None:
        """Returns the properties with columns renumbered; None without start or end."""

        def places(columns: frozenset[int]) -> frozenset[int]:
            return frozenset(new for old in columns for new in mapping.get(old, ()))

        starts, ends, times = places(self.starts), places(self.ends), places(self.times)
        return WindowProperties(starts, ends, times, self.window, self.time_type) if starts and ends else None


def window_properties(node: rel.RelNode) -> WindowProperties | None:
    """Returns which columns of a node are bounds of windows; None if there are none."""
    match node:
        case rel.WindowTableFunction():
            first = node.input.width
            window = replace(node.window, partition=())
            start, end, time = (frozenset({first + each}) for each in range(3))
            return WindowProperties(start, end, time, window, node.input.type_of(node.time_column))
        case rel.WindowAggregate():
            first = len(node.grouping) + len(node.aggregates)
            places = {name: frozenset({first + at}) for at, name in enumerate(node.properties)}
            starts, ends = places.get("window_start", frozenset()), places.get("window_end", frozenset())
            if not starts or not ends:
                return None
            window = replace(node.window, partition=())
            return WindowProperties(starts, ends, places.get("window_time", frozenset()), window, node.time_type)
        case rel.Project():
            below = window_properties(node.input)
            if below is None:
                return None
            mapping: dict[int, list[int]] = {}
            for new, expression in enumerate(node.expressions):
                if isinstance(expression, InputRef):
                    mapping.setdefault(expression.index, []).append(new)
            return below.mapped(mapping)
        case rel.Filter() | rel.OverAggregate():
            return window_properties(node.input)
        case rel.Expand():
            below = window_properties(node.input)
            passed = [(place, column_of(node, place)) for place in range(node.width)]
            return None if below is None else below.mapped({old: [new] for new, old in passed if old is not None})
        case rel.Rank():
            below = window_properties(node.input)
            if below is None or not (below.starts & set(node.partition) and below.ends & set(node.partition)):
                return None
            return below
        case rel.Join():
            return _join_properties(node)
        case rel.SetOperation() if node.kind == "UNION":
            parts_ = [window_properties(each) for each in node.parts]
            return parts_[0] if all(each is not None and each == parts_[0] for each in parts_) else None
    return None


def _join_properties(node: rel.Join) -> WindowProperties | None:
    if window_join(node) is None:
        return None
    left, right = window_properties(node.left), window_properties(node.right)
    assert left is not None
    assert right is not None
    if node.join_type in (JoinType.SEMI, JoinType.ANTI):
        return left
    width = node.left.width
    shifted = right.mapped({place: [place + width] for place in range(node.right.width)})
    assert shifted is not None
    if node.join_type is JoinType.LEFT:
        return left
    if node.join_type is JoinType.RIGHT:
        return shifted
    if node.join_type is JoinType.FULL:
        return None
    return replace(
        left, starts=left.starts | shifted.starts, ends=left.ends | shifted.ends, times=left.times | shifted.times
    )


@dataclass(frozen=True, slots=True)
class WindowJoinColumns:
    """The columns with the bounds of windows on both sides, and the rest of the condition."""

    left: WindowProperties
    right: WindowProperties
    left_bounds: tuple[int, int]
    right_bounds: tuple[int, int]
    rest: tuple[RexNode, ...]


def window_join(node: rel.Join) -> WindowJoinColumns | None:
    """Returns the bounds by which a join is one of windows: equality of start and end, of the same windows."""
    left, right = window_properties(node.left), window_properties(node.right)
    if left is None or right is None or left.window != right.window:
        return None
    width = node.left.width
    starts: tuple[int, int] | None = None
    ends: tuple[int, int] | None = None
    rest = []
    for each in operators.conjuncts(node.condition):
        pair = equal_columns(each, width)
        if pair is not None and pair[0] in left.starts and pair[1] in right.starts:
            starts = pair
        elif pair is not None and pair[0] in left.ends and pair[1] in right.ends:
            ends = pair
        else:
            rest.append(each)
    if starts is None or ends is None:
        return None
    return WindowJoinColumns(left, right, (starts[0], ends[0]), (starts[1], ends[1]), tuple(rest))


def equal_columns(condition: RexNode, width: int) -> tuple[int, int] | None:
    """Returns the columns of `left = right` in a join, each counted in its own input; None for other conditions."""
    if not isinstance(condition, RexCall) or condition.function not in ("=", "IS NOT DISTINCT FROM"):
        return None
    a, b = condition.arguments
    if not isinstance(a, InputRef) or not isinstance(b, InputRef):
        return None
    low, high = sorted((a.index, b.index))
    return (low, high - width) if low < width <= high else None


def recognise_window_aggregates(plan: rel.RelNode) -> rel.RelNode:
    """Returns the plan with each GROUP BY of window_start and window_end as a WindowAggregate."""
    return rel.transform(plan, lambda node: _aggregate(node) if isinstance(node, rel.Aggregate) else node)


def _aggregate(node: rel.Aggregate) -> rel.RelNode:
    found = window_properties(node.input)
    if found is None or node.grouping_sets is not None:
        return node
    keys = set(node.grouping)
    if not (found.starts & keys and found.ends & keys):
        return node
    bounds = found.starts | found.ends | found.times
    grouping = tuple(each for each in node.grouping if each not in bounds)
    properties = ["window_start", "window_end"]
    if found.times & keys:
        properties.append("window_time")
    merged = _without_function(node, grouping)
    if merged is None:
        pair = (min(found.starts & keys), min(found.ends & keys))
        aggregate = rel.WindowAggregate(
            node.input, grouping, node.aggregates, found.window, None, pair, found.time_type, tuple(properties)
        )
    else:
        below, time_column, window, mapping = merged
        aggregate = rel.WindowAggregate(
            below,
            tuple(mapping[each] for each in grouping),
            tuple(call_over(each, mapping) for each in node.aggregates),
            window,
            time_column,
            None,
            found.time_type,
            tuple(properties),
        )
    references = aggregate.references()
    count, first = len(grouping), len(grouping) + len(node.aggregates)
    kinds = [(found.starts, "window_start"), (found.ends, "window_end"), (found.times, "window_time")]
    columns: list[RexNode] = []
    for key in node.grouping:
        name = next((name for places, name in kinds if key in places), None)
        columns.append(references[grouping.index(key) if name is None else first + properties.index(name)])
    columns += references[count:first]
    return rel.Project(aggregate, tuple(columns), node.names)


def _without_function(
    node: rel.Aggregate, grouping: tuple[int, ...]
) -> tuple[rel.RelNode, int, rel.Window, dict[int, int]] | None:
    """Returns the aggregate's input without the window function below it, so that the aggregate assigns windows.

    None if the input has no window function just below, or computes with the bounds of windows.

    Returns:
        the input, its time column, the window, and where the columns that the aggregate needs are.
    """
    needed = sorted(set(grouping) | call_columns(node.aggregates))
    project = node.input if isinstance(node.input, rel.Project) else None
    expressions = project.expressions if project is not None else node.input.references()
    names = node.input.names
    below = project.input if project is not None else node.input
    conditions: list[RexNode] = []
    if isinstance(below, rel.Filter):
        conditions, below = operators.conjuncts(below.condition), below.input
    if not isinstance(below, rel.WindowTableFunction):
        return None
    source, width = below.input, below.input.width
    if any(place >= width for place in columns_of(*(expressions[each] for each in needed), *conditions)):
        return None
    if below.window.kind == "SESSION":
        # A filter would change the sessions, and so would other keys.
        keys = {expressions[each] for each in grouping}
        if conditions or keys != {InputRef(below.input.type_of(each), each) for each in below.window.partition}:
            return None
    columns = [expressions[each] for each in needed]
    column_names = [names[each] for each in needed]
    mapping = {old: new for new, old in enumerate(needed)}

    def column(place: int) -> int:
        reference = InputRef(source.type_of(place), place)
        if reference not in columns:
            columns.append(reference)
            column_names.append(source.names[place])
        return columns.index(reference)

    time_column = column(below.time_column)
    partition = tuple(column(each) for each in below.window.partition)
    if conditions:
        source = rel.Filter(source, operators.and_(conditions))
    if tuple(columns) != source.references():
        source = rel.Project(source, tuple(columns), rel.unique_names(tuple(column_names)))
    return source, time_column, replace(below.window, partition=partition), mapping
