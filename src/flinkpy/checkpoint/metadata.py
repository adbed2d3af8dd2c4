"""The file `_metadata`, which completes a checkpoint. It is written last and atomically.

    magic (8 bytes) | format version (uint32) | length of the message (uint64) | CheckpointMetadata | sha256 of all that

Integers are big-endian. The last 32 bytes are the checksum in all versions, so a newer version can be told from a
damaged file. Paths of files in the same directory are relative to it, so a savepoint can be moved as a whole.

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
#: Incremented when older releases could misread the files of this release.
FORMAT_VERSION = 1

_MAGIC = b"\x89FLKPCP\n"
_HEAD = struct.Struct(">8sIQ")
_DIGEST_BYTES = 32
#: The maximum size of a protobuf message. Larger files cannot be metadata and are not read into memory.
_MAX_BYTES = 2 << 30
_SHOWN_CHARS = 200


def encode_metadata(metadata: checkpoint_pb2.CheckpointMetadata) -> bytes:
    """Returns the content of the file. Sets `metadata.version`."""
    metadata.version = FORMAT_VERSION
    message = metadata.SerializeToString(deterministic=True)
    content = _HEAD.pack(_MAGIC, FORMAT_VERSION, len(message)) + message
    return content + hashlib.sha256(content).digest()


def decode_metadata(content: bytes, path: str) -> checkpoint_pb2.CheckpointMetadata:
    """Parses the content of the file. Raises: CorruptStateError; StateRestoreError for a newer version."""
    details = {"path": path}
    if len(content) < _HEAD.size + _DIGEST_BYTES or not content.startswith(_MAGIC):
        raise CorruptStateError(f"{path} is damaged or not the metadata of a flinkpy checkpoint", details=details)
    body, digest = content[:-_DIGEST_BYTES], content[-_DIGEST_BYTES:]
    if hashlib.sha256(body).digest() != digest:
        raise CorruptStateError(f"{path} is damaged: its checksum does not match its content", details=details)
    _, version, length = _HEAD.unpack_from(body)
    if version > FORMAT_VERSION:
        raise StateRestoreError(
            f"{path} was written by a newer release of flinkpy: its format has version {version}, this release reads "
            f"versions up to {FORMAT_VERSION}",
            details=details,
        )
    try:
        if length != len(body) - _HEAD.size:
            raise DecodeError("its length is wrong")
        return checkpoint_pb2.CheckpointMetadata.FromString(body[_HEAD.size :])
    except DecodeError as error:
        raise CorruptStateError(f"{path} is damaged: {error}", details=details) from error


def write_metadata(file_systems: FileSystems, directory: str, metadata: checkpoint_pb2.CheckpointMetadata) -> str:
    """Writes `_metadata` into an existing directory. After that the checkpoint can be restored.

    Returns: the directory, which is the external path of the checkpoint.
    Raises: CheckpointStorageError. No `_metadata` exists then.
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
    """Loads the metadata of a checkpoint.

    Args:
        path: the directory of the checkpoint, or its `_metadata` file.

    Returns: the directory, and the metadata with absolute paths.
    Raises: CheckpointNotFoundError, CorruptStateError, CheckpointStorageError; StateRestoreError for a newer version;
        ConfigurationError if `path` is not a path.
    """
    directory = directory_of_metadata(path, METADATA_FILE_NAME)
    return directory, decode_and_resolve(read_metadata_file(file_systems, directory), directory)


def read_metadata_file(file_systems: FileSystems, directory: str) -> bytes:
    """Returns the content of `_metadata`.

    Raises: CheckpointNotFoundError, CheckpointStorageError; CorruptStateError if it is too large or not a regular file.
    """
    metadata_path = join(directory, METADATA_FILE_NAME)
    file_system = file_systems.of(metadata_path)
    try:
        size_bytes = file_system.size_bytes(metadata_path)
        if size_bytes > _MAX_BYTES:
            raise CorruptStateError(
                f"{metadata_path} has {size_bytes:,} bytes; the metadata of a checkpoint has at most {_MAX_BYTES:,}",
                details={"path": metadata_path},
            )
        with file_system.open(metadata_path) as file:
            return file.read(size_bytes)
    except MissingFileError:
        raise _not_found_error(file_systems, directory) from None
    except OSError as error:
        raise storage_error("read", metadata_path, error) from error


def decode_and_resolve(content: bytes, directory: str) -> checkpoint_pb2.CheckpointMetadata:
    """Parses the content of the file like `decode_metadata`, and makes all paths absolute.

    It does not check that absolute paths are in places of state; see `snapshot_files`.

    Raises: CorruptStateError, also for a path that leaves its directory or has another form than this module writes;
        StateRestoreError.
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
    """Raises: CorruptStateError unless `names`, the part of `path` below its root, is plain names and slashes."""
    # Users choose the directories of checkpoints, so spaces and backslashes are allowed.
    if {"", ".", ".."} & set(names.split("/")) or not names.isprintable():
        shown = ascii(path[:_SHOWN_CHARS])
        raise CorruptStateError(
            f"{metadata_path} is damaged or forged: it names {shown}, which is not a plain path of a file",
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
    text = f"there is no checkpoint or savepoint at {directory}: it has no file `{METADATA_FILE_NAME}`"
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
        return CheckpointNotFoundError(f"{text}; it contains {listed}: name one of them", details=details)
    if name_of(directory).startswith(CHECKPOINT_DIRECTORY_PREFIX):
        return CheckpointNotFoundError(f"{text}, so this checkpoint was never completed", details=details)
    return CheckpointNotFoundError(text, details=details)


def _natural_order(name: str) -> tuple[str, int]:
    head, _, number = name.rpartition("-")
    return (head, int(number)) if number.isdigit() else (name, 0)
