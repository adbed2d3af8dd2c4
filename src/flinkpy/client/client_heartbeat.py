"""ClientHeartbeat: tells the cluster that the client of a job lives, until it is stopped or its process ends.

Source: org.apache.flink.client.ClientUtils#reportHeartbeatPeriodically.
"""

from __future__ import annotations

import logging
import threading

from flinkpy.client.cluster_client import ClusterClient
from flinkpy.common.configuration import Configuration
from flinkpy.common.errors import ConfigurationError, FlinkError, JobNotFoundError, VersionMismatchError
from flinkpy.configuration import client_options
from flinkpy.configuration.options import read_option

_logger = logging.getLogger(__name__)


def heartbeat_settings(configuration: Configuration) -> tuple[int, int]:
    """Interval and time-out in milliseconds. Raises: ConfigurationError where the interval is not the shorter one."""
    interval_ms = read_option(configuration, client_options.CLIENT_HEARTBEAT_INTERVAL)
    timeout_ms = read_option(configuration, client_options.CLIENT_HEARTBEAT_TIMEOUT)
    if interval_ms >= timeout_ms:
        raise ConfigurationError(
            f"option `{client_options.CLIENT_HEARTBEAT_INTERVAL.key}` ({interval_ms} ms) must be shorter than "
            f"`{client_options.CLIENT_HEARTBEAT_TIMEOUT.key}` ({timeout_ms} ms)"
        )
    return interval_ms, timeout_ms


class ClientHeartbeat:
    """Reports on a daemon thread of its own: what the program does meanwhile, or does not do, makes no difference."""

    def __init__(self, client: ClusterClient, job_id: str, interval_ms: int, timeout_ms: int) -> None:
        self._client = client
        self._job_id = job_id
        self._interval_s = interval_ms / 1000
        self._timeout_ms = timeout_ms
        self._stopped = threading.Event()
        threading.Thread(target=self._run, name=f"flinkpy-heartbeat {job_id}", daemon=True).start()

    def stop(self) -> None:
        """The job has ended. Returns at once; a report under way may still be made."""
        self._stopped.set()

    def _run(self) -> None:
        while not self._stopped.wait(self._interval_s):
            try:
                self._client.report_heartbeat(self._job_id, self._timeout_ms)
            except JobNotFoundError:
                return
            except VersionMismatchError as error:
                _logger.debug("the cluster wants no heartbeats of clients: %s", error)
                return
            except FlinkError as error:  # the next one may be heard: the time-out is longer than an interval
                _logger.debug("the heartbeat of the client of job %s was not heard: %s", self._job_id, error)
