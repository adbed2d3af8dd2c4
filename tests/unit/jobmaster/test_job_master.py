"""The JobMaster endpoint with testing gateways."""

from __future__ import annotations

import asyncio
import functools
import hashlib
import itertools
import zlib

import cloudpickle
import pytest
from jobmaster_fakes import batch_vertex, job_graph, source_and_sink, vertex
from testing_gateways import Process

from flinkpy._proto import (
    common_pb2,
    dispatcher_pb2,
    job_event_pb2,
    job_pb2,
    jobmaster_pb2,
    taskexecutor_pb2,
    thread_samples_pb2,
)
from flinkpy.common.errors import (
    ExternalError,
    FunctionError,
    InputNotFoundError,
    InternalError,
    JobNotFoundError,
    NotRegisteredError,
    RpcTimeoutError,
    RpcUnavailableError,
    StaleFencingTokenError,
    UserError,
)
from flinkpy.jobmaster.job_event_store.job_event_store import read_log, take_over
from flinkpy.jobmaster.servicer import JobMasterServicer
from flinkpy.rpc.error_codec import error_to_proto


def in_loop(test):
    """Runs an async test on its own event loop."""

    @functools.wraps(test)
    def run(*args, **kwargs):
        asyncio.run(test(*args, **kwargs))

    return run


@pytest.fixture
def process(tmp_path):
    """Creates processes. The tests that start them close them."""
    return lambda graph, configuration=None: Process(graph, tmp_path, configuration)


async def running(process, graph=None, configuration=None, slots=2):
    made = process(graph or source_and_sink(1), configuration)
    await made.start()
    await made.add_task_manager("tm1", slots)
    await made.run_everything()
    return made


@in_loop
async def test_a_job_goes_from_its_start_to_its_result(process):
    job = process(source_and_sink(2))
    await job.start()
    assert job.peers.requests("notify_job_master_started")[0].address == "jm:1"
    declared = job.peers.requests("declare_required_resources")[-1]
    assert [requirement.num_slots for requirement in declared.requirements] == [2]
    assert await job.add_task_manager("tm1", 3) == ["tm1-0", "tm1-1"]
    (submitted,) = job.peers.requests("submit_tasks")
    assert [vertex.id for vertex in submitted.vertices] == ["source", "sink"]
    assert [vertex.max_parallelism for vertex in submitted.vertices] == [128, 128]
    assert submitted.job.blob_server_address == "dispatcher:1"
    assert len(job.deployed) == 4
    for attempt in job.deployed:
        await job.update(attempt, "RUNNING")
        await job.update(attempt, "FINISHED")
    await asyncio.wait_for(job.job_master.terminated.wait(), 5)
    assert job.result.status == common_pb2.FINISHED
    assert not job.result.HasField("error")
    statuses = [common_pb2.JobStatus.Name(r.status) for r in job.peers.requests("notify_job_status")]
    assert statuses == ["CREATED", "RUNNING", "FINISHED"]
    assert {request.allocation_id for request in job.peers.requests("free_slot")} == {"tm1-0", "tm1-1"}
    assert len(job.peers.requests("disconnect_job_master")) == 2  # the TaskExecutor and the ResourceManager
    assert not job.peers.requests("declare_required_resources")[-1].requirements
    assert not any(job.peers.on_lost.values())
    await job.job_master.close()


@in_loop
async def test_every_call_carries_the_fencing_token_of_its_callee(process):
    job = await running(process)
    assert set(job.peers.tokens("submit_tasks")) == {"jmid"}
    assert set(job.peers.tokens("register_job_master")) == {None}
    assert set(job.peers.tokens("declare_required_resources")) == {"rmid"}
    assert set(job.peers.tokens("notify_job_status")) == {"dispatcher-id"}
    await job.job_master.close()


