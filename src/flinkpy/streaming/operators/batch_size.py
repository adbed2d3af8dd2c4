"""AdaptiveBatchSize: how many records go through the operator chain at once.

The task thread does not look at its mailbox while it processes a batch. So the size follows what a batch costs: slow
user code gets small batches, a column chain gets large ones. Readers are told the size and give no more. What a reader
gives beyond it waits in the source operator. The rest of a batch that came from another task waits in its channel,
where a barrier can overtake it.

Two costs count. They are kept apart, because only one of them says what smaller batches would save:

* CPU time of the task thread. It does not depend on what else the machine runs.
* Waiting: time that passed without the thread running. It is either in the records (user code that sleeps or asks
  another service), and then smaller batches wait less. Or it is not (the thread was preempted, a CPU quota stopped it,
  other threads had the interpreter lock, a function makes one remote call per batch), and then smaller batches only add
  costs. Nobody tells the two apart, so the size is reduced on trial, and what did not help is undone.

See decision 0024.
"""

from __future__ import annotations

from flinkpy.common.clock import Clock

#: Enough for fixed costs to vanish in column operators; an int64 column of this is 512 KiB, which fits a level-2 cache.
MAX_BATCH_ROWS = 65_536
MIN_BATCH_ROWS = 1
#: First batch: small, so that the first result is early, and the first barrier where a record takes milliseconds.
INITIAL_BATCH_ROWS = 256
#: The size grows while a batch takes less CPU time than this ...
ENOUGH_CPU_NS = 8_000_000
#: ... or less than this many times its fixed cost, so that fixed costs are a tenth at most ...
FIXED_COSTS = 10
#: ... but no longer than to this.
MAX_ENOUGH_CPU_NS = 40_000_000
#: The size shrinks beyond this many times that: 20 ms of CPU time, or up to 100 ms where the fixed cost is high. A mail
#: (a cancellation, a barrier) waits for one batch. More than twice, so that a size that has doubled is not too large.
TOO_MUCH = 2.5
#: Growth of one step. One slow batch (an import, a compilation, a table that grows) may reduce the size by any factor;
#: a handful of steps makes up for it.
MAX_GROWTH = 8
#: The size grows while a batch waits less than this, and shrinks when one waits TOO_MUCH times that: 100 ms, the period
#: of CPU quotas, for most of which a thread may be stopped.
ENOUGH_WAIT_NS = 40_000_000
#: A smaller batch that waits longer than this many times its share of the waiting has not helped.
HELPS_BELOW = 1.5
#: After so many single records that wait too long, two are tried, to see whether the waiting is in the records. Each
#: time it is, twice as many records pass until the next try.
FIRST_PROBE = 8
MAX_PROBE = 1_024


