"""JobCleanUp: removes the files of ended jobs, except their results, and retries failed attempts.

A job's result is marked dirty until everything else of the job has been removed. So the next Dispatcher continues a
clean-up that this one gave up.

Source: org.apache.flink.runtime.dispatcher.cleanup.DispatcherResourceCleanerFactory,
org.apache.flink.runtime.dispatcher.cleanup.CheckpointResourcesCleanupRunner,
org.apache.flink.configuration.CleanupOptions. Thread: the Dispatcher's loop; files are removed on I/O threads.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from flinkpy._proto import dispatcher_pb2
from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.common.errors import FlinkError, HighAvailabilityError, LeadershipLostError
from flinkpy.common.ids import JobID
from flinkpy.common.job_status import JobStatus
from flinkpy.common.states import JobState
from flinkpy.configuration import checkpointing_options, cluster_options, read_option
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.highavailability.leader_election import Leadership
from flinkpy.highavailability.services import HighAvailabilityServices
from flinkpy.rpc.endpoint import RpcEndpoint
from flinkpy.rpc.error_codec import error_from_proto

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CleanUpPolicy:
    """`cleanup-strategy.*`.

    Attributes:
        repetitions: the maximum number of attempts after the first one.
    """

    repetitions: int = 2_147_483_647
    initial_delay_ms: int = 1_000
    max_delay_ms: int = 3_600_000

    def delay_ms(self, failures: int) -> int | None:
        """Returns the pause after this number of failures; None if there are no more attempts."""
        if failures > self.repetitions:
            return None
        return min(self.initial_delay_ms << min(failures - 1, 32), self.max_delay_ms)


def clean_up_policy(configuration: AnyConfiguration) -> CleanUpPolicy:
    """Returns the policy that `cleanup-strategy` sets. Raises: ConfigurationError."""
    strategy = read_option(configuration, cluster_options.CLEANUP_STRATEGY).replace("-", "")
    if strategy == "fixeddelay":
        delay_ms = read_option(configuration, cluster_options.CLEANUP_FIXED_DELAY)
        return CleanUpPolicy(
            read_option(configuration, cluster_options.CLEANUP_FIXED_DELAY_ATTEMPTS), delay_ms, delay_ms
        )
    if strategy == "exponentialdelay":
        return CleanUpPolicy(
            read_option(configuration, cluster_options.CLEANUP_EXPONENTIAL_DELAY_ATTEMPTS),
            read_option(configuration, cluster_options.CLEANUP_INITIAL_BACKOFF),
            read_option(configuration, cluster_options.CLEANUP_MAX_BACKOFF),
        )
    return CleanUpPolicy(repetitions=0)


class JobCleanUp:
    """Runs `clean_up(terminated)`, which blocks, can be repeated, and raises if something could not be removed."""

    def __init__(
        self, endpoint: RpcEndpoint, clean_up: Callable[[pb.JobTerminated], None], policy: CleanUpPolicy
    ) -> None:
        self._endpoint = endpoint
        self._clean_up = clean_up
        self._policy = policy
        #: the clean-ups in their first attempt
        self._beginning: set[str] = set()
        self._has_tried = asyncio.Event()

    def start(self, terminated: pb.JobTerminated) -> None:
        """Removes what is left of this job. Retries after a failure."""
        self._beginning.add(terminated.job_id)
        self._endpoint.start_task(self._run(terminated), f"clean up job {terminated.job_id}")

    async def wait_for_first_attempts(self, timeout_s: float) -> None:
        """Waits until each clean-up that was started has succeeded or failed once."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while self._beginning:
                    self._has_tried.clear()
                    await self._has_tried.wait()

    def _tried(self, job_id: str) -> None:
        self._beginning.discard(job_id)
        self._has_tried.set()

    async def _run(self, terminated: pb.JobTerminated) -> None:
        job_id = terminated.job_id
        for attempt in itertools.count(1):
            try:
                await self._endpoint.blocking(lambda: self._clean_up(terminated), f"clean up job {job_id}")
                self._tried(job_id)
                return
            except Exception as error:  # noqa: BLE001 - any failure is tried again
                self._tried(job_id)
                delay_ms = self._policy.delay_ms(attempt)
                if delay_ms is None:
                    logger.error("leaving job %s to be cleaned up by the next Dispatcher: %s", job_id, error)
                    return
                logger.warning(
                    "could not clean up job %s (attempt %d), trying again in %d ms: %s",
                    job_id,
                    attempt,
                    delay_ms,
                    error,
                )
            await asyncio.sleep(delay_ms / 1000)


def clean_up_checkpoints(
    terminated: dispatcher_pb2.JobTerminated,
    recovery_directory: Path,
    cluster_configuration: dict[str, str],
    services: HighAvailabilityServices,
    leadership: Leadership,
) -> None:
    """Removes the checkpoints of an ended job whose JobMaster did not, except those that its retention keeps. Blocks.

    Checkpoints that cannot be removed are logged and stay.

    Raises: HighAvailabilityError, LeadershipLostError: the checkpoints are not known.
    """
    is_shared = services.is_highly_available
    if not is_shared and (not recovery_directory.is_dir() or not any(recovery_directory.iterdir())):
        return  # the JobMaster has removed them, or the job had none
    job_id = JobID(terminated.job_id)
    pointers = services.checkpoint_pointer_store(job_id, leadership)
    if is_shared and not pointers.load().ByteSize():
        return
    # Imported here, because a Dispatcher must start fast.
    from flinkpy.checkpoint.completed_checkpoint import CheckpointRetention
    from flinkpy.checkpoint.completed_checkpoint_store import CompletedCheckpointStore
    from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorage

    configuration = {**cluster_configuration, **terminated.details.configuration.entries}
    status = JobStatus[JobState(terminated.result.status).name]
    try:
        store = CompletedCheckpointStore(
            pointers,
            CheckpointStorage.from_configuration(configuration, terminated.job_id, recovery_directory),
            read_option(configuration, checkpointing_options.NUM_RETAINED),
        )
        store.recover()
        retention = read_option(configuration, checkpointing_options.EXTERNALIZED_CHECKPOINT_RETENTION)
        cause = error_from_proto(terminated.result.error) if terminated.result.HasField("error") else None
        store.shut_down(status, CheckpointRetention[retention], cause)
        services.checkpoint_id_counter(job_id, leadership).remove()
    except (HighAvailabilityError, LeadershipLostError):
        raise
    except (FlinkError, OSError) as error:
        logger.error("could not remove the checkpoints of job %s (%s): %s", terminated.job_id, status.name, error)
