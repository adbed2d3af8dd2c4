"""JobMasterConnection: the connection of a TaskExecutor to the JobMaster of one job.

It registers, offers slots, reports states, operator events and checkpoints in order, reports metrics and exchanges
heartbeats. It passes answers to a `JobMasterListener` and changes no slot or task itself.

Source: org.apache.flink.runtime.taskexecutor.{JobLeaderService,TaskExecutor}, TaskExecutorToJobManagerHeartbeat.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import Any, Protocol

from flinkpy._proto import checkpoint_pb2, common_pb2, jobmaster_pb2
from flinkpy.common.checkpoint_failure_reason import CheckpointFailureReason, checkpoint_error
from flinkpy.common.error_text import text_of
from flinkpy.common.errors import (
    FlinkError,
    InternalError,
    JobMasterLostError,
    NotRegisteredError,
    RpcTimeoutError,
    RpcUnavailableError,
    StaleFencingTokenError,
    TaskSubmissionError,
)
from flinkpy.common.ids import JobID, JobMasterId
from flinkpy.rpc.endpoint import OnDone, RpcEndpoint
from flinkpy.rpc.error_codec import error_from_proto, error_to_proto
from flinkpy.rpc.peer_connection import PeerConnection, Peers
from flinkpy.taskexecutor.options import TaskExecutorOptions
from flinkpy.taskexecutor.outbox import Outbox, Report, ReportKind
from flinkpy.taskexecutor.task import reduced_update

logger = logging.getLogger(__name__)

#: Pause before a report that may not have arrived is repeated. The death of a JobMaster is noticed by other means.
REPORT_RETRY_MS = 200


class JobMasterListener(Protocol):
    """Thread: main thread."""

    def on_job_master_registered(self, job_id: JobID) -> None:
        """Handles the registration: offers the job's slots."""
        ...

    def on_slots_answered(self, job_id: JobID, offered: list[str], accepted: set[str]) -> None: ...

    def on_slot_offer_failed(self, job_id: JobID, offered: list[str], error: FlinkError) -> None: ...

    def on_report_refused(self, job_id: JobID, execution_attempt_ids: list[str], error: FlinkError) -> None:
        """Handles a refused report or a lost operator event: the tasks must fail."""
        ...

    def on_allocated_slots(self, job_id: JobID, allocation_ids: Iterable[str]) -> None:
        """Handles the JobMaster's list of the slots that it holds here."""
        ...

    def on_job_master_lost(self, job_id: JobID, job_master_id: JobMasterId, cause: FlinkError) -> None: ...

    def survives_its_job_master(self, job_id: JobID) -> bool:
        """Returns True if the tasks of the job go on when its JobMaster is lost."""
        ...

    def job_heartbeat(self, job_id: JobID) -> jobmaster_pb2.TaskManagerToJobMasterHeartbeat: ...

    def held_partitions(self, job_id: JobID) -> list[str]:
        """Returns the job's finished blocking partitions."""
        ...


