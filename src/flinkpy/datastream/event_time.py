"""Whether event time can advance: for a warning where a program waits for watermarks that never come."""

from __future__ import annotations

from collections.abc import Iterator

from flinkpy.graph.operator_specs import SourceSpec, TimestampsAndWatermarksSpec
from flinkpy.graph.transformation import OperatorTransformation, Transformation


def sources_without_watermarks(stream: Transformation) -> Iterator[OperatorTransformation]:
    """The sources whose records reach `stream` and that neither end, which is a watermark too, nor get watermarks on
    the way."""
    seen: set[int] = set()
    waiting = [stream]
    while waiting:
        transformation = waiting.pop()
        if transformation.id in seen:
            continue
        seen.add(transformation.id)
        spec = transformation.spec if isinstance(transformation, OperatorTransformation) else None
        if isinstance(spec, SourceSpec | TimestampsAndWatermarksSpec):
            strategy = spec.watermark_strategy
            if strategy is not None and strategy.makes_watermarks:
                continue
            if isinstance(spec, SourceSpec):
                assert isinstance(transformation, OperatorTransformation)
                # A SourceFunction may emit watermarks itself.
                if not transformation.is_bounded and spec.source.source_function is None:
                    yield transformation
                continue
        waiting.extend(transformation.inputs)
