"""Measures how long the client takes to submit q5 of Nexmark as SQL, and a DataStream program, on one warm cluster.

Prints one line of JSON per round: the seconds of each. Both jobs run to their end before the next submission.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent.parent))

from benchmarks.nexmark.statements import Input, split, statements
from flinkpy.common import Time, Types
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors import DiscardingSink
from flinkpy.datastream.window import SlidingProcessingTimeWindows
from flinkpy.table import StreamTableEnvironment

ROUNDS = 9
GIVEN = Input(events=10_000, rate=10_000)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(2)
    tables = StreamTableEnvironment.create(env)
    *definitions, insert = split(statements("q5", GIVEN, Path("unused")))
    for statement in definitions:
        tables.execute_sql(statement)
    for round_number in range(ROUNDS + 1):
        begin = time.perf_counter()
        sql = tables.execute_sql(insert).get_job_client()
        sql_s = time.perf_counter() - begin
        sql.get_job_execution_result().result()
        _windows(env)
        begin = time.perf_counter()
        stream = env.execute_async()
        stream_s = time.perf_counter() - begin
        stream.get_job_execution_result().result()
        if round_number > 0:  # the first starts the cluster
            print(json.dumps({"sql_s": sql_s, "stream_s": stream_s}), flush=True)


def _windows(env: StreamExecutionEnvironment) -> None:
    """Adds a program of windows over a key, as a user of DataStreams would write q5's first part."""
    pairs = env.from_collection([(1, 1), (2, 1)], Types.TUPLE([Types.LONG(), Types.LONG()]))
    windows = SlidingProcessingTimeWindows.of(Time.seconds(10), Time.seconds(2))
    counts = pairs.key_by(lambda pair: pair[0]).window(windows).reduce(lambda a, b: (a[0], a[1] + b[1]))
    counts.sink_to(DiscardingSink())


if __name__ == "__main__":
    main()