class JobMasterConnection(PeerConnection):
    """The connection to one leader of a job. Thread: main thread."""

    def __init__(
        self,
        endpoint: RpcEndpoint,
        peers: Peers,
        listener: JobMasterListener,
        options: TaskExecutorOptions,
        *,
        job_id: JobID,
        job_master_address: str,
        job_master_id: JobMasterId,
        task_executor_address: str,
        data_address: str,
    ) -> None:
        super().__init__(
            endpoint,
            peers,
            options,
            service="JobMaster",
            name=f"JobMaster of job {job_id}",
            address=job_master_address,
            fencing_token=str(job_master_id),
        )
        self._options = options
        self.job_id = job_id
        self.job_master_id = job_master_id
        self._listener = listener
        self._task_executor_address = task_executor_address
        self._data_address = data_address
        self._outbox = Outbox()
        self._is_reporting_metrics = False

    # ---- slots

    def offer_slots(self, offers: list[jobmaster_pb2.SlotOffer]) -> None:
        """Offers slots. The answer goes to `on_slots_answered` or `on_slot_offer_failed`."""
        request = jobmaster_pb2.OfferSlotsRequest(
            job_id=str(self.job_id), resource_id=self._options.resource_id, offers=offers
        )
        offered = [offer.allocation_id for offer in offers]

        def done(response: Any, error: BaseException | None) -> None:
            if error is None:
                accepted = {offer.allocation_id for offer in response.accepted}
                self._listener.on_slots_answered(self.job_id, offered, accepted)
            else:
                self._listener.on_slot_offer_failed(self.job_id, offered, as_flink_error(error))

        self.call(self._gateway.offer_slots(request, timeout_s=self._options.rpc_timeout_s), done, "offer slots to")

    def fail_slot(self, allocation_id: str, cause: common_pb2.ErrorInfo) -> None:
        """Reports that the JobMaster does not hold a slot that it believes to hold."""
        request = jobmaster_pb2.FailSlotRequest(
            job_id=str(self.job_id), resource_id=self._options.resource_id, allocation_id=allocation_id, cause=cause
        )
        self.call(self._gateway.fail_slot(request, timeout_s=self._options.rpc_timeout_s), _log_error, "fail a slot at")

    # ---- reports

    def report_state(self, update: jobmaster_pb2.TaskExecutionStateUpdate) -> None:
        """Queues a state update, which is repeated until it is answered or the connection is lost."""
        self._outbox.put(Report(ReportKind.STATE, update.execution_attempt_id, update, update.ByteSize()))
        self._send_reports()

    def send_operator_event(self, event: jobmaster_pb2.OperatorEvent) -> None:
        """Queues an event, which is sent once. A possibly lost event fails its task (`on_report_refused`)."""
        self._outbox.put(Report(ReportKind.EVENT, event.execution_attempt_id, event, event.ByteSize()))
        self._send_reports()

    def acknowledge_checkpoint(
        self,
        execution_attempt_id: str,
        checkpoint_id: int,
        metrics: checkpoint_pb2.CheckpointMetrics,
        state: checkpoint_pb2.TaskStateSnapshot,
    ) -> None:
        """Queues an acknowledgement, which is repeated until it is answered. If refused, the checkpoint is declined."""
        request = checkpoint_pb2.AcknowledgeCheckpointRequest(
            job_id=str(self.job_id),
            execution_attempt_id=execution_attempt_id,
            checkpoint_id=checkpoint_id,
            metrics=metrics,
            state=state,
        )
        self._outbox.put(Report(ReportKind.ACKNOWLEDGE, execution_attempt_id, request))
        self._send_reports()

    def decline_checkpoint(self, execution_attempt_id: str, checkpoint_id: int, error: BaseException) -> None:
        """Queues a declined checkpoint, which is repeated until it is answered or the connection is lost."""
        request = checkpoint_pb2.DeclineCheckpointRequest(
            job_id=str(self.job_id),
            execution_attempt_id=execution_attempt_id,
            checkpoint_id=checkpoint_id,
            reason=error_to_proto(error),
        )
        self._outbox.put(Report(ReportKind.DECLINE, execution_attempt_id, request))
        self._send_reports()

    def notify_end_of_data(self, execution_attempt_id: str) -> None:
        """Queues the end of data of a task, which is repeated until it is answered or the connection is lost."""
        self._outbox.put(Report(ReportKind.END_OF_DATA, execution_attempt_id, execution_attempt_id))
        self._send_reports()

    async def store_result(self, request: jobmaster_pb2.StoreResultRequest) -> None:
        """Stores a piece of a result. Repeats the call until it is answered. Raises: the answered error."""
        request.job_id = str(self.job_id)
        await self._until_answered(self._gateway.store_result, request)

    async def fetch_result(self, request: jobmaster_pb2.FetchResultRequest) -> jobmaster_pb2.FetchResultResponse:
        """Returns a piece of a result. Repeats the call until it is answered. Raises: the answered error."""
        request.job_id = str(self.job_id)
        response: jobmaster_pb2.FetchResultResponse = await self._until_answered(self._gateway.fetch_result, request)
        return response

    async def _until_answered(self, method: Callable[..., Any], request: Any) -> Any:
        """Repeats an idempotent call while the JobMaster is not reachable. Its loss cancels the task that waits."""
        while True:
            try:
                return await method(request, timeout_s=self._options.rpc_timeout_s)
            except (RpcTimeoutError, RpcUnavailableError) as error:
                logger.debug("%s did not answer: %s", self._name, error)
                await asyncio.sleep(REPORT_RETRY_MS / 1000)

    @property
    def has_reports(self) -> bool:
        """True if there are reports that have not been answered."""
        return not self._outbox.is_idle

    @property
    def attempts_with_reports(self) -> set[str]:
        """The execution attempts with reports that have not been answered."""
        return self._outbox.execution_attempt_ids

    def report_metrics(self, tasks: list[jobmaster_pb2.TaskExecutionStateUpdate]) -> None:
        """Sends the metrics of tasks. Does nothing while the last call is running."""
        if self._is_reporting_metrics or not self.is_registered or not tasks:
            return
        self._is_reporting_metrics = True
        report = jobmaster_pb2.TaskMetricsReport(
            job_id=str(self.job_id), resource_id=self._options.resource_id, tasks=tasks
        )

        def done(_: Any, error: BaseException | None) -> None:
            self._is_reporting_metrics = False
            if error is not None:
                logger.debug("reporting metrics of job %s failed: %s", self.job_id, error)

        self.call(
            self._gateway.report_task_metrics(report, timeout_s=self._options.rpc_timeout_s), done, "report metrics to"
        )

    async def disconnect(self, reason: str) -> None:
        """Unregisters this TaskExecutor at the JobMaster. Best effort."""
        request = jobmaster_pb2.DisconnectTaskManagerRequest(
            job_id=str(self.job_id), resource_id=self._options.resource_id, reason=reason
        )
        try:
            await self._gateway.disconnect_task_manager(request, timeout_s=1.0)
        except FlinkError as error:
            logger.debug("disconnecting from %s: %s", self._name, error)

    async def is_alive(self, timeout_s: float) -> bool:
        """Returns True if the JobMaster answers and leads the job. Works after `close`."""
        heartbeat = jobmaster_pb2.TaskManagerToJobMasterHeartbeat(
            job_id=str(self.job_id), resource_id=self._options.resource_id
        )
        try:
            await self._gateway.heartbeat_from_task_manager(heartbeat, timeout_s=timeout_s)
        except NotRegisteredError:
            return True
        except FlinkError:
            return False
        return True

    def close(self) -> None:
        super().close()
        self._outbox.close()

    def _send_reports(self) -> None:
        if not self.is_registered:
            return
        reports = self._outbox.next_call()
        if not reports:
            return
        kind = reports[0].kind
        messages = [report.message for report in reports]
        timeout_s = self._options.rpc_timeout_s
        name = f"send {kind.value}s to"
        if kind is ReportKind.ACKNOWLEDGE or kind is ReportKind.DECLINE:
            method = (
                self._gateway.acknowledge_checkpoint
                if kind is ReportKind.ACKNOWLEDGE
                else self._gateway.decline_checkpoint
            )
            self.call(_call_each(method, messages, timeout_s), self._checkpoints_answered_of(reports), name)
            return
        if kind is ReportKind.STATE:
            states = jobmaster_pb2.UpdateTaskExecutionStatesRequest(job_id=str(self.job_id), updates=messages)
            call = self._gateway.update_task_execution_states(states, timeout_s=timeout_s)
        elif kind is ReportKind.END_OF_DATA:
            ended = checkpoint_pb2.EndOfDataNotification(job_id=str(self.job_id), execution_attempt_ids=messages)
            call = self._gateway.notify_end_of_data(ended, timeout_s=timeout_s)
        else:
            events = jobmaster_pb2.OperatorEventsToCoordinator(job_id=str(self.job_id), events=messages)
            call = self._gateway.send_operator_events_to_coordinator(events, timeout_s=timeout_s)
        self.call(call, lambda _, error: self._reports_answered(reports, error), name)

    def _reports_answered(self, reports: tuple[Report, ...], error: BaseException | None) -> None:
        kind = reports[0].kind
        if isinstance(error, RpcTimeoutError | RpcUnavailableError) and kind.may_be_repeated:
            self._send_again(reports)
            return
        if isinstance(error, RpcUnavailableError) and self._listener.survives_its_job_master(self.job_id):
            # The tasks repeat their events to the next JobMaster.
            self.lose(f"an event could not be delivered: {error}")
            return
        if error is not None and kind is ReportKind.STATE and self._send_smaller(reports, error):
            return
        self._outbox.answered()
        if error is not None:
            cause = TaskSubmissionError(f"the JobMaster did not take the {kind.value}s of this task: {error}")
            cause.__cause__ = as_flink_error(error)
            attempts = list(dict.fromkeys(report.execution_attempt_id for report in reports))
            self._listener.on_report_refused(self.job_id, attempts, cause)
        self._send_reports()

    def _send_smaller(self, reports: tuple[Report, ...], error: BaseException) -> bool:
        """Repeats refused state updates without their large parts. Returns False if that was tried or cannot help.

        A job would never end if its JobMaster did not hear of the end of a task.
        """
        # An error of another type concerns the task, not the size of the message.
        is_about_message = not isinstance(error, FlinkError) or isinstance(error, InternalError)
        if not is_about_message or all(one.is_reduced for one in reports):
            return False
        logger.warning("%s refused %d state updates, sending smaller ones: %s", self._name, len(reports), error)
        refusal = text_of(error)
        smaller = [
            replace(one, message=reduced_update(one.message, refusal), size_bytes=0, is_reduced=True) for one in reports
        ]
        self._outbox.undelivered(smaller)
        self._send_reports()
        return True

    def _checkpoints_answered_of(self, reports: tuple[Report, ...]) -> OnDone:
        def done(errors: Any, error: BaseException | None) -> None:
            self._checkpoints_answered(reports, errors if error is None else [error] * len(reports))

        return done

    def _checkpoints_answered(self, reports: tuple[Report, ...], errors: list[BaseException | None]) -> None:
        """Handles the answers. A refused acknowledgement, e.g. a too large one, fails the checkpoint only."""
        lost: list[Report] = []
        for report, error in zip(reports, errors, strict=True):
            if isinstance(error, RpcTimeoutError | RpcUnavailableError):
                lost.append(report)
            elif error is not None:
                logger.warning("%s refused a %s: %s", self._name, report.kind.value, error)
                if report.kind is ReportKind.ACKNOWLEDGE:
                    refused = checkpoint_error(
                        CheckpointFailureReason.CHECKPOINT_DECLINED, f"Its acknowledgement was refused: {error}", error
                    )
                    self.decline_checkpoint(report.execution_attempt_id, report.message.checkpoint_id, refused)
        if lost:
            self._send_again(lost)
            return
        self._outbox.answered()
        self._send_reports()

    def _send_again(self, reports: Sequence[Report]) -> None:
        self._outbox.undelivered(reports)
        self._endpoint.schedule(REPORT_RETRY_MS, self._send_reports)

    # ---- PeerConnection

    async def _register(self, timeout_s: float) -> Any:
        request = jobmaster_pb2.RegisterTaskManagerRequest(
            job_id=str(self.job_id),
            resource_id=self._options.resource_id,
            address=self._task_executor_address,
            data_address=self._data_address,
            held_result_partition_ids=self._listener.held_partitions(self.job_id),
        )
        return await self._gateway.register_task_manager(request, timeout_s=timeout_s)

    def _on_registered(self, response: Any) -> None:
        self._listener.on_job_master_registered(self.job_id)
        self._send_reports()

    def _on_refused(self, error: FlinkError) -> bool:
        self.lose(f"it refused the registration: {error}")
        return False

    async def _send_heartbeat(self) -> Any:
        heartbeat = self._listener.job_heartbeat(self.job_id)
        return await self._gateway.heartbeat_from_task_manager(heartbeat, timeout_s=self._options.rpc_timeout_s)

    def _on_heartbeat_answer(self, answer: Any) -> None:
        if not answer.registered:
            self.lose("it does not know this TaskExecutor")
            return
        self.heard()
        self._listener.on_allocated_slots(self.job_id, answer.allocation_ids)

    def _on_lost(self, reason: str) -> None:
        cause = JobMasterLostError(
            f"connection to the JobMaster of job {self.job_id} at {self.address} lost: {reason}",
            details={"job_id": str(self.job_id), "address": self.address},
        )
        self._listener.on_job_master_lost(self.job_id, self.job_master_id, cause)


async def _call_each(method: Callable[..., Any], requests: list[Any], timeout_s: float) -> list[BaseException | None]:
    """Makes the calls concurrently and returns an error or None for each.

    Raises: StaleFencingTokenError, NotRegisteredError: the peer does not lead the job or does not know this process.
    """
    results = await asyncio.gather(
        *(method(request, timeout_s=timeout_s) for request in requests), return_exceptions=True
    )
    for result in results:
        if isinstance(result, StaleFencingTokenError | NotRegisteredError):
            raise result
    return [result if isinstance(result, BaseException) else None for result in results]


def as_flink_error(error: BaseException) -> FlinkError:
    """Returns a FlinkError as it is, and any other error as an InternalError."""
    if isinstance(error, FlinkError):
        return error
    return error_from_proto(error_to_proto(error))


def _log_error(_: Any, error: BaseException | None) -> None:
    if error is not None:
        logger.debug("%s", error)
