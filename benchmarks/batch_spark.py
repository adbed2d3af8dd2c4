"""batch-spark: programs on the Spark backend, beside the same programs written by hand in PySpark.

Both sides run in a warm session on `local[2]` with the same settings, in turn: ours, theirs, ours, theirs. The
first round does not count. Ours goes the whole way of a job: it is planned, submitted, scheduled, run in the session of
the cluster's TaskExecutor, and its results come back to the program.

The ratio is that of the medians of seconds. The note has the CPU seconds of all processes of each side, which hardly
depend on what else the machine does. Environment: BATCH_SPARK_ROUNDS, BATCH_SPARK_TPCH_SCALE, BATCH_SPARK_SCALE,
BATCH_SPARK_ONLY (names, separated by commas).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from dataclasses import dataclass, field
from math import exp, log
from pathlib import Path
from statistics import median
from typing import Any

import psutil

from benchmarks import spark_pipelines
from benchmarks.peers import BENCH_DIR, PROGRAMS
from benchmarks.result import Result
from benchmarks.spark_pipelines import TEN, Pipelines
from benchmarks.tpch import QUERIES, tables_of
from benchmarks.tpch_runs import data
from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.common import Configuration
from flinkpy.datastream import StreamExecutionEnvironment

ROUNDS = int(os.environ.get("BATCH_SPARK_ROUNDS", "5"))
TPCH_SCALE = float(os.environ.get("BATCH_SPARK_TPCH_SCALE", "1"))
SCALE = float(os.environ.get("BATCH_SPARK_SCALE", "0.5"))
ONLY = tuple(name for name in os.environ.get("BATCH_SPARK_ONLY", "").split(",") if name)
#: As fast as the hand-written programs, on average of the queries.
TPCH_BAR = 1.0
PIPELINE_BAR = 0.8
TRIVIAL_BAR = 1 / 1.5
FEW, MANY = "one_file", "many_files"
TRIVIAL = "trivial_keyed"
#: The settings of both sides. Shuffle partitions as an author chooses them for two cores.
SPARK = {
    "spark.driver.memory": "2g",
    "spark.sql.shuffle.partitions": "4",
    "spark.ui.enabled": "false",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}

#: The CPU seconds of processes and of their ended children, by process id and start.
Usage = dict[tuple[int, float], tuple[float, float]]


@dataclass(slots=True)
class Side:
    """The measured rounds of one side of a pair."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)


@dataclass(slots=True)
class Pair:
    name: str
    ours: Side = field(default_factory=Side)
    theirs: Side = field(default_factory=Side)

    @property
    def ratio(self) -> float:
        return median(self.theirs.seconds) / median(self.ours.seconds)

    @property
    def cpu_ratio(self) -> float:
        return median(self.theirs.cpu_seconds) / median(self.ours.cpu_seconds)

    def result(self, bar: float | None) -> Result:
        note = (
            f"CPU {median(self.ours.cpu_seconds):.2f} / {median(self.theirs.cpu_seconds):.2f} s = "
            f"{self.cpu_ratio:.2f}x; best {min(self.ours.seconds):.2f} / {min(self.theirs.seconds):.2f} s"
        )
        ours, theirs = median(self.ours.seconds), median(self.theirs.seconds)
        return Result(f"batch-spark {self.name}", ours, theirs, "s", "PySpark", self.ratio, bar, note)


def run() -> list[Result]:
    """The pairs, and the geometric means of TPC-H and of the pipelines."""
    queries = [f"Q{number}" for number in QUERIES]
    names = [name for name in (*queries, *TEN, TRIVIAL, FEW, MANY) if not ONLY or name in ONLY]
    pairs = measured(names)
    results = []
    for name in names:
        bar = PIPELINE_BAR if name in TEN else TRIVIAL_BAR if name == TRIVIAL else None
        results.append(pairs[name].result(bar))
    for title, group, bar in (("TPC-H", queries, TPCH_BAR), ("pipelines", list(TEN), None)):
        ran = [pairs[name] for name in group if name in pairs]
        if ran:
            ours, theirs = (sum(median(side.seconds) for side in sides) for sides in _sides(ran))
            mean = geometric_mean([pair.ratio for pair in ran])
            note = f"geometric mean; of CPU {geometric_mean([pair.cpu_ratio for pair in ran]):.2f}x"
            results.append(Result(f"batch-spark {title}", ours, theirs, "s", "PySpark", mean, bar, note))
    return results


def geometric_mean(ratios: list[float]) -> float:
    return exp(sum(map(log, ratios)) / len(ratios))


def _sides(pairs: list[Pair]) -> tuple[list[Side], list[Side]]:
    return [pair.ours for pair in pairs], [pair.theirs for pair in pairs]


