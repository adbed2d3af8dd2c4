"""DispatcherConnection: sends the reports of a JobMaster to its Dispatcher, in order, until they are acknowledged.

With high availability another Dispatcher may take over. It receives the reports that the former one did not
acknowledge.

Thread: main thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import cloudpickle

from flinkpy._proto import checkpoint_pb2, dispatcher_pb2, job_pb2
from flinkpy.common.accumulators import AccumulatorFailure
from flinkpy.common.error_text import bounded_text
from flinkpy.common.errors import (
    FlinkError,
    InternalError,
    NotLeaderError,
    RpcTimeoutError,
    RpcUnavailableError,
    StaleFencingTokenError,
)
from flinkpy.common.states import JobState
from flinkpy.jobmaster.conversions import job_status
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.error_codec import reduced_error

logger = logging.getLogger(__name__)

INITIAL_RETRY_DELAY_MS = 100
MAX_RETRY_DELAY_MS = 10_000
#: The maximum number of waiting reports. A job that keeps restarting changes its status without end while the
#: Dispatcher does not answer.
MAX_WAITING_REPORTS = 64
_MAX_REASON_CHARS = 1_000


@dataclass(frozen=True, slots=True)
class _Report:
    method: str
    request: Any
    on_answered: Callable[[], None] | None = None
    is_reduced: bool = False


def _smaller(report: _Report, refusal: FlinkError) -> _Report | None:
    """Returns the report of the end of a job without its large parts.

    Returns None for other reports, and for one that has been reduced before.

    A client waits for the end of its job, so the end must be reported even if the complete report is too large.
    """
    if report.is_reduced or report.method != "notify_job_terminated" or not isinstance(refusal, InternalError):
        return None
    request = dispatcher_pb2.JobTerminated()
    request.CopyFrom(report.request)
    reason = bounded_text(f"the result of the job was too large to send: {refusal}", _MAX_REASON_CHARS)
    for accumulator in request.result.accumulators:
        accumulator.value_pickle = cloudpickle.dumps(AccumulatorFailure(accumulator.name, reason))
        accumulator.value = reason
    if request.result.HasField("error"):
        request.result.error.CopyFrom(reduced_error(request.result.error))
    del request.details.exception_history[:]
    for vertex in request.details.vertices:
        del vertex.subtasks[:]
        del vertex.accumulators[:]
    request.ClearField("checkpoint_statistics")
    return replace(report, request=request, is_reduced=True)


class DispatcherConnection:
    """Sends one report after the other. Repeats each, with a growing delay, until it is answered.

    A report that the Dispatcher rejects is dropped. With high availability, an error that says that the Dispatcher does
    not lead, or does not know this JobMaster, is not an answer: the report is repeated, and `DispatcherSessions` finds
    out which Dispatcher adopts the job, or ends the process.
    """

    def __init__(
        self,
        endpoint: RpcEndpoint,
        gateway: Any,
        *,
        job_id: str,
        job_master_id: str,
        rpc_timeout_ms: int,
        others_may_lead: bool = False,
    ) -> None:
        self._endpoint = endpoint
        self._gateway = gateway
        self._job_id = job_id
        self._job_master_id = job_master_id
        self._timeout_s = rpc_timeout_ms / 1000
        self._retried_errors: tuple[type[FlinkError], ...] = (RpcUnavailableError, RpcTimeoutError)
        if others_may_lead:
            self._retried_errors += (NotLeaderError, StaleFencingTokenError)
        self._status: dispatcher_pb2.JobStatusUpdate | None = None
        self._has_moved = asyncio.Event()
        #: Bounded: if it is full, a new status replaces the last one.
        self._waiting: deque[_Report] = deque()
        self._is_sending = False

    def move_to(self, gateway: Any) -> None:
        """Sends all further reports to another Dispatcher, or to the same one with another fencing token."""
        self._gateway = gateway
        self._has_moved.set()
        self._has_moved = asyncio.Event()
        if self._status is not None and not any(report.method == "notify_job_status" for report in self._waiting):
            self._report("notify_job_status", self._status)

    def started(self, address: str) -> None:
        request = dispatcher_pb2.JobMasterStarted(
            job_id=self._job_id, job_master_id=self._job_master_id, address=address
        )
        self._report("notify_job_master_started", request)

    def status(self, state: JobState, timestamp_ms: int) -> None:
        request = dispatcher_pb2.JobStatusUpdate(
            job_id=self._job_id,
            job_master_id=self._job_master_id,
            status=job_status(state),
            timestamp_ms=timestamp_ms,
        )
        self._status = request
        if len(self._waiting) >= MAX_WAITING_REPORTS and self._waiting[-1].method == "notify_job_status":
            self._waiting.pop()
        self._report("notify_job_status", request)

    def terminated(
        self,
        result: job_pb2.JobResult,
        details: job_pb2.JobDetails,
        statistics: checkpoint_pb2.CheckpointStatisticsResponse | None,
        on_acknowledged: Callable[[], None],
    ) -> None:
        request = dispatcher_pb2.JobTerminated(
            job_id=self._job_id,
            job_master_id=self._job_master_id,
            result=result,
            details=details,
            checkpoint_statistics=statistics,
        )
        self._report("notify_job_terminated", request, on_acknowledged)

    def _report(self, method: str, request: Any, on_answered: Callable[[], None] | None = None) -> None:
        self._waiting.append(_Report(method, request, on_answered))
        self._send_waiting()

    def _send_waiting(self) -> None:
        if self._waiting and not self._is_sending:
            self._is_sending = True
            report = self._waiting.popleft()
            self._endpoint.run_async(
                self._send(report), lambda _, error: self._sent(report, error), f"{report.method} at the Dispatcher"
            )

    def _sent(self, report: _Report, error: BaseException | None) -> None:
        self._is_sending = False
        if error is not None:
            self._endpoint.on_fatal_error(error)
        elif report.on_answered is not None:
            report.on_answered()
        self._send_waiting()

    async def _send(self, report: _Report) -> None:
        delay_ms = INITIAL_RETRY_DELAY_MS
        while True:
            has_moved = self._has_moved
            moved = asyncio.ensure_future(has_moved.wait())
            call = asyncio.ensure_future(
                getattr(self._gateway, report.method)(report.request, timeout_s=self._timeout_s)
            )
            try:
                # If another Dispatcher leads, do not wait for the answer of the former one.
                await asyncio.wait({call, moved}, return_when=asyncio.FIRST_COMPLETED)
                if call.done():
                    call.result()
                    return
            except self._retried_errors as error:
                logger.warning("%s failed: %s; retrying in %d ms", report.method, error, delay_ms)
                await asyncio.wait({moved}, timeout=delay_ms / 1000)
                delay_ms = INITIAL_RETRY_DELAY_MS if has_moved.is_set() else min(delay_ms * 2, MAX_RETRY_DELAY_MS)
            except FlinkError as error:
                logger.error("the Dispatcher rejected %s: %s", report.method, error)
                smaller = _smaller(report, error)
                if smaller is None:
                    return
                report = smaller
            finally:
                moved.cancel()
                call.cancel()
