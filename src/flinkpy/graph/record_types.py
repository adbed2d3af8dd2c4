"""Determines the type of an edge's records."""

from __future__ import annotations

from typing import Any

from flinkpy.graph.spark_region import SparkRegionSpec, output_number
from flinkpy.graph.stream_graph import StreamEdge
from flinkpy.graph.transformation import SideOutputTransformation


def type_of_records(edge: StreamEdge) -> Any:
    """Returns the type of the edge's records: the output type of the producer, or the type of the side output."""
    if isinstance(edge.source.spec, SparkRegionSpec):
        return edge.source.spec.region.type_of_output(output_number(edge.side_output_tag))
    if not edge.side_output_tag:
        return edge.source.spec.output_type
    pending = [edge.target.transformation.inputs[edge.input_index]]
    while pending:
        transformation = pending.pop()
        if (
            isinstance(transformation, SideOutputTransformation)
            and transformation.tag_id == edge.side_output_tag
            and transformation.inputs[0] is edge.source.transformation
        ):
            return transformation.output_type
        if transformation is not edge.source.transformation:
            pending.extend(transformation.inputs)
    return None