@in_loop
async def test_the_users_error_arrives_in_the_result_with_its_traceback(process):
    job = await running(process)
    error = FunctionError("map (1/1): TypeError: no", remote_traceback='File "job.py", line 3, in f')
    await job.update(job.deployed[0], "FAILED", error_to_proto(error))
    assert len(job.peers.requests("cancel_tasks")) == 1
    await job.update(job.deployed[1], "CANCELED")
    assert job.result.status == common_pb2.FAILED
    assert job.result.error.type == "FunctionError"
    assert "job.py" in job.result.error.traceback
    assert job.details().exception_history[0].task_name == "source (1/1)"
    await job.job_master.close()


@in_loop
async def test_a_cancelled_job_is_reported_as_canceled(process):
    job = await running(process)
    job.call("cancel", dispatcher_pb2.JobIdMessage(job_id="job"))
    await job.settle()
    (cancel,) = job.peers.requests("cancel_tasks")
    assert sorted(cancel.execution_attempt_ids) == sorted(job.deployed)
    for attempt in job.deployed:
        await job.update(attempt, "CANCELED")
    assert job.result.status == common_pb2.CANCELED
    await job.job_master.close()


@in_loop
async def test_a_cancel_that_was_not_answered_is_sent_again(process):
    job = await running(process)
    answers = iter([RpcTimeoutError("no answer")])
    job.peers.answers["cancel_tasks"] = lambda _: next(answers, common_pb2.Acknowledge())
    job.call("cancel", dispatcher_pb2.JobIdMessage(job_id="job"))
    await job.until(lambda: len(job.peers.requests("cancel_tasks")) == 2)
    await job.job_master.close()


# Lost processes


@in_loop
async def test_the_death_of_a_task_executor_is_noticed_by_its_connection(process):
    job = await running(process)
    job.peers.break_connection("tm1:1")
    await job.settle()
    assert job.result.status == common_pb2.FAILED
    assert job.result.error.type == "TaskManagerLostError"
    assert "tm1" in job.result.error.message
    await job.job_master.close()


@in_loop
async def test_an_unreachable_task_executor_is_lost(process):
    job = process(source_and_sink(1))
    job.peers.answers["submit_tasks"] = RpcUnavailableError("connection refused")
    await job.start()
    await job.add_task_manager("tm1", 1)
    assert job.result.error.type == "TaskManagerLostError"
    assert "connection refused" in job.result.error.message
    await job.job_master.close()


@in_loop
async def test_the_resource_manager_can_report_a_lost_task_executor(process):
    job = await running(process)
    request = jobmaster_pb2.DisconnectTaskManagerRequest(job_id="job", resource_id="tm1", reason="its process ended")
    job.call("disconnect_task_manager", request)
    job.call("disconnect_task_manager", request)  # a repetition has no effect
    await job.settle()
    assert "its process ended" in job.result.error.message
    await job.job_master.close()


@in_loop
async def test_a_task_executor_without_heartbeats_is_lost(process):
    job = await running(process, configuration={"heartbeat.interval": "1 ms", "heartbeat.timeout": "50 s"})
    job.peers.answers["heartbeat_from_job_master"] = RpcTimeoutError("no answer")
    await job.settle()
    job.clock.advance(60_000)
    await job.until(lambda: job.peers.requests("notify_job_terminated"))
    assert "heartbeat.timeout" in job.result.error.message
    await job.job_master.close()


@in_loop
async def test_a_job_with_a_restart_strategy_survives_the_death_of_a_task_executor(process):
    configuration = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 s"}
    job = await running(process, source_and_sink(1), configuration)
    job.peers.break_connection("tm1:1")
    await job.until(lambda: job.job_master.state.name == "RUNNING")
    await job.add_task_manager("tm2", 1)
    assert [attempt.rpartition("_")[2] for attempt in job.deployed] == ["0", "0", "1", "1"]
    assert job.details().num_restarts == 1
    await job.job_master.close()


@in_loop
async def test_the_job_goes_on_without_resource_manager_and_registers_again(process):
    job = await running(process)
    sequence = job.peers.requests("declare_required_resources")[-1].sequence_number
    job.peers.break_connection("rm:1")
    await job.settle()
    assert job.job_master.state.name == "RUNNING"
    assert len(job.peers.requests("register_job_master")) == 2
    again = job.peers.requests("declare_required_resources")[-1]
    assert again.sequence_number > sequence
    assert [requirement.num_slots for requirement in again.requirements] == [1]
    await job.job_master.close()


