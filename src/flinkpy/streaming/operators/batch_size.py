"""AdaptiveBatchSize: how many records go through the chain at once.

A batch is what the task thread does without looking at its mailbox, and what a record waits for before the next
operator sees it. So the size follows the time the chain takes for a batch: slow user code gets small batches, a column
chain big ones. Readers are told the size, and give no more; what one gives too much waits in the source operator, and
the rest of a batch that comes from another task waits in its channel, where a barrier can overtake it.
"""

from __future__ import annotations

from flinkpy.common.clock import Clock

#: Enough for fixed costs to vanish in column operators; an int64 column of this is 512 KiB, which fits a level-2 cache.
MAX_BATCH_ROWS = 65_536
MIN_BATCH_ROWS = 1
#: First batch: small, so that the first result is early, and the first barrier where a record takes milliseconds.
INITIAL_BATCH_ROWS = 256
#: Too long: a mail (cancel, barrier) should not wait longer than a person or a barrier notices.
MAX_BATCH_TIME_NS = 20_000_000
#: Double below this.
MIN_BATCH_TIME_NS = 8_000_000


class AdaptiveBatchSize:
    """Thread: task thread."""

    __slots__ = ("_clock", "_max_rows", "_started_ns", "rows")

    def __init__(self, clock: Clock) -> None:
        self.rows = INITIAL_BATCH_ROWS
        self._max_rows = MAX_BATCH_ROWS
        self._clock = clock
        self._started_ns = 0

    def limit(self, max_rows: int) -> None:
        """No batch is to have more rows: an operator keeps them, whatever time the chain takes for a batch."""
        self._max_rows = min(self._max_rows, max_rows)
        self.rows = min(self.rows, self._max_rows)

    def begin(self) -> None:
        self._started_ns = self._clock.monotonic_ns()

    def end(self, rows: int) -> None:
        """A batch of `rows` has passed through the chain since `begin`."""
        took_ns = self._clock.monotonic_ns() - self._started_ns
        if took_ns > MAX_BATCH_TIME_NS:
            # At least by half; at once by as much as it took too long, where records are very slow.
            bearable = rows * MAX_BATCH_TIME_NS // took_ns
            self.rows = max(MIN_BATCH_ROWS, min(self.rows // 2, rows // 2, bearable))
        elif took_ns < MIN_BATCH_TIME_NS and rows >= self.rows:
            self.rows = min(self._max_rows, self.rows * 2)
