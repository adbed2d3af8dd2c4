"""Common parts of the TPC-H benchmarks: the tables, and runs of the queries on a cluster."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from pathlib import Path

from benchmarks.peers import BENCH_DIR
from benchmarks.tpch import QUERIES, generate, tables_of
from flinkpy.client.local_cluster import LocalCluster, LocalClusterOptions
from flinkpy.common import Configuration
from flinkpy.datastream import StreamExecutionEnvironment


def data(scale: float) -> Path:
    """The generated tables, made on first use."""
    directory = BENCH_DIR / ".data" / f"tpch-{scale}"
    if not (directory / "ready").exists():
        generate(directory, scale)
        (directory / "ready").touch()
    return directory


def on_cluster(
    directory: Path,
    numbers: tuple[int, ...],
    rounds: int,
    settings: Mapping[str, str],
    *,
    task_executors: int,
    slots: int,
) -> dict[int, list[float]]:
    """Seconds of each run of each query as a batch job with these settings; `slots`: of each TaskExecutor."""
    cluster = LocalCluster(LocalClusterOptions(task_executors, {"taskmanager.numberOfTaskSlots": str(slots)}))
    cluster.start()
    try:
        properties = {
            **cluster.client_properties,
            "execution.runtime-mode": "BATCH",
            **settings,
        }
        return {number: timed(lambda n=number: _answer(properties, directory, n), rounds) for number in numbers}  # type: ignore[misc]
    finally:
        cluster.stop()


def _answer(properties: dict[str, str], directory: Path, number: int) -> None:
    env = StreamExecutionEnvironment.get_execution_environment(Configuration.from_dict(properties))
    env.set_parallelism(2)
    with QUERIES[number](tables_of(env, directory)).execute_and_collect() as results:
        assert list(results), f"Q{number} has no result"


def timed(query: Callable[[], object], rounds: int) -> list[float]:
    seconds = []
    for _ in range(rounds):
        started = time.perf_counter()
        query()
        seconds.append(time.perf_counter() - started)
    return seconds