@in_loop
async def test_the_job_registers_again_at_a_resource_manager_that_forgot_it(process):
    job = await running(process, configuration={"heartbeat.interval": "1 ms"})
    # the empty answer means registered = false
    await job.until(lambda: len(job.peers.requests("register_job_master")) >= 2)
    assert job.job_master.state.name == "RUNNING"
    await job.job_master.close()


@in_loop
async def test_a_result_that_is_too_large_for_a_message_is_reduced(process):
    job = await running(process)
    answers = iter([InternalError("RESOURCE_EXHAUSTED: the message is too large")])
    job.peers.answers["notify_job_terminated"] = lambda _: next(answers, common_pb2.Acknowledge())
    error = error_to_proto(FunctionError("y" * 1_000_000))
    for attempt in job.deployed[:1]:
        await job.update(attempt, "FAILED", error=error)
    for attempt in job.deployed[1:]:
        await job.update(attempt, "CANCELED")
    await job.until(job.job_master.terminated.is_set)
    refused, taken = job.peers.requests("notify_job_terminated")
    assert refused.details.exception_history and not taken.details.exception_history
    assert taken.result.status == refused.result.status
    assert len(taken.result.error.message) < 2_000 < len(refused.result.error.message)
    await job.job_master.close()


@in_loop
async def test_the_result_is_reported_until_the_dispatcher_has_it(process):
    job = await running(process)
    answers = iter([RpcUnavailableError("down"), RpcTimeoutError("slow")])
    job.peers.answers["notify_job_terminated"] = lambda _: next(answers, common_pb2.Acknowledge())
    for attempt in job.deployed:
        await job.update(attempt, "FINISHED")
    assert not job.job_master.terminated.is_set()
    await job.until(job.job_master.terminated.is_set)
    assert len(job.peers.requests("notify_job_terminated")) == 3
    await job.job_master.close()


@in_loop
async def test_a_suspended_job_cancels_its_tasks_and_gives_its_slots_back(process):
    job = await running(process)
    job.job_master.suspend("the Dispatcher is lost")
    await asyncio.wait_for(job.job_master.terminated.wait(), 5)
    assert job.job_master.state.name == "SUSPENDED"
    assert job.peers.requests("cancel_tasks") and job.peers.requests("free_slot")
    assert job.peers.requests("notify_job_terminated") == []
    await job.job_master.close()


# Messages of unknown senders and at unexpected times


@in_loop
async def test_calls_before_there_is_a_job_and_for_another_job_are_refused(process):
    with pytest.raises(JobNotFoundError):
        JobMasterServicer("jm").cancel(dispatcher_pb2.JobIdMessage(job_id="job"), None)
    job = await running(process)
    with pytest.raises(JobNotFoundError):
        job.call("cancel", dispatcher_pb2.JobIdMessage(job_id="another"))
    await job.job_master.close()


@in_loop
async def test_a_task_executor_that_registers_twice_is_registered_once(process):
    job = await running(process)
    watches = [list(watches) for watches in job.peers.on_lost.values()]
    request = jobmaster_pb2.RegisterTaskManagerRequest(
        job_id="job", resource_id="tm1", address="tm1:1", data_address="tm1:2"
    )
    assert job.call("register_task_manager", request).resource_id == "jm"
    assert [list(watches) for watches in job.peers.on_lost.values()] == watches
    assert job.job_master.state.name == "RUNNING"
    await job.job_master.close()


@in_loop
async def test_a_task_executor_that_comes_back_at_another_address_lost_its_tasks(process):
    job = await running(process)
    request = jobmaster_pb2.RegisterTaskManagerRequest(
        job_id="job", resource_id="tm1", address="tm1:99", data_address="tm1:2"
    )
    job.call("register_task_manager", request)
    await job.settle()
    assert "registered again" in job.result.error.message
    await job.job_master.close()


