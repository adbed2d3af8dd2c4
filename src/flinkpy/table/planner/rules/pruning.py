"""Removes columns that nothing above needs.

Source: org.apache.calcite.sql2rel.RelFieldTrimmer, FlinkRelFieldTrimmer.
"""

from __future__ import annotations

from dataclasses import replace
from functools import singledispatch

from flinkpy.graph.table_specs import JoinType, SortField
from flinkpy.sql.rex import AggregateCall, InputRef, Literal, RexNode, moved
from flinkpy.sql.types import logical_types as lt
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.rex_nodes import OuterRef
from flinkpy.table.planner.rules.expressions import columns_of

#: The places of the old columns in the new node.
Mapping = dict[int, int]
_ZERO = Literal(lt.IntType(nullable=False), 0)


def prune_columns(plan: rel.RelNode) -> rel.RelNode:
    """Returns a plan with the same rows whose inner nodes have only the columns that are needed."""
    return exactly(plan, list(range(plan.width)), plan.names)


def exactly(node: rel.RelNode, columns: list[int], names: tuple[str, ...]) -> rel.RelNode:
    """Returns a pruned node with exactly these columns of `node`, in this order."""
    pruned, mapping = _trim(node, set(columns))
    wanted = [mapping[each] for each in columns]
    if wanted == list(range(pruned.width)):
        return pruned
    return rel.Project(pruned, tuple(pruned.references()[each] for each in wanted), names)


