"""Compressed state is read like uncompressed state."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest
from checkpoint_states import content_of, make_storage, read_state

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.snapshot_files import verify_checkpoint
from flinkpy.checkpoint.storage import CheckpointStreamFactory, StateFileReader
from flinkpy.checkpoint.storage.compression import BLOCK_BYTES
from flinkpy.common.errors import CorruptStateError, StateRestoreError
from flinkpy.state.checkpoint_streams import CheckpointedStateScope

COMPRESSED = {"execution.checkpointing.snapshot-compression": "true"}


@pytest.fixture
def location(tmp_path):
    storage = make_storage(tmp_path)
    location = storage.location_of(1)
    storage.initialize(location)
    return location


def write(location, *pieces: bytes) -> pb.StreamStateHandle:
    stream = CheckpointStreamFactory(location.for_tasks, COMPRESSED).create()
    for piece in pieces:
        stream.write(piece)
    return stream.close_and_get_handle()


@pytest.mark.parametrize("size", [30_000, BLOCK_BYTES, BLOCK_BYTES + 1, 5 * BLOCK_BYTES - 1])
def test_content_of_any_length_survives_compression_and_gets_smaller(location, size):
    content = content_of("x", size)
    handle = write(location, content)
    assert (handle.size_bytes, handle.sha256) == (size, hashlib.sha256(content).digest())
    assert handle.stored_size_bytes == Path(handle.path).stat().st_size < size / 5
    assert read_state(handle) == content


def test_incompressible_content_grows_very_little(location):
    content = random.Random(1).randbytes(3 * BLOCK_BYTES)
    handle = write(location, content)
    assert handle.stored_size_bytes < len(content) + 100
    assert read_state(handle) == content


def test_compressed_state_can_be_read_from_any_position(location):
    pieces = [random.Random(n).randbytes(100_000) + b"a" * 100_000 for n in range(10)]
    handle = write(location, *pieces)
    whole = b"".join(pieces)
    with StateFileReader({}).open(handle) as file:
        for position in (0, 1_999_990, BLOCK_BYTES - 5, 3 * BLOCK_BYTES, 17, 1_234_567):
            file.seek(position)
            assert file.read(300_000) == whole[position : position + 300_000]
            assert file.tell() == min(position + 300_000, len(whole))


def test_small_state_is_inlined_uncompressed(location):
    assert write(location, b"tiny").data == b"tiny"


def test_files_of_a_backend_are_stored_uncompressed(location, tmp_path):
    source = tmp_path / "1.sst"
    source.write_bytes(content_of("sst", BLOCK_BYTES))
    streams = CheckpointStreamFactory(location.for_tasks, COMPRESSED)
    handle = streams.store_file(source, CheckpointedStateScope.SHARED)
    assert not handle.compression
    assert Path(handle.path).read_bytes() == source.read_bytes()


@pytest.mark.parametrize("fraction", [0.0, 0.3, 0.9, 0.999, 1.0])
def test_a_flipped_bit_is_detected(location, fraction):
    handle = write(location, random.Random(1).randbytes(BLOCK_BYTES) + b"a" * BLOCK_BYTES + content_of("x"))
    content = bytearray(Path(handle.path).read_bytes())
    content[int((len(content) - 1) * fraction)] ^= 8
    Path(handle.path).write_bytes(content)
    with pytest.raises(CorruptStateError, match=handle.path):
        StateFileReader({}).open(handle)


def test_the_length_of_the_file_is_checked_without_reading_it(location):
    handle = write(location, content_of("x", BLOCK_BYTES))
    metadata = pb.CheckpointMetadata()
    metadata.operators.add().subtasks[0].keyed.add().key_groups.file.CopyFrom(handle)
    files = make_storage(Path(location.directory).parents[2]).file_systems
    verify_checkpoint(metadata, files)
    Path(handle.path).write_bytes(Path(handle.path).read_bytes()[:-1])
    with pytest.raises(CorruptStateError, match=handle.path):
        verify_checkpoint(metadata, files)


def test_the_error_names_a_codec_of_a_newer_release(location):
    handle = write(location, content_of("x"))
    handle.compression = "brand-new"
    with pytest.raises(StateRestoreError, match="brand-new"):
        StateFileReader({}).open(handle)
