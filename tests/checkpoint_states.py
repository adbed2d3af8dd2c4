"""Small checkpoints for tests: written through the real storage, with contents that a reader can compare."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from pathlib import Path

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.completed_checkpoint import CompletedCheckpoint
from flinkpy.checkpoint.state_handles import handles_of_metadata
from flinkpy.checkpoint.storage import CheckpointStreamFactory, StateFileReader
from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorage, CheckpointStorageLocation
from flinkpy.state.checkpoint_streams import CheckpointedStateScope

JOB_ID = "0123456789abcdef0123456789abcdef"
#: A size above the inline threshold, so the state becomes a file.
LARGE = 64 << 10


def content_of(name: str, size: int = LARGE) -> bytes:
    """Returns bytes that are different for each name."""
    seed = hashlib.sha256(name.encode()).digest()
    return (seed * (size // len(seed) + 1))[:size]


def make_storage(root: Path, job_id: str = JOB_ID, **options: str) -> CheckpointStorage:
    """Returns writable checkpoint storage in `root/checkpoints`, with the recovery directory `root/recovery`."""
    (root / "recovery").mkdir(parents=True, exist_ok=True)
    configuration = {"execution.checkpointing.dir": str(root / "checkpoints"), **options}
    storage = CheckpointStorage.from_configuration(configuration, job_id, root / "recovery")
    storage.check_writable()
    return storage


def write_state(
    location: CheckpointStorageLocation,
    content: bytes,
    scope: CheckpointedStateScope = CheckpointedStateScope.EXCLUSIVE,
) -> pb.StreamStateHandle:
    stream = CheckpointStreamFactory(location.for_tasks, {}).create(scope)
    stream.write(content)
    return stream.close_and_get_handle()


def subtask_state(
    location: CheckpointStorageLocation, name: str, *, size: int = LARGE, shared: Iterable[pb.StreamStateHandle] = ()
) -> pb.OperatorSubtaskState:
    """Returns a key groups file with the content of `name`, plus an incremental handle if there are shared files."""
    state = pb.OperatorSubtaskState()
    handle = state.keyed.add().key_groups
    handle.key_groups.end = 127
    handle.file.CopyFrom(write_state(location, content_of(name, size)))
    shared = list(shared)
    if shared:
        incremental = state.keyed.add().incremental
        incremental.key_groups.end = 127
        incremental.meta.CopyFrom(write_state(location, b"meta"))
        for number, file in enumerate(shared):
            incremental.shared.add(local_name=f"{number}.sst").handle.CopyFrom(file)
    return state


def metadata_of(
    checkpoint_id: int, states: dict[str, pb.OperatorSubtaskState], kind: int = pb.CHECKPOINT, job_id: str = JOB_ID
) -> pb.CheckpointMetadata:
    """Returns the metadata of one operator with one subtask per state."""
    metadata = pb.CheckpointMetadata(checkpoint_id=checkpoint_id, kind=kind, job_id=job_id, job_name="test")
    for operator_id, state in states.items():
        operator = metadata.operators.add(operator_id=operator_id, name=operator_id, parallelism=1, max_parallelism=128)
        operator.subtasks[0].CopyFrom(state)
    return metadata


def write_checkpoint(
    storage: CheckpointStorage,
    checkpoint_id: int,
    *,
    shared: Iterable[pb.StreamStateHandle] = (),
    savepoint: bool = False,
) -> CompletedCheckpoint:
    """Writes a checkpoint with a large and an inlined state, including its `_metadata`."""
    if savepoint:
        location = storage.savepoint_location(str(Path(storage.job_directory).parent / "savepoints"))
    else:
        location = storage.location_of(checkpoint_id)
        storage.initialize(location)
    states = {
        "large": subtask_state(location, f"large-{checkpoint_id}", shared=shared),
        "small": subtask_state(location, f"small-{checkpoint_id}", size=100),
    }
    metadata = metadata_of(checkpoint_id, states, pb.SAVEPOINT if savepoint else pb.CHECKPOINT, storage.job_id)
    return CompletedCheckpoint(metadata, storage.write_metadata(location, metadata))


def read_state(handle: pb.StreamStateHandle) -> bytes:
    with StateFileReader({}).open(handle) as file:
        return file.read()


def read_all(metadata: pb.CheckpointMetadata) -> dict[str, bytes]:
    """Returns the content by operator. Raises if it differs from the written content."""
    for handle in handles_of_metadata(metadata):
        read_state(handle)
    return {o.operator_id: read_state(o.subtasks[0].keyed[0].key_groups.file) for o in metadata.operators}


def files_below(directory: Path | str) -> list[str]:
    root = Path(directory)
    return sorted(str(path.relative_to(root)) for path in root.rglob("*") if path.is_file())
