"""Records of a kilobyte, rebalanced to a slow map, so that every queue is full; prints how long checkpoints took."""

from __future__ import annotations

import argparse
import json
import time

from flinkpy.common import Configuration, Types, WatermarkStrategy
from flinkpy.datastream import MapFunction, StreamExecutionEnvironment
from flinkpy.datastream.connectors import DiscardingSink
from flinkpy.datastream.connectors.number_seq import NumberSequenceSource

#: The map is so slow that a full queue lasts for many checkpoint intervals.
SECONDS_PER_RECORD = 0.0002


class Slow(MapFunction):
    def map(self, value):
        end = time.perf_counter() + SECONDS_PER_RECORD
        while time.perf_counter() < end:
            time.sleep(SECONDS_PER_RECORD / 4)
        return value


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--mode", choices=["aligned", "unaligned"], required=True)
    parser.add_argument("--directory", required=True)
    parser.add_argument("--checkpoints", type=int, default=10)
    options = parser.parse_args()
    configuration = Configuration()
    configuration.set_string("execution.checkpointing.interval", "200 ms")
    configuration.set_string("execution.checkpointing.dir", options.directory)
    configuration.set_string("execution.checkpointing.unaligned.enabled", str(options.mode == "unaligned").lower())
    configuration.set_string("web.checkpoints.history", "100")
    env = StreamExecutionEnvironment.get_execution_environment(configuration)
    env.set_parallelism(2)
    source = NumberSequenceSource(1, 1 << 40)
    numbers = env.from_source(source, WatermarkStrategy.no_watermarks(), "numbers", Types.LONG())
    records = numbers.map(lambda number: f"{number:01000d}", Types.STRING())
    records.rebalance().map(Slow(), Types.STRING()).sink_to(DiscardingSink())
    client = env.execute_async(f"{options.mode} checkpoints under back-pressure")
    time.sleep(3)  # until the queues are full; the first checkpoints do not count
    skipped = client.get_checkpoint_statistics().result().num_completed
    while True:
        statistics = client.get_checkpoint_statistics().result()
        if statistics.num_completed >= skipped + options.checkpoints:
            break
        time.sleep(0.2)
    client.cancel().result()
    done = [entry for entry in statistics.history if entry.status == "COMPLETED"][: options.checkpoints]
    print(json.dumps({"durations_ms": [entry.end_timestamp_ms - entry.trigger_timestamp_ms for entry in done]}))


if __name__ == "__main__":
    main()