@in_loop
async def test_offers_and_heartbeats_of_unknown_task_executors_are_answered(process):
    job = await running(process)
    offer = jobmaster_pb2.OfferSlotsRequest(
        job_id="job", resource_id="stranger", offers=[jobmaster_pb2.SlotOffer(allocation_id="x")]
    )
    with pytest.raises(NotRegisteredError):
        job.call("offer_slots", offer)
    heartbeat = jobmaster_pb2.TaskManagerToJobMasterHeartbeat(job_id="job", resource_id="stranger")
    assert not job.call("heartbeat_from_task_manager", heartbeat).registered
    await job.job_master.close()


@in_loop
async def test_a_heartbeat_brings_metrics_and_takes_the_slots_held(process):
    job = await running(process)
    source = job.deployed[0]
    heartbeat = jobmaster_pb2.TaskManagerToJobMasterHeartbeat(
        job_id="job",
        resource_id="tm1",
        deployed_execution_attempts=job.deployed,
        metrics=[
            jobmaster_pb2.TaskExecutionStateUpdate(
                execution_attempt_id=source, metrics=common_pb2.IOMetrics(num_records_out=7)
            )
        ],
    )
    response = job.call("heartbeat_from_task_manager", heartbeat)
    assert response.registered
    assert list(response.allocation_ids) == ["tm1-0"]
    details = job.details()
    assert details.vertices[0].metrics.num_records_out == 7
    assert details.vertices[0].tasks_per_state == {"RUNNING": 1}
    assert details.vertices[0].subtasks[0].resource_id == "tm1"
    assert details.start_time_ms == 4_000
    await job.job_master.close()


@in_loop
async def test_a_consumer_may_ask_for_the_state_of_its_producer(process):
    job = await running(process)
    for attempt, state in [(job.deployed[0], "RUNNING"), (f"{job.deployed[0][:-1]}9", "CANCELED")]:
        request = jobmaster_pb2.RequestPartitionStateRequest(job_id="job", result_partition_id=f"data#0@{attempt}")
        response = job.call("request_partition_state", request)
        assert common_pb2.ExecutionState.Name(response.producer_state) == f"EXECUTION_{state}"
    await job.job_master.close()


@in_loop
async def test_a_task_executor_that_rejects_the_fencing_token_is_lost(process):
    job = await running(process)
    job.peers.answers["cancel_tasks"] = StaleFencingTokenError("another JobMaster")
    job.call("cancel", dispatcher_pb2.JobIdMessage(job_id="job"))
    await job.settle()
    assert job.result.status == common_pb2.CANCELED
    await job.job_master.close()


@in_loop
async def test_an_internal_error_is_fatal(process):
    job = await running(process)
    job.job_master.scheduler.handle = lambda event, now_ms: 1 / 0
    with pytest.raises(ZeroDivisionError):
        job.call("cancel", dispatcher_pb2.JobIdMessage(job_id="job"))
    assert [type(error) for error in job.fatal] == [ZeroDivisionError]
    await job.job_master.close()


# Coordinators


class Coordinator:
    """Answers each event of a subtask with a numbered event."""

    def __init__(self, context):
        self.context = context
        self.log = []

    def start(self):
        self.log.append("start")

    def close(self):
        self.log.append("close")

    def handle_event(self, subtask_index, attempt_number, event):
        if event == "explode":
            raise ValueError("from the enumerator")
        self.log.append((subtask_index, attempt_number, event))
        for number in range(3):
            self.context.send_event(subtask_index, f"{event}-{number}")

    def handle_request(self, payload):
        if payload == b"explode":
            raise ValueError("from the request")
        return repr(self.log).encode()

    def subtask_reset(self, subtask_index, checkpoint_id):
        self.log.append(f"reset {subtask_index}")

    def subtask_ready(self, subtask_index):
        self.log.append(f"ready {subtask_index}")

    def reset_to_checkpoint(self, checkpoint_id, state):
        self.log.append("reset all")


class Provider:
    def create(self, context):
        return Coordinator(context)


class FailingProvider:
    def create(self, context):
        raise InputNotFoundError("/no/such/directory")


