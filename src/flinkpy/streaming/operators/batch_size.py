"""AdaptiveBatchSize: sets the number of records that go through the operator chain at once.

The task thread does not read its mailbox while it processes a batch. So the batch size follows the cost of a batch:
slow user code gets small batches, and a column chain gets large ones. Readers know the size and should not return more
records. Extra records wait in the source operator. The rest of a batch from another task waits in its channel, where a
barrier can overtake it.

There are two costs. They are measured separately, because only one of them shows what smaller batches would save:

* CPU time of the task thread. It does not depend on the load of the machine.
* Waiting: time in which the thread did not run. The records may cause it (user code that sleeps or calls another
  service), and then smaller batches wait less. Or something else causes it (the thread was preempted, a CPU quota
  stopped it, other threads held the interpreter lock, a function makes one remote call per batch), and then smaller
  batches only add costs. The two cannot be told apart by measuring. So a smaller size is tried, and undone if it did
  not help.

See decision 0024.
"""

from __future__ import annotations

from flinkpy.common.clock import Clock

#: Large enough to hide fixed costs in column operators. An int64 column of this size is 512 KiB and fits an L2 cache.
MAX_BATCH_ROWS = 65_536
MIN_BATCH_ROWS = 1
#: The first batch is small, so that the first result comes early, and so does the first barrier if records are slow.
INITIAL_BATCH_ROWS = 256
#: The size grows while a batch takes less CPU time than this ...
ENOUGH_CPU_NS = 8_000_000
#: ... or less than this many times its fixed cost, so that fixed costs are at most a tenth ...
FIXED_COSTS = 10
#: ... but not beyond this CPU time.
MAX_ENOUGH_CPU_NS = 40_000_000
#: The size shrinks if a batch takes this many times as long: 20 ms of CPU time, or up to 100 ms if the fixed cost is
#: high. A mail (a cancellation, a barrier) waits for one batch. The factor is above 2, so that a size that was just
#: doubled is not too large.
TOO_MUCH = 2.5
#: The maximum growth in one step. One slow batch (an import, a compilation, a table that grows) may reduce the size by
#: any factor. A few steps make up for it.
MAX_GROWTH = 8
#: The size grows while a batch waits less than this, and shrinks if it waits TOO_MUCH times that. 100 ms is the period
#: of CPU quotas, and a quota may stop a thread for most of it.
ENOUGH_WAIT_NS = 40_000_000
#: A smaller batch has not helped if it waits longer than this many times its share of the previous waiting.
HELPS_BELOW = 1.5
#: After this many single records that wait too long, a batch of two is tried, to see if the records cause the waiting.
#: If they do, the number of records until the next try doubles.
FIRST_PROBE = 8
MAX_PROBE = 1_024


class AdaptiveBatchSize:
    """Measures batches and adapts their size. Thread: task thread.

    Attributes:
        rows: the maximum number of records of the next batch.
    """

    __slots__ = (
        "_clock",
        "_fixed_cpu_ns",
        "_fixed_wait_ns",
        "_is_fixed",
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
        self._is_fixed = False
        self._clock = clock
        self._started_ns = 0
        self._started_cpu_ns = 0
        #: The estimated fixed cost of a batch: the CPU time that does not depend on its size.
        self._fixed_cpu_ns = 0
        #: The size and CPU time of the batch that the last estimate was made from.
        self._seen_rows = 0
        self._seen_cpu_ns = 0
        #: The waiting that smaller batches do not shorten, as measured by the last trial; 0 if there is none.
        self._fixed_wait_ns = 0
        #: The size and waiting of the batch that waited too long, while a smaller one is tried; 0 if none is tried.
        self._trial_rows = 0
        self._trial_wait_ns = 0
        #: The number of single records that have waited too long since the last probe, and the number at which the next
        #: probe starts.
        self._single_records = 0
        self._probe_after = FIRST_PROBE

    def limit(self, max_rows: int) -> None:
        """Limits the size, for an operator that keeps the records of a batch."""
        self._max_rows = min(self._max_rows, max_rows)
        self.rows = min(self.rows, self._max_rows)

    def fix(self, rows: int) -> None:
        """Sets a size that does not change any more, for tasks whose batches have to be the same in every attempt."""
        self._is_fixed = True
        self.rows = min(rows, self._max_rows)

    def begin(self) -> None:
        self._started_ns = self._clock.monotonic_ns()
        self._started_cpu_ns = self._clock.thread_time_ns()

    def end(self, rows: int) -> None:
        """Adapts the size after a batch of `rows` records has passed through the chain since `begin`."""
        if self._is_fixed:
            return
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
            # Shrink at least by half. If records are very slow, shrink in one step by the factor of the excess.
            self.rows = max(MIN_BATCH_ROWS, min(self.rows // 2, rows // 2, int(rows * TOO_MUCH / load)))
        elif rows >= self.rows:
            self._grow(load)

    def _grow(self, load: float) -> None:
        """Grows the size by 2, 4 or 8, as far as the load stays acceptable if the whole cost grows with the rows."""
        factor = 1
        while factor < MAX_GROWTH and factor * load < 1:
            factor *= 2
        self.rows = min(self._max_rows, self.rows * factor)

    def _probe(self) -> None:
        """Tries a larger batch now and then, because no smaller one exists. If it waits too long, a trial follows."""
        self._single_records += 1
        if self._single_records >= self._probe_after:
            self._single_records = 0
            self._probe_after = min(2 * self._probe_after, MAX_PROBE)
            self.rows = min(self._max_rows, 2 * MIN_BATCH_ROWS)

    def _end_trial(self, rows: int, wait_ns: int) -> None:
        """Keeps the smaller size if the waiting shrank about in proportion to the rows, else restores the old size."""
        trial_rows, trial_wait_ns = self._trial_rows, self._trial_wait_ns
        self._trial_rows = 0
        is_too_long = wait_ns > TOO_MUCH * ENOUGH_WAIT_NS
        if is_too_long and wait_ns > HELPS_BELOW * trial_wait_ns * rows / trial_rows:
            self._fixed_wait_ns += wait_ns
            self._probe_after = FIRST_PROBE
            self.rows = min(self._max_rows, trial_rows)

    def _estimate_fixed_cpu(self, rows: int, cpu_ns: int) -> None:
        """Updates the estimate: the line through this batch and the previous one, at zero rows. Averages out noise."""
        if self._seen_rows:
            crossing_ns = (self._seen_cpu_ns * rows - cpu_ns * self._seen_rows) // (rows - self._seen_rows)
            fixed_ns = max(0, min(crossing_ns, cpu_ns, self._seen_cpu_ns))
            self._fixed_cpu_ns += (fixed_ns - self._fixed_cpu_ns) // 2
        self._seen_rows, self._seen_cpu_ns = rows, cpu_ns
