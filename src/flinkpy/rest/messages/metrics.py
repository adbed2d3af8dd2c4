"""Bodies of the operations that tell metrics. Source: org.apache.flink.runtime.rest.messages.job.metrics."""

from __future__ import annotations

import msgspec
from msgspec import UNSET, UnsetType


class Metric(msgspec.Struct, kw_only=True):
    """A metric with its value as text; without a value where only names were asked for."""

    id: str
    value: str | UnsetType = UNSET


class AggregatedMetric(msgspec.Struct, kw_only=True):
    """Statistics of a metric over several jobs, TaskManagers or subtasks. `skew` is from 0 to 100 percent."""

    id: str
    min: float | UnsetType = UNSET
    max: float | UnsetType = UNSET
    avg: float | UnsetType = UNSET
    sum: float | UnsetType = UNSET
    skew: float | UnsetType = UNSET


#: Flink answers a list, without an object around it.
MetricCollection = list[Metric]
AggregatedMetrics = list[AggregatedMetric]
