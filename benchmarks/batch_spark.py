"""batch-spark: TPC-H's queries through the Spark backend, beside the same queries as PySpark programs.

Both run on `local[2]` with the same memory and as many shuffle partitions, and are warm: every query runs several
times, the first run does not count, and the best of the others does. Ours goes the whole way of a job: it is planned,
submitted, scheduled, run in the session of the cluster's TaskExecutor, and its results come back to the program.
"""

from __future__ import annotations

import sys

from benchmarks.peers import run_program
from benchmarks.result import Result
from benchmarks.tpch import QUERIES
from benchmarks.tpch_runs import data, on_cluster

SCALE = 1
ROUNDS = 4
#: Within 1.3 times of the hand-written program.
BAR = 1 / 1.3
#: As those of the peer in `programs/spark_tpch.py`.
SPARK = {
    "execution.batch.backend": "spark",
    "execution.batch.spark.master": "local[2]",
    "execution.batch.spark.conf.spark.driver.memory": "4g",
    "execution.batch.spark.conf.spark.sql.shuffle.partitions": "4",
}


def run(numbers: tuple[int, ...] = tuple(QUERIES)) -> list[Result]:
    """Seconds of each query, and of all together."""
    directory = data(SCALE)
    ours = on_cluster(directory, numbers, ROUNDS, SPARK, task_executors=1, slots=4)
    peer = {
        line["query"]: line["seconds"] for line in run_program(sys.executable, "spark_tpch.py", directory, *numbers)
    }
    best = {number: (min(ours[number][1:]), min(peer[number][1:])) for number in numbers}
    results = []
    for number, (mine, theirs) in best.items():
        shown = "/".join(f"{each:.2f}" for each in ours[number])
        note = f"runs {shown}; first of the peer {peer[number][0]:.2f}"
        results.append(
            Result(f"batch-spark Q{number}", mine, theirs, "s", "PySpark DataFrames", theirs / mine, BAR, note)
        )
    total, peer_total = (sum(pair[side] for pair in best.values()) for side in (0, 1))
    results.append(Result("batch-spark", total, peer_total, "s", "PySpark DataFrames", peer_total / total, BAR))
    return results
