"""CommittedReader: reads the committed output of a running job, as a consumer would."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

MIN_PAUSE_S = 0.05
#: The ratio of pauses to reading time, which leaves CPU time to the job.
READING_SHARE = 10


class CommittedReader:
    """A thread that reads the output repeatedly, and checks that records never disappear and are all expected.

    It is a context manager. Its end stops the thread, reads once more and raises the problems found.

    Args:
        may_repeat: expected records may occur more often than expected.
    """

    def __init__(self, read: Callable[[], Iterable[Any]], expected: Counter[Any], *, may_repeat: bool = False) -> None:
        self._may_repeat = may_repeat
        self._read = read
        self._expected = expected
        self._seen: Counter[Any] = Counter()
        self._wrong: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="committed-reader", daemon=True)

    @property
    def num_seen(self) -> int:
        return self._seen.total()

    def _run(self) -> None:
        pause_s = MIN_PAUSE_S
        while self._wrong is None and not self._stop.wait(pause_s):
            begun_s = time.monotonic()
            self._check()
            pause_s = max(MIN_PAUSE_S, READING_SHARE * (time.monotonic() - begun_s))

    def _check(self) -> None:
        now = Counter(self._read())
        unexpected = now - self._expected
        if self._may_repeat:
            unexpected = Counter({record: count for record, count in now.items() if record not in self._expected})
        gone = self._seen - now
        if unexpected:
            self._wrong = f"committed and not expected (or twice): {unexpected.most_common(5)}"
        elif gone:
            self._wrong = f"was committed and has gone: {gone.most_common(5)}"
        self._seen = now

    def __enter__(self) -> CommittedReader:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._stop.set()
        self._thread.join()
        if self._wrong is None:
            self._check()
        assert self._wrong is None, self._wrong

    def assert_complete(self) -> None:
        """Checks after the end of the job and of the reader thread that exactly the expected output is committed."""
        missing = self._expected - self._seen
        assert not missing, (
            f"{missing.total()} of {self._expected.total()} records are missing: {missing.most_common(5)}"
        )
