"""Checkpoints on other file systems: a local S3 server and a file system of fsspec."""

from __future__ import annotations

import importlib.util
import re
import urllib.request

import pytest
from checkpoint_states import content_of, read_state, write_state
from moto_server import moto_server

from flinkpy._proto import checkpoint_pb2 as pb
from flinkpy.checkpoint.completed_checkpoint import CheckpointRetention, CompletedCheckpoint
from flinkpy.checkpoint.completed_checkpoint_store import CompletedCheckpointStore
from flinkpy.checkpoint.metadata import load_metadata
from flinkpy.checkpoint.savepoint_loader import SavepointRestoreSettings, dispose_savepoint, load_savepoint
from flinkpy.checkpoint.storage import CheckpointStreamFactory, StateFileReader
from flinkpy.checkpoint.storage.checkpoint_storage import CheckpointStorage
from flinkpy.common import failpoints
from flinkpy.common.errors import CheckpointNotFoundError, CheckpointStorageError, CorruptStateError
from flinkpy.common.job_status import JobStatus
from flinkpy.highavailability.file_checkpoint_stores import FileCheckpointPointerStore
from flinkpy.state.checkpoint_streams import CheckpointedStateScope

JOB_ID = "a" * 32
BUCKET = "checkpoints"


def has_module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


@pytest.fixture(scope="module")
def s3_endpoint(tmp_path_factory):
    with moto_server(tmp_path_factory.mktemp("s3")) as endpoint:
        with urllib.request.urlopen(urllib.request.Request(f"{endpoint}/{BUCKET}", method="PUT"), timeout=10):
            pass
        yield endpoint


@pytest.fixture(params=["s3", "memory"])
def configuration(request):
    directory = re.sub("[^a-z0-9_]+", "-", request.node.name)
    if request.param == "memory":
        if not has_module("fsspec"):
            pytest.skip("NOT TESTED: other file systems need the package fsspec")
        return {"execution.checkpointing.dir": f"memory://flinkpy/{directory}"}
    return {
        "execution.checkpointing.dir": f"s3://{BUCKET}/flinkpy/{directory}",
        "s3.endpoint": request.getfixturevalue("s3_endpoint"),
        "s3.access-key": "key",
        "s3.secret-key": "secret",
        "s3.path.style.access": "true",
    }


@pytest.fixture
def storage(configuration, tmp_path):
    storage = CheckpointStorage.from_configuration(configuration, JOB_ID, tmp_path)
    storage.check_writable()
    return storage


@pytest.fixture(autouse=True)
def _no_failpoints():
    yield
    failpoints.arm("")


def write(storage, location, name, size=3 << 20, scope=CheckpointedStateScope.EXCLUSIVE):
    stream = CheckpointStreamFactory(location.for_tasks, {}, storage.file_systems).create(scope)
    stream.write(content_of(name, size))
    return stream.close_and_get_handle()


def read(storage, handle):
    with StateFileReader({}, storage.file_systems).open(handle) as file:
        return file.read()


def checkpoint(storage, checkpoint_id, location=None, kind=pb.CHECKPOINT, shared=()):
    if location is None:
        location = storage.location_of(checkpoint_id)
        storage.initialize(location)
    metadata = pb.CheckpointMetadata(checkpoint_id=checkpoint_id, kind=kind, job_id=JOB_ID)
    operator = metadata.operators.add(operator_id="op", parallelism=1, max_parallelism=128)
    state = operator.subtasks[0]
    state.keyed.add().key_groups.file.CopyFrom(write(storage, location, f"state-{checkpoint_id}"))
    incremental = state.keyed.add().incremental
    incremental.meta.CopyFrom(write(storage, location, "meta", 10))
    for handle in shared:
        incremental.shared.add(local_name="x").handle.CopyFrom(handle)
    return CompletedCheckpoint(metadata, storage.write_metadata(location, metadata))


def state_of(metadata):
    return metadata.operators[0].subtasks[0].keyed[0].key_groups.file


def names_in(storage, directory):
    """Returns the names of all files below the job's directory."""
    found = []
    file_system = storage.file_systems.of(directory)
    for entry in file_system.list(directory):
        path = f"{directory}/{entry.name}"
        found += names_in(storage, path) if entry.is_directory else [path.removeprefix(storage.job_directory + "/")]
    return found


