"""What the metrics of this process say, as a message.

Source: org.apache.flink.runtime.metrics.dump.MetricDumpSerialization.
"""

from __future__ import annotations

from flinkpy._proto import metrics_pb2
from flinkpy.metrics.metric_registry import MetricRegistry, MetricScope, MetricValue


def dump_metrics(registry: MetricRegistry, job_id: str, resource_id: str) -> metrics_pb2.MetricsDump:
    """Of one job, or of all where `job_id` is empty. Thread: any; it runs gauges of user functions."""
    groups: dict[MetricScope, metrics_pb2.MetricGroupDump] = {}
    dump = metrics_pb2.MetricsDump()
    for scope, name, reading in registry.read(job_id or None):
        group = groups.get(scope)
        if group is None:
            group = groups[scope] = dump.groups.add(
                job_id=scope.job_id,
                vertex_id=scope.vertex_id,
                subtask_index=scope.subtask_index,
                attempt_number=scope.attempt_number,
                operator_id=scope.operator_id,
                operator_name=scope.operator_name,
                resource_id=resource_id,
            )
        group.metrics.append(_metric(name, reading))
    return dump


def _metric(name: str, reading: MetricValue) -> metrics_pb2.MetricDump:
    metric = metrics_pb2.MetricDump(name=name, kind=reading.kind, statistics=reading.statistics)
    if isinstance(reading.value, str):
        metric.text = reading.value
    elif isinstance(reading.value, int):
        metric.number = reading.value
    else:
        metric.real = reading.value
    return metric
