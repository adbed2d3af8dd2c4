"""The spans and events of a job: checkpoints in four levels of detail, initialization, recovery and failures."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.common.errors import InternalError
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.configuration import trace_options
from flinkpy.jobmaster import job_traces
from flinkpy.jobmaster.job_traces import JobTraces, checkpoint_span
from flinkpy.traces.event import Event, EventBuilder
from flinkpy.traces.reporting import Tracer
from flinkpy.traces.span import Span, SpanBuilder
from flinkpy.traces.trace_context import SpanContext

ROOT = SpanContext("a" * 32, "b" * 16)
RUNNING, DEPLOYING, CANCELED = ExecutionState.RUNNING, ExecutionState.DEPLOYING, ExecutionState.CANCELED


class ListTracer(Tracer):
    """Keeps spans and events instead of reporting them."""

    def __init__(self) -> None:
        self.spans: list[Span] = []
        self.events: list[Event] = []

    has_spans = True  # type: ignore[assignment]
    has_events = True  # type: ignore[assignment]

    def add_span(self, builder: SpanBuilder) -> None:
        self.spans.append(builder.build())

    def add_event(self, builder: EventBuilder) -> None:
        self.events.append(builder.build())

    def named(self, name: str) -> list[Span]:
        return [span for span in self.spans if span.name == name]


class FakeScheduler:
    """The part of a DefaultScheduler that JobTraces reads: two subtasks."""

    def __init__(self) -> None:
        executions = [SimpleNamespace(state=DEPLOYING) for _ in range(2)]
        self.executions = executions
        self.graph = SimpleNamespace(
            state=JobState.CREATED, vertices=[SimpleNamespace(current=execution) for execution in executions]
        )
        self.num_restarts = 0
        self.exception_history = SimpleNamespace(entries=[])
        self.statistics = SimpleNamespace(on_ended=None, latest_restored=None, last_completed=None)
        self.checkpoints = SimpleNamespace(coordinator=SimpleNamespace(statistics=self.statistics))

    def move(self, traces: JobTraces, state: ExecutionState, now_ms: int) -> None:
        for execution in self.executions:
            execution.state = state
        traces.task_state_changed()
        traces.observe(now_ms)


@pytest.fixture
def tracer() -> ListTracer:
    return ListTracer()


@pytest.fixture
def scheduler() -> FakeScheduler:
    return FakeScheduler()


def make(tracer: ListTracer, scheduler: Any, *, is_recovery: bool = False) -> JobTraces:
    return JobTraces(
        tracer,
        scheduler,
        ROOT,
        detail_level=trace_options.SPAN_PER_CHECKPOINT,
        variables={"job_id": "j"},
        is_recovery=is_recovery,
        now_ms=10,
    )


def started(tracer: ListTracer, scheduler: FakeScheduler) -> JobTraces:
    traces = make(tracer, scheduler)
    scheduler.graph.state = JobState.RUNNING
    traces.tasks_deployed(100)
    traces.observe(100)
    for value in (30, 50):
        traces.task_initialized({"InitializeStateDurationMs": value})
    scheduler.move(traces, RUNNING, 200)
    return traces


def test_the_first_initialization_is_a_child_of_the_submission(tracer: ListTracer, scheduler: FakeScheduler) -> None:
    started(tracer, scheduler)
    (span,) = tracer.spans
    assert (span.name, span.start_ms, span.end_ms, span.parent) == ("JobInitialization", 100, 200, ROOT)
    assert span.attributes == {
        "initializationStatus": "COMPLETED",
        "maxInitializeStateDurationMs": 50,
        "sumInitializeStateDurationMs": 80,
        "job_id": "j",
    }


def test_a_failure_begins_a_recovery_which_contains_the_next_initialization(
    tracer: ListTracer, scheduler: FakeScheduler
) -> None:
    traces = started(tracer, scheduler)
    scheduler.exception_history.entries.insert(
        0, SimpleNamespace(timestamp_ms=300, error=InternalError("lost"), task_name="map (1/2)", labels=None)
    )
    scheduler.num_restarts = 1
    scheduler.statistics.latest_restored = SimpleNamespace(checkpoint_id=7)
    scheduler.statistics.last_completed = SimpleNamespace(checkpoint_id=7, state_size_bytes=1200)
    scheduler.move(traces, CANCELED, 310)
    assert [event for event in tracer.events if event.name == "JobFailureEvent"] == [], "the labels are not known yet"
    scheduler.exception_history.entries[0].labels = {"type": "system"}
    traces.tasks_deployed(400)
    scheduler.move(traces, DEPLOYING, 400)
    traces.task_initialized({"RestoredStateSizeBytes": 1000})
    scheduler.move(traces, RUNNING, 500)

    (recovery,) = tracer.named("Recovery")
    assert (recovery.start_ms, recovery.end_ms, recovery.parent, recovery.error) == (300, 500, ROOT, "")
    assert recovery.attributes["cause"] == "lost"
    second = tracer.named("JobInitialization")[1]
    assert second.parent == recovery.context
    assert (second.start_ms, second.attributes["checkpointId"], second.attributes["fullSize"]) == (400, 7, 1200)
    assert "maxInitializeStateDurationMs" not in second.attributes, "it counts its own subtasks only"
    failures = [event for event in tracer.events if event.name == "JobFailureEvent"]
    assert [(one.attributes["canRestart"], one.attributes["isGlobalFailure"]) for one in failures] == [(True, False)]
    assert failures[0].attributes["failureLabel.type"] == "system"
    statuses = [event.attributes["status"] for event in tracer.events if "status" in event.attributes]
    assert statuses == ["ALL_RUNNING_OR_FINISHED", "NOT_ALL_RUNNING_OR_FINISHED", "ALL_RUNNING_OR_FINISHED"]


def test_a_new_job_master_recovers_the_job(tracer: ListTracer, scheduler: FakeScheduler) -> None:
    traces = make(tracer, scheduler, is_recovery=True)
    traces.tasks_deployed(50)
    scheduler.move(traces, RUNNING, 60)
    (recovery,) = tracer.named("Recovery")
    assert (recovery.start_ms, recovery.attributes["cause"]) == (10, "the JobMaster was replaced")


def test_a_job_that_fails_for_good_ends_its_recovery_with_an_error(
    tracer: ListTracer, scheduler: FakeScheduler
) -> None:
    traces = started(tracer, scheduler)
    scheduler.exception_history.entries.insert(
        0, SimpleNamespace(timestamp_ms=300, error=InternalError("lost"), task_name="", labels={})
    )
    scheduler.num_restarts = 1
    scheduler.move(traces, CANCELED, 310)
    traces.tasks_deployed(320)
    scheduler.graph.state = JobState.FAILED
    traces.observe(400)
    assert tracer.named("Recovery")[0].error == "the job is FAILED"
    last = tracer.named("JobInitialization")[-1]
    assert last.attributes["initializationStatus"] == "FAILED" and last.error
    changes = [event.attributes["newJobStatus"] for event in tracer.events if event.name == "JobStatusChangeEvent"]
    assert changes == ["RUNNING", "FAILED"]


def statistics() -> pb.CheckpointStatistics:
    found = pb.CheckpointStatistics(
        checkpoint_id=3,
        status="COMPLETED",
        kind=pb.CHECKPOINT,
        trigger_timestamp_ms=1_000,
        end_timestamp_ms=1_500,
        latest_ack_timestamp_ms=1_400,
        state_size_bytes=60,
        persisted_bytes=40,
        is_unaligned=True,
        metadata_bytes=9,
    )
    for name, delay_ms in (("late", 20), ("early", 10)):
        vertex = found.vertices.add(vertex_id=name, latest_ack_timestamp_ms=1_400)
        for index in range(2):
            metrics = pb.CheckpointMetrics(
                state_size_bytes=10 + index, checkpoint_start_delay_ns=(delay_ms + index) * 1_000_000
            )
            vertex.subtasks.add(subtask_index=index, ack_timestamp_ms=1_300 + index, metrics=metrics)
    return found


def test_a_checkpoint_is_a_span_and_an_event(tracer: ListTracer, scheduler: FakeScheduler) -> None:
    make(tracer, scheduler)
    scheduler.statistics.on_ended(statistics())
    (span,) = tracer.spans
    assert (span.name, span.start_ms, span.end_ms, span.parent) == ("Checkpoint", 1_000, 1_400, ROOT)
    expected = {
        "checkpointId": 3,
        "fullSize": 60,
        "checkpointedSize": 40,
        "metadataSize": 9,
        "checkpointStatus": "COMPLETED",
        "checkpointType": "Checkpoint",
        "isUnaligned": True,
        "job_id": "j",
    }
    (event,) = tracer.events
    assert event.attributes == expected
    assert span.attributes.items() >= expected.items()
    assert (span.attributes["maxCheckpointStartDelayMs"], span.attributes["sumCheckpointStartDelayMs"]) == (21, 62)
    assert span.attributes["maxStateSizeBytes"] == 11 and "sumStateSizeBytes" not in span.attributes


def test_the_detail_of_checkpoints_is_chosen() -> None:
    lists = checkpoint_span(statistics(), trace_options.SPAN_PER_CHECKPOINT_WITH_TASKS).build()
    assert lists.attributes["perTaskSumCheckpointStartDelayMs"] == [21, 41], "in the order of the barriers"
    assert lists.children == ()
    tasks = checkpoint_span(statistics(), trace_options.CHILDREN_SPANS_PER_TASK).build().children
    assert [(one.name, one.start_ms, one.attributes["jobVertexId"]) for one in tasks] == [
        ("Checkpoint_Task", 1_010, "early"),
        ("Checkpoint_Task", 1_020, "late"),
    ]
    assert tasks[0].attributes["maxStateSizeBytes"] == 11 and tasks[0].children == ()
    deep = checkpoint_span(statistics(), trace_options.CHILDREN_SPANS_PER_SUBTASK).build()
    subtask = deep.children[0].children[1]
    assert (subtask.name, subtask.start_ms, subtask.end_ms) == ("Checkpoint_Subtask", 1_011, 1_301)
    assert subtask.parent == deep.children[0].context
    assert subtask.attributes["subtaskId"] == 1


def test_a_failed_checkpoint_has_its_error() -> None:
    failed = statistics()
    failed.status, failed.latest_ack_timestamp_ms = "FAILED", 0
    failed.failure.message = "expired"
    span = checkpoint_span(failed, trace_options.SPAN_PER_CHECKPOINT).build()
    assert (span.error, span.end_ms) == ("expired", 1_500)


def test_a_trace_does_not_grow_for_ever(
    tracer: ListTracer, scheduler: FakeScheduler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(job_traces, "MAX_CHECKPOINTS_IN_TRACE", 2)
    make(tracer, scheduler)
    for _ in range(4):
        scheduler.statistics.on_ended(statistics())
    assert [span.parent for span in tracer.spans] == [ROOT, ROOT, None, None]
    assert tracer.spans[3].links == (ROOT,)
    assert len({span.context.trace_id for span in tracer.spans}) == 3
