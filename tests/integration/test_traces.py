"""The spans and events of a job on a real cluster reach a receiver of OpenTelemetry's protocol, in one trace."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from clusters import StartCluster
from job_support import FIXED_DELAY, environment, wait_until
from trace_receiver import TraceReceiver, attributes_of, trace_receiver

from flinkpy.client import cluster_client
from flinkpy.datastream import MapFunction, RuntimeContext
from flinkpy.traces.event import Event
from flinkpy.traces.span import Span
from flinkpy.traces.trace_context import SpanContext

#: The span of the program that submits the job.
CALLER = SpanContext("c" * 32, "d" * 16)


class Reporting(MapFunction):
    """Reports a span and an event when it is opened."""

    def open(self, runtime_context: RuntimeContext) -> None:
        group = runtime_context.get_metrics_group()
        group.add_span(Span.builder(Reporting, "warm up").set_attribute("rows", 3))
        group.add_event(Event.builder(Reporting, "warm").set_severity("WARN"))

    def map(self, value: int) -> int:
        return value


@pytest.fixture
def receiver() -> Iterator[TraceReceiver]:
    with trace_receiver() as found:
        yield found


def reporters(receiver: TraceReceiver) -> dict[str, str]:
    return {
        f"{kind}.{key}": value
        for kind in ("traces", "events")
        for key, value in {
            "reporters": "otel",
            "reporter.otel.factory.class": "otel",
            "reporter.otel.exporter.endpoint": receiver.endpoint,
        }.items()
    }


def test_a_job_and_its_recovery_are_one_trace(
    start_cluster: StartCluster, receiver: TraceReceiver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv(cluster_client.TRACEPARENT_VARIABLE, CALLER.traceparent)
    properties = {**reporters(receiver), **FIXED_DELAY, "rest.enabled": "false"}
    cluster = start_cluster(2, properties=properties)
    directory = (tmp_path / "checkpoints").as_uri()
    env = environment(cluster, 1, **FIXED_DELAY, **{"execution.checkpointing.dir": directory})
    env.enable_checkpointing(200)
    env.from_sequence(0, 1 << 40).map(Reporting()).filter(lambda value: False).print()
    client = env.execute_async("traced")
    wait_until(lambda: receiver.named("Checkpoint"), "a checkpoint is reported")
    details = cluster.client.request_job(str(client.get_job_id()))
    where = details.vertices[0].subtasks[0].resource_id
    victim = next(one for one in cluster.task_executors if str(one.popen.pid) in where.split("-"))
    cluster.kill(victim.spec.name)
    wait_until(lambda: receiver.named("Recovery"), "the recovery is reported")
    wait_until(lambda: len(receiver.named("JobInitialization")) == 2, "both initializations are reported")
    client.cancel().result()
    wait_until(lambda: any(attributes_of(one).get("newJobStatus") == "CANCELED" for one in receiver.records), "the end")

    (submission,) = receiver.named("Submission")
    calls = {span.span_id: span for span in receiver.named("flinkpy.Dispatcher/SubmitJob")}
    assert submission.parent_span_id in calls, "the call is the parent of the submission"
    assert calls[submission.parent_span_id].parent_span_id == bytes.fromhex(CALLER.span_id)
    (recovery,) = receiver.named("Recovery")
    first, second = sorted(receiver.named("JobInitialization"), key=lambda span: span.start_time_unix_nano)
    checkpoint = receiver.named("Checkpoint")[0]
    assert {recovery.parent_span_id, first.parent_span_id, checkpoint.parent_span_id} == {submission.span_id}
    assert second.parent_span_id == recovery.span_id
    traces = {span.trace_id for span in (submission, recovery, first, second, checkpoint, *calls.values())}
    assert traces == {bytes.fromhex(CALLER.trace_id)}

    assert attributes_of(checkpoint)["checkpointStatus"] == "COMPLETED"
    assert attributes_of(checkpoint)["job_name"] == "traced"
    assert {"sumInitializeStateDurationMs", "maxMailboxStartDurationMs"} <= set(attributes_of(first))
    assert "checkpointId" not in attributes_of(first)
    restored = attributes_of(second)
    assert restored["checkpointId"] and restored["initializationStatus"] == "COMPLETED"
    assert {"sumRestoredStateSizeBytes", "maxDownloadStateDurationMs", "fullSize"} <= set(restored)
    assert recovery.start_time_unix_nano <= second.start_time_unix_nano <= recovery.end_time_unix_nano

    user = receiver.named("warm up")[0]
    assert attributes_of(user)["rows"] == 3 and attributes_of(user)["job_name"] == "traced"
    parents = {span.parent_span_id for span in receiver.named("warm up")}
    assert submission.span_id in parents and parents <= {submission.span_id, recovery.span_id}
    names = {record.event_name for record in receiver.records}
    assert names >= {
        "JobStatusChangeEvent",
        "JobFailureEvent",
        "CheckpointEvent",
        "AllSubtasksStatusChangeEvent",
        "warm",
    }
    statuses = [attributes_of(one) for one in receiver.records if one.event_name == "AllSubtasksStatusChangeEvent"]
    assert [one["status"] for one in statuses[:3]] == [
        "ALL_RUNNING_OR_FINISHED",
        "NOT_ALL_RUNNING_OR_FINISHED",
        "ALL_RUNNING_OR_FINISHED",
    ]
