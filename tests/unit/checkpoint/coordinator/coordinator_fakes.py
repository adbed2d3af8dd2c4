"""A job whose tasks the test defines, and a CheckpointCoordinator whose effects the test carries out."""

from __future__ import annotations

from random import Random

from coordinator_calls import call

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.coordinator import effects as fx
from flinkpy.checkpoint.coordinator.checkpoint_coordinator import CheckpointCoordinator
from flinkpy.checkpoint.coordinator.checkpoint_plan import CheckpointedOperator, CheckpointedVertex
from flinkpy.checkpoint.coordinator.checkpoint_properties import PERIODIC
from flinkpy.checkpoint.coordinator.coordinator_configuration import CheckpointCoordinatorOptions
from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorageLocation
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason as Reason
from flinkpy.common.checkpoint_failure_reason import checkpoint_error
from flinkpy.common.ids import ExecutionAttemptID, ExecutionVertexID, JobVertexID
from flinkpy.common.states import ExecutionState

E = ExecutionState


def vertex(name, parallelism, producers=(), *, pointwise=False, blocking=False):
    """Returns a vertex whose id is its name and which reads the vertices `producers`."""
    inputs = [task for producer in producers for task in producer.tasks]
    of_task = []
    for index in range(parallelism):
        of_task.append(tuple(task for task in inputs if not pointwise or task.subtask_index == index))
    return CheckpointedVertex(
        JobVertexID(name),
        name,
        (CheckpointedOperator(f"{name}-op", f"{name}-uid", name),),
        parallelism,
        128,
        tuple(of_task),
        blocking,
    )


class FakeJob:
    job_id = "job"
    job_name = "test job"

    def __init__(self, *vertices, state=E.RUNNING):
        self.vertices = vertices
        self.states = {task: state for v in vertices for task in v.tasks}
        self.numbers = dict.fromkeys(self.states, 0)

    def task(self, vertex_id):
        return ExecutionAttemptID("g", vertex_id, self.numbers[vertex_id]), self.states[vertex_id]

    def attempt(self, name, subtask=0):
        return self.task(ExecutionVertexID(JobVertexID(name), subtask))[0]

    def set(self, name, state, subtask=0):
        self.states[ExecutionVertexID(JobVertexID(name), subtask)] = state

    @property
    def attempts(self):
        return [self.task(task)[0] for task in self.states]

    def restart(self, state=E.RUNNING):
        """Starts the next attempt of every task."""
        for task in self.states:
            self.numbers[task] += 1
            self.states[task] = state


def source_and_sink(parallelism=1):
    source = vertex("source", parallelism)
    return FakeJob(source, vertex("sink", parallelism, [source]))


def location(checkpoint_id):
    return CheckpointStorageLocation(f"/c/chk-{checkpoint_id}", pb.CheckpointLocation(exclusive_directory="/c"))


class Coordination:
    """Every event is followed by `validate()`."""

    def __init__(self, job=None, *, now_ms=1_000, running=True, **options):
        self.job = job or source_and_sink()
        self.now_ms = now_ms
        self.options = CheckpointCoordinatorOptions(**{"interval_ms": 100, **options})
        self.coordinator = CheckpointCoordinator(self.job, self.options, Random(0))
        self.effects = []
        if running:
            self.send(call.all_tasks_running())

    def send(self, call):
        effects = call(self.coordinator, self.now_ms)
        self.coordinator.validate()
        self.effects += effects
        return effects

    def take(self, kind):
        taken = [effect for effect in self.effects if isinstance(effect, kind)]
        self.effects = [effect for effect in self.effects if not isinstance(effect, kind)]
        return taken

    def advance(self, by_ms):
        """Advances the time, and stops at every deadline on the way."""
        end_ms = self.now_ms + by_ms
        for _ in range(10_000):
            due_ms = self.coordinator.next_deadline_ms
            if due_ms is None or due_ms > end_ms:
                break
            self.now_ms = max(self.now_ms, due_ms)
            self.send(call.check_timers())
        else:
            raise AssertionError("the deadlines never end")
        self.now_ms = end_ms

    # the steps of a checkpoint

    def begin(self, by_ms=None):
        """Begins a periodic checkpoint and returns its id."""
        self.advance(self.options.interval_ms if by_ms is None else by_ms)
        return self.begun()

    def begun(self):
        """Returns the id of the checkpoint that has just begun."""
        (made,) = self.take(fx.MakeLocation)
        return made.checkpoint_id

    def trigger(self, checkpoint_id, coordinators=None):
        """Runs all steps before the acknowledgements; returns the TriggerTasks."""
        self.send(call.location_made(checkpoint_id, location(checkpoint_id)))
        assert [effect.checkpoint_id for effect in self.take(fx.SnapshotCoordinators)] == [checkpoint_id]
        self.send(call.coordinators_snapshotted(checkpoint_id, coordinators or {}))
        (triggered,) = self.take(fx.TriggerTasks)
        self.send(call.triggers_answered(checkpoint_id))
        return triggered

    def start(self, by_ms=None):
        checkpoint_id = self.begin(by_ms)
        self.trigger(checkpoint_id)
        return checkpoint_id

    def ack(self, checkpoint_id, attempt, state=None, metrics=None):
        return self.send(
            call.acknowledge(attempt, checkpoint_id, state or state_of(attempt), metrics or pb.CheckpointMetrics())
        )

    def ack_all(self, checkpoint_id, attempts=None):
        for attempt in attempts or self.job.attempts:
            self.ack(checkpoint_id, attempt)

    def finalized(self, checkpoint_id, path=None):
        (effect,) = self.take(fx.FinalizeCheckpoint)
        assert effect.checkpoint_id == checkpoint_id
        return self.send(call.finalized(checkpoint_id, path or f"/c/chk-{checkpoint_id}", (checkpoint_id,)))

    def complete(self, by_ms=None):
        checkpoint_id = self.start(by_ms)
        self.ack_all(checkpoint_id)
        self.finalized(checkpoint_id)
        return checkpoint_id

    def decline(self, checkpoint_id, attempt, reason=Reason.CHECKPOINT_DECLINED):
        return self.send(call.decline(attempt, checkpoint_id, checkpoint_error(reason)))

    def request(self, properties=PERIODIC, trigger_id="t", directory=""):
        return self.send(call.request(trigger_id, properties, directory))

    def answers(self):
        """Returns the path, or the reason of the failure, by trigger id."""
        answered = {}
        for effect in self.take(fx.AnswerRequest):
            assert effect.trigger_id not in answered, "answered twice"
            if effect.result is not None:
                answered[effect.trigger_id] = effect.result.path
            else:
                answered[effect.trigger_id] = effect.error.details.get("failure_reason", type(effect.error).__name__)
        return answered

    @property
    def latest_id(self):
        latest = self.coordinator.latest
        return None if latest is None else latest.checkpoint_id

    def last_failure(self):
        return self.coordinator.statistics.response().latest_failed.failure.details["failure_reason"]


def state_of(attempt, *, finished=False, union=False):
    # A task with operator state has something to be restored even at its end.
    state = pb.TaskStateSnapshot(is_finished=finished and not union, has_reached_end=finished)
    if union or not finished:
        handle = state.operators[f"{attempt.vertex.job_vertex_id}-op"].operator.add()
        handle.file.data = str(attempt).encode()
        if union:
            handle.states.add(name="u", mode=pb.UNION)
    return state
