"""`flinkpy spark-submit`: whole programs in Spark, without a flinkpy cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from java_archives import JAVA_OPTIONS
from requirements import require_spark
from spark_support import SPARK_DEADLINE_S, standalone_cluster

pytestmark = pytest.mark.timeout(900)

PROGRAM = Path(__file__).with_name("spark_submitted_program.py")
#: Each line of each sink.
EXPECTED = Counter(f"{rest}:{2 * sum(range(rest or 5, 1001, 5))}" for rest in range(5))


def submit(
    directory: Path, *options: str, program: Path = PROGRAM, arguments: tuple[str, ...] = (), **variables: str
) -> Any:
    """Runs the program by `flinkpy spark-submit`, and returns its end with its output."""
    (directory / "sent_along.py").write_text("def double(value):\n    return 2 * value\n")
    command = [str(Path(sys.executable).with_name("flinkpy")), "spark-submit", *options]
    command += ["--py-files", str(directory / "sent_along.py"), "-p", "2"]
    conf = {
        "spark.driver.extraJavaOptions": JAVA_OPTIONS,
        "spark.driver.host": "127.0.0.1",
        "spark.sql.shuffle.partitions": "2",
        "spark.ui.enabled": "false",
    }
    if any(option.startswith("k8s://") for option in options):
        del conf["spark.driver.host"]  # Kubernetes names the driver
    for key, value in conf.items():
        command += ["--conf", f"{key}={value}"]
    return subprocess.run(
        [*command, str(program), str(directory / "out"), *arguments],
        cwd=directory,
        env={**os.environ, "PYSPARK_PYTHON": sys.executable, **variables},
        capture_output=True,
        text=True,
        # The program starts several Java processes, one after the other.
        timeout=2 * SPARK_DEADLINE_S,
        check=False,
    )


def written(directory: Path) -> dict[str, Counter[str]]:
    """Returns the lines that readers see, by sink."""
    return {
        sink: Counter(
            line
            for file in sorted((directory / "out" / sink).rglob("part-*"))
            for line in file.read_text().splitlines()
        )
        for sink in ("one", "other")
    }


def check(directory: Path, ended: Any) -> None:
    assert ended.returncode == 0, ended.stderr[-5000:]
    lines = ended.stdout.splitlines()
    assert written(directory) == {"one": EXPECTED, "other": EXPECTED}
    printed = Counter(line.partition("> ")[2] for line in lines if line.startswith("printed"))
    assert printed == EXPECTED
    assert lines[-1] == "collected [10, 20, 30, 40]"


@pytest.mark.chaos
def test_a_program_commits_once_although_its_driver_ends_between_two_commits(tmp_path: Path) -> None:
    require_spark()
    job = ["-D", f"$internal.pipeline.job-id={'7' * 32}", "-D", f"execution.batch.spark.staging-dir={tmp_path}/staging"]
    # Workers that import flinkpy once: the other test has those of a cluster, which import it again.
    spark = ["--master", "local[2]", "--conf", "spark.python.daemon.module=flinkpy.spark.worker_daemon"]
    crash = {"FLINKPY_FAILPOINTS": "file_sink.before_link=crash@3"}

    ended = submit(tmp_path, *spark, *job, **crash)
    assert ended.returncode != 0
    assert written(tmp_path) == {"one": EXPECTED, "other": Counter()}, ended.stdout[-5000:]

    ended = submit(tmp_path, *spark, *job)
    check(tmp_path, ended)
    assert "seen 1000" in ended.stdout.splitlines(), "the accumulators are those of the run that counts"


def test_a_standalone_cluster_runs_a_program(tmp_path: Path) -> None:
    require_spark()
    with standalone_cluster(tmp_path, num_workers=1) as standalone:
        options = ["--master", standalone.master, "--executor-memory", "512m"]
        options += ["--conf", f"spark.executor.extraJavaOptions={JAVA_OPTIONS}"]
        ended = submit(tmp_path, *options)
        assert list((tmp_path / "worker-0").glob("app-*/*/stderr")), "executors of the cluster have run it"
    check(tmp_path, ended)
    assert "seen 1000" in ended.stdout.splitlines()


def test_an_operator_that_needs_a_cluster_is_an_error_before_spark_starts(tmp_path: Path) -> None:
    require_spark()
    program = tmp_path / "native.py"
    program.write_text(
        "from flinkpy.datastream import StreamExecutionEnvironment\n"
        "env = StreamExecutionEnvironment.get_execution_environment()\n"
        "env.from_sequence(1, 4).map(abs).set_batch_backend('native').print()\n"
        "env.execute()\n"
    )
    ended = submit(tmp_path, "--master", "local[1]", program=program)
    assert ended.returncode == 1
    # Spark writes the standard error of a program to its standard output.
    assert "operator 'Map' needs a flinkpy cluster, but execution.target is spark" in ended.stdout
