"""Checkpoints of a JobMaster with testing gateways, real storage and simulated tasks."""

from __future__ import annotations

import asyncio
import errno
import functools
import hashlib
import threading
from pathlib import Path

import cloudpickle
import pytest
from jobmaster_fakes import job_graph, source_and_sink, vertex
from testing_gateways import CONTEXT, Process

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy._proto import common_pb2, dispatcher_pb2
from flinkpy.checkpoint.coordinator.pending_checkpoint import inline_handle
from flinkpy.checkpoint.metadata import decode_metadata
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, checkpoint_error
from flinkpy.common.errors import (
    CheckpointError,
    ConfigurationError,
    CorruptStateError,
    FunctionError,
    LeadershipLostError,
    RpcTimeoutError,
)
from flinkpy.common.states import JobState
from flinkpy.highavailability.file_checkpoint_stores import FileCheckpointPointerStore, FileCheckpointRecovery
from flinkpy.jobmaster.scheduler.events import CheckDeadlines
from flinkpy.rpc.error_codec import error_to_proto


def in_loop(test):
    """Runs an async test on its own event loop."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(test(*args, **kwargs))

    return run


class CheckpointedProcess(Process):
    """A process whose tasks acknowledge checkpoints when the test tells them."""

    def __init__(self, graph, tmp_path, configuration=None, **environment):
        self.checkpoint_directory = tmp_path / "checkpoints"
        super().__init__(
            graph,
            tmp_path,
            {
                "execution.checkpointing.interval": "10 ms",
                "execution.checkpointing.dir": str(self.checkpoint_directory),
                "restart-strategy.type": "fixed-delay",
                "restart-strategy.fixed-delay.attempts": "100",
                "restart-strategy.fixed-delay.delay": "0 ms",
                **(configuration or {}),
            },
            **environment,
        )

    async def run(self, slots=2):
        await self.start()
        await self.add_task_manager("tm1", slots)
        await self.run_everything()

    async def triggered(self, number=1):
        """Returns the trigger request with this number, counted from 1."""
        await self.passing(lambda: len(self.peers.requests("trigger_checkpoints")) >= number)
        return self.peers.requests("trigger_checkpoints")[number - 1]

    async def passing(self, condition):
        """Advances the time until `condition` holds."""
        async with asyncio.timeout(10):
            while not condition():
                self.clock.advance(5)
                if self.job_master.scheduler.next_deadline_ms is not None:
                    self.job_master.handle(CheckDeadlines())
                await asyncio.sleep(0.001)
        await self.settle()

    async def acknowledge(self, checkpoint_id, attempt, data=b"state"):
        state = pb.TaskStateSnapshot()
        name = attempt.split("_")[1]
        handle = state.operators[f"{name}-op"].operator.add()
        handle.file.CopyFrom(inline_handle(data))
        handle.states.add(name="list", mode=pb.SPLIT_DISTRIBUTE, offsets=[0], lengths=[len(data)])
        request = pb.AcknowledgeCheckpointRequest(
            job_id="job", execution_attempt_id=attempt, checkpoint_id=checkpoint_id, state=state
        )
        self.call("acknowledge_checkpoint", request)
        await self.settle()

    async def acknowledge_all(self, checkpoint_id, attempts=None):
        for attempt in attempts or self.current:
            await self.acknowledge(checkpoint_id, attempt)

    async def complete(self, checkpoint_id, attempts=None):
        await self.acknowledge_all(checkpoint_id, attempts)
        await self.until(lambda: self.statistics().latest_completed.checkpoint_id >= checkpoint_id)

    async def complete_with_file(self, checkpoint_id, file):
        """The first task acknowledges with a file as state; the others have no state."""
        first, *others = self.current
        state = pb.TaskStateSnapshot()
        handle = state.operators["source-op"].operator.add().file
        handle.path, handle.size_bytes = str(file), file.stat().st_size
        handle.sha256 = hashlib.sha256(file.read_bytes()).digest()
        self.call(
            "acknowledge_checkpoint",
            pb.AcknowledgeCheckpointRequest(
                job_id="job", execution_attempt_id=first, checkpoint_id=checkpoint_id, state=state
            ),
        )
        await self.complete(checkpoint_id, others)

    async def decline(self, checkpoint_id, attempt, reason):
        request = pb.DeclineCheckpointRequest(
            job_id="job",
            execution_attempt_id=attempt,
            checkpoint_id=checkpoint_id,
            reason=error_to_proto(checkpoint_error(reason)),
        )
        self.call("decline_checkpoint", request)
        await self.settle()

    async def passing_to_the_next_deadline(self):
        scheduler = self.job_master.scheduler
        await self.until(lambda: scheduler.checkpoints.coordinator.next_deadline_ms is not None)
        due_ms = scheduler.checkpoints.coordinator.next_deadline_ms
        self.clock.advance(max(0, due_ms - self.job_master._now_ms))
        self.job_master.handle(CheckDeadlines())
        await self.settle()

    @property
    def recovery_directory(self):
        return self.job_master._environment.working_directory / "recovery"

    @property
    def current(self):
        return [str(v.current.attempt_id) for v in self.job_master.scheduler.graph.vertices]

    def statistics(self):
        return self.call("request_checkpoint_statistics", pb.CheckpointStatisticsRequest(job_id="job"))

    def confirmed(self):
        return [r.checkpoint_id for r in self.peers.requests("confirm_checkpoints")]

    def aborted(self):
        return [r.checkpoint_id for r in self.peers.requests("abort_checkpoints")]


@pytest.fixture
def process(tmp_path):
    return lambda graph=None, configuration=None: CheckpointedProcess(
        graph or source_and_sink(1), tmp_path, configuration
    )


@in_loop
async def test_a_periodic_checkpoint_is_triggered_acknowledged_written_and_confirmed(process):
    job = process()
    await job.run()
    trigger = await job.triggered()
    source, sink = job.current
    assert trigger.checkpoint_id == 1
    assert list(trigger.execution_attempt_ids) == [source]
    assert trigger.options.alignment == pb.ALIGNED
    assert trigger.options.location.exclusive_directory == str(job.checkpoint_directory / "job" / "chk-1")
    await job.acknowledge(1, source)
    assert job.confirmed() == []
    await job.acknowledge(1, sink)
    await job.until(lambda: job.confirmed() == [1])
    (confirmation,) = job.peers.requests("confirm_checkpoints")
    assert list(confirmation.execution_attempt_ids) == [source, sink]
    path = job.checkpoint_directory / "job" / "chk-1" / "_metadata"
    metadata = decode_metadata(path.read_bytes(), str(path))
    assert [operator.operator_id for operator in metadata.operators] == ["source-op", "sink-op"]
    assert metadata.operators[0].subtasks[0].operator[0].file.data == b"state"
    assert job.statistics().num_completed == 1
    await job.job_master.close()


@in_loop
async def test_failed_tasks_are_deployed_with_their_state_of_the_last_completed_checkpoint(process):
    job = process()
    await job.run()
    await job.triggered()
    await job.complete(1)
    await job.triggered(2)
    await job.acknowledge(2, job.current[0], b"not complete")
    source, sink = job.current
    await job.update(source, "FAILED", error_to_proto(FunctionError("boom")))
    await job.update(sink, "CANCELED")
    await job.until(lambda: len(job.deployed) == 4)
    for task in job.peers.requests("submit_tasks")[-1].tasks:
        assert task.restore.checkpoint_id == 1
        assert task.restore.state.operators[f"{task.vertex_id}-op"].operator[0].file.data == b"state"
    assert job.aborted() == [2]  # only the running task is notified
    assert job.statistics().latest_failed.failure.details["failure_reason"] == "JOB_FAILOVER_REGION"
    assert job.statistics().num_restored == 1
    await job.job_master.close()


@in_loop
async def test_without_a_completed_checkpoint_failed_tasks_restart_without_state(process):
    job = process()
    await job.run()
    await job.triggered()
    source, sink = job.current
    await job.update(source, "FAILED", error_to_proto(FunctionError("boom")))
    await job.update(sink, "CANCELED")
    await job.until(lambda: len(job.deployed) == 4)
    assert not any(task.HasField("restore") for task in job.peers.requests("submit_tasks")[-1].tasks)
    await job.job_master.close()


@in_loop
async def test_the_next_jobmaster_restores_the_last_completed_checkpoint(process):
    first = process()
    await first.run()
    await first.triggered()
    await first.complete(1)
    await first.triggered(2)
    await first.job_master.close()  # it dies without notifying anyone

    second = process()
    await second.run()
    restores = [task.restore for task in second.peers.requests("submit_tasks")[-1].tasks]
    assert [restore.checkpoint_id for restore in restores] == [1, 1]
    assert restores[0].state.operators["source-op"].operator[0].file.data == b"state"
    trigger = await second.triggered()
    assert trigger.checkpoint_id == 3, "the first JobMaster has used id 2"
    await second.job_master.close()


@in_loop
async def test_a_job_restores_a_savepoint_without_owning_its_files(process, tmp_path):
    first = process(configuration={"execution.checkpointing.savepoint-dir": str(tmp_path / "savepoints")})
    await first.run()
    path = await saved(first, "trigger_savepoint", pb.TriggerSavepointRequest(job_id="job", trigger_id="t"))
    await first.job_master.close()

    other = source_and_sink(1)
    other.job_id = "job"
    second = CheckpointedProcess(
        other, tmp_path / "second", {"execution.state-recovery.path": path, "execution.checkpointing.num-retained": "1"}
    )
    await second.run()
    assert {task.restore.checkpoint_id for task in second.peers.requests("submit_tasks")[-1].tasks} == {1}
    trigger = await second.triggered()
    assert trigger.options.kind == pb.FULL_CHECKPOINT
    await second.complete(trigger.checkpoint_id)
    assert (Path(path) / "_metadata").exists()
    assert (await second.triggered(2)).options.kind == pb.CHECKPOINT
    await second.job_master.close()


async def saved(job, method, request):
    """Requests and completes a savepoint. Returns its path."""
    job.peers.calls.clear()
    answer = asyncio.ensure_future(getattr(job.servicer, method)(request, CONTEXT))
    trigger = await job.triggered(1)
    while trigger.options.kind in (pb.CHECKPOINT, pb.FULL_CHECKPOINT):
        await job.acknowledge_all(trigger.checkpoint_id)
        job.peers.calls.clear()
        trigger = await job.triggered(1)
    await job.acknowledge_all(trigger.checkpoint_id)
    if method == "stop_with_savepoint":
        await job.until(lambda: trigger.checkpoint_id in job.confirmed())
        assert not answer.done()
        for attempt in job.current:
            await job.update(attempt, "FINISHED")
    result = await asyncio.wait_for(answer, 10)
    assert result.checkpoint_id == trigger.checkpoint_id
    return result.path


@in_loop
async def test_a_repeated_savepoint_request_takes_one_savepoint(process, tmp_path):
    job = process(configuration={"execution.checkpointing.interval": "0"})
    await job.run()
    request = pb.TriggerSavepointRequest(job_id="job", trigger_id="t", target_directory=str(tmp_path / "s"))
    again = asyncio.ensure_future(job.servicer.trigger_savepoint(request, CONTEXT))
    path = await saved(job, "trigger_savepoint", request)
    assert (await again).path == path
    assert (await job.servicer.trigger_savepoint(request, CONTEXT)).path == path
    assert len(list((tmp_path / "s").iterdir())) == 1
    await job.job_master.close()


@in_loop
async def test_a_savepoint_without_a_directory_is_refused(process):
    job = process()
    await job.run()
    with pytest.raises(ConfigurationError, match="savepoint-dir"):
        await job.servicer.trigger_savepoint(pb.TriggerSavepointRequest(job_id="job", trigger_id="t"), CONTEXT)
    await job.job_master.close()


@in_loop
async def test_stop_with_savepoint_ends_the_job_as_finished(process, tmp_path):
    job = process()
    await job.run()
    request = pb.StopWithSavepointRequest(job_id="job", trigger_id="t", target_directory=str(tmp_path / "s"))
    path = await saved(job, "stop_with_savepoint", request)
    assert (Path(path) / "_metadata").exists()
    await asyncio.wait_for(job.job_master.terminated.wait(), 5)
    assert job.job_master.state.name == "FINISHED"
    assert (Path(path) / "_metadata").exists(), "a savepoint belongs to the user"
    assert not (job.checkpoint_directory / "job").exists()
    await job.job_master.close()


@in_loop
async def test_a_manual_checkpoint_is_taken_without_periodic_ones(process):
    job = process(configuration={"execution.checkpointing.interval": "0"})
    await job.run()
    request = pb.TriggerCheckpointRequest(job_id="job", trigger_id="t", full=True)
    answer = asyncio.ensure_future(job.servicer.trigger_checkpoint(request, CONTEXT))
    trigger = await job.triggered()
    assert trigger.options.kind == pb.FULL_CHECKPOINT
    await job.acknowledge_all(1)
    result = await asyncio.wait_for(answer, 10)
    assert (Path(result.path) / "_metadata").exists()
    await job.job_master.close()


@in_loop
async def test_a_request_is_answered_with_the_reason_why_it_failed(process):
    # The tasks do not run within that time.
    job = process(configuration={"execution.checkpointing.interval": "0", "execution.checkpointing.timeout": "10 ms"})
    await job.start()
    request = pb.TriggerCheckpointRequest(job_id="job", trigger_id="t")
    answer = asyncio.ensure_future(job.servicer.trigger_checkpoint(request, CONTEXT))
    await job.passing(answer.done)
    with pytest.raises(CheckpointError) as raised:
        await answer
    assert raised.value.details["failure_reason"] == "NOT_ALL_REQUIRED_TASKS_RUNNING"
    await job.job_master.close()


@in_loop
async def test_a_checkpoint_directory_that_cannot_be_written_fails_the_job_before_it_runs(process, tmp_path):
    blocked = tmp_path / "blocked"
    blocked.write_text("a file, not a directory")
    job = process(configuration={"execution.checkpointing.dir": str(blocked)})
    await job.start("FAILED")
    assert job.result.error.type == "CheckpointStorageError"
    assert str(blocked) in job.result.error.message
    assert job.deployed == []
    await job.job_master.close()


@in_loop
async def test_a_missing_savepoint_fails_the_job_before_it_runs(process, tmp_path):
    job = process(configuration={"execution.state-recovery.path": str(tmp_path / "nowhere")})
    await job.start("FAILED")
    assert str(tmp_path / "nowhere") in job.result.error.message
    await job.job_master.close()


@in_loop
async def test_a_savepoint_with_state_of_a_removed_operator_is_rejected_unless_allowed(process, tmp_path):
    first = process()
    await first.run()
    request = pb.TriggerSavepointRequest(job_id="job", trigger_id="t", target_directory=str(tmp_path / "s"))
    path = await saved(first, "trigger_savepoint", request)
    await first.job_master.close()
    other = job_graph(vertex("source", 1))
    configuration = {"execution.state-recovery.path": path}
    refused = CheckpointedProcess(other, tmp_path / "refused", configuration)
    await refused.start("FAILED")
    assert refused.result.error.type == "StateRestoreError"
    assert "sink" in refused.result.error.message
    await refused.job_master.close()
    configuration["execution.state-recovery.ignore-unclaimed-state"] = "true"
    taken = CheckpointedProcess(other, tmp_path / "taken", configuration)
    await taken.run()
    await taken.job_master.close()


@in_loop
async def test_the_max_parallelism_of_the_state_replaces_a_derived_one(process, tmp_path):
    graph = job_graph(
        vertex("source", 1, results=["data"], max_parallelism=7), vertex("sink", 1, inputs=["data"], max_parallelism=9)
    )
    first = process(graph)
    await first.run()
    request = pb.TriggerSavepointRequest(job_id="job", trigger_id="t", target_directory=str(tmp_path / "s"))
    path = await saved(first, "trigger_savepoint", request)
    await first.job_master.close()
    second = CheckpointedProcess(source_and_sink(2), tmp_path / "second", {"execution.state-recovery.path": path})
    await second.run(slots=2)
    source, sink = second.peers.requests("submit_tasks")[-1].vertices
    assert (source.max_parallelism, sink.max_parallelism) == (7, 9)
    assert source.results[0].consumer_max_parallelism == 9
    await second.job_master.close()


@in_loop
async def test_a_trigger_that_cannot_be_delivered_declines_the_checkpoint(process):
    job = process(configuration={"execution.checkpointing.tolerable-failed-checkpoints": "5"})
    job.peers.answers["trigger_checkpoints"] = lambda _: RpcTimeoutError("no answer")
    await job.run()
    await job.triggered()
    await job.until(lambda: job.statistics().num_failed >= 1)
    assert job.statistics().latest_failed.failure.details["failure_reason"] == "TRIGGER_CHECKPOINT_FAILURE"
    assert job.aborted()[0] == 1
    await job.job_master.close()


@in_loop
async def test_a_decline_of_a_task_executor_without_tasks_is_not_a_failure(process):
    """The TaskExecutor has no tasks of the job any more. Nothing has failed."""
    job = process(configuration={"execution.checkpointing.tolerable-failed-checkpoints": "0"})
    not_ready = CheckpointFailureReason.CHECKPOINT_DECLINED_TASK_NOT_READY
    job.peers.answers["trigger_checkpoints"] = lambda _: checkpoint_error(not_ready, "tm1 does not work for the job")
    await job.run()
    await job.triggered(3)
    await job.until(lambda: job.statistics().num_failed >= 2)
    assert job.statistics().latest_failed.failure.details["failure_reason"] == not_ready.name
    assert job.job_master.scheduler.state is JobState.RUNNING
    assert job.statistics().num_restored == 0
    await job.job_master.close()


@in_loop
async def test_a_confirmation_is_repeated_until_it_is_answered(process):
    job = process(configuration={"execution.checkpointing.interval": "1 h"})
    outcomes = [RpcTimeoutError("no answer"), RpcTimeoutError("no answer")]
    job.peers.answers["confirm_checkpoints"] = lambda _: outcomes.pop() if outcomes else pb.CheckpointNotification()
    await job.run()
    await job.passing_to_the_next_deadline()
    await job.triggered()
    await job.acknowledge_all(1)
    await job.until(lambda: job.confirmed() == [1, 1, 1])
    await job.job_master.close()


@in_loop
async def test_a_failed_checkpoint_that_is_not_tolerated_restarts_the_job(process):
    job = process()
    await job.run()
    await job.triggered()
    await job.decline(1, job.current[1], CheckpointFailureReason.CHECKPOINT_ASYNC_EXCEPTION)
    assert job.job_master.state.name == "RESTARTING"
    assert len(job.peers.requests("cancel_tasks")[0].execution_attempt_ids) == 2
    assert "tolerable-failed-checkpoints" in job.details().exception_history[0].error.message
    await job.job_master.close()


@in_loop
async def test_the_checkpoints_of_a_job_that_ended_are_deleted(process):
    job = process()
    await job.run()
    await job.triggered()
    await job.complete(1)
    for attempt in job.current:
        await job.update(attempt, "FINISHED")
    await asyncio.wait_for(job.job_master.terminated.wait(), 5)
    assert not (job.checkpoint_directory / "job").exists()
    assert not (job.recovery_directory / "completed-checkpoints").exists()
    await job.job_master.close()


@in_loop
async def test_a_checkpoint_whose_location_is_created_at_the_end_leaves_no_files(process):
    job = process()
    io = job.job_master.checkpoints._io
    making, may_make, done = threading.Event(), threading.Event(), []
    make_location, shut_down = io.make_location, io.shut_down

    def make_late(effect):
        if effect.checkpoint_id > 1:
            making.set()
            assert may_make.wait(10)
            done.append("place")
        return make_location(effect)

    def note_the_end(state, cause):
        done.append("end")
        shut_down(state, cause)

    io.make_location, io.shut_down = make_late, note_the_end
    await job.run()
    await job.triggered()
    await job.complete(1)
    await job.passing(making.is_set)
    for attempt in job.current:
        await job.update(attempt, "FINISHED")
    assert job.result.status == common_pb2.FINISHED
    may_make.set()
    await asyncio.wait_for(job.job_master.terminated.wait(), 5)
    assert done == ["place", "end"]
    assert not (job.checkpoint_directory / "job").exists()
    assert list(job.recovery_directory.iterdir()) == []
    await job.job_master.close()


@in_loop
async def test_the_checkpoints_of_a_canceled_job_can_be_retained(process):
    job = process(configuration={"execution.checkpointing.externalized-checkpoint-retention": "RETAIN_ON_CANCELLATION"})
    await job.run()
    await job.triggered()
    await job.complete(1)
    job.call("cancel", dispatcher_pb2.JobIdMessage(job_id="job"))
    await job.settle()
    for attempt in job.current:
        await job.update(attempt, "CANCELED")
    await asyncio.wait_for(job.job_master.terminated.wait(), 5)
    assert (job.checkpoint_directory / "job" / "chk-1" / "_metadata").exists()
    assert not (job.recovery_directory / "completed-checkpoints").exists()
    await job.job_master.close()


@in_loop
async def test_a_suspended_job_keeps_everything(process):
    job = process()
    await job.run()
    await job.triggered()
    await job.complete(1)
    job.job_master.suspend("the Dispatcher is lost")
    await asyncio.wait_for(job.job_master.terminated.wait(), 5)
    assert (job.checkpoint_directory / "job" / "chk-1" / "_metadata").exists()
    assert (job.recovery_directory / "completed-checkpoints").exists()
    await job.job_master.close()


@in_loop
async def test_checkpoints_are_deleted_only_after_the_dispatcher_has_the_result(process):
    job = process()
    job.peers.answers["notify_job_terminated"] = lambda _: asyncio.get_running_loop().create_future()
    await job.run()
    await job.triggered()
    await job.complete(1)
    for attempt in job.current:
        await job.update(attempt, "FINISHED")
    assert job.job_master.state.name == "FINISHED"
    assert (job.recovery_directory / "completed-checkpoints").exists()
    await job.job_master.close()


@in_loop
async def test_older_checkpoints_are_deleted_once_a_newer_one_counts(process):
    job = process(configuration={"execution.checkpointing.num-retained": "2"})
    await job.run()
    for number in (1, 2, 3):
        trigger = await job.triggered(number)
        await job.complete(trigger.checkpoint_id)
    directory = job.checkpoint_directory / "job"
    await job.until(lambda: not (directory / "chk-1").exists())
    assert (directory / "chk-2" / "_metadata").exists()
    assert (directory / "chk-3" / "_metadata").exists()
    assert [entry.discarded for entry in job.statistics().history[-3:]] == [False, False, True]
    await job.job_master.close()


@in_loop
async def test_a_damaged_checkpoint_is_dropped_and_the_one_before_is_restored(process):
    job = process(configuration={"execution.checkpointing.num-retained": "2"})
    await job.run()
    directory = job.checkpoint_directory / "job"
    for number in (1, 2):
        trigger = await job.triggered(number)
        file = directory / f"chk-{trigger.checkpoint_id}" / "state"
        file.write_bytes(b"good")
        await job.complete_with_file(trigger.checkpoint_id, file)
    (directory / "chk-2" / "state").write_bytes(b"baad")
    source, sink = job.current
    await job.update(source, "FAILED", error_to_proto(FunctionError("boom")))
    await job.update(sink, "CANCELED")
    await job.until(lambda: len(job.deployed) == 4)
    source, sink = job.current
    damage = error_to_proto(CorruptStateError(f"{directory}/chk-2/state is damaged"))
    await job.update(source, "FAILED", damage)
    await job.update(sink, "CANCELED")
    await job.until(lambda: len(job.deployed) == 6)
    assert {task.restore.checkpoint_id for task in job.peers.requests("submit_tasks")[-1].tasks} == {1}
    await job.job_master.close()


@in_loop
async def test_damage_without_an_older_checkpoint_fails_the_job(process):
    job = process()
    await job.run()
    trigger = await job.triggered()
    file = job.checkpoint_directory / "job" / "chk-1" / "state"
    file.write_bytes(b"good")
    await job.complete_with_file(trigger.checkpoint_id, file)
    file.write_bytes(b"baad")
    source, sink = job.current
    await job.update(source, "FAILED", error_to_proto(FunctionError("boom")))
    await job.update(sink, "CANCELED")
    await job.until(lambda: len(job.deployed) == 4)
    source, sink = job.current
    await job.update(source, "FAILED", error_to_proto(CorruptStateError(f"{file} is damaged")))
    await job.update(sink, "CANCELED")
    await job.until(lambda: job.job_master.state.name == "FAILED")
    assert job.result.error.type == "CorruptStateError"
    await job.job_master.close()


# Operator coordinators


class RecordingCoordinator:
    """Records all calls in a list that the test can read."""

    def __init__(self, context, calls, fails):
        self.context, self.calls, self.fails = context, calls, fails

    def start(self):
        self.calls.append(("start",))

    def close(self):
        return

    def subtask_ready(self, subtask):
        self.calls.append(("ready", subtask))

    def subtask_reset(self, subtask, checkpoint_id):
        self.calls.append(("reset", subtask, checkpoint_id))

    def handle_event(self, subtask, attempt, event):
        self.context.send_event(subtask, event)

    def handle_request(self, payload):
        self.context.send_event(0, payload.decode())
        return b""

    def checkpoint(self, checkpoint_id):
        if self.fails:
            raise ValueError("cannot be checkpointed")
        self.calls.append(("checkpoint", checkpoint_id))
        return f"state {checkpoint_id}".encode()

    def notify_checkpoint_complete(self, checkpoint_id):
        self.calls.append(("complete", checkpoint_id))

    def notify_checkpoint_aborted(self, checkpoint_id):
        self.calls.append(("aborted", checkpoint_id))

    def reset_to_checkpoint(self, checkpoint_id, state):
        self.calls.append(("reset to", checkpoint_id, state))


CALLS: list[tuple[object, ...]] = []


class RecordingProvider:
    def __init__(self, fails=False):
        self.fails = fails

    def create(self, context):
        import test_job_master_checkpoints

        return RecordingCoordinator(context, test_job_master_checkpoints.CALLS, self.fails)


def coordinated(fails=False, parallelism=1, **sink):
    CALLS.clear()
    return job_graph(
        vertex(
            "source", parallelism, results=["data"], coordinator=cloudpickle.dumps(RecordingProvider(fails)), **sink
        ),
        vertex("sink", parallelism, inputs=["data"]),
    )


def events_sent(job):
    return [
        cloudpickle.loads(event.payload_pickle)
        for request in job.peers.requests("send_operator_events_to_tasks")
        for event in request.events
    ]


def ask(job, text):
    job.call(
        "deliver_coordination_request",
        dispatcher_pb2.CoordinationRequest(job_id="job", operator_id="source-op", payload=text.encode()),
    )


@in_loop
async def test_a_coordinators_state_is_part_of_the_checkpoint_and_comes_back(process):
    job = process(coordinated())
    await job.run()
    await job.triggered()
    await job.complete(1)
    assert ("checkpoint", 1) in CALLS
    assert ("complete", 1) in CALLS
    source, sink = job.current
    await job.update(source, "FAILED", error_to_proto(FunctionError("boom")))
    await job.update(sink, "CANCELED")
    assert ("reset to", 1, b"state 1") in CALLS
    await job.job_master.close()


@in_loop
async def test_a_coordinator_is_reset_before_it_starts_when_the_job_is_recovered(process):
    first = process(coordinated())
    await first.run()
    await first.triggered()
    await first.complete(1)
    await first.job_master.close()
    CALLS.clear()
    second = process(coordinated())
    await second.run()
    assert CALLS[:2] == [("reset to", 1, b"state 1"), ("start",)]
    await second.job_master.close()


@in_loop
async def test_a_single_subtask_is_reset_to_the_checkpoint(process):
    job = process(coordinated(parallelism=2, pointwise=True))
    await job.run(slots=2)
    await job.triggered()
    await job.complete(1)
    source, _, sink, _ = job.current
    await job.update(source, "FAILED", error_to_proto(FunctionError("boom")))
    await job.update(sink, "CANCELED")
    assert ("reset", 0, 1) in CALLS
    assert not [call for call in CALLS if call[0] == "reset to"]
    await job.job_master.close()


@in_loop
async def test_events_of_before_the_checkpoint_arrive_before_the_trigger_and_later_ones_after_it(process):
    job = process(coordinated(), {"execution.checkpointing.interval": "1 h"})
    await job.run()
    arrival = asyncio.get_running_loop().create_future()
    job.peers.answers["send_operator_events_to_tasks"] = lambda _: arrival
    ask(job, "before")
    await job.settle()
    await job.passing_to_the_next_deadline()
    await job.until(lambda: ("checkpoint", 1) in CALLS)
    ask(job, "after")
    await job.settle()
    assert job.peers.requests("trigger_checkpoints") == []
    triggered = asyncio.get_running_loop().create_future()
    job.peers.answers["trigger_checkpoints"] = lambda _: triggered
    job.peers.answers.pop("send_operator_events_to_tasks")
    arrival.set_result(pb.CheckpointNotification())
    await job.until(lambda: len(job.peers.requests("trigger_checkpoints")) == 1)
    assert events_sent(job) == ["before"]
    triggered.set_result(pb.CheckpointNotification())
    await job.until(lambda: events_sent(job) == ["before", "after"])
    await job.job_master.close()


@in_loop
async def test_a_coordinator_that_cannot_be_checkpointed_declines_the_checkpoint(process):
    job = process(coordinated(fails=True), {"execution.checkpointing.tolerable-failed-checkpoints": "1000"})
    await job.run()
    await job.passing(lambda: job.statistics().num_failed >= 2)
    assert "cannot be checkpointed" in job.statistics().latest_failed.failure.message
    assert job.job_master.state.name == "RUNNING"
    ask(job, "still there")
    await job.until(lambda: events_sent(job) == ["still there"])
    await job.job_master.close()


@in_loop
async def test_a_job_with_checkpoints_restarts_by_default_and_one_without_does_not(tmp_path):
    for interval, state in (("10 ms", "RESTARTING"), ("0", "FAILED")):
        job = Process(source_and_sink(1), tmp_path / interval, {"execution.checkpointing.interval": interval})
        await job.start()
        await job.add_task_manager("tm1", 1)
        await job.run_everything()
        source, sink = job.deployed
        await job.update(source, "FAILED", error_to_proto(FunctionError("boom")))
        await job.update(sink, "CANCELED")
        assert job.job_master.state.name == state
        await job.job_master.close()


@in_loop
async def test_a_bounded_job_takes_its_last_checkpoint_at_the_end_of_its_data(process):
    job = process(configuration={"execution.checkpointing.interval": "1 h"})
    await job.run()
    for attempt in job.current:
        job.call("notify_end_of_data", pb.EndOfDataNotification(job_id="job", execution_attempt_ids=[attempt]))
    await job.until(lambda: len(job.peers.requests("trigger_checkpoints")) == 1)
    await job.acknowledge_all(1)
    await job.until(lambda: job.confirmed() == [1])
    await job.job_master.close()


@in_loop
async def test_a_job_that_cannot_restore_its_checkpoint_does_not_delete_it(process, tmp_path):
    first = process()
    await first.run()
    await first.triggered()
    await first.complete(1)
    await first.job_master.close()
    second = process(job_graph(vertex("source", 1)))  # no operator owns the state of the sink any more
    await second.start("FAILED")
    assert second.result.error.type == "StateRestoreError"
    await asyncio.wait_for(second.job_master.terminated.wait(), 5)
    await second.job_master.close()
    assert (first.checkpoint_directory / "job" / "chk-1" / "_metadata").exists()
    third = process()
    await third.run()
    assert {task.restore.checkpoint_id for task in third.peers.requests("submit_tasks")[-1].tasks} == {1}
    await third.job_master.close()


class FullDisk(FileCheckpointRecovery):
    def pointers(self):
        raise OSError(errno.ENOSPC, "No space left on device")


@in_loop
@pytest.mark.parametrize("is_recovery", [False, True])
async def test_a_disk_that_is_full_when_a_job_is_recovered_ends_the_jobmaster_and_not_the_job(tmp_path, is_recovery):
    environment = {"checkpoint_recovery": FullDisk(tmp_path), "is_recovery": is_recovery}
    job = CheckpointedProcess(source_and_sink(1), tmp_path, **environment)
    fatal = []
    job.job_master.on_fatal_error = fatal.append
    job.job_master.start()
    await job.until(lambda: fatal or job.job_master.state is JobState.FAILED)
    assert [error.errno for error in fatal] == [errno.ENOSPC] * is_recovery
    assert job.job_master.state is (JobState.INITIALIZING if is_recovery else JobState.FAILED)
    await job.job_master.close()


# Loss of the leadership


class LeaderPointers(FileCheckpointPointerStore):
    """A store like that in ZooKeeper, which can be written only while the JobMaster leads."""

    leads = True

    def save(self, pointers):
        if not self.leads:
            raise LeadershipLostError("the latch of this JobMaster is gone")
        super().save(pointers)


class LeaderRecovery(FileCheckpointRecovery):
    def __init__(self, directory):
        super().__init__(directory)
        self.store = LeaderPointers(directory)

    def pointers(self):
        return self.store


@in_loop
async def test_a_checkpoint_without_leadership_is_not_completed_and_nothing_is_deleted(tmp_path):
    recovery = LeaderRecovery(tmp_path)
    job = CheckpointedProcess(source_and_sink(), tmp_path, checkpoint_recovery=recovery)
    await job.run()
    await job.triggered()
    await job.complete(1)
    await job.triggered(2)
    recovery.store.leads = False
    await job.acknowledge_all(2)
    await job.until(lambda: job.job_master.state is JobState.SUSPENDED)
    assert len(job.lost_leaderships) == 1
    assert job.statistics().latest_completed.checkpoint_id == 1
    assert [c.checkpoint_id for c in job.peers.requests("confirm_checkpoints")] == [1]
    await job.settle()
    for checkpoint_id in (1, 2):
        assert (job.checkpoint_directory / "job" / f"chk-{checkpoint_id}" / "_metadata").exists()
    await job.job_master.close()
