"""Options of traces and events. Source: org.apache.flink.configuration.{TraceOptions,EventOptions}."""

from __future__ import annotations

from flinkpy.configuration.options import enum_option, string_option

REPORTERS = string_option(
    "traces.reporters",
    None,
    "Names of the reporters of spans, separated by commas. Each is configured by "
    "`traces.reporter.<name>.factory.class` (`otel`, `log`, a class name of Flink's or `module:Class`) and its own "
    "options below `traces.reporter.<name>.`: see [traces](traces.md).",
)
EVENT_REPORTERS = string_option(
    "events.reporters",
    None,
    "Names of the reporters of events, separated by commas. Each is configured by "
    "`events.reporter.<name>.factory.class` (`otel`, `log`, a class name of Flink's or `module:Class`) and its own "
    "options below `events.reporter.<name>.`: see [traces](traces.md).",
)
#: The values of `traces.checkpoint.span-detail-level`.
SPAN_PER_CHECKPOINT = "SPAN_PER_CHECKPOINT"
SPAN_PER_CHECKPOINT_WITH_TASKS = "SPAN_PER_CHECKPOINT_WITH_TASKS"
CHILDREN_SPANS_PER_TASK = "CHILDREN_SPANS_PER_TASK"
CHILDREN_SPANS_PER_SUBTASK = "CHILDREN_SPANS_PER_SUBTASK"
CHECKPOINT_SPAN_DETAIL_LEVEL = enum_option(
    "traces.checkpoint.span-detail-level",
    (SPAN_PER_CHECKPOINT, SPAN_PER_CHECKPOINT_WITH_TASKS, CHILDREN_SPANS_PER_TASK, CHILDREN_SPANS_PER_SUBTASK),
    SPAN_PER_CHECKPOINT,
    "Detail of the spans of checkpoints. `SPAN_PER_CHECKPOINT`: one span with sums and maxima over all subtasks. "
    "`SPAN_PER_CHECKPOINT_WITH_TASKS`: also lists of them with an element for each vertex. `CHILDREN_SPANS_PER_TASK`: "
    "a child span for each vertex. `CHILDREN_SPANS_PER_SUBTASK`: also a child span of these for each subtask.",
)