class AdaptiveBatchSize:
    """Thread: task thread.

    Attributes:
        rows: how many records the next batch should have at most.
    """

    __slots__ = (
        "_clock",
        "_fixed_cpu_ns",
        "_fixed_wait_ns",
        "_max_rows",
        "_probe_after",
        "_seen_cpu_ns",
        "_seen_rows",
        "_single_records",
        "_started_cpu_ns",
        "_started_ns",
        "_trial_rows",
        "_trial_wait_ns",
        "rows",
    )

    def __init__(self, clock: Clock) -> None:
        self.rows = INITIAL_BATCH_ROWS
        self._max_rows = MAX_BATCH_ROWS
        self._clock = clock
        self._started_ns = 0
        self._started_cpu_ns = 0
        #: Estimate of the CPU time that a batch costs whatever its size.
        self._fixed_cpu_ns = 0
        #: The batch that the estimate was last made from.
        self._seen_rows = 0
        self._seen_cpu_ns = 0
        #: Waiting that a smaller batch does not shorten, as the last trial has shown; 0 where none has.
        self._fixed_wait_ns = 0
        #: The batch that waited too long, while a smaller one is on trial; 0 where none is.
        self._trial_rows = 0
        self._trial_wait_ns = 0
        #: Single records that waited too long since the last probe, and how many make the next one.
        self._single_records = 0
        self._probe_after = FIRST_PROBE

    def limit(self, max_rows: int) -> None:
        """Have no batch with more rows, whatever it costs: an operator keeps them."""
        self._max_rows = min(self._max_rows, max_rows)
        self.rows = min(self.rows, self._max_rows)

    def begin(self) -> None:
        self._started_ns = self._clock.monotonic_ns()
        self._started_cpu_ns = self._clock.thread_time_ns()

    def end(self, rows: int) -> None:
        """Take note that a batch of `rows` has passed through the chain since `begin`."""
        cpu_ns = self._clock.thread_time_ns() - self._started_cpu_ns
        wait_ns = self._clock.monotonic_ns() - self._started_ns - cpu_ns
        if self._seen_rows >= 2 * rows or rows >= 2 * self._seen_rows:
            self._estimate_fixed_cpu(rows, cpu_ns)
        if self._fixed_wait_ns:
            self._fixed_wait_ns = max(0, min(self._fixed_wait_ns, wait_ns))
            wait_ns -= self._fixed_wait_ns
        if self._trial_rows and rows < self._trial_rows:
            self._end_trial(rows, wait_ns)
            return
        enough_cpu_ns = min(max(ENOUGH_CPU_NS, FIXED_COSTS * self._fixed_cpu_ns), MAX_ENOUGH_CPU_NS)
        load = max(cpu_ns / enough_cpu_ns, wait_ns / ENOUGH_WAIT_NS)
        if load > TOO_MUCH:
            if cpu_ns <= TOO_MUCH * enough_cpu_ns:
                if self.rows == MIN_BATCH_ROWS:
                    self._probe()
                    return
                self._trial_rows, self._trial_wait_ns = rows, wait_ns
            # At least by half; at once by as much as it took too long, where records are very slow.
            self.rows = max(MIN_BATCH_ROWS, min(self.rows // 2, rows // 2, int(rows * TOO_MUCH / load)))
        elif rows >= self.rows:
            self._grow(load)

    def _grow(self, load: float) -> None:
        """Twice, four or eight times as many rows, as long as that is not too much if all the cost is in the rows."""
        factor = 1
        while factor < MAX_GROWTH and factor * load < 1:
            factor *= 2
        self.rows = min(self._max_rows, self.rows * factor)

    def _probe(self) -> None:
        """No smaller batch can be tried, so a larger one is, now and then. If it waits too long, a trial follows."""
        self._single_records += 1
        if self._single_records >= self._probe_after:
            self._single_records = 0
            self._probe_after = min(2 * self._probe_after, MAX_PROBE)
            self.rows = min(self._max_rows, 2 * MIN_BATCH_ROWS)

    def _end_trial(self, rows: int, wait_ns: int) -> None:
        """Keep the smaller size where it waits about as much less as it has fewer rows, else go back."""
        trial_rows, trial_wait_ns = self._trial_rows, self._trial_wait_ns
        self._trial_rows = 0
        is_too_long = wait_ns > TOO_MUCH * ENOUGH_WAIT_NS
        if is_too_long and wait_ns > HELPS_BELOW * trial_wait_ns * rows / trial_rows:
            self._fixed_wait_ns += wait_ns
            self._probe_after = FIRST_PROBE
            self.rows = min(self._max_rows, trial_rows)

    def _estimate_fixed_cpu(self, rows: int, cpu_ns: int) -> None:
        """Where the line through this batch and the one seen before crosses zero rows; averaged, for both are noisy."""
        if self._seen_rows:
            crossing_ns = (self._seen_cpu_ns * rows - cpu_ns * self._seen_rows) // (rows - self._seen_rows)
            fixed_ns = max(0, min(crossing_ns, cpu_ns, self._seen_cpu_ns))
            self._fixed_cpu_ns += (fixed_ns - self._fixed_cpu_ns) // 2
        self._seen_rows, self._seen_cpu_ns = rows, cpu_ns
