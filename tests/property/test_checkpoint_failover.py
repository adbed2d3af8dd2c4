"""Restores from checkpoints while messages are lost, duplicated and reordered, and processes die.

Restarted tasks get the state of the last completed checkpoint, complete and from one checkpoint for all tasks that
restart together. No task is deployed before that checkpoint is known. Coordinators are reset to the same checkpoint.
"""

from __future__ import annotations

import hypothesis.strategies as st
from coordinator_calls import call
from hypothesis import settings
from hypothesis.stateful import initialize, precondition, rule
from test_job_scheduling import BOOM, ClusterMachine, job_graphs

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy._proto import job_pb2
from flinkpy.checkpoint.completed_checkpoint import CompletedCheckpoint
from flinkpy.checkpoint.coordinator import effects as cfx
from flinkpy.checkpoint.coordinator.checkpoint_properties import savepoint, stop_with_savepoint
from flinkpy.checkpoint.coordinator.coordinator_configuration import CheckpointCoordinatorOptions
from flinkpy.checkpoint.coordinator.pending_checkpoint import inline_handle
from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorageLocation
from flinkpy.common.errors import CheckpointStorageError, CorruptStateError
from flinkpy.common.ids import ExecutionAttemptID
from flinkpy.common.states import ExecutionState, JobState
from flinkpy.jobmaster.failover.restart_strategy import FixedDelayRestartStrategy
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.default_scheduler import DefaultScheduler, SchedulerOptions
from flinkpy.jobmaster.slotpool.declarative_slot_pool import SlotPoolOptions

E = ExecutionState


