"""Whether a checkpoint is whole: its metadata is what was written, and so is every file it names. Blocking."""

from __future__ import annotations

from flinkpy._proto import checkpoint_pb2
from flinkpy.checkpoint.state_handles import handles_of_metadata
from flinkpy.checkpoint.storage.file_system import MissingFileError
from flinkpy.checkpoint.storage.file_systems import FileSystems
from flinkpy.checkpoint.storage.reader import StateFileReader, check_size, missing_error


def verify_checkpoint(
    metadata: checkpoint_pb2.CheckpointMetadata, file_systems: FileSystems, *, read_everything: bool = False
) -> None:
    """Returns where every file is there and of its length.

    Args:
        metadata: with absolute paths.
        read_everything: also compare the checksum of each, which reads all of the state.

    Raises: CorruptStateError naming the first file that is missing or another one, CheckpointStorageError where a file
        system cannot be asked.
    """
    reader = StateFileReader({}, file_systems, use_local=False) if read_everything else None
    seen = set()
    for handle in handles_of_metadata(metadata):
        is_file = handle.WhichOneof("location") == "path"
        if is_file and handle.path in seen:
            continue
        if is_file:
            seen.add(handle.path)
            try:
                size_bytes = file_systems.of(handle.path).size_bytes(handle.path)
            except MissingFileError:
                raise missing_error(handle.path) from None
            check_size(handle.path, size_bytes, handle)
        if reader is not None:
            reader.open(handle).close()
