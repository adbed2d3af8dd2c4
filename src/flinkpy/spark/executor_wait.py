"""ExecutorWait: notices that a region waits for Spark's executors, and says so in the log now and then. Pure."""

from __future__ import annotations

from dataclasses import dataclass

#: A wait that is shorter than this is part of an ordinary start.
_FIRST_S = 5.0
#: The pause between two log lines doubles up to this.
_LONGEST_PAUSE_S = 600.0


@dataclass(slots=True)
class ExecutorWait:
    """The wait of one region. Times are in seconds of one clock.

    Attributes:
        since_s: the time when the wait began; None if the region does not wait.
    """

    since_s: float | None = None
    _next_line_s: float = 0.0
    _pause_s: float = _FIRST_S

    def update(self, now_s: float, num_executors: int | None, num_open_tasks: int) -> str:
        """Takes the state of the session and the region. Returns the line to log; empty if there is none.

        Args:
            num_executors: the executors of the session; None if the master has none of its own.
            num_open_tasks: the tasks of the region's stages that have begun and are not done.
        """
        if num_executors != 0 or not num_open_tasks:
            line = ""
            if self.since_s is not None and self._pause_s > _FIRST_S and num_executors:
                line = f"got executors after {now_s - self.since_s:.0f} s"
            self.since_s, self._pause_s = None, _FIRST_S
            return line
        if self.since_s is None:
            self.since_s = now_s
            self._next_line_s = now_s + self._pause_s
        if now_s < self._next_line_s:
            return ""
        self._pause_s = min(2 * self._pause_s, _LONGEST_PAUSE_S)
        self._next_line_s = now_s + self._pause_s
        return (
            f"has waited {now_s - self.since_s:.0f} s for executors of Spark: the master has accepted the application, "
            f"but has given it no executor yet; {num_open_tasks} tasks wait"
        )

    def waited_ms(self, now_s: float) -> int:
        """Returns for how long the region has waited; 0 if it does not wait."""
        return 0 if self.since_s is None else max(1, round((now_s - self.since_s) * 1000))
