"""Lets sources make watermarks, where their splits progress independently of each other.

The watermark of a subtask is then the least of those of its splits. Behind the source it would be that of the split
that is ahead, and the rows of the others would be late.

Source: org.apache.flink.table.planner.plan.rules.logical.{PushWatermarkIntoTableSourceScanRule,
PushWatermarkIntoTableSourceScanAcrossCalcRule}.
Differs: an event time that is a computed column stays with the WatermarkAssigner, as do watermarks on each event.
"""

from __future__ import annotations

from dataclasses import replace

from flinkpy.graph.table_specs import SourceWatermarks
from flinkpy.sql.rex import InputRef, RexNode
from flinkpy.sql.types.logical_types import RowType
from flinkpy.table.connectors.table_source import ScanTableSource
from flinkpy.table.planner.logical import nodes as rel
from flinkpy.table.planner.logical.time import as_rowtime, is_source_watermark
from flinkpy.table.planner.rex_text import rex_text
from flinkpy.table.planner.rules.expressions import is_inlinable, substituted


def push_watermarks(plan: rel.RelNode) -> rel.RelNode:
    """Returns the plan with the watermarks of sources that support it made there."""

    def change(node: rel.RelNode) -> rel.RelNode:
        if not isinstance(node, rel.WatermarkAssigner):
            return node
        if node.params.emits_on_event and not is_source_watermark(node.watermark):
            return node
        project = node.input if isinstance(node.input, rel.Project) else None
        scan = node.input if project is None else project.input
        if not isinstance(scan, rel.Scan) or not isinstance(scan.source, ScanTableSource):
            return node
        is_given = is_source_watermark(node.watermark)
        if not (scan.source.has_watermarks if is_given else scan.source.supports_watermarks):
            return node
        columns = scan.references() if project is None else project.expressions
        rowtime, watermark = columns[node.rowtime], substituted(node.watermark, columns)
        if not isinstance(rowtime, InputRef) or not (is_given or is_inlinable((watermark,))):
            return node
        made = _with_watermarks(scan, node, rowtime.index, watermark)
        return made if project is None else _over(project, made, rowtime.index)

    return rel.transform(plan, change)


def _with_watermarks(scan: rel.Scan, node: rel.WatermarkAssigner, rowtime: int, watermark: RexNode) -> rel.Scan:
    fields = list(scan.type.fields)
    fields[rowtime] = replace(fields[rowtime], type=as_rowtime(fields[rowtime].type))
    text = f"watermark=[{rex_text(watermark, scan.names)}]"
    return replace(
        scan,
        type=RowType(tuple(fields), nullable=False),
        pushed=(*scan.pushed, text, "watermarkEmitStrategy=[on-periodic]"),
        watermarks=None if is_source_watermark(watermark) else SourceWatermarks(rowtime, watermark, node.params),
    )


def _over(project: rel.Project, scan: rel.Scan, rowtime: int) -> rel.RelNode:
    """Returns the projection whose references to the event time have its role."""

    attribute = InputRef(scan.type_of(rowtime), rowtime)
    expressions = tuple(
        attribute if isinstance(each, InputRef) and each.index == rowtime else each for each in project.expressions
    )
    return replace(project, input=scan, expressions=expressions)
