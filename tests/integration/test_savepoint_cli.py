"""`flinkpy savepoint | checkpoint | checkpoints | stop | run -s`. The output of the job shows lost and repeated
records.
"""

from __future__ import annotations

import re
import shutil
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
from clusters import RunningCluster
from job_support import wait_for_state, wait_until
from verifying.two_phase_sink import committed_records

from flinkpy.common.states import JobState

KEYS, RECORDS_PER_KEY = 4, 400

#: A program that counts the numbers of each key. (key, number, count) is right if count is number + 1.
PROGRAM = """
    import sys
    sys.path.insert(0, {tests!r})
    from verifying.sequence_source import SequencePerKeySource
    from verifying.two_phase_sink import TwoPhaseSink
    from flinkpy.common import Types, WatermarkStrategy
    from flinkpy.datastream import KeyedProcessFunction, StreamExecutionEnvironment
    from flinkpy.datastream.state import ValueStateDescriptor

    class Count(KeyedProcessFunction):
        def open(self, runtime_context):
            self._count = runtime_context.get_state(ValueStateDescriptor("count", Types.LONG()))

        def process_element(self, value, ctx):
            count = (self._count.value() or 0) + 1
            self._count.update(count)
            yield value[0], value[1], count

    out, rate, uid = sys.argv[1], float(sys.argv[2]), sys.argv[3]
    env = StreamExecutionEnvironment.get_execution_environment()
    env.enable_checkpointing(100)
    triple = Types.TUPLE([Types.LONG(), Types.LONG(), Types.LONG()])
    source = SequencePerKeySource({keys}, {records}, rate)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers").uid("numbers")
    counted = numbers.key_by(lambda pair: pair[0], Types.LONG()).process(Count(), triple).uid(uid)
    counted.sink_to(TwoPhaseSink(out)).uid("out")
    print("submitted", env.execute("counting").get_job_id())
"""


@pytest.fixture
def cluster(shared_cluster: RunningCluster) -> RunningCluster:
    return shared_cluster


@pytest.fixture
def program(tmp_path: Path) -> str:
    path = tmp_path / "program.py"
    text = textwrap.dedent(PROGRAM)
    path.write_text(text.format(tests=str(Path(__file__).parent), keys=KEYS, records=RECORDS_PER_KEY))
    return str(path)


@pytest.fixture
def start(cluster: RunningCluster, program: str, tmp_path: Path) -> Callable[..., str]:
    """Returns a function that starts the job in the background and returns its id."""

    def run(*options: str, rate: float = 80, uid: str = "count", parallelism: int = 2) -> str:
        checkpoints = f"execution.checkpointing.dir={tmp_path / 'checkpoints'}"
        arguments = (program, str(tmp_path / "out"), str(rate), uid)
        result = cluster.flinkpy("run", "-d", "-p", str(parallelism), "-D", checkpoints, *options, *arguments)
        assert result.returncode == 0, result.stderr
        match = re.search(r"submitted ([0-9a-f]{32})", result.stdout)
        assert match, result.stdout
        return match.group(1)

    return run


def path_in(output: str) -> str:
    match = re.search(r"Path: (\S+)", output)
    assert match, output
    return match.group(1)


def wait_for_output(tmp_path: Path, count: int = 50) -> None:
    wait_until(lambda: len(list(committed_records(tmp_path / "out"))) >= count, f"{count} committed records")


def wait_for_end(cluster: RunningCluster, job_id: str) -> None:
    result = cluster.client.wait_for_result(job_id)
    assert JobState(result.status) is JobState.FINISHED, result.error


def assert_exactly_once(tmp_path: Path) -> None:
    expected = [(key, number, number + 1) for key in range(KEYS) for number in range(RECORDS_PER_KEY)]
    assert sorted(committed_records(tmp_path / "out")) == expected


def test_a_job_is_stopped_and_resumed_with_its_state(
    cluster: RunningCluster, start: Callable[..., str], tmp_path: Path
) -> None:
    job_id = start()
    wait_for_output(tmp_path)
    taken = cluster.flinkpy("checkpoint", job_id)
    assert (taken.returncode, taken.stdout[:11]) == (0, "Checkpoint "), taken.stderr
    table = cluster.flinkpy("checkpoints", job_id)
    assert table.returncode == 0, table.stderr
    assert " completed" in table.stdout.splitlines()[0] and "COMPLETED" in table.stdout
    stopped = cluster.flinkpy("stop", job_id, "-p", str(tmp_path / "savepoints"))
    assert stopped.returncode == 0, stopped.stderr
    assert f"Job {job_id}: FINISHED." in stopped.stderr
    path = path_in(stopped.stdout)
    assert Path(path).is_relative_to(tmp_path / "savepoints") and Path(path, "_metadata").is_file()
    assert len(list(committed_records(tmp_path / "out"))) < KEYS * RECORDS_PER_KEY

    again = start("-s", path, rate=4000, parallelism=1)
    wait_for_end(cluster, again)

    assert_exactly_once(tmp_path)
    assert Path(path, "_metadata").is_file(), "a savepoint is its user's"


