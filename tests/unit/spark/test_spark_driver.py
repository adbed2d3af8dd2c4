"""Programs that run in Spark's driver, without a cluster: the choice of backends, the parts of a job, and its sinks."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from flinkpy.common import Configuration, Encoder, Types
from flinkpy.common.errors import UnsupportedOperationError, UserError
from flinkpy.connectors.collect_iterator import CollectIterator
from flinkpy.connectors.collect_sink import CollectSink
from flinkpy.connectors.print_sink import PrintSink
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors.file_system import FileSink
from flinkpy.records.batch import Batch
from flinkpy.spark.driver.commit_log import CommitRecord, FileCommitLog, MountedFiles, log_directory
from flinkpy.spark.driver.driver_job import SinkVertex, driver_job
from flinkpy.spark.driver.execution import without_sinks
from flinkpy.spark.driver.executor import job_id_of
from flinkpy.spark.driver.local_sinks import CollectingSink, PrintingSink


def environment(**options: str) -> StreamExecutionEnvironment:
    settings = {"execution.target": "spark", "parallelism.default": "2", **options}
    return StreamExecutionEnvironment(Configuration.from_dict(settings))


def never() -> None:
    return


# -- the parts of a job ------------------------------------------------------------------------------------------------


def test_a_program_needs_no_mode_and_all_but_its_own_sinks_are_in_spark(tmp_path: Path) -> None:
    env = environment()
    mapped = env.from_sequence(1, 3).map(str, Types.STRING())
    mapped.sink_to(FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build()).name("files")
    mapped.print()
    job = driver_job(env.generate_job_graph())
    (region,) = job.regions
    assert [node.name for node in region.region.nodes] == ["Source: Sequence Source", "Map", "files: Writer"]
    (committer,) = job.committers.values()
    (printed,) = job.sinks.values()
    assert committer.name == "files: Committer"
    assert region.readers == {0: (printed.operator_id,), 1: (committer.operator_id,)}


def test_a_region_without_its_sinks_keeps_the_numbers_of_its_other_outputs(tmp_path: Path) -> None:
    env = environment()
    mapped = env.from_sequence(1, 3).map(str, Types.STRING())
    mapped.sink_to(FileSink.for_row_format(str(tmp_path), Encoder.simple_string_encoder()).build())
    mapped.print()
    (region,) = driver_job(env.generate_job_graph()).regions
    left = without_sinks(region.region)
    assert [node.name for node in left.nodes] == ["Source: Sequence Source", "Map"]
    assert (left.outputs, left.committables) == (region.region.outputs, ())


@pytest.mark.parametrize(
    ("build", "options", "reason"),
    [
        (lambda env: env.from_sequence(1, 2).map(abs).set_batch_backend("native").print(), {}, "set_batch_backend"),
        (lambda env: env.from_sequence(1, 2).cache().print(), {}, "it writes to the process of the task"),
        (
            lambda env: env.from_sequence(1, 2).print(),
            {"execution.batch.backend": "native"},
            "execution.batch.backend is native",
        ),
    ],
)
def test_an_operator_that_needs_a_cluster_is_named(build: Any, options: dict[str, str], reason: str) -> None:
    env = environment(**options)
    build(env)
    with pytest.raises(UnsupportedOperationError, match=r"needs a flinkpy cluster, but execution.target is spark: .*"):
        try:
            env.generate_job_graph()
        except UnsupportedOperationError as error:
            assert reason in str(error)
            raise


def test_a_streaming_program_is_refused() -> None:
    env = environment(**{"execution.runtime-mode": "STREAMING"})
    env.from_sequence(1, 2).print()
    with pytest.raises(UnsupportedOperationError, match="Spark runs batch programs only"):
        env.generate_job_graph()


def test_another_attempt_of_the_driver_gives_its_jobs_the_same_ids() -> None:
    ids = [job_id_of("application_1_0001", number) for number in range(3)]
    assert ids == [job_id_of("application_1_0001", number) for number in range(3)]
    assert len(set(ids)) == 3
    assert all(len(one) == 32 for one in ids)


# -- sinks of the program ----------------------------------------------------------------------------------------------


def collecting(vertex_type: Any = None) -> CollectingSink:
    return CollectingSink(SinkVertex("c", "Collect", CollectSink(), vertex_type, 1), "7" * 32, 0)


def test_a_program_reads_results_while_the_job_makes_them() -> None:
    sink = collecting(Types.LONG())
    done = threading.Event()

    def make() -> None:
        for start in range(0, 3000, 1000):
            sink.write(Batch(list(range(start, start + 1000))), never)
        sink.finish(never)
        done.set()

    threading.Thread(target=make).start()
    assert list(CollectIterator(sink.answer)) == list(range(3000))
    assert done.wait(10), "the job ends when the program has its results"
    sink.close()


def test_a_job_whose_results_are_not_read_waits_until_it_is_cancelled() -> None:
    class Cancelled(Exception):
        pass

    def check() -> None:
        raise Cancelled

    sink = collecting()
    with pytest.raises(Cancelled):
        for _ in range(100):
            sink.write(Batch([b"x" * (1 << 20)]), check)
    sink.close()


def test_batches_are_printed_by_the_subtasks_in_turn(capsys: pytest.CaptureFixture[str]) -> None:
    sink = PrintingSink(SinkVertex("p", "Print", PrintSink("out"), None, 2), "7" * 32, 0)
    for value in range(3):
        sink.write(Batch([value]), never)
    sink.finish(never)
    sink.close()
    assert capsys.readouterr().out == "out:1> 0\nout:2> 1\nout:1> 2\n"


# -- the log of commits ------------------------------------------------------------------------------------------------


def log(directory: Path, job_name: str) -> FileCommitLog:
    return FileCommitLog(MountedFiles(log_directory(str(directory), "7" * 32)), "7" * 32, job_name)


def test_the_next_attempt_finds_what_has_to_be_committed(tmp_path: Path) -> None:
    record = CommitRecord("sums", {"a": [b"\x00one", b"two"], "b": []}, b"result")
    first = log(tmp_path, "sums")
    assert (first.begin(), first.find()) == (0, None)
    first.store(record)
    second = log(tmp_path, "sums")
    assert (second.begin(), second.find()) == (1, record)
    second.store(CommitRecord("sums", {}, b"result", is_committed=True))
    third = log(tmp_path, "sums")
    assert (third.begin(), third.find()) == (2, CommitRecord("sums", {}, b"result", is_committed=True))
    third.forget()
    assert log(tmp_path, "sums").begin() == 0


def test_another_job_at_the_same_position_is_an_error(tmp_path: Path) -> None:
    first = log(tmp_path, "sums")
    first.begin()
    first.store(CommitRecord("sums"))
    with pytest.raises(UserError, match="runs job 'averages', but an earlier attempt ran 'sums'"):
        log(tmp_path, "averages").find()