@singledispatch
def _trim(node: rel.RelNode, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    """Returns a node with at least the needed columns, and where they are."""
    inputs = tuple(exactly(each, list(range(each.width)), each.names) for each in node.inputs)
    return node.with_inputs(inputs) if inputs else node, _identity(node.width)


def _trim_exactly(node: rel.RelNode, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    """Returns a node with the needed columns alone, for consumers that send their input away or keep it in state."""
    columns, mapping = _kept(needed)
    pruned, places = _trim(node, needed)
    wanted = [places[each] for each in columns]
    if wanted == list(range(pruned.width)):
        return pruned, mapping
    if not columns:
        return rel.Project(pruned, (_ZERO,), ("$f0",)), {}
    references = pruned.references()
    names = tuple(pruned.names[each] for each in wanted)
    return rel.Project(pruned, tuple(references[each] for each in wanted), names), mapping


def _identity(width: int) -> Mapping:
    return {place: place for place in range(width)}


def _kept(needed: set[int]) -> tuple[list[int], Mapping]:
    places = sorted(needed)
    return places, {old: new for new, old in enumerate(places)}


def _order(order: tuple[SortField, ...], mapping: Mapping) -> tuple[SortField, ...]:
    return tuple(replace(each, column=mapping[each.column]) for each in order)


def call_over(call: AggregateCall, mapping: Mapping) -> AggregateCall:
    """Returns the aggregate over columns with other numbers."""
    return replace(
        call,
        arguments=tuple(mapping[each] for each in call.arguments),
        filter_index=None if call.filter_index is None else mapping[call.filter_index],
        order=tuple((mapping[place], *rest) for place, *rest in call.order),  # type: ignore[misc]
    )


def call_columns(calls: tuple[AggregateCall, ...]) -> set[int]:
    """Returns the input columns that aggregates read."""
    found: set[int] = set()
    for call in calls:
        found.update(call.arguments)
        found.update(place for place, *_ in call.order)
        if call.filter_index is not None:
            found.add(call.filter_index)
    return found


@_trim.register
def _(node: rel.Project, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    kept, mapping = _kept(needed)
    expressions = [node.expressions[place] for place in kept]
    below, places = _trim(node.input, columns_of(*expressions))
    if not kept:
        return rel.Project(below, (_ZERO,), ("$f0",)), {}
    changed = tuple(moved(each, places) for each in expressions)
    names = tuple(node.names[place] for place in kept)
    if changed == below.references() and names == below.names:
        return below, mapping
    return rel.Project(below, changed, names), mapping


@_trim.register
def _(node: rel.Filter, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    below, places = _trim(node.input, needed | columns_of(node.condition))
    return rel.Filter(below, moved(node.condition, places)), places


@_trim.register
def _(node: rel.WatermarkAssigner, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    columns = needed | {node.rowtime} | columns_of(node.watermark)
    # As in Flink, a query without the event time reads the table as declared, unless its source can leave out columns.
    if node.rowtime not in needed and not _can_project(node):
        columns = set(range(node.width))
    below, places = _trim(node.input, columns)
    return replace(node, input=below, rowtime=places[node.rowtime], watermark=moved(node.watermark, places)), places


def _can_project(node: rel.WatermarkAssigner) -> bool:
    source = next((each.source for each in rel.walk(node) if isinstance(each, rel.Scan)), None)
    from flinkpy.table.connectors.table_source import ScanTableSource

    method = getattr(type(source), "with_projection", ScanTableSource.with_projection)
    return isinstance(source, ScanTableSource) and method is not ScanTableSource.with_projection


@_trim.register
def _(node: rel.Snapshot, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    below, places = _trim(node.input, needed if node.key is None else needed | {node.key})
    return replace(node, input=below, key=None if node.key is None else places[node.key]), places


@_trim.register
def _(node: rel.Join, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    width = node.left.width
    columns = needed | columns_of(node.condition)
    period = _event_time(node.right)
    if period is not None:
        columns = columns | {period.index} | {width + each for each in _version_columns(node.right)}
    left, left_places = _trim_exactly(node.left, {each for each in columns if each < width})
    trim_right = _trim if isinstance(node.right, rel.Snapshot) else _trim_exactly
    right, right_places = trim_right(node.right, {each - width for each in columns if each >= width})
    if period is not None:
        assert isinstance(right, rel.Snapshot)
        right = replace(right, period=replace(period, index=left_places[period.index]))
    mapping = dict(left_places)
    mapping.update({old + width: new + left.width for old, new in right_places.items()})
    joined = replace(node, left=left, right=right, condition=moved(node.condition, mapping))
    if node.join_type in (JoinType.SEMI, JoinType.ANTI):
        return joined, left_places
    return joined, mapping


def _event_time(node: rel.RelNode) -> OuterRef | None:
    """Returns the period of a snapshot if it is an event time of the left input."""
    if isinstance(node, rel.Snapshot) and isinstance(node.period, OuterRef) and lt.is_rowtime(node.period.type):
        return node.period
    return None


def _version_columns(node: rel.RelNode) -> set[int]:
    """Returns the event times and the key columns of a versioned table, which a temporal join needs."""
    columns = {place for place, each in enumerate(node.row_type.fields) if lt.is_rowtime(each.type)}
    match node:
        case rel.Scan():
            key = node.table.resolved_schema.primary_key
            return columns | {node.names.index(name) for name in (key.columns if key else ()) if name in node.names}
        case rel.Project():
            below = _version_columns(node.input)
            return columns | {
                place
                for place, each in enumerate(node.expressions)
                if isinstance(each, InputRef) and each.index in below
            }
        case rel.Rank():
            return columns | set(node.partition)
        case rel.Filter() | rel.WatermarkAssigner() | rel.Snapshot():
            return columns | _version_columns(node.input)
    return columns


@_trim.register
def _(node: rel.Correlate, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    width = node.input.width
    columns = {each for each in needed | columns_of(node.condition) if each < width} | columns_of(node.call)
    below, places = _trim(node.input, columns)
    mapping = dict(places)
    mapping.update({width + each: below.width + each for each in range(len(node.function_type.fields))})
    condition = None if node.condition is None else moved(node.condition, mapping)
    return replace(node, input=below, call=moved(node.call, places), condition=condition), mapping


@_trim.register
def _(node: rel.Aggregate, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    count = len(node.grouping)
    kept = [place for place in range(len(node.aggregates)) if place + count in needed]
    if not kept and not count and node.aggregates:
        kept = [0]
    calls = tuple(node.aggregates[place] for place in kept)
    below, places = _trim_exactly(node.input, set(node.grouping) | call_columns(calls))
    grouping = tuple(places[each] for each in node.grouping)
    sets = node.grouping_sets
    if sets is not None:
        by_position = dict(zip(node.grouping, grouping, strict=True))
        sets = tuple(tuple(by_position[each] for each in keys) for keys in sets)
    mapping = _identity(count)
    mapping.update({place + count: new + count for new, place in enumerate(kept)})
    calls = tuple(call_over(each, places) for each in calls)
    return replace(node, input=below, grouping=grouping, aggregates=calls, grouping_sets=sets), mapping


@_trim.register
def _(node: rel.TableAggregate, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    below, places = _trim_exactly(node.input, set(node.grouping) | call_columns((node.call,)))
    grouping = tuple(places[each] for each in node.grouping)
    return replace(node, input=below, grouping=grouping, call=call_over(node.call, places)), _identity(node.width)


@_trim.register
def _(node: rel.WindowTableFunction, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    width = node.input.width
    columns = {each for each in needed if each < width} | {node.time_column} | set(node.window.partition)
    below, places = _trim(node.input, columns)
    window = replace(node.window, partition=tuple(places[each] for each in node.window.partition))
    mapping = dict(places)
    mapping.update({width + each: below.width + each for each in range(3)})
    return replace(node, input=below, window=window, time_column=places[node.time_column]), mapping


@_trim.register
def _(node: rel.GroupWindowAggregate, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    count, calls = len(node.grouping), len(node.aggregates)
    kept = [place for place in range(calls) if place + count in needed]
    aggregates = tuple(node.aggregates[place] for place in kept)
    below, places = _trim_exactly(node.input, {*node.grouping, node.time_column} | call_columns(aggregates))
    mapping = _identity(count)
    mapping.update({place + count: new + count for new, place in enumerate(kept)})
    mapping.update({count + calls + each: count + len(kept) + each for each in range(len(node.properties))})
    return replace(
        node,
        input=below,
        grouping=tuple(places[each] for each in node.grouping),
        aggregates=tuple(call_over(each, places) for each in aggregates),
        time_column=places[node.time_column],
    ), mapping


@_trim.register
def _(node: rel.OverAggregate, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    width = node.input.width
    columns = {each for each in needed if each < width}
    position = width
    kept_groups: list[rel.OverGroup] = []
    kept_places: list[int] = []
    for group in node.groups:
        calls = []
        for call in group.aggregates:
            if position in needed:
                calls.append(call)
                kept_places.append(position)
            position += 1
        if calls:
            kept_groups.append(replace(group, aggregates=tuple(calls)))
            columns |= call_columns(tuple(calls)) | set(group.partition) | {each.column for each in group.order}
    below, places = _trim_exactly(node.input, columns)
    if not kept_groups:
        return below, places
    groups = tuple(
        replace(
            group,
            partition=tuple(places[each] for each in group.partition),
            order=_order(group.order, places),
            aggregates=tuple(call_over(each, places) for each in group.aggregates),
        )
        for group in kept_groups
    )
    mapping = dict(places)
    mapping.update({old: below.width + new for new, old in enumerate(kept_places)})
    return rel.OverAggregate(below, groups), mapping


@_trim.register
def _(node: rel.Rank, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    width = node.input.width
    columns = {each for each in needed if each < width} | set(node.partition) | {each.column for each in node.order}
    if node.end_column is not None:
        columns.add(node.end_column)
    below, places = _trim_exactly(node.input, columns)
    name = node.rank_name if width in needed else None
    mapping = dict(places)
    if name is not None:
        mapping[width] = below.width
    return replace(
        node,
        input=below,
        partition=tuple(places[each] for each in node.partition),
        order=_order(node.order, places),
        rank_name=name,
        end_column=None if node.end_column is None else places[node.end_column],
    ), mapping


@_trim.register
def _(node: rel.Match, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    count = len(node.partition)
    kept = [place for place in range(len(node.measures)) if place + count in needed]
    measures = [node.measures[place] for place in kept]
    values = [value for _, value in (*node.definitions, *measures)]
    columns = columns_of(*values) | set(node.partition) | {each.column for each in node.order}
    below, places = _trim_exactly(node.input, columns)
    mapping = _identity(count)
    mapping.update({place + count: new + count for new, place in enumerate(kept)})
    return replace(
        node,
        input=below,
        partition=tuple(places[each] for each in node.partition),
        order=_order(node.order, places),
        definitions=tuple((name, moved(value, places)) for name, value in node.definitions),
        measures=tuple((name, moved(value, places)) for name, value in measures),
    ), mapping


@_trim.register
def _(node: rel.Sort, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    below, places = _trim(node.input, needed | {each.column for each in node.order})
    return replace(node, input=below, order=_order(node.order, places)), places


@_trim.register
def _(node: rel.SetOperation, needed: set[int]) -> tuple[rel.RelNode, Mapping]:
    if node.kind != "UNION":
        needed = set(range(node.width))
    kept, mapping = _kept(needed or {0})
    names = tuple(node.names[place] for place in kept)
    parts = tuple(exactly(part, kept, names) for part in node.parts)
    return replace(node, parts=parts), mapping


def reference(node: rel.RelNode, place: int) -> RexNode:
    return InputRef(node.type_of(place), place)