class RaisingProvider:
    def create(self, context):
        raise ZeroDivisionError("in create")


def with_coordinator(provider, parallelism=1):
    return source_and_sink(parallelism, coordinator=cloudpickle.dumps(provider))


async def send_events(job, *events, attempt=None):
    attempt = attempt or job.deployed[0]
    job.call(
        "send_operator_events_to_coordinator",
        jobmaster_pb2.OperatorEventsToCoordinator(
            job_id="job",
            events=[
                jobmaster_pb2.OperatorEvent(
                    operator_id="source-op",
                    execution_attempt_id=attempt,
                    subtask_index=0,
                    payload_pickle=cloudpickle.dumps(event),
                    sequence_number=next(job.event_numbers),
                )
                for event in events
            ],
        ),
    )
    await job.settle()


def coordinator_log(job):
    request = dispatcher_pb2.CoordinationRequest(job_id="job", operator_id="source-op")
    return eval(job.call("deliver_coordination_request", request).payload)


def events_sent(job):
    return [
        cloudpickle.loads(event.payload_pickle)
        for request in job.peers.requests("send_operator_events_to_tasks")
        for event in request.events
    ]


@in_loop
async def test_events_reach_the_coordinator_and_its_answers_the_task_in_order(process):
    job = await running(process, with_coordinator(Provider()))
    await send_events(job, "a", "b")
    assert coordinator_log(job) == ["start", "ready 0", (0, 0, "a"), (0, 0, "b")]
    assert events_sent(job) == ["a-0", "a-1", "a-2", "b-0", "b-1", "b-2"]
    await job.job_master.close()


@in_loop
async def test_an_event_that_comes_twice_is_handled_once(process):
    job = await running(process, with_coordinator(Provider()))
    await send_events(job, "a")
    job.event_numbers = itertools.count(1)
    await send_events(job, "a", "b")
    assert coordinator_log(job) == ["start", "ready 0", (0, 0, "a"), (0, 0, "b")]
    await job.job_master.close()


@in_loop
async def test_events_wait_while_a_call_is_on_its_way_and_then_go_together(process):
    job = await running(process, with_coordinator(Provider()))
    gate = asyncio.Event()

    async def slow(_):
        await gate.wait()
        return common_pb2.Acknowledge()

    job.peers.answers["send_operator_events_to_tasks"] = slow
    await send_events(job, "a")
    assert events_sent(job) == ["a-0"]
    gate.set()
    await job.settle()
    assert [len(r.events) for r in job.peers.requests("send_operator_events_to_tasks")] == [1, 2]
    await job.job_master.close()


@in_loop
async def test_an_event_that_may_be_lost_fails_its_task(process):
    job = await running(process, with_coordinator(Provider()))
    job.peers.answers["send_operator_events_to_tasks"] = RpcTimeoutError("no answer")
    await send_events(job, "a")
    assert job.job_master.state.name == "FAILING"
    await job.update(job.deployed[1], "CANCELED")
    assert job.result.error.type == "RpcTimeoutError"
    await job.job_master.close()


@in_loop
async def test_events_of_former_and_unknown_attempts_are_dropped(process):
    job = await running(process, with_coordinator(Provider()))
    await send_events(job, "late", attempt=f"{job.deployed[0][:-1]}7")
    await send_events(job, "late", attempt="another_source_0_0")
    assert coordinator_log(job) == ["start", "ready 0"]
    await job.job_master.close()


@in_loop
async def test_a_restart_resets_the_coordinator_before_the_task_is_ready_again(process):
    configuration = {"restart-strategy.type": "fixed-delay", "restart-strategy.fixed-delay.delay": "0 s"}
    job = await running(process, with_coordinator(Provider()), configuration)
    await job.update(job.deployed[1], "FAILED", error_to_proto(FunctionError("boom")))
    await send_events(job, "while it is cancelled")
    await job.update(job.deployed[0], "CANCELED")
    await job.until(lambda: len(job.deployed) == 4)
    await job.run_everything()
    assert coordinator_log(job) == ["start", "ready 0", "reset all", "ready 0"]
    await job.job_master.close()


