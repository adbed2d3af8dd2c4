"""DeadlineTimer: one timer, always at the next deadline of a machine that has no clock. Thread: main thread."""

from __future__ import annotations

from collections.abc import Callable

from flinkpy.rpc.endpoint import RpcEndpoint, TimerHandle


class DeadlineTimer:
    def __init__(self, endpoint: RpcEndpoint, on_passed: Callable[[], None]) -> None:
        self._endpoint = endpoint
        self._on_passed = on_passed
        self._timer: TimerHandle | None = None
        self._deadline_ms: int | None = None

    def arm(self, deadline_ms: int | None, now_ms: int) -> None:
        """The next deadline is this one; None: there is none."""
        if deadline_ms == self._deadline_ms:
            return
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self._deadline_ms = deadline_ms
        if deadline_ms is not None:
            self._timer = self._endpoint.schedule(max(0, deadline_ms - now_ms), self._passed)

    def _passed(self) -> None:
        self._timer = None
        self._deadline_ms = None
        self._on_passed()
