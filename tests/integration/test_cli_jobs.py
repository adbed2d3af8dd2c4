"""`flinkpy run | list | info | cancel` against a real cluster."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest
from clusters import RunningCluster, run_flinkpy

from flinkpy.common.states import JobState
from flinkpy.security import ClusterSecret

WORDS = """
    import sys
    from flinkpy.common import Types
    from flinkpy.datastream import StreamExecutionEnvironment
    env = StreamExecutionEnvironment.get_execution_environment()
    words = env.from_collection(sys.argv[1:], type_info=Types.STRING())
    with words.map(str.upper, output_type=Types.STRING()).execute_and_collect("words") as result:
        print(sorted(result), env.get_parallelism(), __name__)
"""
ENDLESS = """
    import time
    from flinkpy.datastream import StreamExecutionEnvironment
    env = StreamExecutionEnvironment.get_execution_environment()
    def slow(value):
        time.sleep(0.002)
        return value
    env.from_sequence(0, 1 << 40).map(slow).filter(lambda value: False).print()
    result = env.execute("endless")
    print("submitted", result.get_job_id())
"""
FAILING = """
    from flinkpy.datastream import StreamExecutionEnvironment
    env = StreamExecutionEnvironment.get_execution_environment()
    def explode(value):
        print("about to explode")
        raise ValueError(f"cannot take {value}")
    env.from_collection([1]).map(explode).print()
    env.execute("failing")
"""


@pytest.fixture
def cluster(shared_cluster: RunningCluster) -> RunningCluster:
    return shared_cluster


@pytest.fixture
def program(tmp_path: Path):
    def write(text: str) -> str:
        path = tmp_path / "job.py"
        path.write_text(textwrap.dedent(text))
        return str(path)

    return write


def start_endless(cluster: RunningCluster, path: str) -> str:
    result = cluster.flinkpy("run", "-d", path)
    assert result.returncode == 0, result.stderr
    match = re.search(r"submitted ([0-9a-f]{32})", result.stdout)
    assert match, result.stdout
    assert f"({match.group(1)}): submitted; `flinkpy logs {match.group(1)}` shows the output " in result.stderr
    return match.group(1)


def test_run_passes_arguments_parallelism_and_options_to_the_program(cluster: RunningCluster, program) -> None:
    result = cluster.flinkpy("run", "-p", "2", "-D", "pipeline.name=x", program(WORDS), "b", "a", "-x")
    assert result.returncode == 0, result.stderr
    assert result.stdout == "['-X', 'A', 'B'] 2 __main__\n"


def test_a_detached_job_is_listed_shown_and_canceled(cluster: RunningCluster, program) -> None:
    job_id = start_endless(cluster, program(ENDLESS))
    listed = cluster.flinkpy("list").stdout
    assert job_id in listed and "endless" in listed
    assert job_id in cluster.flinkpy("list", "-a").stdout
    info = cluster.flinkpy("info", job_id)
    assert info.returncode == 0, info.stderr
    assert info.stdout.startswith(f"endless ({job_id})")
    assert "Sequence Source" in info.stdout
    canceled = cluster.flinkpy("cancel", job_id)
    assert (canceled.returncode, canceled.stdout) == (0, f"Job {job_id}: CANCELED.\n"), canceled.stderr
    assert job_id not in cluster.flinkpy("list").stdout
    assert "CANCELED" in cluster.flinkpy("list", "-a").stdout


def test_an_unknown_job_is_an_error_in_one_line(cluster: RunningCluster) -> None:
    for verb in ("info", "cancel"):
        result = cluster.flinkpy(verb, "f" * 32)
        assert result.returncode == 2
        assert "f" * 32 in result.stderr
        assert len(result.stderr.splitlines()) == 1


def test_a_users_exception_is_shown_with_the_users_lines_first(cluster: RunningCluster, program) -> None:
    result = cluster.flinkpy("run", program(FAILING))
    assert result.returncode == 1, "2 would be a mistake in the command"
    lines = [line for line in result.stderr.splitlines() if line.strip() and "failing (" not in line]
    assert lines[0] == "Traceback (most recent call last):", result.stderr
    assert "job.py" in lines[1] and "in explode" in lines[1]
    assert any(line == "ValueError: cannot take 1" for line in lines)
    (job_id,) = re.findall(r"submitted; `flinkpy logs ([0-9a-f]{32})` shows the output", result.stderr, re.M)
    for job in (job_id, "failing"):  # a job is found by its name too, and its output after its end
        logs = cluster.flinkpy("logs", "-f", job)
        assert logs.returncode == 0, logs.stderr
        assert logs.stdout.count("about to explode\n") == 1
    assert "about to explode" not in cluster.flinkpy("logs", start_endless(cluster, program(ENDLESS))).stdout
    cluster.flinkpy("cancel", "endless")


def test_an_exception_of_the_program_itself_is_shown_as_python_shows_it(cluster: RunningCluster, program) -> None:
    result = cluster.flinkpy("run", program("def broken():\n    return {}['key']\nbroken()\n"))
    assert result.returncode == 1
    lines = result.stderr.splitlines()
    assert lines[0] == "Traceback (most recent call last):"
    assert 'job.py", line 3, in <module>' in lines[1]
    assert lines[-1] == "KeyError: 'key'"


def test_the_exit_status_of_the_program_is_kept(cluster: RunningCluster, program) -> None:
    assert cluster.flinkpy("run", program("import sys\nsys.exit(7)\n")).returncode == 7


def test_ctrl_c_cancels_the_job(cluster: RunningCluster, program) -> None:
    environment = {
        **os.environ,
        "FLINKPY_DYNAMIC_PROPERTIES": "\n".join(f"{k}={v}" for k, v in cluster.properties.items()),
    }
    before = {job.job_id for job in cluster.client.list_jobs()}
    client = subprocess.Popen(
        [sys.executable, "-m", "flinkpy.cli.main", "run", program(ENDLESS)],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert client.stderr is not None
    for line in client.stderr:
        if line.rstrip().endswith("RUNNING"):
            break
    client.send_signal(signal.SIGINT)
    _, error = client.communicate(timeout=30)
    assert client.returncode == 130, error
    assert "Traceback" not in error
    (job,) = [job for job in cluster.client.list_jobs() if job.job_id not in before]
    assert JobState(job.status) is JobState.CANCELED


def test_an_unreachable_address_is_an_error_in_one_line(tmp_path: Path) -> None:
    ClusterSecret.load_or_create(tmp_path / "secret")
    result = run_flinkpy("list", "-m", "127.0.0.1:1", environment={"FLINKPY_SECRET_FILE": str(tmp_path / "secret")})
    assert result.returncode == 1
    assert "127.0.0.1:1" in result.stderr
    assert len(result.stderr.splitlines()) == 1