@in_loop
async def test_an_exception_of_the_coordinator_fails_the_job_with_the_users_traceback(process):
    job = await running(process, with_coordinator(Provider()))
    await send_events(job, "explode")
    for attempt in job.deployed:
        await job.update(attempt, "CANCELED")
    error = job.result.error
    assert error.type == "FunctionError"
    assert "ValueError: from the enumerator" in error.message
    assert "handle_event" in error.traceback and "test_job_master.py" in error.traceback
    await job.job_master.close()


@pytest.mark.parametrize(
    ("coordinator", "type_name", "text"),
    [
        (cloudpickle.dumps(FailingProvider()), "InputNotFoundError", "/no/such/directory"),
        (cloudpickle.dumps(RaisingProvider()), "FunctionError", "ZeroDivisionError: in create"),
        (b"cmissing_module\nthing\n.", "FunctionError", "No module named 'missing_module'"),
    ],
)
@in_loop
async def test_a_coordinator_that_cannot_be_created_fails_the_job(process, coordinator, type_name, text):
    job = process(source_and_sink(1, coordinator=coordinator))
    await job.start(until_state="FAILED")
    assert job.result.error.type == type_name
    assert text in job.result.error.message
    assert job.peers.requests("submit_tasks") == []
    await job.job_master.close()


@in_loop
async def test_requests_of_clients_are_answered_or_rejected_with_a_reason(process):
    job = await running(process, with_coordinator(Provider()))
    with pytest.raises(UserError, match="no operator nobody"):
        job.call("deliver_coordination_request", dispatcher_pb2.CoordinationRequest(job_id="job", operator_id="nobody"))
    with pytest.raises(FunctionError, match="from the request"):
        request = dispatcher_pb2.CoordinationRequest(job_id="job", operator_id="source-op", payload=b"explode")
        job.call("deliver_coordination_request", request)
    assert job.job_master.state.name == "RUNNING"
    await job.job_master.close()


@in_loop
async def test_the_jobs_own_modules_are_fetched_before_its_coordinators_are_loaded(process):
    source = b"class Provider:\n    def create(self, context):\n        raise RuntimeError('code of the job')\n"
    key = hashlib.sha256(source).hexdigest()
    coordinator = b"cjobmaster_test_shipped_module\nProvider\n)R."
    graph = source_and_sink(1, coordinator=coordinator)
    artifact = job_pb2.UserArtifact(name="jobmaster_test_shipped_module.py", blob_key=key, kind="PYTHON_FILE")
    graph.artifacts.append(artifact)
    job = process(graph)
    job.blobs[key] = source
    await job.start(until_state="FAILED")
    assert "code of the job" in job.result.error.message
    await job.job_master.close()


@in_loop
async def test_a_damaged_blob_fails_the_job(process):
    graph = source_and_sink(1)
    graph.artifacts.append(job_pb2.UserArtifact(name="m.py", blob_key="0" * 64, kind="PYTHON_FILE"))
    job = process(graph)
    job.blobs["0" * 64] = b"something else"
    await job.start(until_state="FAILED")
    assert "damaged" in job.result.error.message
    await job.job_master.close()


@in_loop
async def test_a_rejected_task_fails_with_the_reason(process):
    job = process(job_graph(vertex("only", 1)))

    def reject(request):
        rejection = taskexecutor_pb2.SubmitTasksResponse.Rejection(
            execution_attempt_id=request.tasks[0].execution_attempt_id,
            error=error_to_proto(NotRegisteredError("no such slot here")),
        )
        return taskexecutor_pb2.SubmitTasksResponse(rejections=[rejection])

    job.peers.answers["submit_tasks"] = reject
    await job.start()
    await job.add_task_manager("tm1", 1)
    assert "no such slot here" in job.result.error.message
    await job.job_master.close()


def committing_graph():
    writer = batch_vertex("writer", 1, results=["committables"], partitioner="GLOBAL")
    committer = batch_vertex("committer", 1, inputs=["committables"])
    committer.is_committer = True
    return job_graph(writer, committer)


