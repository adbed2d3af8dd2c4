"""A CheckpointCoordinator while messages are lost, late, duplicated and out of order, and tasks fail and finish.

A task may have ended before the coordinator knows it. It then declines its trigger, and its consumers get no barrier
from it.

The test keeps its own record of acknowledgements and written metadata, and compares every effect with it.
"""

from __future__ import annotations

import hypothesis.strategies as st
from coordinator_calls import call
from hypothesis import settings
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.coordinator import effects as fx
from flinkpy.checkpoint.coordinator.checkpoint_coordinator import CheckpointCoordinator
from flinkpy.checkpoint.coordinator.checkpoint_plan import CheckpointedOperator, CheckpointedVertex
from flinkpy.checkpoint.coordinator.checkpoint_properties import FULL, PERIODIC, savepoint, stop_with_savepoint
from flinkpy.checkpoint.coordinator.checkpoint_request_decider import FIRST_DELAY_MS
from flinkpy.checkpoint.coordinator.coordinator_configuration import CheckpointCoordinatorOptions
from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorageLocation
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason as Reason
from flinkpy.common.checkpoint_failure_reason import checkpoint_error, failure_reason
from flinkpy.common.errors import CheckpointStorageError, FunctionError
from flinkpy.common.ids import ExecutionAttemptID, ExecutionVertexID, JobVertexID
from flinkpy.common.states import ExecutionState

E = ExecutionState
DECLINES = [Reason.CHECKPOINT_DECLINED, Reason.CHECKPOINT_DECLINED_TASK_NOT_READY, Reason.CHECKPOINT_ASYNC_EXCEPTION]
ON_ITS_WAY = [Reason.CHECKPOINT_DECLINED_TASK_CLOSING, Reason.CHECKPOINT_DECLINED_TASK_NOT_READY]


class Job:
    """A job with a source and a sink, connected all to all."""

    job_id = "job"
    job_name = "job"

    def __init__(self, parallelism):
        source = JobVertexID("source")
        producers = tuple(ExecutionVertexID(source, index) for index in range(parallelism))
        self.vertices = (
            self._vertex(source, parallelism, ()),
            self._vertex(JobVertexID("sink"), parallelism, producers),
        )
        self.numbers = {task: 0 for vertex in self.vertices for task in vertex.tasks}
        self.states = dict.fromkeys(self.numbers, E.INITIALIZING)

    @staticmethod
    def _vertex(vertex_id, parallelism, producers):
        operators = (CheckpointedOperator(f"{vertex_id}-op", "", str(vertex_id)),)
        return CheckpointedVertex(
            vertex_id, str(vertex_id), operators, parallelism, 128, tuple(producers for _ in range(parallelism))
        )

    def attempt(self, task):
        return ExecutionAttemptID("g", task, self.numbers[task])

    def task(self, vertex_id):
        return self.attempt(vertex_id), self.states[vertex_id]

    def in_state(self, state):
        return [self.attempt(task) for task, has in self.states.items() if has is state]


