"""Pre-aggregation: aggregates by key before the exchange too in batch mode, so that fewer rows are exchanged."""

from __future__ import annotations

from dataclasses import replace

from flinkpy.common.typeinfo import (
    BasicType,
    BasicTypeInfo,
    DateTypeInfo,
    DecimalTypeInfo,
    RowTypeInfo,
    TimestampTypeInfo,
    TimeTypeInfo,
    TypeInformation,
    Types,
)
from flinkpy.expressions import decimals
from flinkpy.expressions.nodes import Alias, Call, ColumnReference, Expression
from flinkpy.graph import operator_specs as specs
from flinkpy.graph.operator_hashes import hash_text
from flinkpy.graph.operator_specs import ColumnAggregate, FieldKeySelector
from flinkpy.graph.partitioning import FORWARD, HASH, Partitioning
from flinkpy.graph.stream_graph import StreamEdge, StreamGraph, StreamNode
from flinkpy.graph.transformation import ChainingStrategy, OperatorTransformation

_MERGED_BY = {"COUNT": "SUM", "SUM": "SUM", "MIN": "MIN", "MAX": "MAX"}
_FLOATS = (BasicType.FLOAT, BasicType.DOUBLE)
_INTEGERS = (BasicType.BYTE, BasicType.SHORT, BasicType.INT, BasicType.LONG)


def pre_aggregate(graph: StreamGraph) -> None:
    """Inserts a PreAggregateSpec before each keyed aggregation of columns that can be split."""
    for node in list(graph.nodes):
        spec = node.spec
        if isinstance(spec, specs.ColumnAggregateSpec) and spec.emit == "FINAL" and _can_split(node, spec):
            _split(graph, node, spec)


def _can_split(node: StreamNode, spec: specs.ColumnAggregateSpec) -> bool:
    selector = spec.key_selector
    if not isinstance(selector, FieldKeySelector) or any(not isinstance(field, str) for field in selector.fields):
        return False
    columns = _columns(spec)
    if columns is None or not all(_is_simple(columns[str(field)]) for field in selector.fields):
        return False
    if any(edge.partitioning.kind != HASH or edge.side_output_tag for edge in node.in_edges):
        return False
    return all(_can_merge(each, columns) for each in spec.aggregates)


def _is_simple(kind: TypeInformation | None) -> bool:
    """True if Arrow can group by such values and compute their minimum."""
    if isinstance(kind, BasicTypeInfo):
        return kind.basic_type is not BasicType.BIG_INT
    return isinstance(kind, (DateTypeInfo, TimeTypeInfo, TimestampTypeInfo))


def _can_merge(aggregate: ColumnAggregate, columns: dict[str, TypeInformation]) -> bool:
    if aggregate.compiled is not None:
        return False
    kind = columns.get(aggregate.column or "")
    if aggregate.function in _MERGED_BY:
        return aggregate.function == "COUNT" or _is_simple(kind)
    # The mean of decimals is computed from values rounded to doubles, so a sum of decimals would give another result.
    return aggregate.function == "MEAN" and isinstance(kind, BasicTypeInfo) and kind.basic_type in _FLOATS + _INTEGERS


def _columns(spec: specs.OperatorSpec) -> dict[str, TypeInformation] | None:
    kind = spec.input_types[0] if spec.input_types else None
    if not isinstance(kind, RowTypeInfo):
        return None
    return dict(zip(kind.get_field_names(), kind.get_field_types()))


def _split(graph: StreamGraph, node: StreamNode, spec: specs.ColumnAggregateSpec) -> None:
    columns = _columns(spec)
    assert columns is not None and isinstance(spec.output_type, RowTypeInfo)
    keys = [str(field) for field in spec.key_selector.fields]
    partial: list[ColumnAggregate] = []
    results: list[Expression] = []
    for aggregate in spec.aggregates:
        if aggregate.function != "MEAN":
            partial.append(aggregate)
            results.append(ColumnReference(aggregate.name))
            continue
        total = replace(aggregate, function="SUM", name=f"_sum_{aggregate.name}")
        number = replace(aggregate, function="COUNT", name=f"_count_{aggregate.name}")
        partial += [total, number]
        double = (Types.DOUBLE(),)
        results.append(
            Call("divide", tuple(Call("cast", (ColumnReference(one.name),), double) for one in (total, number)))
        )
    partial_type = _row_type(keys, columns, partial)
    merged = tuple(replace(one, function=_MERGED_BY[one.function], column=one.name) for one in partial)
    has_means = len(partial) > len(spec.aggregates)
    for edge in list(node.in_edges):
        local = specs.PreAggregateSpec(
            FieldKeySelector(tuple(keys)), tuple(partial), input_types=spec.input_types, output_type=partial_type
        )
        _insert_before(graph, edge, local)
    node.optimized_spec = replace(
        spec,
        aggregates=merged,
        input_types=(partial_type,),
        output_type=partial_type if has_means else spec.output_type,
    )
    node.note("merges the results of the aggregation before the exchange")
    if has_means:
        names = spec.output_type.get_field_names()
        made = [*(ColumnReference(key) for key in keys), *results]
        select = specs.SelectSpec(
            tuple(Alias(one, name) for one, name in zip(made, names)),
            input_types=(partial_type,),
            output_type=spec.output_type,
        )
        _insert_after(graph, node, select)


