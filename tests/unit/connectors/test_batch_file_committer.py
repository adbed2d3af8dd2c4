"""Commits of a FileSink in batch mode: overwriting and success files, also when they are interrupted and repeated."""

from __future__ import annotations

import os
import pickle

import pytest
from connector_fakes import TestingWriterContext
from pyarrow import fs

from flinkpy.checkpoint.storage.file_systems import process_file_systems
from flinkpy.common import failpoints
from flinkpy.common.clock import ManualClock
from flinkpy.common.errors import CommitError, ConfigurationError, CorruptStateError, UnsupportedOperationError
from flinkpy.common.failpoints import FAILPOINTS
from flinkpy.common.serialization import Encoder
from flinkpy.connectors.batch_file_committer import KEPT_MS, BatchFileCommitter, EndOfWriter
from flinkpy.connectors.file_sink import FileSink
from flinkpy.connectors.file_sink_config import COMMIT_POLICY, SUCCESS_FILE_NAME, BucketAssigner
from flinkpy.connectors.part_store import RemotePartStore, part_store
from flinkpy.records.batch import Batch
from flinkpy.streaming.operators.committables import END_OF_INPUT_ID, Committables

JOB = "0123456789abcdef0123456789abcdef-89abcdef"
POINTS = [
    *(name for name in FAILPOINTS if name.startswith("batch_files.")),
    "file_sink.before_link",
    "file_sink.before_directory_sync",
]


class ByFirstLetter(BucketAssigner):
    def get_bucket_id(self, element, context):
        return f"k={element[0]}"


def builder(path):
    made = FileSink.for_row_format(str(path), Encoder.simple_string_encoder())
    return made.with_bucket_assigner(ByFirstLetter())


def with_success(made):
    return made.set_property(COMMIT_POLICY, "success-file")


class Job:
    """One run of a batch job with two writers. `commit` may be called repeatedly, as after failures."""

    def __init__(self, sink, values, job_id=JOB):
        self.sink = pickle.loads(pickle.dumps(sink))
        self.committables = []
        for subtask in range(2):
            writer = self.sink.create_writer(
                TestingWriterContext(subtask_index=subtask, job_id=f"{job_id}-0-{subtask}")
            )
            if part := values[subtask::2]:
                writer.write(Batch(part))
            writer.flush(True)
            self.committables += writer.prepare_commit()

    def commit(self):
        pending = Committables()
        pending.add(END_OF_INPUT_ID, self.committables)
        pending.commit_up_to(END_OF_INPUT_ID, self.sink.create_committer(), 0)


@pytest.fixture(params=["local", "moved", "copied"])
def base(request, monkeypatch, tmp_path):
    """A directory of this host, or one in memory whose files are moved or, as in an object store, copied."""
    if request.param == "local":
        return str(tmp_path / "out")
    pytest.importorskip("fsspec")
    made = RemotePartStore.__init__

    def make(store, base_path):
        made(store, base_path)
        store._file_system.is_object_store = request.param == "copied"

    monkeypatch.setattr(RemotePartStore, "__init__", make)
    return f"memory://flinkpy{tmp_path}"


@pytest.fixture(autouse=True)
def _no_failpoints():
    yield
    failpoints.arm("")


def files_of(base):
    """Returns the lines of each file by its path below the base path."""
    if "://" not in base:
        arrow, root = fs.LocalFileSystem(), base
    else:
        file_system = process_file_systems().of(base)
        arrow, root = file_system.arrow, file_system.inner(base)
    found = {}
    for info in arrow.get_file_info(fs.FileSelector(root, recursive=True, allow_not_found=True)):
        if info.type == fs.FileType.File:
            with arrow.open_input_stream(info.path) as file:
                found[info.path.strip("/").removeprefix(root.strip("/")).strip("/")] = file.read().decode().split()
    return found


def lines_of(base):
    """Returns the lines that readers see, by directory, and the paths of the success files."""
    lines, success = {}, []
    for path, content in files_of(base).items():
        directory, _, name = path.rpartition("/")
        if name == "_SUCCESS":
            success.append(path)
        elif not name.startswith("."):
            lines.setdefault(directory, []).extend(content)
    return {directory: sorted(content) for directory, content in lines.items()}, sorted(success)


def hidden_of(base):
    return sorted(path for path in files_of(base) if path.rpartition("/")[2].startswith("."))


