"""Pushes filters, limits and projections, of fields of nested rows too, into sources that take them over.

Source: org.apache.flink.table.planner.plan.rules.logical.{PushFilterIntoTableSourceScanRule,
PushProjectIntoTableSourceScanRule, PushLimitIntoTableSourceScanRule}.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from flinkpy.sql.rex import FieldAccess, InputRef, RexNode, moved, rewrite, walk
from flinkpy.table.connectors.abilities import FilterPushDown, LimitPushDown, ProjectPushDown
from flinkpy.table.connectors.table_source import ScanTableSource
from flinkpy.table.planner.binder import operators
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.rex_text import rex_text
from flinkpy.table.planner.rules.expressions import substituted

#: A column, then positions in nested rows.
Path = tuple[int, ...]


def push_into_sources(plan: rel.RelNode) -> rel.RelNode:
    """Returns the plan with sources that do a part of the work."""
    plan = rel.transform(plan, _push_filter)
    plan = rel.transform(plan, _push_fields_through_watermark)
    plan = rel.transform(plan, _push_projection)
    return rel.transform(plan, _push_limit)


# -- filters and limits --------------------------------------------------------------------------------------------


def _push_filter(node: rel.RelNode) -> rel.RelNode:
    if not isinstance(node, rel.Filter) or not isinstance(node.input, rel.Scan):
        return node
    scan = node.input
    if not isinstance(scan.source, ScanTableSource):
        return node
    predicates = tuple(operators.conjuncts(node.condition))
    found = scan.source.with_filters(predicates)
    if found is None or not found.accepted:
        return node
    texts = [rex_text(each, scan.names) for each in found.accepted]
    text = texts[0] if len(texts) == 1 else f"and({', '.join(texts)})"
    abilities = (*scan.abilities, FilterPushDown(predicates))
    pushed = replace(scan, source=found.source, pushed=(*scan.pushed, f"filter=[{text}]"), abilities=abilities)
    return rel.Filter(pushed, operators.and_(list(found.remaining))) if found.remaining else pushed


def _push_limit(node: rel.RelNode) -> rel.RelNode:
    if not isinstance(node, rel.Sort) or node.order or node.limit is None:
        return node
    below: rel.RelNode = node.input
    projects: list[rel.Project] = []
    while isinstance(below, rel.Project):
        projects.append(below)
        below = below.input
    if not isinstance(below, rel.Scan) or not isinstance(below.source, ScanTableSource):
        return node
    limit = node.limit + node.offset
    source = below.source.with_limit(limit)
    if source is None:
        return node
    abilities = (*below.abilities, LimitPushDown(limit))
    pushed: rel.RelNode = replace(below, source=source, pushed=(*below.pushed, f"limit=[{limit}]"), abilities=abilities)
    for project in reversed(projects):
        pushed = replace(project, input=pushed)
    return replace(node, input=pushed)


# -- projections ------------------------------------------------------------------------------------------------------


def _paths(nodes: Sequence[RexNode], *, nested: bool) -> list[Path]:
    """Returns the columns and fields that the expressions read, in order; no path begins with another one."""
    found: set[Path] = set()

    def visit(node: RexNode) -> None:
        path = _path(node) if nested else None
        if path is not None:
            found.add(path)
            return
        if isinstance(node, InputRef):
            found.add((node.index,))
        for each in node.operands:
            visit(each)

    for node in nodes:
        visit(node)
    return sorted(path for path in found if not any(path[:length] in found for length in range(1, len(path))))


def _path(node: RexNode) -> Path | None:
    if isinstance(node, InputRef):
        return (node.index,)
    if isinstance(node, FieldAccess):
        below = _path(node.operand)
        return None if below is None else (*below, node.index)
    return None


def _replaced(node: RexNode, columns: dict[Path, RexNode]) -> RexNode:
    """Returns the expression with columns and fields replaced by new columns."""

    def change(each: RexNode) -> RexNode | None:
        path = _path(each)
        return None if path is None else columns.get(path)

    return rewrite(node, change)


def _access(row: rel.RelNode, path: Path) -> tuple[RexNode, str]:
    """Returns a column or field of a node and its name, such as `bid_price`."""
    value: RexNode = InputRef(row.type_of(path[0]), path[0])
    name = row.names[path[0]]
    for index in path[1:]:
        kind = value.type
        field = kind.fields[index]  # type: ignore[attr-defined]
        value = FieldAccess(field.type.as_nullable(field.type.nullable or kind.nullable), value, index, field.name)
        name = f"{name}_{field.name}"
    return value, name


def _push_projection(node: rel.RelNode) -> rel.RelNode:
    if not isinstance(node, rel.Project):
        return node
    condition = node.input.condition if isinstance(node.input, rel.Filter) else None
    scan = node.input.input if isinstance(node.input, rel.Filter) else node.input
    if not isinstance(scan, rel.Scan) or not isinstance(scan.source, ScanTableSource):
        return node
    read = [*node.expressions, *([] if condition is None else [condition])]
    paths = _paths(read, nested=scan.source.supports_nested_projection)
    if not paths:
        # Rows that are only counted still need a column.
        paths = [(0,)]
    if paths == [(place,) for place in range(scan.width)]:
        return node
    accesses = [_access(scan, path) for path in paths]
    row = rel.row_of(tuple(name for _, name in accesses), tuple(value.type for value, _ in accesses))
    source = scan.source.with_projection(tuple(paths), row)
    if source is None:
        return node
    shown = f"project=[{', '.join(row.names)}]"
    abilities = (*scan.abilities, ProjectPushDown(tuple(paths), row))
    pushed: rel.RelNode = replace(scan, source=source, type=row, pushed=(*scan.pushed, shown), abilities=abilities)
    columns: dict[Path, RexNode] = {
        path: InputRef(field.type, place) for place, (path, field) in enumerate(zip(paths, row.fields, strict=True))
    }
    if condition is not None:
        pushed = rel.Filter(pushed, _replaced(condition, columns))
    expressions = tuple(_replaced(each, columns) for each in node.expressions)
    if expressions == pushed.references() and node.names == pushed.names:
        return pushed
    return rel.Project(pushed, expressions, node.names)


def _push_fields_through_watermark(node: rel.RelNode) -> rel.RelNode:
    """Moves the access to fields of nested rows below a watermark assigner, from where the source can take it over."""
    if not isinstance(node, rel.Project):
        return node
    condition = node.input.condition if isinstance(node.input, rel.Filter) else None
    assigner = node.input.input if isinstance(node.input, rel.Filter) else node.input
    if not isinstance(assigner, rel.WatermarkAssigner):
        return node
    below = assigner.input
    scan = below.input if isinstance(below, rel.Project) else below
    if not isinstance(scan, rel.Scan) or not isinstance(scan.source, ScanTableSource):
        return node
    if not scan.source.supports_nested_projection:
        return node
    read = [*node.expressions, *([] if condition is None else [condition])]
    paths = _paths(read, nested=True)
    for place in (assigner.rowtime, *_columns_of(assigner.watermark)):
        if (place,) not in paths:
            paths = [path for path in paths if path[0] != place] + [(place,)]
    paths.sort()
    if all(len(path) == 1 for path in paths) and len(paths) == below.width:
        return node
    inner = below.expressions if isinstance(below, rel.Project) else scan.references()
    accesses = [_access(below, path) for path in paths]
    names = rel.unique_names(tuple(name for _, name in accesses))
    project = rel.Project(scan, tuple(substituted(value, inner) for value, _ in accesses), names)
    places = {path[0]: place for place, path in enumerate(paths) if len(path) == 1}
    watermark = moved(assigner.watermark, places)
    changed = replace(assigner, input=project, rowtime=places[assigner.rowtime], watermark=watermark)
    columns: dict[Path, RexNode] = {
        path: InputRef(field.type, place)
        for place, (path, field) in enumerate(zip(paths, changed.row_type.fields, strict=True))
    }
    result: rel.RelNode = changed
    if condition is not None:
        result = rel.Filter(changed, _replaced(condition, columns))
    return rel.Project(result, tuple(_replaced(each, columns) for each in node.expressions), node.names)


def _columns_of(node: RexNode) -> list[int]:
    return [each.index for each in walk(node) if isinstance(each, InputRef)]