def _row_type(keys: list[str], columns: dict[str, TypeInformation], aggregates: list[ColumnAggregate]) -> RowTypeInfo:
    types = [columns[key] for key in keys]
    types.extend(_partial_type(each, columns) for each in aggregates)
    return RowTypeInfo(types, [*keys, *(each.name for each in aggregates)])


def _partial_type(aggregate: ColumnAggregate, columns: dict[str, TypeInformation]) -> TypeInformation:
    if aggregate.function == "COUNT":
        return Types.LONG()
    kind = columns[aggregate.column or ""]
    if aggregate.function != "SUM" or not isinstance(kind, BasicTypeInfo):
        return kind
    if isinstance(kind, DecimalTypeInfo):
        return decimals.sum_of((kind.precision, kind.scale))
    if kind.basic_type in _INTEGERS:
        return Types.LONG()
    return Types.DOUBLE() if kind.basic_type in _FLOATS else kind


def _insert_before(graph: StreamGraph, edge: StreamEdge, spec: specs.OperatorSpec) -> None:
    """Inserts an operator that is chained to the producer, before the exchange."""
    source, target = edge.source, edge.target
    node = _node("Local Aggregation", spec, source, graph, target)
    graph.nodes.insert(graph.nodes.index(source) + 1, node)
    first = StreamEdge(source, node, Partitioning(FORWARD), 0)
    source.out_edges[source.out_edges.index(edge)] = first
    node.in_edges.append(first)
    node.out_edges.append(edge)
    edge.source = node
    assert edge in target.in_edges
    _number(graph)


def _insert_after(graph: StreamGraph, producer: StreamNode, spec: specs.OperatorSpec) -> None:
    """Inserts an operator between the producer and all its consumers."""
    node = _node("Select", spec, producer, graph, producer)
    graph.nodes.insert(graph.nodes.index(producer) + 1, node)
    node.out_edges = [edge for edge in producer.out_edges if not edge.side_output_tag]
    first = StreamEdge(producer, node, Partitioning(FORWARD), 0)
    producer.out_edges = [first, *(edge for edge in producer.out_edges if edge.side_output_tag)]
    node.in_edges.append(first)
    for edge in node.out_edges:
        edge.source = node
    _number(graph)


def _node(
    name: str, spec: specs.OperatorSpec, producer: StreamNode, graph: StreamGraph, owner: StreamNode
) -> StreamNode:
    """Returns the node. If ids may not be generated, its id is derived from that of the aggregation `owner`."""
    transformation = OperatorTransformation(name, spec, (producer.transformation,))
    transformation.parallelism = producer.parallelism
    transformation.has_default_parallelism = producer.transformation.has_default_parallelism
    transformation.chaining_strategy = ChainingStrategy.ALWAYS
    owner_id = owner.transformation.uid or owner.transformation.uid_hash
    if not graph.options.are_uids_generated and owner_id:
        transformation.uid_hash = hash_text(f"{name}:{owner_id}:{len(graph.nodes)}")
    return StreamNode(
        id=0,
        name=name,
        transformation=transformation,
        parallelism=producer.parallelism,
        max_parallelism=producer.max_parallelism,
        slot_sharing_group=producer.slot_sharing_group,
        buffer_timeout_ms=producer.buffer_timeout_ms,
        backend_choice=producer.backend_choice,
    )


def _number(graph: StreamGraph) -> None:
    for number, node in enumerate(graph.nodes, start=1):
        node.id = number
