"""A job of row functions that is measured while all its metrics are read every second, and while nobody reads them."""

from __future__ import annotations

import threading

from measured_job import measure

from flinkpy.client.cluster_client import ClusterClient

#: Ten times as often as reporters and Prometheus do by default.
READ_INTERVAL_S = 1.0
KINDS = ("job", "coordinator", "task")


def read(client: ClusterClient, job_id: str, stop: threading.Event) -> None:
    """Reads all metrics of the job and of one TaskExecutor every second until `stop`."""
    while not stop.wait(READ_INTERVAL_S):
        groups = client.request_metrics(job_id, KINDS)
        client.request_process_metrics(next(group.resource_id for group in groups if group.vertex_id))


if __name__ == "__main__":
    measure(__doc__, read)
