"""HaCheckpointRecovery: pointers and counter of one job's checkpoints, written only while its JobMaster leads.

Source: org.apache.flink.runtime.checkpoint.ZooKeeperCheckpointRecoveryFactory. Thread: I/O threads.
"""

from __future__ import annotations

from flinkpy.common.ids import JobID
from flinkpy.highavailability.checkpoint_recovery import CheckpointIDCounter, CheckpointPointerStore
from flinkpy.highavailability.leader_election import Leadership
from flinkpy.highavailability.services import HighAvailabilityServices


class HaCheckpointRecovery:
    """Implements `CheckpointRecovery`."""

    def __init__(self, services: HighAvailabilityServices, job_id: JobID, leadership: Leadership) -> None:
        self._services = services
        self._job_id = job_id
        self._leadership = leadership

    def pointers(self) -> CheckpointPointerStore:
        return self._services.checkpoint_pointer_store(self._job_id, self._leadership)

    def counter(self, at_least: int) -> CheckpointIDCounter:
        return self._services.checkpoint_id_counter(self._job_id, self._leadership, at_least)