def test_a_savepoint_can_be_moved(cluster: RunningCluster, start: Callable[..., str], tmp_path: Path) -> None:
    job_id = start()
    wait_for_output(tmp_path)
    path = path_in(cluster.flinkpy("stop", job_id, "-p", str(tmp_path / "savepoints"), "-type", "native").stdout)
    moved = tmp_path / "moved"
    shutil.move(path, moved)

    wait_for_end(cluster, start("-s", str(moved), rate=4000, parallelism=1))

    assert_exactly_once(tmp_path)


def test_a_savepoint_of_a_running_job_is_taken_and_disposed_of(
    cluster: RunningCluster, start: Callable[..., str], tmp_path: Path
) -> None:
    job_id = start(rate=160)
    wait_for_output(tmp_path)
    taken = cluster.flinkpy("savepoint", job_id, str(tmp_path / "savepoints"))
    assert taken.returncode == 0, taken.stderr
    path = Path(path_in(taken.stdout))
    assert cluster.client.request_job_status(job_id) is JobState.RUNNING

    disposed = cluster.flinkpy("savepoint", "-d", str(path))

    assert (disposed.returncode, disposed.stdout) == (0, f"Savepoint {path} deleted.\n"), disposed.stderr
    assert not path.exists()
    wait_for_end(cluster, job_id)
    assert_exactly_once(tmp_path)


def test_an_impossible_request_is_an_error_in_one_line(
    cluster: RunningCluster, start: Callable[..., str], tmp_path: Path
) -> None:
    job_id = start(rate=10)
    wait_for_state(cluster, job_id, JobState.RUNNING)
    other = tmp_path / "no savepoint"
    other.mkdir()
    unknown = "0" * 32
    for arguments, words in (
        (("savepoint", unknown, "/tmp/x"), ("there is no job", unknown)),
        (("checkpoint", unknown), ("there is no job",)),
        (("checkpoints", unknown), ("there is no job",)),
        (("stop", unknown), ("there is no job",)),
        (("savepoint", job_id), ("execution.checkpointing.savepoint-dir",)),
        (("stop", job_id), ("execution.checkpointing.savepoint-dir",)),
        (("savepoint", "-d", str(other)), (str(other), "_metadata")),
        (("savepoint", "-d", str(tmp_path / "nothing")), (str(tmp_path / "nothing"),)),
        (("savepoint", job_id, "gopher://x/y"), ("gopher",)),
    ):
        result = cluster.flinkpy(*arguments)
        assert result.returncode in (1, 2), (arguments, result.stdout)
        last = result.stderr.strip().splitlines()[-1]
        assert last.startswith("flinkpy: ") and all(word in last for word in words), result.stderr
        assert "Traceback" not in result.stderr
    assert cluster.client.request_job_status(job_id) is JobState.RUNNING
    assert cluster.flinkpy("cancel", job_id).returncode == 0


def test_a_restore_that_does_not_match_fails_with_the_reason_and_leaves_the_savepoint(
    cluster: RunningCluster, start: Callable[..., str], tmp_path: Path
) -> None:
    job_id = start()
    wait_for_output(tmp_path)
    stopped = cluster.flinkpy("stop", job_id, "-p", str(tmp_path / "savepoints"))
    path = path_in(stopped.stdout + stopped.stderr)
    before = {file: file.read_bytes() for file in Path(path).rglob("*") if file.is_file()}

    missing = start("-s", str(tmp_path / "nothing"))
    result = cluster.client.wait_for_result(missing)
    assert JobState(result.status) is JobState.FAILED
    assert str(tmp_path / "nothing") in result.error.message

    renamed = start("-s", path, uid="another")
    result = cluster.client.wait_for_result(renamed)
    assert JobState(result.status) is JobState.FAILED
    assert path in result.error.message or "count" in result.error.message

    allowed = start("-s", path, "-n", rate=4000, uid="another")
    wait_for_end(cluster, allowed)
    assert {file: file.read_bytes() for file in Path(path).rglob("*") if file.is_file()} == before


def test_a_claimed_savepoint_is_removed_when_it_is_no_longer_needed(
    cluster: RunningCluster, start: Callable[..., str], tmp_path: Path
) -> None:
    job_id = start()
    wait_for_output(tmp_path)
    stopped = cluster.flinkpy("stop", job_id, "-p", str(tmp_path / "savepoints"))
    path = path_in(stopped.stdout + stopped.stderr)

    again = start("-s", path, "-cm", "claim", rate=1000)
    wait_for_end(cluster, again)

    assert_exactly_once(tmp_path)
    wait_until(lambda: not Path(path).exists(), "the claimed savepoint is deleted")
