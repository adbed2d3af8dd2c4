"""Metrics as a message, and user gauges that never return."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from flinkpy._proto import metrics_pb2
from flinkpy.metrics.metric_registry import MetricRegistry, MetricScope, NamedMetricGroup
from flinkpy.metrics.query_service import MetricQueryService, dump_metrics

SCOPE = MetricScope("job", "vertex", 2, 1, "id", "map")


def request_for(job_id: str = "job", **fields: Any) -> metrics_pb2.MetricsRequest:
    return metrics_pb2.MetricsRequest(job_id=job_id, **fields)


def registry_of(group: NamedMetricGroup) -> MetricRegistry:
    registry = MetricRegistry()
    registry.register(SCOPE, group)
    return registry


def test_a_dump_contains_scope_kind_and_value_of_metrics() -> None:
    group = NamedMetricGroup()
    group.add_group("g", "v").counter("hits").inc(3)
    group.gauge("ratio", lambda: 0.5)
    group.gauge("state", lambda: "open")
    group.distribution("sizes").update(4)
    (dumped,) = dump_metrics(registry_of(group), request_for(), "te-1").groups
    assert (dumped.job_id, dumped.vertex_id, dumped.subtask_index, dumped.attempt_number) == ("job", "vertex", 2, 1)
    assert (dumped.operator_id, dumped.operator_name, dumped.resource_id) == ("id", "map", "te-1")
    metrics = {metric.name: metric for metric in dumped.metrics}
    assert (metrics["g.v.hits"].kind, metrics["g.v.hits"].number) == ("counter", 3)
    assert metrics["ratio"].real == 0.5
    assert metrics["state"].text == "open"
    assert dict(metrics["sizes"].statistics) == {"sum": 4, "min": 4, "max": 4, "mean": 4}
    assert not dump_metrics(registry_of(group), request_for(job_id="another"), "te-1").groups
    assert not dump_metrics(registry_of(group), request_for(vertex_id="another"), "te-1").groups
    (dumped,) = dump_metrics(registry_of(group), request_for(names=["ratio", "missing"]), "te-1").groups
    assert [metric.name for metric in dumped.metrics] == ["ratio"]


def test_a_hanging_gauge_blocks_only_its_readers_and_uses_one_thread() -> None:
    gate = threading.Event()
    group = NamedMetricGroup()
    group.gauge("slow", lambda: gate.wait(30))
    service = MetricQueryService(registry_of(group), "te-1")

    async def scenario() -> None:
        asking = [asyncio.ensure_future(service.dump(request_for())) for _ in range(5)]
        await asyncio.sleep(0)
        assert [thread.name for thread in threading.enumerate()].count("metrics") == 1
        asking[0].cancel()  # the caller has given up waiting
        await asyncio.sleep(0)
        assert not any(one.done() for one in asking[1:])
        gate.set()
        for dump in await asyncio.gather(*asking[1:]):
            assert dump.groups[0].metrics[0].text == "true"

    asyncio.run(scenario())
