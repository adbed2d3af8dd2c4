"""Measures the seconds from submission to the first record at the client on a warm cluster.

Prints one line of JSON per round.
"""

from __future__ import annotations

import json
import time

from flinkpy.datastream import StreamExecutionEnvironment

ROUNDS = 5


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(1)
    for round_number in range(ROUNDS + 1):
        stream = env.from_collection([1, 2, 3]).map(lambda n: n + 1)
        begin = time.perf_counter()
        with stream.execute_and_collect() as results:
            next(results)
            seconds = time.perf_counter() - begin
        if round_number > 0:  # the first starts the cluster
            print(json.dumps({"seconds": seconds}), flush=True)


if __name__ == "__main__":
    main()