class FailoverMachine(ClusterMachine):
    @initialize(
        graph=job_graphs(),
        failover=st.sampled_from(["region", "full"]),
        delay_ms=st.sampled_from([0, 100]),
        tolerable=st.sampled_from([0, 1_000]),
        max_concurrent=st.integers(1, 2),
        random=st.randoms(use_true_random=False),
    )
    def start(self, graph, failover, delay_ms, tolerable, max_concurrent, random):
        for vertex in graph.vertices:
            for result in vertex.results:
                result.type = job_pb2.PIPELINED_BOUNDED  # a job with blocking results takes no checkpoints
        checkpoints = CheckpointCoordinatorOptions(
            interval_ms=1_000, timeout_ms=30_000, tolerable_failures=tolerable, max_concurrent=max_concurrent
        )
        self.now_ms = 0
        self.scheduler = DefaultScheduler(
            graph,
            graph_id="g",
            options=SchedulerOptions(
                slot_pool=SlotPoolOptions(5_000, 1_000), failover_strategy=failover, checkpoints=checkpoints
            ),
            restart_strategy=FixedDelayRestartStrategy(1_000_000, delay_ms),
            now_ms=0,
            random=random,
        )
        self.task_managers, self.slots = {}, {}
        self.updates, self.delivered, self.calls = [], [], []
        self.num_allocations = self.required = 0
        self.terminated = None
        self.messages = []  # messages of checkpoints in flight
        self.is_writing = []  # checkpoints in the order of their writes
        self.completed = {}  # id -> the checkpointed state of each subtask
        self.kept = []  # completed and undamaged checkpoints, oldest first
        self.acks = {}
        self.open_requests = set()
        self.asked = 0
        self.is_verifying = False
        self.send(ev.JobMasterInitialized())
        self.send(ev.StartScheduling())
        self.the_cluster_behaves()
        self.a_checkpoint_is_taken(is_written=True)

    @rule()
    def the_cluster_behaves(self):
        """Runs without faults until all tasks run. Checkpoints stay as they are."""
        for _ in range(4):
            missing = self.scheduler.slot_pool.num_required - self.scheduler.slot_pool.num_slots
            if missing > 0:
                self.task_manager_comes(missing)
            while self.calls:
                self.carry_out(self.calls.pop(0))
            while self.updates:
                self.deliver(0)
            if self.scheduler.state is JobState.RESTARTING:
                self.time_passes(100)

    @rule(is_written=st.booleans())
    def a_checkpoint_is_taken(self, is_written):
        self.time_passes(1_000)
        self.all_checkpoint_messages_arrive()
        while is_written and self.is_writing:
            self.write()

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), succeeds=st.booleans())
    def a_task_fails_while_a_checkpoint_is_being_written(self, data, succeeds):
        self.a_checkpoint_is_taken(is_written=False)
        self.a_task_fails_and_the_cluster_behaves(data, is_damage=1)
        while self.is_writing:
            self.write(succeeds)
        self.the_cluster_behaves()

    @precondition(lambda self: self.tasks)
    @rule(data=st.data(), is_damage=st.integers(0, 2))
    def a_task_fails_and_the_cluster_behaves(self, data, is_damage):
        if not self.tasks:
            return
        name, attempt = data.draw(st.sampled_from(self.tasks))
        del self.task_managers[name][attempt]
        error = CorruptStateError("damaged") if is_damage == 0 else BOOM
        self.updates.append(ev.TaskStateUpdated(attempt, E.FAILED, error))
        self.the_cluster_behaves()

    def more_slots(self):
        """Disabled here, like the next rules: the tests of the base class cover them."""

    def an_update_arrives_again(self):
        pass

    def the_oldest_update_arrives(self):
        pass

    def a_heartbeat_reports_deployments(self):
        pass

    @rule()
    def the_job_is_cancelled(self):
        if self.now_ms > 40_000:  # let most jobs live for a while
            self.send(ev.CancelJob())

    def tell(self, call):
        """Calls the CheckpointCoordinator."""
        self.send(ev.CheckpointCall(call))

    @property
    def coordinator(self):
        return self.scheduler.checkpoints.coordinator

    @property
    def counting(self):
        """Returns the id of the checkpoint from which restarted tasks begin."""
        return self.kept[-1] if self.kept else None

    def do(self, effect):
        match effect:
            case fx.SubmitTasks(_, _, tasks, _):
                assert not self.coordinator.is_finalizing
                assert not self.is_verifying
                for task in tasks:
                    self.check_restore(task)
            case fx.ResetCoordinators(_, checkpoint_id, states):
                assert checkpoint_id == self.counting
                assert checkpoint_id is None or set(states.values()) <= {f"at {checkpoint_id}".encode()}
            case fx.SubtaskReset(_, checkpoint_id):
                assert checkpoint_id == self.counting
            case fx.VerifyCheckpoints():
                assert not self.is_verifying
                self.is_verifying = True
            case cfx.MakeLocation(checkpoint_id):
                self.acks[checkpoint_id] = {}
                self.messages.append(("location", checkpoint_id, None))
            case cfx.SnapshotCoordinators(checkpoint_id):
                self.messages.append(("coordinators", checkpoint_id, None))
            case cfx.TriggerTasks(checkpoint_id):
                self.messages.append(("triggers", checkpoint_id, None))
                # The barrier goes through the whole job; each of its tasks acknowledges at its own time.
                for vertex in self.scheduler.graph.vertices:
                    if vertex.current.state is E.RUNNING:
                        self.messages.append(("ack", checkpoint_id, vertex.current.attempt_id))
            case cfx.FinalizeCheckpoint():
                self.is_writing.append(effect)
            case cfx.ConfirmCheckpoint(checkpoint_id, _, attempts):
                assert checkpoint_id == self.counting
                assert all(self.state_of(attempt) is E.RUNNING for attempt in attempts)
            case cfx.AbortCheckpoint(checkpoint_id):
                assert checkpoint_id not in self.completed
            case cfx.AnswerRequest(trigger_id):
                self.open_requests.remove(trigger_id)
            case cfx.FailJob():
                raise AssertionError("the scheduler keeps that to itself")
        super().do(effect)

    def state_of(self, attempt):
        return self.scheduler.graph.vertex(attempt.vertex).current.state

    def check_restore(self, task):
        attempt = ExecutionAttemptID.parse(task.execution_attempt_id)
        if self.counting is None:
            assert not task.HasField("restore")
            return
        assert task.restore.checkpoint_id == self.counting
        taken = self.completed[self.counting].get(attempt.vertex)
        assert task.restore.state.is_finished == (taken is None)
        if taken is not None:
            handle = task.restore.state.operators[str(attempt.vertex.job_vertex_id)].operator[0]
            assert handle.file.data == taken

    # messages of checkpoints

    @precondition(lambda self: self.messages)
    @rule(data=st.data(), outcome=st.sampled_from(["arrives", "arrives", "fails", "twice"]))
    def a_checkpoint_message(self, data, outcome):
        self.bring(self.messages.pop(data.draw(st.integers(0, len(self.messages) - 1))), outcome)

    @precondition(lambda self: self.messages)
    @rule()
    def all_checkpoint_messages_arrive(self):
        for _ in range(3):
            messages, self.messages = self.messages, []
            for message in messages:
                self.bring(message)

    def bring(self, message, outcome="arrives"):
        kind, checkpoint_id, attempt = message
        match kind:
            case "location" if outcome == "fails":
                self.tell(call.location_failed(checkpoint_id, CheckpointStorageError("full")))
            case "location":
                place = CheckpointStorageLocation(f"/chk-{checkpoint_id}", pb.CheckpointLocation())
                self.tell(call.location_made(checkpoint_id, place))
            case "coordinators":
                operators = {vertex.job_vertex.chain[0].operator_id for vertex in self.job_vertices}
                states = {operator_id: f"at {checkpoint_id}".encode() for operator_id in operators}
                self.tell(call.coordinators_snapshotted(checkpoint_id, states))
            case "triggers":
                self.tell(call.triggers_answered(checkpoint_id))
            case "ack" if outcome == "fails":
                self.tell(call.decline(attempt, checkpoint_id, BOOM))
            case "ack":
                if outcome == "twice":
                    self.messages.append(message)
                data = f"{checkpoint_id} of {attempt}".encode()
                state = pb.TaskStateSnapshot()
                handle = state.operators[str(attempt.vertex.job_vertex_id)].operator.add(file=inline_handle(data))
                handle.states.add(name="s", mode=pb.SPLIT_DISTRIBUTE, offsets=[0], lengths=[len(data)])
                self.acks[checkpoint_id].setdefault(attempt.vertex, data)
                self.tell(call.acknowledge(attempt, checkpoint_id, state, pb.CheckpointMetrics()))

    @property
    def job_vertices(self):
        return self.scheduler.graph.job_vertices.values()

    @precondition(lambda self: self.is_writing)
    @rule(succeeds=st.sampled_from([True, True, True, False]))
    def a_checkpoint_is_written(self, succeeds):
        self.write(succeeds)

    def write(self, succeeds=True):
        effect = self.is_writing.pop(0)
        checkpoint_id = effect.checkpoint_id
        if not succeeds:
            self.tell(call.finalization_failed(checkpoint_id, CheckpointStorageError("full")))
            return
        self.completed[checkpoint_id] = self.acks[checkpoint_id]
        if effect.properties.counts_for_recovery:
            self.kept.append(checkpoint_id)
        self.tell(call.finalized(checkpoint_id, f"/chk-{checkpoint_id}", (checkpoint_id,)))

    @precondition(lambda self: self.is_verifying and not self.is_writing)
    @rule(outcome=st.sampled_from(["whole", "damaged", "damaged", "nobody knows"]))
    def checkpoints_are_verified(self, outcome):
        self.verify(outcome)

    def verify(self, outcome):
        self.is_verifying = False
        if outcome == "nobody knows":
            self.send(ev.CheckpointsVerified(error=CheckpointStorageError("no answer")))
            return
        if outcome == "damaged" and len(self.kept) > 1:
            self.kept.pop()
        latest = CompletedCheckpoint(self.metadata_of(self.kept[-1]), "/older") if self.kept else None
        self.send(ev.CheckpointsVerified(latest))

    def metadata_of(self, checkpoint_id):
        """Returns the metadata as it was written."""
        metadata = pb.CheckpointMetadata(checkpoint_id=checkpoint_id)
        for vertex in self.job_vertices:
            operator_id = vertex.job_vertex.chain[0].operator_id
            operator = metadata.operators.add(
                operator_id=operator_id, parallelism=vertex.parallelism, max_parallelism=vertex.max_parallelism
            )
            operator.coordinator.CopyFrom(inline_handle(f"at {checkpoint_id}".encode()))
            for task in vertex.task_vertices:
                data = self.completed[checkpoint_id].get(task.id)
                if data is None:
                    operator.finished_subtasks.append(task.subtask_index)
                    continue
                handle = operator.subtasks[task.subtask_index].operator.add(file=inline_handle(data))
                handle.states.add(name="s", mode=pb.SPLIT_DISTRIBUTE, offsets=[0], lengths=[len(data)])
            operator.is_fully_finished = len(operator.finished_subtasks) == vertex.parallelism
        return metadata

    @rule(stops=st.booleans())
    def a_client_asks_for_a_savepoint(self, stops):
        if stops and self.now_ms < 20_000:  # let most jobs live for a while
            return
        self.asked += 1
        self.open_requests.add(f"t{self.asked}")
        properties = stop_with_savepoint(pb.CANONICAL, drain=False) if stops else savepoint(pb.CANONICAL)
        self.tell(call.request(f"t{self.asked}", properties))

    def time_passes_with_checkpoints(self):
        for _ in range(4):
            messages, self.messages = self.messages, []
            for message in messages:
                self.bring(message)
        while self.is_writing:
            self.write()
        if self.is_verifying:
            self.verify("whole")

    def heartbeat(self, name):
        super().heartbeat(name)
        if getattr(self, "is_ending", False):
            self.time_passes_with_checkpoints()

    def teardown(self):
        if not hasattr(self, "scheduler"):
            return
        self.is_ending = True
        super().teardown()
        self.time_passes_with_checkpoints()
        if self.scheduler.state.is_terminal:
            assert not self.open_requests, "a client waits for ever"
            return
        states = {vertex.current.state for vertex in self.scheduler.graph.vertices}
        if states == {E.RUNNING} and not self.coordinator.is_stopping:
            before = self.counting
            for _ in range(10):
                self.time_passes(1_000)
                self.time_passes_with_checkpoints()
            assert self.counting is not None
            assert before is None or self.counting > before, "no checkpoint is completed any more"


FailoverMachine.TestCase.settings = settings(max_examples=60, stateful_step_count=30, deadline=None)
TestCheckpointFailover = FailoverMachine.TestCase
