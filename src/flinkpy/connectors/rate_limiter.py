"""How fast a source may emit: so many records per second, or per checkpoint.

Source: org.apache.flink.api.connector.source.util.ratelimit.{RateLimiterStrategy,GuavaRateLimiter,GatedRateLimiter}.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

_NS = 1_000_000_000

#: Unused permits of so long a time may be used at once.
_BURST_NS = _NS

#: Records are let through in groups of so long a time where there are many: one at a time would cost too much.
_GROUP_NS = 10_000_000


class RateLimiter(ABC):
    """Of one reader. Thread: task thread."""

    @abstractmethod
    def available(self) -> int:
        """How many records may be emitted now."""

    @abstractmethod
    def take(self, records: int) -> None:
        """They are emitted."""

    def wait_ns(self) -> int | None:
        """How long until more may be, when none may now; None: not before `notify_checkpoint_complete`."""
        return None

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        return


class RateLimiterStrategy(ABC):
    """Pickled with the source; makes the limiter of each reader."""

    @abstractmethod
    def create_rate_limiter(self, parallelism: int, monotonic_ns: Callable[[], int]) -> RateLimiter | None:
        """None: there is no limit."""

    @staticmethod
    def per_second(records_per_second: float) -> RateLimiterStrategy:
        """Of all readers together; each gets an equal share."""
        if isinstance(records_per_second, bool) or not records_per_second > 0:
            raise ValueError(f"records_per_second must be positive, not {records_per_second!r}")
        return _PerSecond(records_per_second)

    @staticmethod
    def per_checkpoint(records_per_checkpoint: int) -> RateLimiterStrategy:
        """So many between two checkpoints, of all readers together: at least one for each of them."""
        if isinstance(records_per_checkpoint, bool) or not isinstance(records_per_checkpoint, int):
            raise TypeError(f"records_per_checkpoint must be an int, not {records_per_checkpoint!r}")
        if records_per_checkpoint <= 0:
            raise ValueError(f"records_per_checkpoint must be positive, not {records_per_checkpoint}")
        return _PerCheckpoint(records_per_checkpoint)

    @staticmethod
    def no_op() -> RateLimiterStrategy:
        return _NoLimit()


class _NoLimit(RateLimiterStrategy):
    def create_rate_limiter(self, parallelism: int, monotonic_ns: Callable[[], int]) -> RateLimiter | None:
        return None


class _PerSecond(RateLimiterStrategy):
    def __init__(self, records_per_second: float) -> None:
        self._records_per_second = records_per_second

    def create_rate_limiter(self, parallelism: int, monotonic_ns: Callable[[], int]) -> RateLimiter:
        return _SmoothLimiter(self._records_per_second / parallelism, monotonic_ns)


class _PerCheckpoint(RateLimiterStrategy):
    def __init__(self, records_per_checkpoint: int) -> None:
        self._records_per_checkpoint = records_per_checkpoint

    def create_rate_limiter(self, parallelism: int, monotonic_ns: Callable[[], int]) -> RateLimiter:
        share = self._records_per_checkpoint // parallelism
        if not share:
            raise ValueError(
                f"records_per_checkpoint={self._records_per_checkpoint} has to be greater than or equal to the "
                f"parallelism, which is {parallelism}"
            )
        return _GatedLimiter(share)


class _SmoothLimiter(RateLimiter):
    """Permits come evenly; one is there at the start."""

    def __init__(self, per_second: float, monotonic_ns: Callable[[], int]) -> None:
        self._per_ns = per_second / _NS
        self._monotonic_ns = monotonic_ns
        self._updated_ns = monotonic_ns()
        self._permits = 1.0
        self._most = max(1.0, _BURST_NS * self._per_ns)

    def available(self) -> int:
        now_ns = self._monotonic_ns()
        self._permits = min(self._most, self._permits + (now_ns - self._updated_ns) * self._per_ns)
        self._updated_ns = now_ns
        return int(self._permits)

    def take(self, records: int) -> None:
        self._permits -= records

    def wait_ns(self) -> int:
        return max(int((1 - self._permits) / self._per_ns) + 1, _GROUP_NS)


class _GatedLimiter(RateLimiter):
    """A share until the next checkpoint is complete."""

    def __init__(self, share: int) -> None:
        self._share = share
        self._left = share

    def available(self) -> int:
        return self._left

    def take(self, records: int) -> None:
        self._left -= records

    def notify_checkpoint_complete(self, checkpoint_id: int) -> None:
        self._left = self._share
