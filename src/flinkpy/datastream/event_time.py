"""Finds sources without watermarks, for the warning about windows that never end."""

from __future__ import annotations

from collections.abc import Iterator

from flinkpy.graph.operator_specs import SourceSpec, TimestampsAndWatermarksSpec
from flinkpy.graph.transformation import OperatorTransformation, Transformation


def sources_without_watermarks(stream: Transformation) -> Iterator[OperatorTransformation]:
    """Yields the unbounded sources whose records reach `stream` without passing a generator of watermarks.

    Bounded sources are left out: their end is a watermark too.
    """
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
