"""FileSink at a URI: files become visible with their checkpoint, and no other files remain."""

from __future__ import annotations

import pytest
from connector_fakes import TestingWriterContext
from pyarrow import fs

from flinkpy.checkpoint.storage.file_systems import process_file_systems
from flinkpy.common.errors import CommitError, UnsupportedOperationError
from flinkpy.common.serialization import Encoder
from flinkpy.connectors.file_committer import PendingFile
from flinkpy.connectors.part_store import RemotePartStore
from flinkpy.datastream.connectors.file_system import BucketAssigner, FileCompactor, FileCompactStrategy, FileSink
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.committables import Committables


@pytest.fixture(params=["moved", "copied"])
def uri(request, monkeypatch, tmp_path):
    """Files in memory: moved to their names, or, as in an object store, copied."""
    pytest.importorskip("fsspec")
    made = RemotePartStore.__init__

    def make(store, base_path):
        made(store, base_path)
        store._file_system.is_object_store = request.param == "copied"

    monkeypatch.setattr(RemotePartStore, "__init__", make)
    return f"memory://flinkpy{tmp_path}"


def visible_lines(uri):
    """By name; and the names of hidden files."""
    file_system = process_file_systems().of(uri)
    selector = fs.FileSelector(file_system.inner(uri), recursive=True)
    files = [info for info in file_system.arrow.get_file_info(selector) if info.type == fs.FileType.File]
    lines = {}
    for info in files:
        if not info.base_name.startswith("."):
            with file_system.arrow.open_input_file(info.path) as file:
                lines[info.path] = file.read().decode().splitlines()
    return lines, [info.base_name for info in files if info.base_name.startswith(".")]


def sink_to(uri, factory=None):
    if factory is None:
        builder = FileSink.for_row_format(uri, Encoder.simple_string_encoder())
    else:
        builder = FileSink.for_bulk_format(uri, factory)
    return builder.with_bucket_assigner(BucketAssigner.base_path_bucket_assigner()).build()


def test_files_at_a_uri_become_visible_with_their_checkpoint(uri):
    sink = sink_to(uri)
    writer = sink.create_writer(TestingWriterContext())
    committer = sink.create_committer()
    writer.write(Batch(["a", "b"]))
    first = writer.prepare_commit()
    assert writer.snapshot_state(1)[0].in_progress == ()
    assert visible_lines(uri)[0] == {}
    for _ in range(2):
        pending = Committables()
        pending.add(1, first)
        pending.commit_up_to(1, committer, 0)
        lines, hidden = visible_lines(uri)
        assert (list(lines.values()), hidden) == ([["a", "b"]], [])
    writer.write(Batch(["c"]))
    writer.close()
    assert visible_lines(uri)[1] == []
    # The process dies, so its files are not deleted.
    lost = sink.create_writer(TestingWriterContext())
    lost.write(Batch(["lost"]))
    lost.prepare_commit()
    assert len(visible_lines(uri)[1]) == 1
    sink.create_writer(TestingWriterContext(attempt_number=1)).close()
    assert visible_lines(uri)[1] == []
    missing = PendingFile("", ".nothing", "nothing", 1)
    pending = Committables()
    pending.add(1, [missing])
    with pytest.raises(CommitError, match=f"{uri}/.nothing is missing"):
        pending.commit_up_to(1, committer, 0)


def test_merging_at_a_uri_is_refused():
    builder = FileSink.for_row_format("s3://bucket/out", Encoder.simple_string_encoder())
    strategy = FileCompactStrategy.builder().enable_compaction_on_checkpoint(1).build()
    with pytest.raises(UnsupportedOperationError, match="enable_compact"):
        builder.enable_compact(strategy, FileCompactor.concat_file_compactor()).build()
