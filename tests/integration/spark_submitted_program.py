"""A program for `flinkpy spark-submit`: two jobs, with functions, a module, sinks and an accumulator.

Arguments: the directory of the sinks, and optionally a directory where the commit of the second sink waits for a file
`gate`.
"""

import os
import sys
import time
from pathlib import Path

from sent_along import double  # type: ignore[import-not-found]

from flinkpy.common import Encoder, Types
from flinkpy.connector_api.sink import CommitRequest, Committer
from flinkpy.datastream import StreamExecutionEnvironment
from flinkpy.datastream.connectors.file_system import FileSink
from flinkpy.datastream.functions import MapFunction, RuntimeContext


class Doubles(MapFunction):
    def open(self, runtime_context: RuntimeContext) -> None:
        self.seen = runtime_context.get_int_counter("seen")

    def map(self, value: int) -> tuple[int, int]:
        self.seen.add(1)
        return value % 5, double(value)


class GatedCommitter(Committer):
    """Waits for the gate before each commit, and leaves a file with the id of its process."""

    def __init__(self, committer: Committer, directory: str) -> None:
        self._committer = committer
        self._directory = Path(directory)

    def commit(self, requests: list[CommitRequest]) -> None:
        (self._directory / "arrivals" / f"{os.getpid()}-{time.monotonic_ns()}").touch()
        while not (self._directory / "gate").exists():
            time.sleep(0.01)
        self._committer.commit(requests)

    def close(self) -> None:
        self._committer.close()


class GatedSink(FileSink):
    gate_directory = ""

    def create_committer(self) -> Committer:
        return GatedCommitter(super().create_committer(), self.gate_directory)


def main() -> None:
    env = StreamExecutionEnvironment.get_execution_environment()
    sums = env.from_sequence(1, 1000).map(Doubles()).key_by(lambda pair: pair[0]).reduce(add)
    texts = sums.map(lambda pair: f"{pair[0]}:{pair[1]}", Types.STRING())
    for name in ("one", "other"):
        encoder = Encoder.simple_string_encoder()
        sink = FileSink.for_row_format(f"{sys.argv[1]}/{name}", encoder).build()
        if name == "other" and len(sys.argv) > 2:
            sink.__class__, sink.gate_directory = GatedSink, sys.argv[2]
        texts.sink_to(sink).name(name)
    texts.print("printed")
    result = env.execute("sums")
    print("seen", result.get_accumulator_result("seen"))
    print("collected", sorted(env.from_sequence(1, 4).map(lambda value: value * 10).execute_and_collect()))


def add(one: tuple[int, int], other: tuple[int, int]) -> tuple[int, int]:
    return one[0], one[1] + other[1]


if __name__ == "__main__":
    main()
