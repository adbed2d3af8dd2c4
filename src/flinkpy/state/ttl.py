"""Time-to-live: what the value, list element or map value of a state looks like with it, and when it has expired.

Each is stored as `(value, time of last access in ms)`, so that it is the same in every backend and in a snapshot.

Source: org.apache.flink.runtime.state.ttl.{TtlUtils,TtlIncrementalCleanup,TtlStateSnapshotTransformer}.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

from flinkpy.state.meta_info import LIST, MAP

#: Accesses to a state between two steps of its clean-up.
_ACCESSES = 16

#: `(value, time of last access in ms)`.
Stamped = tuple[Any, int]


class TimeToLive:
    """A StateTtlConfig, resolved. Thread: any.

    Attributes:
        ttl_ms: how long a value lives after its last access.
        updates_on_read: reading renews the life.
        returns_expired: what has expired is seen until it is removed.
    """

    def __init__(self, config: Any, now_ms: Callable[[], int]) -> None:
        self.ttl_ms: int = config.get_ttl().to_milliseconds()
        self.updates_on_read = config.get_update_type().name == "OnReadAndWrite"
        self.returns_expired = config.get_state_visibility().name == "ReturnExpiredIfNotCleanedUp"
        self.now_ms = now_ms
        strategies = config.get_cleanup_strategies()
        #: Snapshots leave out what has expired.
        self.cleans_snapshots: bool = strategies.in_full_snapshot()
        #: (entries looked at per access, also for every record), or None.
        self.incremental: tuple[int, bool] | None = None
        strategy = strategies.get_incremental_cleanup_strategy()
        if strategy is not None:
            self.incremental = (strategy.get_cleanup_size(), strategy.run_cleanup_for_every_record())

    def stamp(self, value: Any) -> Stamped:
        return (value, self.now_ms())

    def is_expired(self, stamped: Stamped) -> bool:
        return stamped[1] + self.ttl_ms <= self.now_ms()

    def is_visible(self, stamped: Stamped) -> bool:
        return self.returns_expired or stamped[1] + self.ttl_ms > self.now_ms()

    def unexpired(self, kind: str, stored: Any, now_ms: int) -> Any | None:
        """What is left of all that a key has in a state of that kind: itself, something new, or None."""
        alive_after = now_ms - self.ttl_ms
        if kind == LIST:
            kept = [element for element in stored if element[1] > alive_after]
            return stored if len(kept) == len(stored) else kept or None
        if kind == MAP:
            entries = {key: element for key, element in stored.items() if element[1] > alive_after}
            return stored if len(entries) == len(stored) else entries or None
        return stored if stored[1] > alive_after else None


class IncrementalCleanup:
    """Goes round the keys of a state a few at a time, and removes what has expired. Thread: task thread.

    After a whole round it rests until the oldest value it has seen expires: nothing else can expire before, because
    whatever was written since is younger.

    Args:
        keys: gives the keys anew, for each round.
        clean: removes what has expired of these keys; returns the oldest time stamp that is left.
    """

    def __init__(
        self,
        ttl: TimeToLive,
        size: int,
        keys: Callable[[], Iterable[Any]],
        clean: Callable[[Sequence[Any]], int],
    ) -> None:
        self._ttl = ttl
        self._size = size
        self._keys = keys
        self._clean = clean
        self._round: list[Any] = []
        self._oldest = 0
        self._accesses = 0

    def on_access(self) -> None:
        """One step for each access, several at a time: that is how often a piece of the keys is worth its overhead."""
        self._accesses += 1
        if self._accesses == _ACCESSES:
            self._accesses = 0
            self.run(_ACCESSES)

    def run(self, times: int) -> None:
        """So many steps: look at `size` keys each, but at most once round."""
        if not self._round:
            now_ms = self._ttl.now_ms()
            if now_ms < self._oldest + self._ttl.ttl_ms:
                return
            self._round = list(self._keys())
            self._oldest = now_ms
        count = self._size * times
        piece = self._round[-count:]
        del self._round[-count:]
        self._oldest = min(self._oldest, self._clean(piece))