def test_files_are_added_replaced_or_replaced_by_partition(base):
    Job(builder(base).build(), ["a1", "b1", "c1"]).commit()
    Job(builder(base).append().build(), ["a2"], JOB.replace("0", "1")).commit()
    assert lines_of(base)[0] == {"k=a": ["a1", "a2"], "k=b": ["b1"], "k=c": ["c1"]}
    Job(builder(base).overwrite_partitions().build(), ["a3", "b3"], JOB.replace("0", "2")).commit()
    assert lines_of(base)[0] == {"k=a": ["a3"], "k=b": ["b3"], "k=c": ["c1"]}
    Job(builder(base).overwrite_partitions().build(), [], JOB.replace("0", "3")).commit()
    assert lines_of(base)[0] == {"k=a": ["a3"], "k=b": ["b3"], "k=c": ["c1"]}
    Job(builder(base).overwrite().build(), ["d4"], JOB.replace("0", "4")).commit()
    assert lines_of(base) == ({"k=d": ["d4"]}, [])
    Job(builder(base).overwrite().build(), [], JOB.replace("0", "5")).commit()
    assert lines_of(base) == ({}, [])


def test_success_files_stand_in_each_partition_and_in_the_base_path(base):
    Job(with_success(builder(base)).build(), ["a1", "b1"]).commit()
    assert lines_of(base)[1] == ["_SUCCESS", "k=a/_SUCCESS", "k=b/_SUCCESS"]
    # An overwrite without such files leaves none in the directories that it empties.
    Job(builder(base).overwrite_partitions().build(), ["a2"], JOB.replace("0", "1")).commit()
    assert lines_of(base)[1] == ["_SUCCESS", "k=b/_SUCCESS"]
    Job(with_success(builder(base)).overwrite().build(), [], JOB.replace("0", "2")).commit()
    assert lines_of(base) == ({}, ["_SUCCESS"])
    named = with_success(builder(base)).set_property(SUCCESS_FILE_NAME, "_DONE")
    Job(named.build(), ["a3"], JOB.replace("0", "3")).commit()
    assert {"_DONE", "k=a/_DONE", "_SUCCESS"} <= set(files_of(base))


@pytest.mark.parametrize("point", POINTS)
def test_a_commit_that_was_interrupted_anywhere_is_completed_and_then_has_no_more_effect(base, point):
    Job(with_success(builder(base)).build(), ["a1", "b1"], JOB.replace("0", "1")).commit()
    job = Job(with_success(builder(base)).overwrite().build(), ["a2", "c2"])
    failpoints.arm(f"{point}=error@1")
    with pytest.raises(CommitError, match="failpoint"):
        job.commit()
    failpoints.arm("")
    is_ended = point == "batch_files.after_commit"
    assert (lines_of(base)[1] == ["_SUCCESS", "k=a/_SUCCESS", "k=c/_SUCCESS"]) == (
        is_ended or point == "batch_files.before_end_of_commit"
    ), "success files are the last thing to appear"
    job.commit()
    expected = ({"k=a": ["a2"], "k=c": ["c2"]}, ["_SUCCESS", "k=a/_SUCCESS", "k=c/_SUCCESS"])
    assert lines_of(base) == expected
    assert [name for name in hidden_of(base) if not name.startswith(".committed-")] == []
    # Others write and delete, before the job knows that it has committed.
    Job(builder(base).append().build(), ["a3"], JOB.replace("0", "3")).commit()
    part_store(base).delete("", "_SUCCESS")
    job.commit()
    assert lines_of(base) == ({"k=a": ["a2", "a3"], "k=c": ["c2"]}, ["k=a/_SUCCESS", "k=c/_SUCCESS"])
    Job(builder(base).overwrite().build(), ["z"], JOB.replace("0", "4")).commit()
    job.commit()
    assert lines_of(base) == ({"k=z": ["z"]}, [])


def test_success_files_are_published_once_even_if_their_commit_is_interrupted_between_two(tmp_path, monkeypatch):
    base = str(tmp_path)
    job = Job(with_success(builder(base)).overwrite().build(), ["a1", "b1"])
    replace, calls = os.replace, []

    def fail_at_the_second(source, target):
        calls.append(target)
        if sum("_SUCCESS" in str(one) and ".unfinished" not in str(source) for one in calls) == 5:
            raise OSError("interrupted")
        replace(source, target)

    monkeypatch.setattr(os, "replace", fail_at_the_second)
    with pytest.raises(CommitError, match="interrupted"):
        job.commit()
    monkeypatch.undo()
    published = lines_of(base)[1]
    assert 0 < len(published) < 3
    (tmp_path / published[0]).unlink()  # a reader takes it as its signal
    job.commit()
    assert sorted([*lines_of(base)[1], published[0]]) == ["_SUCCESS", "k=a/_SUCCESS", "k=b/_SUCCESS"]