async def stored(job, content):
    """Stores the committables of the writer in two pieces. Returns the id of the result partition."""
    (task,) = job.peers.requests("submit_tasks")[0].tasks
    partition_id = task.produced_partitions[0].result_partition_id
    for offset, data in ((0, content[:5]), (5, content[5:])):
        request = jobmaster_pb2.StoreResultRequest(
            job_id="job",
            result_partition_id=partition_id,
            offset=offset,
            data=data,
            is_last=offset > 0,
            crc32=zlib.crc32(content),
        )
        await job.call("store_result", request)
    return partition_id


@in_loop
async def test_committables_are_fetched_when_it_is_on_disk_that_they_are_final(process, tmp_path):
    job = process(committing_graph(), {"job-event.store.write-buffer.flush-interval": "1 h"})
    await job.start()
    await job.add_task_manager("tm1", 2)
    await job.run_everything()
    partition_id = await stored(job, b"committables")
    await job.update(job.deployed[0], "FINISHED")
    (log,) = tmp_path.rglob("job-events.log")
    assert not [event for event in events_in(log) if event.WhichOneof("event") == "final"]
    request = jobmaster_pb2.FetchResultRequest(job_id="job", result_partition_id=partition_id)
    piece = await job.call("fetch_result", request)
    assert (piece.data, piece.is_last, piece.crc32) == (b"committables", True, zlib.crc32(b"committables"))
    (final,) = [event.final for event in events_in(log) if event.WhichOneof("event") == "final"]
    assert list(final.result_partition_ids) == [partition_id]
    await job.job_master.close()


@in_loop
async def test_committables_are_not_served_when_another_job_master_has_the_log(process, tmp_path):
    job = process(committing_graph())
    await job.start()
    await job.add_task_manager("tm1", 2)
    await job.run_everything()
    partition_id = await stored(job, b"committables")
    (log,) = tmp_path.rglob("job-events.log")
    take_over(log)
    await job.update(job.deployed[0], "FINISHED")
    request = jobmaster_pb2.FetchResultRequest(job_id="job", result_partition_id=partition_id)
    for _ in range(2):
        with pytest.raises(ExternalError, match="another JobMaster has taken over"):
            await job.call("fetch_result", request)
    await job.job_master.close()


@in_loop
async def test_nothing_is_left_of_committables_after_the_job(process, tmp_path):
    job = process(committing_graph())
    await job.start()
    await job.add_task_manager("tm1", 2)
    await job.run_everything()
    await stored(job, b"committables")
    await job.update(job.deployed[0], "FINISHED")
    await job.run_everything()
    assert list(tmp_path.rglob("*.result"))
    await job.update(job.deployed[1], "FINISHED")
    await asyncio.wait_for(job.job_master.terminated.wait(), 5)
    assert not [path for path in tmp_path.rglob("*") if path.is_file()]
    await job.job_master.close()


def events_in(log):
    payloads, _ = read_log(log)
    return [job_event_pb2.JobEvent.FromString(payload) for payload in payloads]


@in_loop
async def test_thread_samples_lack_those_of_a_task_executor_that_does_not_answer(process):
    job = await running(process, source_and_sink(2))
    await job.add_task_manager("tm2", 1)
    request = thread_samples_pb2.ThreadSamplesRequest(job_id="job", num_samples=2, delay_ms=5, max_depth=10)
    refusals = [ExternalError("too many flame graphs"), RpcTimeoutError("no answer")]
    given = [thread_samples_pb2.ThreadSamples(resource_id="tm1"), *refusals]
    job.peers.answers["request_thread_samples"] = lambda _: given.pop(0)
    samples = await job.call("request_thread_samples", request)
    assert [one.resource_id for one in samples.task_executors] == ["tm1"]
    assert samples.unreachable == ["tm2"]
    assert job.peers.requests("request_thread_samples") == [request, request]
    job.peers.answers["request_thread_samples"] = UserError("num_samples is 0")
    with pytest.raises(UserError):
        await job.call("request_thread_samples", request)
    await job.job_master.close()
