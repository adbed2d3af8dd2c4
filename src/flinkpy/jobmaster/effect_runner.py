"""EffectRunner: does what the scheduler of a job wants done. Thread: main thread."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any

from flinkpy._proto import taskexecutor_pb2
from flinkpy.common.errors import NotRegisteredError
from flinkpy.common.ids import ResourceID
from flinkpy.jobmaster.checkpoint_runner import CheckpointRunner
from flinkpy.jobmaster.dispatcher_connection import DispatcherConnection
from flinkpy.jobmaster.job_event_store.job_recovery import JobRecovery
from flinkpy.jobmaster.operator_coordinators import OperatorCoordinators
from flinkpy.jobmaster.resource_manager_connection import ResourceManagerConnection
from flinkpy.jobmaster.scheduler import effects as fx
from flinkpy.jobmaster.scheduler import events as ev
from flinkpy.jobmaster.scheduler.default_scheduler import DefaultScheduler
from flinkpy.jobmaster.task_manager_connection import TaskManagerConnection

logger = logging.getLogger(__name__)


class EffectRunner:
    """Of every effect but those that are the JobMaster's own.

    Args:
        task_managers: those that are registered; changes.
        handle: tells the scheduler what has come of an effect.
    """

    def __init__(
        self,
        scheduler: DefaultScheduler,
        coordinators: OperatorCoordinators,
        checkpoints: CheckpointRunner,
        resource_manager: ResourceManagerConnection,
        dispatcher: DispatcherConnection,
        task_managers: Mapping[ResourceID, TaskManagerConnection],
        recovery: JobRecovery,
        job_information: taskexecutor_pb2.JobInformation,
        handle: Callable[[ev.SchedulerEvent], None],
    ) -> None:
        self._scheduler = scheduler
        self._coordinators = coordinators
        self._checkpoints = checkpoints
        self._resource_manager = resource_manager
        self._dispatcher = dispatcher
        self._task_managers = task_managers
        self._recovery = recovery
        self._job_information = job_information
        self._handle = handle

    def dispatcher_moved(self, gateway: Any, address: str) -> None:
        """Reports go to another Dispatcher from now on, and tasks fetch the job's files there."""
        self._dispatcher.move_to(gateway)
        self._job_information.blob_server_address = address

    def run(self, effect: fx.SchedulerEffect) -> None:
        match effect:
            case fx.TaskStateChanged():
                logger.log(logging.WARNING if effect.error is not None else logging.INFO, "%s", effect)
            case fx.DeclareRequirements(num_slots, blocked):
                self._resource_manager.declare(num_slots, blocked)
            case fx.SubmitTasks():
                self._submit_tasks(effect)
            case fx.CancelTasks(location, attempts):
                connection = self._task_managers.get(location.resource_id)
                if connection is not None:
                    connection.cancel_tasks(attempts)
            case fx.FreeSlot(slot, cause):
                connection = self._task_managers.get(slot.location.resource_id)
                if connection is not None:
                    connection.free_slot(slot, cause)
            case fx.ReleasePartitions(location, partition_ids):
                connection = self._task_managers.get(location.resource_id)
                if connection is not None:
                    connection.release_partitions(partition_ids)
            case fx.StartCoordinators():
                self._coordinators.start()
            case fx.RecordJobEvent():
                self._recovery.record(effect)
            case fx.RestoreCoordinators(job_vertex_id, states):
                self._coordinators.restore_for_recovery(job_vertex_id, states)
            case fx.SubtaskReady(vertex_id):
                self._coordinators.subtask_ready(vertex_id)
            case fx.SubtaskReset(vertex_id, checkpoint_id):
                self._coordinators.subtask_reset(vertex_id, checkpoint_id)
            case fx.ResetCoordinators(job_vertex_id, checkpoint_id, states):
                self._coordinators.reset(job_vertex_id, checkpoint_id, states)
            case fx.JobStatusChanged(state, timestamp_ms):
                graph = self._scheduler.graph
                logger.info("job %s (%s) is %s", graph.name, graph.job_id, state.name)
                self._dispatcher.status(state, timestamp_ms)
            case fx.AnswerOffer() | fx.VerticesInitialized() | fx.VerifyCheckpoints() | fx.JobTerminated():
                raise AssertionError(f"{effect} is the JobMaster's own")
            case _:
                self._checkpoints.run(effect)

    def _submit_tasks(self, effect: fx.SubmitTasks) -> None:
        connection = self._task_managers.get(effect.location.resource_id)
        if connection is None:
            # Lost between the decision and now; the event of the loss is waiting and will say the same.
            cause = NotRegisteredError(f"{effect.location.resource_id} is not registered (any more)")
            self._handle(
                ev.TasksSubmitted(effect.attempts, tuple((attempt_id, cause) for attempt_id in effect.attempts))
            )
            return
        job_vertices = self._scheduler.graph.job_vertices
        request = taskexecutor_pb2.SubmitTasksRequest(
            job=self._job_information,
            vertices=[job_vertices[vertex_id].job_vertex for vertex_id in effect.vertices],
            tasks=effect.tasks,
        )
        connection.submit_tasks(request, effect.attempts)
