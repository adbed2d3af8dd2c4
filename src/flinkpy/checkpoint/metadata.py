"""`_metadata`: the file that makes a directory a checkpoint; written last, whole or not at all.

    magic (8 bytes) | format version (uint32) | length of the message (uint64) | CheckpointMetadata | sha256 of all that

Integers are big-endian. The last 32 bytes are the checksum in every version, so that a newer version is told from a
damaged file. Files in the same directory are named relative to it: a savepoint may be moved as a whole.

Source: org.apache.flink.runtime.checkpoint.{Checkpoints,metadata.MetadataSerializer}.
"""

from __future__ import annotations

import hashlib
import struct

from google.protobuf.message import DecodeError

from flinkpy._proto import checkpoint_pb2
from flinkpy.checkpoint.state_handles import handles_of_metadata
from flinkpy.checkpoint.storage.file_system import MissingFileError, is_below, join, name_of, storage_error
from flinkpy.checkpoint.storage.file_systems import FileSystems, directory_of_metadata, without_scheme
from flinkpy.common.errors import CheckpointNotFoundError, CorruptStateError, StateRestoreError

METADATA_FILE_NAME = "_metadata"
CHECKPOINT_DIRECTORY_PREFIX = "chk-"
#: Raised when an older release could misread what this one writes.
FORMAT_VERSION = 1

_MAGIC = b"\x89FLKPCP\n"
_HEAD = struct.Struct(">8sIQ")
_DIGEST_BYTES = 32
#: protobuf's own bound. No larger file can be metadata, so none is read into memory.
_MAX_BYTES = 2 << 30
_SHOWN_CHARS = 200


def encode_metadata(metadata: checkpoint_pb2.CheckpointMetadata) -> bytes:
    """The content of the file. `metadata.version` is set by it."""
    metadata.version = FORMAT_VERSION
    message = metadata.SerializeToString(deterministic=True)
    content = _HEAD.pack(_MAGIC, FORMAT_VERSION, len(message)) + message
    return content + hashlib.sha256(content).digest()


def decode_metadata(content: bytes, path: str) -> checkpoint_pb2.CheckpointMetadata:
    """Raises: CorruptStateError, StateRestoreError (a newer version); both name `path`."""
    details = {"path": path}
    if len(content) < _HEAD.size + _DIGEST_BYTES or not content.startswith(_MAGIC):
        raise CorruptStateError(f"{path} is damaged, or is no metadata of a flinkpy checkpoint", details=details)
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise CorruptStateError(f"{path} is damaged: its checksum is not that of what was written", details=details)
    _, version, length = _HEAD.unpack_from(body)
    if version > FORMAT_VERSION:
        raise StateRestoreError(
            f"{path} was written by a newer release of flinkpy: its format has version {version}, this release reads "
            f"versions up to {FORMAT_VERSION}",
            details=details,
        )
    try:
        if length != len(body) - _HEAD.size:
            raise DecodeError("its length is another")
        return checkpoint_pb2.CheckpointMetadata.FromString(body[_HEAD.size :])
    except DecodeError as error:
        raise CorruptStateError(f"{path} is damaged: {error}", details=details) from error


def write_metadata(file_systems: FileSystems, directory: str, metadata: checkpoint_pb2.CheckpointMetadata) -> str:
    """Write `_metadata` into `directory`, which exists; afterwards the checkpoint can be restored from there.

    Returns: the directory, the checkpoint's external path.
    Raises: CheckpointStorageError, with no `_metadata` left.
    """
    stored = checkpoint_pb2.CheckpointMetadata()
    stored.CopyFrom(metadata)
    is_savepoint = stored.kind not in (checkpoint_pb2.CHECKPOINT, checkpoint_pb2.FULL_CHECKPOINT)
    for handle in handles_of_metadata(stored):
        _make_relative(handle, directory, keep_local=not is_savepoint)
    path = join(directory, METADATA_FILE_NAME)
    try:
        output = file_systems.of(path).create(path, "metadata")
        try:
            output.write(encode_metadata(stored))
            output.commit()
        except BaseException:
            output.abort()
            raise
    except OSError as error:
        raise storage_error("write", path, error) from error
    return directory


