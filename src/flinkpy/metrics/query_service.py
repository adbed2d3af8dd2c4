"""MetricQueryService: reads the metrics of this process into a message.

Source: org.apache.flink.runtime.metrics.dump.MetricDumpSerialization.
"""

from __future__ import annotations

import asyncio
import threading

from flinkpy._proto import metrics_pb2
from flinkpy.common.error_text import bounded_text
from flinkpy.common.names import MAX_NAME_CHARS
from flinkpy.metrics.metric_registry import MetricRegistry, MetricScope, MetricValue, ScopeKind


class MetricQueryService:
    """Reads the metrics on its own thread, one reading at a time. Thread: the endpoint's loop.

    A gauge of the user that hangs blocks further requests for metrics only.

    Source: org.apache.flink.runtime.metrics.dump.MetricQueryService.
    """

    def __init__(self, registry: MetricRegistry, resource_id: str) -> None:
        self._registry = registry
        self._resource_id = resource_id
        self._reading: asyncio.Future[metrics_pb2.MetricsDump] | None = None

    async def dump(self, request: metrics_pb2.MetricsRequest) -> metrics_pb2.MetricsDump:
        while self._reading is not None:
            await asyncio.wait({self._reading})
        loop = asyncio.get_running_loop()
        reading = self._reading = loop.create_future()

        def done(dump: metrics_pb2.MetricsDump | None, error: BaseException | None) -> None:
            self._reading = None
            if dump is not None:
                reading.set_result(dump)
            else:
                reading.set_exception(error or RuntimeError("no metrics"))

        def read() -> None:
            result: tuple[metrics_pb2.MetricsDump | None, BaseException | None]
            try:
                result = (dump_metrics(self._registry, request, self._resource_id), None)
            except BaseException as error:  # noqa: BLE001 - raised to the caller of `dump`
                result = (None, error)
            loop.call_soon_threadsafe(done, *result)

        # A daemon thread, which does not prevent the end of the process if it hangs.
        threading.Thread(target=read, name="metrics", daemon=True).start()
        return await asyncio.shield(reading)


def dump_metrics(
    registry: MetricRegistry, request: metrics_pb2.MetricsRequest, resource_id: str
) -> metrics_pb2.MetricsDump:
    """Returns the metrics that the request asks for. Runs gauges of the user. Thread: any."""
    groups: dict[MetricScope, metrics_pb2.MetricGroupDump] = {}
    dump = metrics_pb2.MetricsDump()
    kinds = {kind for kind in ScopeKind if kind.value in request.kinds} if request.kinds else {ScopeKind.TASK}
    for scope, name, reading in registry.read(
        request.job_id or None, request.vertex_id or None, frozenset(request.names), kinds, tuple(request.name_ends)
    ):
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
        _add(group, name, reading)
    return dump


def _add(group: metrics_pb2.MetricGroupDump, name: str, reading: MetricValue) -> None:
    metric = group.metrics.add(name=bounded_text(name, MAX_NAME_CHARS), kind=reading.kind)
    if reading.statistics:
        metric.statistics.update(reading.statistics)
    if isinstance(reading.value, str):
        metric.text = reading.value
    elif isinstance(reading.value, int):
        metric.number = reading.value
    else:
        metric.real = reading.value