def test_a_checkpoint_is_written_read_replaced_and_deleted(storage, tmp_path):
    store = CompletedCheckpointStore(FileCheckpointPointerStore(tmp_path), storage)
    shared = write(storage, storage.location_of(1), "shared", scope=CheckpointedStateScope.SHARED)
    store.add(checkpoint(storage, 1, shared=[shared]))
    (replaced,) = store.add(checkpoint(storage, 2, shared=[shared]))
    store.cleaner.discard_completed(replaced)

    again = CompletedCheckpointStore(FileCheckpointPointerStore(tmp_path), storage)
    recovered = again.recover(read_everything=True)
    assert recovered.checkpoint_id == 2
    assert read(storage, state_of(recovered.metadata)) == content_of("state-2", 3 << 20)
    assert {name.split("/")[0] for name in names_in(storage, storage.job_directory)} == {"chk-2", "shared"}

    (replaced,) = again.add(checkpoint(storage, 3))
    again.cleaner.discard_completed(replaced)
    assert {name.split("/")[0] for name in names_in(storage, storage.job_directory)} == {"chk-3"}
    again.shut_down(JobStatus.FINISHED, CheckpointRetention.NO_EXTERNALIZED_CHECKPOINTS)
    assert names_in(storage, storage.job_directory) == []


def test_a_savepoint_is_written_loaded_and_disposed_of(storage):
    location = storage.savepoint_location(storage.job_directory + "-savepoints")
    checkpoint(storage, 4, location, pb.SAVEPOINT)
    loaded = load_savepoint(SavepointRestoreSettings(location.directory + "/"), storage.file_systems)
    assert read(storage, state_of(loaded.metadata)) == content_of("state-4", 3 << 20)
    dispose_savepoint(location.directory, storage.file_systems)
    assert names_in(storage, storage.job_directory + "-savepoints") == []
    with pytest.raises(CheckpointNotFoundError, match=location.directory):
        load_metadata(storage.file_systems, location.directory)


def test_damaged_and_missing_files_are_detected(storage):
    written = checkpoint(storage, 5)
    handle = state_of(written.metadata)
    file_system = storage.file_systems.of(handle.path)
    file_system.delete_file(handle.path)
    with pytest.raises(CorruptStateError, match=f"{handle.path} is missing"):
        read(storage, handle)
    output = file_system.create(handle.path, "state_file")
    output.write(content_of("something else", 3 << 20))
    output.commit()
    with pytest.raises(CorruptStateError, match=handle.path):
        read(storage, handle)


@pytest.mark.parametrize("name", [name for name in failpoints.FAILPOINTS if name.startswith("state_file.")])
def test_a_failure_at_any_step_leaves_no_file_behind(storage, name):
    location = storage.location_of(6)
    storage.initialize(location)
    failpoints.arm(f"{name}=error")
    with pytest.raises(CheckpointStorageError, match="chk-6"):
        write(storage, location, "x")
    failpoints.arm("")
    assert names_in(storage, storage.job_directory) == []


def test_an_aborted_stream_leaves_no_file_behind(storage):
    location = storage.location_of(7)
    storage.initialize(location)
    stream = CheckpointStreamFactory(location.for_tasks, {}, storage.file_systems).create()
    stream.write(b"x" * (1 << 20))
    stream.abort()
    stream.abort()
    assert names_in(storage, storage.job_directory) == []


def test_the_error_names_an_unreachable_store(tmp_path):
    configuration = {
        "execution.checkpointing.dir": "s3://no-such-bucket/c",
        "s3.endpoint": "http://127.0.0.1:1",
        "s3.access-key": "key",
        "s3.secret-key": "secret",
        "s3.path.style.access": "true",
    }
    storage = CheckpointStorage.from_configuration(configuration, JOB_ID, tmp_path)
    with pytest.raises(CheckpointStorageError, match="s3://no-such-bucket/c"):
        storage.check_writable()


def test_checkpoints_on_local_files_need_no_remote_file_system(tmp_path):
    configuration = {"execution.checkpointing.dir": tmp_path.as_uri()}
    storage = CheckpointStorage.from_configuration(configuration, JOB_ID, tmp_path)
    storage.check_writable()
    storage.initialize(storage.location_of(1))
    assert read_state(write_state(storage.location_of(1), content_of("x"))) == content_of("x")
