"""A job of row functions that is measured while its stacks are sampled, and while they are not."""

from __future__ import annotations

import sys
import threading

from measured_job import measure

from flinkpy.client.cluster_client import ClusterClient
from flinkpy.common.errors import FlinkError

#: As the page samples.
DELAY_MS = 50
#: A sampling of half a second.
NUM_SAMPLES = 10


def sample(client: ClusterClient, job_id: str, stop: threading.Event) -> None:
    """Samples all vertices of the job until `stop`, one sampling after the other."""
    while not stop.is_set():
        try:
            client.request_thread_samples(job_id, num_samples=NUM_SAMPLES, delay_ms=DELAY_MS)
        except FlinkError as error:
            sys.stderr.write(f"a sampling failed: {error}\n")
            return


if __name__ == "__main__":
    measure(__doc__, sample)