def measured(names: list[str]) -> dict[str, Pair]:
    """Runs both sides of each pair in turn. Raises: AssertionError if their answers differ."""
    tpch, directory = data(TPCH_SCALE), _input()
    out = BENCH_DIR / ".data" / "out"
    pairs = {name: Pair(name) for name in names}
    with _Ours(tpch, directory) as ours, _Peer(tpch, directory) as peer:
        for name, pair in pairs.items():
            for number in range(ROUNDS + 1):
                for side, runner in ((pair.ours, ours), (pair.theirs, peer)):
                    shutil.rmtree(out, ignore_errors=True)
                    usage = runner.usage()
                    seconds, answer = runner.run(name, out)
                    spent = _spent(usage, runner.usage())
                    if number:
                        side.seconds.append(seconds)
                        side.cpu_seconds.append(spent)
                    if side is pair.ours:
                        mine = answer
                assert mine == answer, f"{name}: {mine} from flinkpy, {answer} from PySpark"
            sys.stderr.write(f"{name}: {pair.ratio:.2f}x; {pair.result(None).note}\n")
    shutil.rmtree(out, ignore_errors=True)
    return pairs


def _input() -> Path:
    directory = BENCH_DIR / ".data" / f"pipelines-{SCALE}"
    if not (directory / "ready").exists():
        spark_pipelines.generate(directory, SCALE)
        (directory / "ready").touch()
    return directory


class _Ours:
    """A cluster of one TaskExecutor."""

    def __init__(self, tpch: Path, directory: Path) -> None:
        self._tpch = tpch
        self._directory = directory
        self._cluster = LocalCluster(LocalClusterOptions(1, {"taskmanager.numberOfTaskSlots": "4"}))

    def __enter__(self) -> _Ours:
        before = {child.pid for child in psutil.Process().children()}
        self._cluster.start()
        self._services = [child for child in psutil.Process().children() if child.pid not in before]
        self._properties = {
            **self._cluster.client_properties,
            "execution.runtime-mode": "BATCH",
            "execution.batch.backend": "spark",
            "execution.batch.spark.master": "local[2]",
            **{f"execution.batch.spark.conf.{key}": value for key, value in SPARK.items()},
        }
        return self

    def __exit__(self, *error: object) -> None:
        self._cluster.stop()

    def run(self, name: str, out: Path) -> tuple[float, int]:
        started = time.perf_counter()
        env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(self._properties))
        env.set_parallelism(2)
        if name.startswith("Q"):
            with QUERIES[int(name[1:])](tables_of(env, self._tpch)).execute_and_collect() as results:
                answer = len(list(results))
        else:
            answer = getattr(Pipelines(env, self._directory, out), name)()
        return time.perf_counter() - started, answer

    def usage(self) -> Usage:
        """CPU seconds of the cluster, of Spark with its workers, and of this process, which is the client."""
        mine = psutil.Process().cpu_times()
        usage: Usage = {(0, 0.0): (mine.user + mine.system, 0.0)}
        for service in self._services:
            usage |= _tree_cpu_seconds(service)
        return usage


class _Peer:
    """The process of `programs/spark_peer.py`."""

    def __init__(self, tpch: Path, directory: Path) -> None:
        self._arguments = [str(tpch), str(directory), json.dumps(SPARK)]

    def __enter__(self) -> _Peer:
        self._popen = subprocess.Popen(
            [sys.executable, str(PROGRAMS / "spark_peer.py"), *self._arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(PROGRAMS)},
            cwd=BENCH_DIR,
        )
        return self

    def __exit__(self, *error: object) -> None:
        assert self._popen.stdin is not None
        self._popen.stdin.close()
        self._popen.wait(60)

    def run(self, name: str, out: Path) -> tuple[float, int]:
        assert self._popen.stdin is not None
        assert self._popen.stdout is not None
        self._popen.stdin.write(f"{name} {out}\n")
        self._popen.stdin.flush()
        for line in self._popen.stdout:
            if line.startswith("{"):
                found: dict[str, Any] = json.loads(line)
                return found["seconds"], found["answer"]
        raise RuntimeError(f"the PySpark program {name} failed")

    def usage(self) -> Usage:
        return _tree_cpu_seconds(psutil.Process(self._popen.pid))


def _tree_cpu_seconds(process: psutil.Process) -> dict[tuple[int, float], tuple[float, float]]:
    """Returns the CPU seconds of a process, of its descendants, and of their ended children."""
    found = {}
    with suppress(psutil.NoSuchProcess):
        for each in (process, *process.children(recursive=True)):
            with suppress(psutil.NoSuchProcess):
                times = each.cpu_times()
                key = each.pid, each.create_time()
                found[key] = times.user + times.system, times.children_user + times.children_system
    return found


def _spent(before: Usage, after: Usage) -> float:
    """Returns the CPU seconds between two samples. Time of ended processes counts once, not with their parents."""
    total = sum(sum(times) - sum(before.get(key, (0.0, 0.0))) for key, times in after.items())
    of_ended = sum(sum(times) for key, times in before.items() if key not in after)
    of_parents = sum(times[1] - before.get(key, (0.0, 0.0))[1] for key, times in after.items())
    return total - min(of_ended, of_parents)
