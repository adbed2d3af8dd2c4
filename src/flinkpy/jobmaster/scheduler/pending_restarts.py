"""PendingRestarts: tasks that failed or were cancelled for a failure, and when they start again.

Source: org.apache.flink.runtime.scheduler.{DefaultScheduler,ExecutionVertexVersioner}: a newer restart of a task makes
the older one void for that task.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from flinkpy.common.ids import ExecutionVertexID


@dataclass(slots=True)
class _PendingRestart:
    vertex_ids: frozenset[ExecutionVertexID]
    due_ms: int


class PendingRestarts:
    """Invariant: a task is in one restart at most, and no restart is empty."""

    def __init__(self) -> None:
        self._restarts: list[_PendingRestart] = []

    def add(self, vertex_ids: frozenset[ExecutionVertexID], due_ms: int) -> None:
        for restart in self._restarts:
            restart.vertex_ids -= vertex_ids
        self._restarts = [restart for restart in self._restarts if restart.vertex_ids]
        self._restarts.append(_PendingRestart(vertex_ids, due_ms))

    def take_ready(
        self, now_ms: int, is_terminal: Callable[[ExecutionVertexID], bool]
    ) -> list[frozenset[ExecutionVertexID]]:
        """Remove and return the restarts that are due and all of whose tasks are terminal."""
        ready = [
            restart
            for restart in self._restarts
            if restart.due_ms <= now_ms and all(is_terminal(vertex_id) for vertex_id in restart.vertex_ids)
        ]
        self._restarts = [restart for restart in self._restarts if restart not in ready]
        return [restart.vertex_ids for restart in ready]

    def next_due_ms(self, now_ms: int) -> int | None:
        """When the next restart falls due after now; one that is due already waits for its tasks only."""
        return min((restart.due_ms for restart in self._restarts if restart.due_ms > now_ms), default=None)

    def has(self, vertex_id: ExecutionVertexID) -> bool:
        return any(vertex_id in restart.vertex_ids for restart in self._restarts)

    def clear(self) -> None:
        self._restarts.clear()

    def __bool__(self) -> bool:
        return bool(self._restarts)
