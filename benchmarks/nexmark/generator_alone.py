"""nexmark-generator: q0, from the generator to the blackhole, beside the generator alone.

Also a program: `python -m benchmarks.nexmark.generator_alone EVENTS INDEX COUNT` generates its share of the events of
q0's columns, and prints the seconds as JSON.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time

from benchmarks.nexmark.here import run_here
from benchmarks.nexmark.run import PARALLELISM, TIMEOUT_S, measured_programs, rates_between
from benchmarks.nexmark.statements import BASE_TIME_MS, Input
from benchmarks.peers import ROOT
from benchmarks.result import Result

_EVENTS = 8_000_000
_RATE = 100_000
_BAR = 0.5
_BATCH_ROWS = 65_536
_SMALL_SHARE = 4


def run() -> list[Result]:
    """Both at the same parallelism, in processes of their own, between two sizes so that their starts cancel out."""
    given = Input(_EVENTS, _RATE)
    told = run_here(measured_programs(["q0"], given), {}, PARALLELISM, TIMEOUT_S)
    ours = rates_between("q0", given, told)
    small, large = _generate_s(_EVENTS // _SMALL_SHARE), _generate_s(_EVENTS)
    alone = (_EVENTS - _EVENTS // _SMALL_SHARE) / 1e6 / (large - small)
    return [Result("nexmark q0", ours.rate, alone, "M events/s", "its generator", ours.rate / alone, _BAR, ours.error)]


def _generate_s(events: int) -> float:
    """Returns the seconds of the slowest of the generators, which run side by side."""
    command = [sys.executable, "-m", "benchmarks.nexmark.generator_alone", str(events)]
    processes = [
        subprocess.Popen([*command, str(index), str(PARALLELISM)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
        for index in range(PARALLELISM)
    ]
    outputs = [process.communicate()[0] for process in processes]
    return max(json.loads(output)["seconds"] for output in outputs)


def _generate(events: int, index: int, count: int) -> float:
    """Returns the seconds of one generator for the columns of q0's plan.

    The watermark is that of all events, so that the times of persons and auctions are read, too.
    """
    from flinkpy.connectors.nexmark import NexmarkOptions, NexmarkSource
    from flinkpy.connectors.nexmark.generator import FIRST_NUMBER, EventGenerator, Timeline

    options = NexmarkOptions(num_events=events, first_event_rate=_RATE, base_time_ms=BASE_TIME_MS)
    bid = [("bid", name) for name in ("auction", "bidder", "price", "dateTime", "extra")]
    source = NexmarkSource(options).with_fields(
        [("event_type",), ("person", "dateTime"), ("auction", "dateTime"), *bid]
    )
    split = source.split_list(count)[index]
    timeline = Timeline(split.first_event_id, split.generators, split.base_time_ms)
    generator = EventGenerator(options, timeline, source.paths, source.event_types, source.names)
    step = generator.events_for(_BATCH_ROWS)
    begin = time.perf_counter()
    for number in range(0, split.max_events, step):
        generator.batch(FIRST_NUMBER + number, min(step, split.max_events - number))
    return time.perf_counter() - begin


def main() -> None:
    events, index, count = map(int, sys.argv[1:])
    print(json.dumps({"seconds": _generate(events, index, count)}))


if __name__ == "__main__":
    main()
