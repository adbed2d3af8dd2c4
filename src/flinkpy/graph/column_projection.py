"""Projection: removes columns that no consumer needs."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from flinkpy.common.typeinfo import BasicTypeInfo, RowTypeInfo
from flinkpy.expressions.nodes import Alias, ColumnReference, columns_in
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.operator_specs import FieldKeySelector
from flinkpy.graph.partitioning import CUSTOM, HASH
from flinkpy.graph.stream_graph import StreamEdge, StreamGraph, StreamNode

#: Names of columns; None for all columns.
Needed = frozenset[str] | None


def push_projections(graph: StreamGraph) -> None:
    """Drops the columns that no consumer needs, as close to the sources as possible."""
    needed_of: dict[int, Needed] = {}
    inputs_of: dict[int, list[Needed]] = {}
    for node in reversed(graph.nodes):
        needed = _needed_by_consumers(node, inputs_of)
        needed_of[node.id] = needed
        inputs_of[node.id] = [_kept(one, kind) for one, kind in _of_inputs(node, needed)]
    for node in graph.nodes:
        _apply(node, needed_of[node.id], inputs_of[node.id])


# -- needed columns ---------------------------------------------------------------------------------------------------


def _needed_by_consumers(node: StreamNode, inputs_of: dict[int, list[Needed]]) -> Needed:
    if not node.out_edges:
        return None
    needed: frozenset[str] = frozenset()
    for edge in node.out_edges:
        inputs = inputs_of[edge.target.id]
        by_consumer = inputs[edge.input_index] if edge.input_index < len(inputs) else None
        by_edge = _of_partitioning(edge)
        if by_consumer is None or by_edge is None or edge.side_output_tag:
            return None
        needed |= by_consumer | by_edge
    return _kept(needed, node.spec.output_type)


def _of_partitioning(edge: StreamEdge) -> Needed:
    if edge.partitioning.kind == CUSTOM:
        return None
    return _fields(edge.partitioning.key_selector) if edge.partitioning.kind == HASH else frozenset()


def _of_inputs(node: StreamNode, needed: Needed) -> list[tuple[Needed, Any]]:
    """Returns, for each input, the columns that the node needs and the type of the input."""
    spec = _operator_spec(node)
    types = spec.input_types
    if isinstance(spec, specs.ColumnJoinSpec) and len(types) == 2:
        return list(zip(_of_join(spec, needed), types))
    if len(types) == 1:
        return [(_of_one_input(spec, needed), types[0])]
    return [(None, kind) for kind in types]


def _of_one_input(spec: specs.OperatorSpec, needed: Needed) -> Needed:
    if isinstance(spec, specs.SelectSpec):
        made = [each for each in spec.expressions if needed is None or each.name in needed]
        conditions = [] if spec.predicate is None else [spec.predicate]
        return frozenset(name for each in (*made, *conditions) for name in columns_in(each))
    if isinstance(spec, specs.FilterBatchesSpec):
        return None if spec.expression is None or needed is None else needed | set(columns_in(spec.expression))
    if isinstance(spec, specs.SortColumnsSpec):
        return None if needed is None else needed | {name for name, _ in spec.keys}
    if isinstance(spec, specs.WindowAggregateSpec):
        return None if spec.late_output_tag is not None else _of_aggregates(spec.key_selector, spec.aggregates)
    if isinstance(spec, (specs.ColumnAggregateSpec, specs.PreAggregateSpec)):
        return _of_aggregates(spec.key_selector, spec.aggregates)
    if isinstance(spec, specs.GlobalColumnAggregateSpec):
        return _of_aggregates(FieldKeySelector(()), spec.aggregates)
    return None


def _of_aggregates(key_selector: Any, aggregates: Iterable[specs.ColumnAggregate]) -> Needed:
    keys = _fields(key_selector)
    if keys is None:
        return None
    values = {each.column for each in aggregates if each.column is not None}
    return keys | values | {name for each in aggregates for name in each.columns}


def _of_join(spec: specs.ColumnJoinSpec, needed: Needed) -> tuple[Needed, Needed]:
    left_keys, right_keys = map(_fields, spec.key_selectors)
    left, right = (_names(kind) for kind in spec.input_types)
    if left_keys is None or right_keys is None or left is None or right is None:
        return None, None
    if needed is None:
        # A semi or anti join emits no right columns, so it needs only the right keys.
        return frozenset(left), frozenset(right) if spec.how in ("inner", "left") else right_keys
    return left_keys | {name for name in left if name in needed}, right_keys | {
        name for name in right if name in needed and name not in left
    }


def _fields(selector: Any) -> Needed:
    """Returns the names of the key fields; None if the key is a function or has positions, which would change."""
    fields = getattr(selector, "fields", None)
    if not isinstance(selector, FieldKeySelector) or any(not isinstance(field, str) for field in fields or ()):
        return None
    return frozenset(selector.fields)  # type: ignore[arg-type]


def _names(type_info: Any) -> list[str] | None:
    return type_info.get_field_names() if isinstance(type_info, RowTypeInfo) else None


def _kept(needed: Needed, type_info: Any) -> Needed:
    """Returns the columns to keep, at least one, so that there are records. None for a stream without named columns."""
    names = _names(type_info)
    if needed is None or names is None:
        return None
    needed = needed & frozenset(names)
    if needed or not names:
        return needed
    simple = [name for name, kind in zip(names, type_info.get_field_types()) if isinstance(kind, BasicTypeInfo)]
    return frozenset([(simple or names)[0]])


# -- projection --------------------------------------------------------------------------------------------------------


def _apply(node: StreamNode, needed: Needed, inputs: list[Needed]) -> None:
    spec = _operator_spec(node)
    if isinstance(spec, specs.SourceSpec):
        _project_source(node, spec, needed)
        return
    types = tuple(_narrowed(kind, one) for kind, one in zip(spec.input_types, inputs))
    if isinstance(spec, specs.SelectSpec):
        made = tuple(each for each in spec.expressions if needed is None or each.name in needed)
        output = _narrowed(spec.output_type, None if needed is None else frozenset(each.name for each in made))
        changed: specs.OperatorSpec = replace(spec, expressions=made, input_types=types, output_type=output)
        if len(made) < len(spec.expressions):
            node.note(f"columns: {', '.join(each.name for each in made)}")
    elif isinstance(spec, specs.FilterBatchesSpec) and needed is not None and inputs[0] is not None:
        output = _narrowed(spec.output_type, needed)
        if inputs[0] <= needed:
            changed = replace(spec, input_types=types, output_type=output)
        else:
            # Columns that only the condition needs are dropped.
            kept = tuple(Alias(ColumnReference(name), name) for name in output.get_field_names())
            changed = specs.SelectSpec(kept, spec.expression, input_types=types, output_type=output)
            node.note(f"columns: {', '.join(output.get_field_names())}")
    elif isinstance(spec, specs.SortColumnsSpec):
        changed = replace(spec, input_types=types, output_type=types[0])
    elif isinstance(spec, specs.ColumnJoinSpec):
        changed = replace(spec, input_types=types, output_type=_join_output(spec, types))
    else:
        changed = replace(spec, input_types=types) if types != spec.input_types else spec
    if isinstance(node.spec, specs.BatchSpec) and changed is not spec:
        changed = specs.BatchSpec(changed, input_types=changed.input_types, output_type=changed.output_type)
    elif changed is spec:
        return
    node.optimized_spec = changed


def _operator_spec(node: StreamNode) -> specs.OperatorSpec:
    """Returns the spec, without the BatchSpec around a join in batch mode."""
    spec = node.spec
    if isinstance(spec, specs.BatchSpec) and isinstance(spec.operator, specs.ColumnJoinSpec):
        return spec.operator
    return spec


def _project_source(node: StreamNode, spec: specs.SourceSpec, needed: Needed) -> None:
    produced = spec.output_type or spec.source.produced_type
    names = _names(produced)
    if needed is None or names is None:
        return
    strategy = spec.watermark_strategy
    if strategy is not None:
        sees_records = strategy.timestamp_assigner is not None or strategy.generator_supplier is not None
        if sees_records or isinstance(strategy.timestamp_column, int):
            return
        if strategy.timestamp_column is not None:
            needed = needed | {strategy.timestamp_column}
    wanted = [name for name in names if name in needed]
    if len(wanted) == len(names):
        return
    projected = spec.source.projected_to(wanted)
    if projected is None:
        return
    node.optimized_spec = replace(spec, source=projected, output_type=_narrowed(produced, frozenset(wanted)))
    node.note(f"columns: {', '.join(wanted)}")


def _narrowed(type_info: Any, needed: Needed) -> Any:
    if needed is None or not isinstance(type_info, RowTypeInfo):
        return type_info
    fields = [
        (name, kind) for name, kind in zip(type_info.get_field_names(), type_info.get_field_types()) if name in needed
    ]
    if len(fields) == len(type_info.get_field_names()):
        return type_info
    return RowTypeInfo([kind for _, kind in fields], [name for name, _ in fields])


def _join_output(spec: specs.ColumnJoinSpec, types: tuple[Any, ...]) -> Any:
    """Returns the output type, reduced to the columns that the inputs still have."""
    there = set(_names(types[0]) or ()) | set(_names(types[1]) or ())
    return _narrowed(spec.output_type, frozenset(there))
