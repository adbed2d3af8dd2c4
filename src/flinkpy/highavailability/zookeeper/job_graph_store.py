"""ZooKeeperJobGraphStore: a node per accepted job, which names the checksummed file with its JobGraph.

The file is complete before the node names it, and every file has a unique name, so one transaction accepts a job. A
file that no node names was left by a crash. The next leader removes it.

Source: org.apache.flink.runtime.jobmanager.{DefaultExecutionPlanStore,ZooKeeperExecutionPlanStoreUtil},
org.apache.flink.runtime.zookeeper.ZooKeeperStateHandleStore.
Blocking. All methods raise HighAvailabilityError, LeadershipLostError and OSError.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from pathlib import Path

from google.protobuf.message import DecodeError

from flinkpy._proto import job_pb2
from flinkpy.common.durable_file import CorruptFileError, read_checksummed, remove_durably, write_checksummed
from flinkpy.common.errors import LeadershipLostError
from flinkpy.common.ids import JobID, StringId
from flinkpy.common.safe_paths import is_safe_name, safe_join
from flinkpy.highavailability.zookeeper.client import ZooKeeperClient
from flinkpy.highavailability.zookeeper.fenced_writes import FencedWrites
from flinkpy.highavailability.zookeeper.requests import Delete, NodeMissingError

logger = logging.getLogger(__name__)

_SUFFIX = ".jobgraph"


class ZooKeeperJobGraphStore:
    """Stores accepted jobs.

    Args:
        directory: the directory of the files, which all masters share.
        verify_storage: raises if the directory is not the shared one any more.
    """

    def __init__(
        self, client: ZooKeeperClient, writes: FencedWrites, directory: Path, verify_storage: Callable[[], None]
    ) -> None:
        self._client = client
        self._writes = writes
        self._directory = directory
        self._verify_storage = verify_storage

    def put(self, job_graph: job_pb2.JobGraph) -> None:
        job_id = JobID(job_graph.job_id)
        former = self._files_of(job_id)
        path = safe_join(self._directory, f"{job_id}-{StringId.generate()}{_SUFFIX}")
        write_checksummed(path, job_graph.SerializeToString())
        pointer = json.dumps({"file": path.name}).encode()
        try:
            self._writes.put(self._node(job_id), pointer, f"store job {job_id}")
        except LeadershipLostError:
            remove_durably(path)
            raise
        for replaced in former:
            remove_durably(replaced)

    def remove(self, job_id: JobID) -> None:
        """Removes a job. Idempotent."""
        files = self._files_of(job_id)
        try:
            self._writes.write([Delete(self._node(job_id))], f"remove job {job_id}")
        except NodeMissingError:
            self._writes.check(f"remove job {job_id}")
        for path in files:
            remove_durably(path)

    def job_ids(self) -> list[JobID]:
        """Returns the accepted jobs, after removing files without a job. A new leader calls this first."""
        files = list(self._directory.iterdir())
        self._client.sync(self._client.settings.job_graphs)
        names = self._client.get_children(self._client.settings.job_graphs)
        # If this process still leads, no other leader can have used one of these files.
        self._writes.check("find the jobs")
        for path in files:
            if path.name.partition("-")[0] not in names:
                logger.info("removing %s, which belongs to no job", path)
                path.unlink(missing_ok=True)
        return [JobID(name) for name in names]

    def recover(self, job_id: JobID) -> job_pb2.JobGraph:
        """Raises: FileNotFoundError for an unknown job; CorruptFileError if its file or node is damaged."""
        node = self._node(job_id)
        self._client.sync(node)
        data = self._client.get_data(node)
        if data is None:
            raise FileNotFoundError(f"there is no node {node}")
        path = safe_join(self._directory, _file_name(data, node))
        try:
            return job_pb2.JobGraph.FromString(read_checksummed(path))
        except FileNotFoundError:
            # The job is lost only if the storage itself is there.
            self._verify_storage()
            raise CorruptFileError(f"{path} is gone, and node {node} needs it", details={"path": str(path)}) from None
        except DecodeError as error:
            raise CorruptFileError(f"{path} holds no JobGraph: {error}", details={"path": str(path)}) from error

    def _node(self, job_id: JobID) -> str:
        return f"{self._client.settings.job_graphs}/{job_id}"

    def _files_of(self, job_id: JobID) -> list[Path]:
        return [path for path in self._directory.iterdir() if path.name.partition("-")[0] == str(job_id)]


def _file_name(data: bytes, node: str) -> str:
    """Raises: CorruptFileError naming the node."""
    try:
        name = json.loads(data.decode())["file"]
        if isinstance(name, str) and name.endswith(_SUFFIX) and is_safe_name(name) and not name.startswith("."):
            return name
        problem = "the file name is invalid"
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        problem = repr(error)
    raise CorruptFileError(f"node {node} of ZooKeeper names no JobGraph: {problem}", details={"path": node})