def test_older_files_stay_if_a_new_one_is_lost(tmp_path):
    base = str(tmp_path)
    Job(builder(base).build(), ["a1"], JOB.replace("0", "1")).commit()
    job = Job(builder(base).overwrite().build(), ["a2"])
    for name in hidden_of(base):
        (tmp_path / name).unlink()
    with pytest.raises(CommitError, match="are lost"):
        job.commit()
    assert lines_of(base)[0] == {"k=a": ["a1"]}


def test_hidden_files_and_files_of_other_writers_stay(tmp_path):
    for name in (".hidden", "_metadata", "_temporary/part", ".spark-1/part"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    Job(builder(tmp_path).overwrite().build(), ["a"]).commit()
    assert {".hidden", "_metadata", "_temporary/part", ".spark-1/part"} <= set(files_of(str(tmp_path)))


@pytest.mark.parametrize(
    ("file", "kind"),
    [("_delta_log/0.json", "Delta"), ("metadata/v1.metadata.json", "Iceberg")],
    ids=["delta", "iceberg"],
)
def test_files_of_a_table_are_not_replaced(tmp_path, file, kind):
    (tmp_path / file).parent.mkdir()
    (tmp_path / file).touch()
    (tmp_path / "data").touch()
    with pytest.raises(UnsupportedOperationError, match=f"is a table of {kind}"):
        Job(builder(tmp_path).overwrite().build(), ["a"])
    committer = BatchFileCommitter(str(tmp_path), builder(tmp_path).overwrite().build().publication)
    pending = Committables()
    pending.add(END_OF_INPUT_ID, [EndOfWriter.of(JOB)])
    with pytest.raises(UnsupportedOperationError, match="use TableSink"):
        pending.commit_up_to(END_OF_INPUT_ID, committer, 0)
    assert (tmp_path / "data").exists()


def test_the_names_of_old_commits_are_removed(tmp_path):
    sink = builder(tmp_path).overwrite().build()
    Job(sink, ["a"]).commit()
    [old] = [name for name in os.listdir(tmp_path) if name.startswith(".committed-")]
    job = Job(sink, ["b"], JOB.replace("0", "1"))
    modified_ms = (tmp_path / old).stat().st_mtime_ns // 1_000_000
    for now_ms, is_kept in ((modified_ms + KEPT_MS, True), (modified_ms + KEPT_MS + 1, False)):
        committer = BatchFileCommitter(str(tmp_path), sink.publication, ManualClock(now_ms))
        committer._forget_old_commits("")
        assert (tmp_path / old).exists() == is_kept
    job.commit()


def test_a_damaged_plan_is_named(tmp_path):
    job = Job(builder(tmp_path).overwrite().build(), ["a"])
    (tmp_path / f".commit-{JOB}").write_text('{"version": 2}')
    with pytest.raises(CommitError, match=rf"\.commit-{JOB} is not the plan of a commit: version 2") as caught:
        job.commit()
    assert isinstance(caught.value.__cause__, CorruptStateError)


def test_the_options_of_the_table_connector_are_checked(tmp_path):
    made = builder(tmp_path)
    with pytest.raises(ConfigurationError, match=r"sink\.partition-commit\.delay is not an option of FileSink"):
        made.set_property("sink.partition-commit.delay", "1 h")
    with pytest.raises(ConfigurationError, match="metastore,success-file is not supported, only success-file"):
        made.set_property(COMMIT_POLICY, "metastore,success-file")
    for name in ("SUCCESS", "_a/b", ".."):
        with pytest.raises(ConfigurationError, match="must be a name that begins with"):
            with_success(builder(tmp_path)).set_property(SUCCESS_FILE_NAME, name)
    assert not made.build().needs_batch_mode
    assert with_success(made).build().needs_batch_mode
    assert builder(tmp_path).overwrite().build().needs_batch_mode


def test_a_sink_of_an_earlier_release_appends(tmp_path):
    sink = builder(tmp_path).build()
    del sink.__dict__["_publication"]
    assert not pickle.loads(pickle.dumps(sink)).needs_batch_mode
