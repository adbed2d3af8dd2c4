"""CoordinatorCalls: calls of a CheckpointCoordinator that a test prepares and makes later."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from flinkpy.checkpoint.coordinator.checkpoint_coordinator import CheckpointCoordinator


class CoordinatorCalls:
    """`call.location_made(1, location)` returns a function of the coordinator and the time that makes this call."""

    def __getattr__(self, name: str) -> Callable[..., Callable[[CheckpointCoordinator, int], list[Any]]]:
        method = getattr(CheckpointCoordinator, name)

        def prepared(*args: Any, **kwargs: Any) -> Callable[[CheckpointCoordinator, int], list[Any]]:
            return lambda coordinator, now_ms: method(coordinator, now_ms, *args, **kwargs)

        return prepared


call = CoordinatorCalls()
