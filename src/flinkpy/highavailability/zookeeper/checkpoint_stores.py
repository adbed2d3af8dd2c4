"""The checkpoint pointers and the checkpoint id counter of a job in ZooKeeper, with a small node per checkpoint.

```
  /jobs/<job-id>/checkpoints/0000000000000000042   the path of checkpoint 42, and the digest of its `_metadata`
  /jobs/<job-id>/checkpoint_id_counter             the next id
```

Source: org.apache.flink.runtime.checkpoint.{ZooKeeperCheckpointIDCounter,ZooKeeperCheckpointStoreUtil}.
Differs: the nodes of all retained checkpoints change in one transaction.
Blocking. All methods raise HighAvailabilityError and LeadershipLostError.
"""

from __future__ import annotations

import hashlib

from google.protobuf.message import DecodeError

from flinkpy._proto import checkpoint_pb2
from flinkpy.common.durable_file import CorruptFileError
from flinkpy.common.errors import HighAvailabilityError
from flinkpy.common.ids import JobID
from flinkpy.highavailability.checkpoint_stores import StoredCheckpointIDCounter
from flinkpy.highavailability.zookeeper.client import ZooKeeperClient
from flinkpy.highavailability.zookeeper.fenced_writes import FencedWrites
from flinkpy.highavailability.zookeeper.requests import (
    Create,
    Delete,
    NodeMissingError,
    NodeThereError,
    Operation,
    SetData,
)

#: Begins each node, before the digest and the message. It distinguishes foreign nodes from damaged ones.
_MAGIC = b"FLKP1 "
_DIGEST_BYTES = 8
_NAME_DIGITS = 19
#: The largest checkpoint id that messages can hold.
_MAX_ID = (1 << 63) - 1
#: A transaction fails once if an earlier attempt has executed it. If it fails again and again, somebody else writes.
_ATTEMPTS = 5


class ZooKeeperCheckpointPointerStore:
    def __init__(self, client: ZooKeeperClient, writes: FencedWrites, job_id: JobID) -> None:
        self._client = client
        self._writes = writes
        self._job_id = job_id
        self._path = client.settings.checkpoints(job_id)
        #: The contents of the nodes by name; None: unknown.
        self._stored: dict[str, bytes] | None = None

    def load(self) -> checkpoint_pb2.CompletedCheckpointPointers:
        """Raises: CorruptFileError naming the node, if it is damaged or foreign."""
        self._stored = self._read()
        pointers = checkpoint_pb2.CompletedCheckpointPointers()
        for name in sorted(self._stored):
            pointer = _decode(self._stored[name], f"{self._path}/{name}")
            pointers.pointers.append(pointer)
            pointers.next_checkpoint_id = max(pointers.next_checkpoint_id, pointer.checkpoint_id + 1)
        return pointers

    def save(self, pointers: checkpoint_pb2.CompletedCheckpointPointers) -> None:
        wanted = {f"{pointer.checkpoint_id:0{_NAME_DIGITS}d}": _encode(pointer) for pointer in pointers.pointers}
        what = f"store the checkpoints of job {self._job_id}"
        for _ in range(_ATTEMPTS):
            stored = self._read() if self._stored is None else self._stored
            self._stored = None
            try:
                self._writes.write(self._changes(stored, wanted), what)
            except NodeMissingError:
                self._client.ensure(self._path)
            except NodeThereError:
                continue  # executed by an attempt whose answer was lost
            else:
                self._stored = wanted
                return
        raise HighAvailabilityError(
            f"another process writes below node {self._path} of ZooKeeper", details={"path": self._path}
        )

    def remove(self) -> None:
        self._writes.check(f"remove the checkpoints of job {self._job_id}")
        self._stored = None
        self._client.delete_tree(self._path)

    def _read(self) -> dict[str, bytes]:
        self._client.sync(self._path)
        stored = {name: self._client.get_data(f"{self._path}/{name}") for name in self._client.get_children(self._path)}
        return {name: data for name, data in stored.items() if data is not None}

    def _changes(self, stored: dict[str, bytes], wanted: dict[str, bytes]) -> list[Operation]:
        operations: list[Operation] = []
        for name, data in wanted.items():
            if name not in stored:
                operations.append(Create(f"{self._path}/{name}", data))
            elif stored[name] != data:
                operations.append(SetData(f"{self._path}/{name}", data))
        return operations + [Delete(f"{self._path}/{name}") for name in stored if name not in wanted]


class ZooKeeperCheckpointIDCounter(StoredCheckpointIDCounter):
    """A checkpoint id counter in a node. Thread: any.

    Args:
        at_least: the lowest id that may be drawn, for the case that the node is missing.
    """

    def __init__(self, client: ZooKeeperClient, writes: FencedWrites, job_id: JobID, at_least: int = 1) -> None:
        self._client = client
        self._writes = writes
        self._job_id = job_id
        self._path = client.settings.checkpoint_id_counter(job_id)
        super().__init__(at_least)

    def remove(self) -> None:
        self._writes.check(f"remove the checkpoint ids of job {self._job_id}")
        self._client.delete_tree(self._path)

    def _store(self, next_id: int) -> None:
        self._writes.put(self._path, str(next_id).encode(), f"reserve a checkpoint id of job {self._job_id}")

    def _load(self) -> int:
        self._client.sync(self._path)
        data = self._client.get_data(self._path)
        if data is None:
            return 1
        if not data.isdigit() or len(data) > _NAME_DIGITS or int(data) > _MAX_ID:
            raise HighAvailabilityError(
                f"node {self._path} of ZooKeeper holds no checkpoint id: is high-availability.cluster-id used by "
                "another system?",
                details={"path": self._path},
            )
        return int(data)


def _encode(pointer: checkpoint_pb2.CompletedCheckpointPointers.Pointer) -> bytes:
    content = pointer.SerializeToString(deterministic=True)
    return _MAGIC + _digest(content) + content


def _decode(data: bytes, node: str) -> checkpoint_pb2.CompletedCheckpointPointers.Pointer:
    content = data[len(_MAGIC) + _DIGEST_BYTES :]
    if not data.startswith(_MAGIC) or data[len(_MAGIC) : len(_MAGIC) + _DIGEST_BYTES] != _digest(content):
        raise CorruptFileError(f"node {node} of ZooKeeper holds no pointer to a checkpoint", details={"path": node})
    try:
        return checkpoint_pb2.CompletedCheckpointPointers.Pointer.FromString(content)
    except DecodeError as error:
        raise CorruptFileError(f"node {node} holds no pointer: {error}", details={"path": node}) from error


def _digest(content: bytes) -> bytes:
    return hashlib.sha256(content).digest()[:_DIGEST_BYTES]
