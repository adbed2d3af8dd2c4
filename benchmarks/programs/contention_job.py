"""CSV bids with many keys: -> key_by -> count, max, mean per key -> a filter that keeps nothing -> print.

Prints one line of JSON per run: the seconds that `env.execute()` took.
"""

from __future__ import annotations

import argparse
import json
import time

import numpy as np
import pyarrow as pa

from flinkpy.common import Types, WatermarkStrategy
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.aggregates import count, max_, mean
from flinkpy.datastream.connectors.file_system import FileSource

NAMES = ["auction", "bidder", "price", "channel", "ts"]


def keep_nothing(batch):
    return pa.array(np.zeros(batch.num_rows, dtype=bool))


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("path")
    parser.add_argument("--parallelism", type=int, default=2)
    parser.add_argument("--runs", type=int, default=1)
    options = parser.parse_args()
    schema = Types.ROW_NAMED(NAMES, [Types.LONG()] * len(NAMES))
    env = StreamExecutionEnvironment.get_execution_environment()
    env.set_parallelism(options.parallelism)
    for _ in range(options.runs):
        source = FileSource.for_csv(options.path, schema=schema, header=False)
        bids = env.from_source(source, WatermarkStrategy.no_watermarks(), "bids")
        result = bids.key_by("auction").aggregate(n=count(), m=max_("price"), a=mean("price"))
        result.filter_batches(keep_nothing).print()
        begin = time.perf_counter()
        env.execute("contention")
        print(json.dumps({"seconds": time.perf_counter() - begin}), flush=True)


if __name__ == "__main__":
    main()
