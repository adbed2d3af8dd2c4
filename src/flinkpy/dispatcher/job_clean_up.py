"""JobCleanUp: removes what is kept of ended jobs beside their results, and tries again where that fails.

A job's result stays dirty until nothing else of it is left, so a clean-up that this Dispatcher gives up is the next
one's.

Source: org.apache.flink.runtime.dispatcher.cleanup.DispatcherResourceCleanerFactory,
org.apache.flink.configuration.CleanupOptions. Thread: the Dispatcher's loop; files are removed on I/O threads.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass

from flinkpy._proto import dispatcher_pb2 as pb
from flinkpy.configuration import cluster_options, read_option
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.rpc.endpoint import RpcEndpoint

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CleanUpPolicy:
    """`cleanup-strategy.*`.

    Attributes:
        repetitions: after the first attempt, at most.
    """

    repetitions: int = 2_147_483_647
    initial_delay_ms: int = 1_000
    max_delay_ms: int = 3_600_000

    def delay_ms(self, failures: int) -> int | None:
        """The pause after so many failures, or None: no more attempts."""
        if failures > self.repetitions:
            return None
        return min(self.initial_delay_ms << min(failures - 1, 32), self.max_delay_ms)


def clean_up_policy(configuration: AnyConfiguration) -> CleanUpPolicy:
    """Raises: ConfigurationError."""
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
    """`clean_up(terminated)` blocks, may be repeated, and raises where something is left."""

    def __init__(
        self, endpoint: RpcEndpoint, clean_up: Callable[[pb.JobTerminated], None], policy: CleanUpPolicy
    ) -> None:
        self._endpoint = endpoint
        self._clean_up = clean_up
        self._policy = policy

    def start(self, terminated: pb.JobTerminated, failures: int = 0) -> None:
        """Remove what is left of this job, now and, where that fails, again."""

        def done(_: None, error: BaseException | None) -> None:
            if error is None:
                return
            delay_ms = self._policy.delay_ms(failures + 1)
            if delay_ms is None:
                logger.error("job %s is cleaned up by the next Dispatcher: %s", terminated.job_id, error)
                return
            logger.warning(
                "job %s could not be cleaned up (attempt %d), next try in %d ms: %s",
                terminated.job_id,
                failures + 1,
                delay_ms,
                error,
            )
            self._endpoint.schedule(delay_ms, lambda: self.start(terminated, failures + 1))

        self._endpoint.run_blocking(lambda: self._clean_up(terminated), done, f"clean up job {terminated.job_id}")
