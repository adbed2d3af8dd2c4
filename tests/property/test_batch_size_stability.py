"""For any cost of a task and load of the machine, its batch size has one stable state.

The machine is simulated. A batch costs the thread a fixed CPU time and one per record, records and batches may wait,
and other threads take CPU time away, evenly or in long stalls.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field

from hypothesis import given, settings
from hypothesis import strategies as st

from flinkpy.streaming.operators.batch_size import MAX_BATCH_ROWS, AdaptiveBatchSize

US = 1_000
MS = 1_000_000


@dataclass
class Machine:
    """A clock that the simulated work advances."""

    batch_ns: int
    record_ns: int
    batch_wait_ns: int = 0
    record_wait_ns: int = 0
    #: The wall time that passes for each ns of CPU time, because other threads run too.
    slowdown: float = 1.0
    #: The number of stalls of the thread per second of CPU time, and their duration.
    stops_per_s: float = 0.0
    stop_ns: int = 0
    random: random.Random = field(default_factory=lambda: random.Random(1))
    now_ns: int = 0
    cpu_ns: int = 0

    def monotonic_ns(self) -> int:
        return self.now_ns

    def thread_time_ns(self) -> int:
        return self.cpu_ns

    def now_ms(self) -> int:
        return self.now_ns // MS

    def monotonic_ms(self) -> int:
        return self.now_ns // MS

    def process(self, size: AdaptiveBatchSize, rows: int) -> None:
        size.begin()
        cpu_ns = round((self.batch_ns + rows * self.record_ns) * self.random.uniform(0.9, 1.2))
        self.cpu_ns += cpu_ns
        self.now_ns += round(cpu_ns * self.slowdown) + self.batch_wait_ns + rows * self.record_wait_ns
        if self.random.random() < 1 - 2.718 ** (-self.stops_per_s * cpu_ns / 1e9):
            self.now_ns += self.stop_ns
        size.end(rows)


def run(machine: Machine, start_rows: int, batches: int) -> list[int]:
    """Returns the sizes of `batches` full batches."""
    size = AdaptiveBatchSize(machine)
    size.rows = start_rows
    sizes = []
    for _ in range(batches):
        sizes.append(size.rows)
        machine.process(size, size.rows)
    return sizes


def fixed_share(machine: Machine, sizes: list[int]) -> float:
    """Returns the share of the CPU time that is not spent on records."""
    fixed_ns = len(sizes) * machine.batch_ns
    return fixed_ns / (fixed_ns + sum(sizes) * machine.record_ns)


starts = st.integers(1, MAX_BATCH_ROWS)
seeds = st.integers(0, 1_000).map(random.Random)
#: The cost of passing an empty batch through a chain.
fixed_costs = st.integers(20 * US, 3 * MS)
#: The cost of a record: from a number in a column to a regular expression.
record_costs = st.integers(20, 100 * US)


@given(starts, fixed_costs, record_costs, st.floats(1, 10), st.floats(0, 20), st.integers(0, 95 * MS), seeds)
def test_fixed_costs_stay_small_from_any_start_and_under_any_load(
    start: int, batch_ns: int, record_ns: int, slowdown: float, stops_per_s: float, stop_ns: int, seed: random.Random
) -> None:
    """The load is ten runnable threads per core, or a quota that stops the thread for most of each period."""
    machine = Machine(batch_ns, record_ns, slowdown=slowdown, stops_per_s=stops_per_s, stop_ns=stop_ns, random=seed)

    later = run(machine, start, 150)[50:]

    best = fixed_share(machine, [MAX_BATCH_ROWS])
    assert fixed_share(machine, later) <= max(0.2, 1.1 * best)


@given(fixed_costs, record_costs, st.floats(1, 10))
def test_the_size_reached_does_not_depend_on_the_start(batch_ns: int, record_ns: int, slowdown: float) -> None:
    ends = [run(Machine(batch_ns, record_ns, slowdown=slowdown), start, 80)[-1] for start in (1, 300, MAX_BATCH_ROWS)]

    assert max(ends) <= 8 * min(ends)


@given(starts, fixed_costs, record_costs, st.floats(1, 10), seeds)
def test_a_batch_takes_a_tenth_of_a_second_of_cpu_time_at_most(
    start: int, batch_ns: int, record_ns: int, slowdown: float, seed: random.Random
) -> None:
    machine = Machine(batch_ns, record_ns, slowdown=slowdown, random=seed)

    later = run(machine, start, 80)[30:]

    assert all((batch_ns + rows * record_ns) <= 1.2 * 100 * MS for rows in later)


@given(starts, st.integers(20 * US, MS), st.integers(20, 20 * US), st.integers(100 * US, 3_000 * MS), seeds)
@settings(max_examples=200)
def test_slow_records_get_short_batches_soon_from_any_start(
    start: int, batch_ns: int, record_ns: int, record_wait_ns: int, seed: random.Random
) -> None:
    machine = Machine(batch_ns, record_ns, record_wait_ns=record_wait_ns, random=seed)

    later = run(machine, start, 20)[4:]

    assert all(rows <= 2 or rows * record_wait_ns <= 1.1 * 100 * MS for rows in later)


@given(starts, st.integers(20 * US, MS), st.integers(20, 20 * US), st.integers(110 * MS, 3_000 * MS), seeds)
def test_waiting_once_per_batch_does_not_make_batches_small(
    start: int, batch_ns: int, record_ns: int, batch_wait_ns: int, seed: random.Random
) -> None:
    """For example, the function calls a model on another machine once per batch."""
    machine = Machine(batch_ns, record_ns, batch_wait_ns=batch_wait_ns, random=seed)

    later = run(machine, start, 80)[40:]

    assert all(rows * record_ns >= 3 * MS or rows >= MAX_BATCH_ROWS / 2 for rows in later)