class CoordinatorMachine(RuleBasedStateMachine):
    @initialize(
        parallelism=st.integers(1, 2),
        interval_ms=st.sampled_from([0, 100, 100]),
        min_pause_ms=st.sampled_from([0, 30, 200]),
        max_concurrent=st.integers(1, 3),
        tolerable=st.sampled_from([0, 1, 1_000]),
        after_tasks_finish=st.booleans(),
        random=st.randoms(use_true_random=False),
    )
    def start(self, parallelism, interval_ms, min_pause_ms, max_concurrent, tolerable, after_tasks_finish, random):
        self.now_ms = 0
        self.job = Job(parallelism)
        self.options = CheckpointCoordinatorOptions(
            interval_ms=interval_ms,
            min_pause_ms=min_pause_ms,
            max_concurrent=max_concurrent,
            tolerable_failures=tolerable,
            after_tasks_finish=after_tasks_finish,
            timeout_ms=1_000,
        )
        self.coordinator = CheckpointCoordinator(self.job, self.options, random)
        self.messages = []  # to the coordinator, in flight
        self.delivered = []  # may be delivered again
        self.last_id = 0
        self.properties = {}
        self.waited_for = {}  # checkpoint -> attempts that have to acknowledge
        self.gone = set()  # attempts whose end the coordinator does not know yet
        self.saw_nothing = {}  # checkpoint -> attempts that got neither trigger nor barrier
        self.acknowledged = {}  # checkpoint -> attempts whose acknowledgement was delivered while it was pending
        self.written = set()  # the metadata is durable
        self.failed = set()
        self.confirmed = []
        self.held_for = None  # events are held back for that checkpoint
        self.open_requests = {}  # trigger id -> properties, time, latest checkpoint before
        self.asked = 0
        self.reported = set()  # state on disk: (checkpoint, attempt)
        self.is_failing = False
        self.has_ended = False
        self.everything_runs()

    # effects

    def send(self, call):
        for effect in call(self.coordinator, self.now_ms):
            self.check(effect)
        self.coordinator.validate()
        latest = self.coordinator.latest
        assert latest is None or latest.checkpoint_id in self.written

    def check(self, effect):
        match effect:
            case fx.MakeLocation(checkpoint_id, properties, _):
                assert checkpoint_id > self.last_id, "an id is used again"
                self.last_id = checkpoint_id
                self.properties[checkpoint_id] = properties
                self.acknowledged[checkpoint_id] = set()
                self.messages.append(("location", checkpoint_id))
            case fx.SnapshotCoordinators(checkpoint_id):
                assert self.held_for is None, "two checkpoints are being triggered"
                self.held_for = checkpoint_id
                self.messages.append(("coordinators", checkpoint_id))
            case fx.ReleaseEvents(checkpoint_id):
                assert self.held_for == checkpoint_id
                self.held_for = None
            case fx.TriggerTasks(checkpoint_id, _, _, attempts):
                running = set(self.job.in_state(E.RUNNING))
                assert attempts and set(attempts) <= running
                if checkpoint_id in self.waited_for:
                    assert self.properties[checkpoint_id].is_synchronous
                    assert set(attempts) <= self.saw_nothing[checkpoint_id], "the task may have acknowledged"
                    self.trigger(checkpoint_id, attempts)
                    return
                self.waited_for[checkpoint_id] = running
                self.saw_nothing[checkpoint_id] = set(running)
                self.messages.append(("triggers answered", checkpoint_id))
                self.trigger(checkpoint_id, attempts)
            case fx.FinalizeCheckpoint(checkpoint_id, properties, _, metadata):
                left_out = self.waited_for[checkpoint_id] - self.acknowledged[checkpoint_id]
                assert self.acknowledged[checkpoint_id] <= self.waited_for[checkpoint_id]
                assert not left_out or properties.is_synchronous, "not everybody acknowledged"
                assert left_out <= self.saw_nothing[checkpoint_id], "its acknowledgement is on its way"
                for attempt in left_out:
                    assert self.job.task(attempt.vertex) == (attempt, E.FINISHED)
                    (operator,) = (o for o in metadata.operators if o.name == str(attempt.vertex.job_vertex_id))
                    assert attempt.vertex.subtask_index in operator.finished_subtasks
                assert metadata.checkpoint_id == checkpoint_id
                self.messages.append(("finalize", checkpoint_id))
            case fx.ConfirmCheckpoint(checkpoint_id, _, attempts):
                assert checkpoint_id in self.written
                assert self.properties[checkpoint_id].counts_for_recovery
                assert not self.confirmed or checkpoint_id > self.confirmed[-1]
                assert set(attempts) <= set(self.job.in_state(E.RUNNING))
                self.confirmed.append(checkpoint_id)
            case fx.AbortCheckpoint(checkpoint_id, _, latest_id, attempts):
                assert checkpoint_id not in self.written
                assert checkpoint_id not in self.failed, "aborted twice"
                assert latest_id == 0 or latest_id in self.written
                assert set(attempts) <= set(self.job.in_state(E.RUNNING))
                self.failed.add(checkpoint_id)
            case fx.DiscardState(states):
                for state in states:
                    key = self.key_of(state)
                    assert key[0] not in self.written, "state of a completed checkpoint is deleted"
                    self.reported.discard(key)
            case fx.DiscardCheckpoint(checkpoint_id, _):
                assert checkpoint_id in self.failed
            case fx.AnswerRequest(trigger_id, result, error):
                assert (result is None) != (error is None)
                assert trigger_id in self.open_requests, "answered twice"
                properties, asked_ms, id_before = self.open_requests.pop(trigger_id)
                if result is not None:
                    assert result.checkpoint_id in self.written
                elif failure_reason(error) in ON_ITS_WAY and not properties.is_synchronous:
                    has_time = self.now_ms + FIRST_DELAY_MS < asked_ms + self.options.timeout_ms
                    assert not has_time or self.last_id > id_before + 1, "the request was not retried"
            case fx.FailJob():
                self.is_failing = True
            case _:
                raise AssertionError(effect)

    def trigger(self, checkpoint_id, attempts):
        """Each attempt takes its snapshot or declines. A sink without a trigger takes one if a source does."""
        taken = {attempt for attempt in attempts if attempt not in self.gone}
        self.messages += [("closing", checkpoint_id, attempt) for attempt in attempts if attempt in self.gone]
        if any(str(attempt.vertex.job_vertex_id) == "source" for attempt in taken):
            taken |= self.saw_nothing[checkpoint_id] - set(attempts)
        self.saw_nothing[checkpoint_id] -= taken
        self.messages += [("ack", checkpoint_id, attempt) for attempt in sorted(taken, key=str)]

    @staticmethod
    def key_of(state):
        number, attempt = state.operators["op"].operator[0].file.data.decode().split(" ")
        return int(number), attempt

    # events of the cluster

    @precondition(lambda self: self.messages)
    @rule(data=st.data(), outcome=st.sampled_from(["arrives", "arrives", "arrives", "fails", "lost", "twice"]))
    def a_message(self, data, outcome):
        self.deliver(self.messages.pop(data.draw(st.integers(0, len(self.messages) - 1))), outcome)

    @precondition(lambda self: self.messages)
    @rule()
    def the_oldest_message(self):
        self.deliver(self.messages.pop(0), "arrives")

    @precondition(lambda self: self.coordinator.pending_ids)
    @rule(data=st.data())
    def a_checkpoint_comes_as_far_as_being_written(self, data):
        chosen = data.draw(st.sampled_from(self.coordinator.pending_ids))
        for _ in range(4):  # each message causes the next
            self.bring_on(chosen)

    def bring_on(self, chosen):
        """Delivers all messages of that checkpoint except the report that it has been written."""
        for message in [message for message in self.messages if message[1] == chosen and message[0] != "finalize"]:
            self.messages.remove(message)
            self.deliver(message, "arrives")

    @precondition(lambda self: self.delivered)
    @rule(data=st.data())
    def an_acknowledgement_comes_again(self, data):
        self.deliver(data.draw(st.sampled_from(self.delivered)), "arrives")

    def deliver(self, message, outcome):
        kind, checkpoint_id, *rest = message
        is_pending = checkpoint_id in self.coordinator.pending_ids
        match kind:
            case "location" if outcome == "fails":
                self.send(call.location_failed(checkpoint_id, CheckpointStorageError("disk full")))
            case "location":
                location = CheckpointStorageLocation(f"/chk-{checkpoint_id}", pb.CheckpointLocation())
                self.send(call.location_made(checkpoint_id, location))
            case "coordinators" if outcome == "fails":
                self.send(call.coordinator_snapshot_failed(checkpoint_id, FunctionError("no")))
            case "coordinators":
                self.send(call.coordinators_snapshotted(checkpoint_id, {"source-op": b"x"}))
            case "triggers answered":
                self.send(call.triggers_answered(checkpoint_id))
            case "ack" if outcome == "lost":
                self.messages.append(message)  # the task sends it again
            case "ack" if outcome == "fails" and (checkpoint_id, str(rest[0])) not in self.reported:
                reason = DECLINES[checkpoint_id % len(DECLINES)]
                if reason in ON_ITS_WAY and self.properties[checkpoint_id].is_synchronous:
                    reason = Reason.CHECKPOINT_DECLINED  # the other reason means: no snapshot yet
                self.send(call.decline(rest[0], checkpoint_id, checkpoint_error(reason)))
            case "ack":
                self.acknowledge(checkpoint_id, rest[0])
                self.delivered = [*self.delivered[-5:], message]
                if outcome == "twice":
                    self.messages.append(message)
            case "closing" if outcome == "lost":
                self.messages.append(message)
            case "closing":
                closing = checkpoint_error(Reason.CHECKPOINT_DECLINED_TASK_CLOSING)
                self.send(call.decline(rest[0], checkpoint_id, closing))
            case "finished":
                self.finish(rest[0])
            case "finalize" if outcome == "fails":
                self.send(call.finalization_failed(checkpoint_id, CheckpointStorageError("disk full")))
            case "finalize":
                assert is_pending, "a checkpoint that is being written cannot be aborted"
                self.written.add(checkpoint_id)
                self.send(call.finalized(checkpoint_id, f"/chk-{checkpoint_id}", (checkpoint_id,)))

    def acknowledge(self, checkpoint_id, attempt):
        state = pb.TaskStateSnapshot()
        state.operators["op"].operator.add().file.data = f"{checkpoint_id} {attempt}".encode()
        self.reported.add((checkpoint_id, str(attempt)))
        if checkpoint_id in self.coordinator.pending_ids:
            self.acknowledged[checkpoint_id].add(attempt)
        self.send(call.acknowledge(attempt, checkpoint_id, state, pb.CheckpointMetrics()))

    @rule(kind=st.sampled_from(["checkpoint", "full", "savepoint", "savepoint"]))
    def a_client_asks(self, kind):
        properties = {"checkpoint": PERIODIC, "full": FULL, "savepoint": savepoint(pb.CANONICAL)}[kind]
        self.ask(properties)

    @rule(drain=st.booleans())
    def the_job_is_to_stop(self, drain):
        if self.now_ms > 500:  # let most jobs live for a while
            self.ask(stop_with_savepoint(pb.CANONICAL, drain=drain))

    def ask(self, properties):
        self.asked += 1
        self.open_requests[f"t{self.asked}"] = (properties, self.now_ms, self.last_id)
        self.send(call.request(f"t{self.asked}", properties))

    @rule(by_ms=st.sampled_from([1, 30, 100, 1_000]))
    def time_passes(self, by_ms):
        end_ms = self.now_ms + by_ms
        for _ in range(1_000):
            due_ms = self.coordinator.next_deadline_ms
            if due_ms is None or due_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            self.send(call.check_timers())
        else:
            raise AssertionError("the deadlines never end")
        self.now_ms = end_ms

    @precondition(lambda self: self.job.in_state(E.RUNNING))
    @rule(data=st.data())
    def a_task_finishes(self, data):
        if self.now_ms > 1_000:
            self.finish(data.draw(st.sampled_from(self.job.in_state(E.RUNNING))))

    def finish(self, attempt):
        if self.job.task(attempt.vertex) == (attempt, E.RUNNING):
            self.job.states[attempt.vertex] = E.FINISHED
            self.send(call.task_finished(attempt))

    @precondition(lambda self: self.job.in_state(E.RUNNING))
    @rule(data=st.data())
    def a_task_ends_unnoticed(self, data):
        """Ends a task. A sink ends after its sources."""
        running = [attempt for attempt in self.job.in_state(E.RUNNING) if attempt not in self.gone]
        sources = [attempt for attempt in running if str(attempt.vertex.job_vertex_id) == "source"]
        if running and self.now_ms > 500:
            attempt = data.draw(st.sampled_from(sources or running))
            self.gone.add(attempt)
            self.messages.append(("finished", None, attempt))

    @precondition(lambda self: self.job.in_state(E.RUNNING))
    @rule(data=st.data())
    def a_task_is_at_the_end_of_its_data(self, data):
        self.send(call.end_of_data_reached((data.draw(st.sampled_from(self.job.in_state(E.RUNNING))),)))

    @precondition(lambda self: self.job.in_state(E.RUNNING))
    @rule(data=st.data(), kind=st.sampled_from(["savepoint", "stop", "drain"]))
    def a_task_ends_just_before_a_client_asks(self, data, kind):
        if self.now_ms > 500:
            self.a_task_ends_unnoticed(data)
            stop = stop_with_savepoint(pb.CANONICAL, drain=kind == "drain")
            self.ask(savepoint(pb.CANONICAL) if kind == "savepoint" else stop)
            for _ in range(4):
                if self.coordinator.pending_ids:
                    self.bring_on(self.coordinator.pending_ids[-1])

    @rule()
    def a_task_fails(self):
        self.fail_over()

    def fail_over(self):
        self.is_failing = False
        self.gone.clear()
        for task, state in self.job.states.items():
            if not state.is_terminal:
                self.job.states[task] = E.CANCELED
        self.send(call.tasks_stopped(Reason.JOB_FAILOVER_REGION, FunctionError("boom")))
        self.is_failing = False  # the restart handles this failure, too

    @precondition(lambda self: not self.job.in_state(E.RUNNING) and not self.coordinator.is_finalizing)
    @rule()
    def everything_runs(self):
        for task, state in self.job.states.items():
            if state is not E.INITIALIZING:
                self.job.numbers[task] += 1
            self.job.states[task] = E.RUNNING
        if not self.has_ended:
            self.send(call.all_tasks_running())

    @precondition(lambda self: self.is_failing)
    @rule()
    def the_failure_that_checkpoints_are_restarts_the_job(self):
        self.fail_over()

    # the end: everything is delivered, then the job ends

    def teardown(self):
        if not hasattr(self, "coordinator"):
            return
        for _ in range(20):
            while self.messages:
                self.deliver(self.messages.pop(0), "arrives")
            if self.is_failing or not self.job.in_state(E.RUNNING):
                self.fail_over()
                if not self.coordinator.is_finalizing:
                    self.everything_runs()
            self.time_passes(1_000)
        while self.messages:
            self.deliver(self.messages.pop(0), "arrives")
        self.makes_progress()
        self.send(call.job_ended(is_finished=False))
        while self.messages:
            self.deliver(self.messages.pop(0), "arrives")
        assert not self.open_requests, "a client waits for ever"
        assert self.held_for is None, "events are held back for ever"
        assert self.coordinator.pending_ids == []
        assert {checkpoint_id for checkpoint_id, _ in self.reported} <= self.written, "state is left behind"
        assert self.written | self.failed == set(range(1, self.last_id + 1))

    def makes_progress(self):
        """Checks that checkpoints complete without faults."""
        if self.options.interval_ms == 0 or self.coordinator.is_stopping:
            return
        before = len(self.confirmed)
        for _ in range(10):
            if self.is_failing or not self.job.in_state(E.RUNNING):
                self.fail_over()
                self.everything_runs()
            self.time_passes(self.options.interval_ms + self.options.min_pause_ms)
            while self.messages:
                self.deliver(self.messages.pop(0), "arrives")
        assert len(self.confirmed) > before or (self.job.in_state(E.FINISHED) and not self.options.after_tasks_finish)


CoordinatorMachine.TestCase.settings = settings(max_examples=100, stateful_step_count=40, deadline=None)
TestCheckpointCoordinator = CoordinatorMachine.TestCase
