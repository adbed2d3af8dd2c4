"""A JobMaster that is killed at any step leaves a complete checkpoint: the previous or the new one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from checkpoint_states import content_of, files_below, make_storage, read_all

from flinkpy.checkpoint.completed_checkpoint_store import CompletedCheckpointStore
from flinkpy.common.failpoints import FAILPOINTS
from flinkpy.highavailability.file_checkpoint_stores import FileCheckpointIDCounter, FileCheckpointPointerStore

#: The killed process draws an id, writes, completes and cleans up. The first time it has no faults.
PROGRAM = """
import sys
from pathlib import Path
sys.path.insert(0, {tests!r})
from checkpoint_states import make_storage, write_checkpoint, write_state, content_of
from flinkpy.checkpoint.completed_checkpoint_store import CompletedCheckpointStore
from flinkpy.highavailability.file_checkpoint_stores import FileCheckpointIDCounter, FileCheckpointPointerStore
from flinkpy.common import failpoints
from flinkpy.state.checkpoint_streams import CheckpointedStateScope

root = Path({root!r})
storage = make_storage(root)
store = CompletedCheckpointStore(FileCheckpointPointerStore(root / "recovery"), storage)
counter = FileCheckpointIDCounter(root / "recovery")
for specification in ("", {specification!r}):
    failpoints.arm(specification)
    checkpoint_id = counter.get_and_increment()
    location = storage.location_of(checkpoint_id)
    storage.initialize(location)
    shared = write_state(location, content_of(f"shared-{{checkpoint_id}}"), CheckpointedStateScope.SHARED)
    checkpoint = write_checkpoint(storage, checkpoint_id, shared=[shared])
    for replaced in store.add(checkpoint):
        store.cleaner.discard_completed(replaced)
"""

#: Points that the JobMaster passes only after the checkpoint counts.
AFTER_THE_POINTERS = {
    "completed.after_pointers",
    "discard.before_metadata",
    "discard.after_metadata",
    "discard.before_shared",
}
#: The prefixes of the names of all points that a checkpoint passes in the JobMaster.
KINDS = {"counter", "durable_file", "state_file", "metadata", "completed", "discard"}
#: Files of pointers are written second, after the counter's.
POINTERS_AT = "@2"
CASES = [
    (f"{name}=crash{hit}", {2} if name in AFTER_THE_POINTERS else {1, 2} if hit else {1})
    for name in FAILPOINTS
    if name.partition(".")[0] in KINDS
    for hit in (("", POINTERS_AT) if name.startswith("durable_file.") else ("",))
]


@pytest.mark.parametrize(("specification", "expected"), CASES, ids=[specification for specification, _ in CASES])
def test_a_job_master_recovers_a_complete_checkpoint_after_a_crash(tmp_path, specification, expected):
    tests = str(Path(__file__).parents[2])
    program = PROGRAM.format(tests=tests, root=str(tmp_path), specification=specification)
    result = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert result.returncode == -9, f"the fault did not happen: {result.stderr}"

    storage = make_storage(tmp_path)
    store = CompletedCheckpointStore(FileCheckpointPointerStore(tmp_path / "recovery"), storage)
    recovered = store.recover(read_everything=True)
    number = recovered.checkpoint_id
    assert number in expected
    assert read_all(recovered.metadata)["large"] == content_of(f"large-{number}")

    counter = FileCheckpointIDCounter(tmp_path / "recovery")
    assert counter.next_id > number
    store.cleaner.delete_leftovers(counter.next_id, now_ms=4_102_444_800_000)
    # One checkpoint is left: its metadata, its own file, and its shared one.
    left = files_below(storage.job_directory)
    assert len(left) == 3, left
    assert all(name.startswith((f"chk-{number}/", "shared/")) for name in left)
    assert read_all(recovered.metadata)["large"] == content_of(f"large-{number}")