def load_metadata(file_systems: FileSystems, path: str) -> tuple[str, checkpoint_pb2.CheckpointMetadata]:
    """The checkpoint at `path`: its directory or the `_metadata` in it. All paths in the handles are absolute again.

    Returns: its directory and its metadata.
    Raises: CheckpointNotFoundError, CorruptStateError, StateRestoreError (a newer version), CheckpointStorageError,
        ConfigurationError (no path at all).
    """
    directory = directory_of_metadata(path, METADATA_FILE_NAME)
    return directory, decode_and_resolve(read_metadata_file(file_systems, directory), directory)


def read_metadata_file(file_systems: FileSystems, directory: str) -> bytes:
    """Raises: CheckpointNotFoundError, CorruptStateError (too large, or no regular file), CheckpointStorageError."""
    metadata_path = join(directory, METADATA_FILE_NAME)
    file_system = file_systems.of(metadata_path)
    try:
        if (size_bytes := file_system.size_bytes(metadata_path)) > _MAX_BYTES:
            raise CorruptStateError(
                f"{metadata_path} has {size_bytes:,} bytes; metadata of a checkpoint has at most {_MAX_BYTES:,}",
                details={"path": metadata_path},
            )
        with file_system.open(metadata_path) as file:
            return file.read(size_bytes)
    except MissingFileError:
        raise _not_found_error(file_systems, directory) from None
    except OSError as error:
        raise storage_error("read", metadata_path, error) from error


def decode_and_resolve(content: bytes, directory: str) -> checkpoint_pb2.CheckpointMetadata:
    """`decode_metadata`, with every path absolute.

    Raises: CorruptStateError also for a path that climbs out of its directory or has another form than this module
        writes; StateRestoreError. Whether an absolute path is a place of state is up to `snapshot_files`.
    """
    metadata_path = join(directory, METADATA_FILE_NAME)
    metadata = decode_metadata(content, metadata_path)
    for handle in handles_of_metadata(metadata):
        location = handle.WhichOneof("location")
        if location == "relative_path":
            _check_path(handle.relative_path, handle.relative_path, metadata_path)
            handle.path = join(directory, handle.relative_path)
        elif location == "path":
            _check_path(handle.path, without_scheme(handle.path), metadata_path)
        if handle.local_path:
            _check_path(handle.local_path, handle.local_path.removeprefix("/"), metadata_path)
    return metadata


def _check_path(path: str, names: str, metadata_path: str) -> None:
    """Raises: CorruptStateError where `names`, the part of `path` below its root, is not plain names and slashes."""
    # Everything from the root on, since users choose where checkpoints lie: spaces and backslashes may occur.
    if {"", ".", ".."} & set(names.split("/")) or not names.isprintable():
        shown = ascii(path[:_SHOWN_CHARS])
        raise CorruptStateError(
            f"{metadata_path} is damaged or forged: it names {shown}, which is no plain path of a file",
            details={"path": metadata_path, "named": shown},
        )


def _make_relative(handle: checkpoint_pb2.StreamStateHandle, directory: str, *, keep_local: bool) -> None:
    if handle.WhichOneof("location") == "path" and is_below(handle.path, directory):
        handle.relative_path = handle.path.removeprefix(directory.rstrip("/") + "/")
    if not keep_local:
        handle.local_path = ""


def _not_found_error(file_systems: FileSystems, directory: str) -> CheckpointNotFoundError:
    file_system = file_systems.of(directory)
    entries = file_system.list(directory)
    looked_for = f"there is no checkpoint or savepoint at {directory}: it has no file `{METADATA_FILE_NAME}`"
    details = {"path": directory}
    if not entries and not file_system.exists(directory):
        return CheckpointNotFoundError(
            f"there is no checkpoint or savepoint at {directory}: no such directory", details=details
        )
    inside = [
        entry.name
        for entry in entries
        if entry.is_directory and file_system.exists(join(directory, entry.name, METADATA_FILE_NAME))
    ]
    if inside:
        listed = ", ".join(sorted(inside, key=_natural_order))
        return CheckpointNotFoundError(f"{looked_for}; in it are {listed}: name one of them", details=details)
    if name_of(directory).startswith(CHECKPOINT_DIRECTORY_PREFIX):
        return CheckpointNotFoundError(f"{looked_for}, so this checkpoint was never completed", details=details)
    return CheckpointNotFoundError(looked_for, details=details)


def _natural_order(name: str) -> tuple[str, int]:
    head, _, number = name.rpartition("-")
    return (head, int(number)) if number.isdigit() else (name, 0)
