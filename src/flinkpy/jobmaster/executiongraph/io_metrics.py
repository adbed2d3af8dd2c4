"""What a task says of its input and output."""

from __future__ import annotations

from dataclasses import dataclass, fields


@dataclass(frozen=True, slots=True)
class IOMetrics:
    """Totals of one attempt since it started. Source: org.apache.flink.runtime.executiongraph.IOMetrics."""

    num_records_in: int = 0
    num_records_out: int = 0
    num_bytes_in: int = 0
    num_bytes_out: int = 0
    num_batches_in: int = 0
    num_batches_out: int = 0
    idle_time_ms: int = 0
    busy_time_ms: int = 0
    back_pressured_time_ms: int = 0

    def __add__(self, other: IOMetrics) -> IOMetrics:
        return IOMetrics(*(getattr(self, name) + getattr(other, name) for name in IO_METRIC_NAMES))


IO_METRIC_NAMES: tuple[str, ...] = tuple(field.name for field in fields(IOMetrics))
