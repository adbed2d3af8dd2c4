"""Blocklist: TaskExecutors where tasks have been slow, and until when they get no attempts of slow tasks.

Source: org.apache.flink.runtime.blocklist.DefaultBlocklistTracker. Differs: a node is a TaskExecutor; several on one
host are slow each by itself. Pure.
"""

from __future__ import annotations

from flinkpy.common.ids import ResourceID


class Blocklist:
    def __init__(self) -> None:
        self._until_ms: dict[ResourceID, int] = {}

    def block(self, resource_id: ResourceID, until_ms: int) -> None:
        """A later end counts."""
        self._until_ms[resource_id] = max(until_ms, self._until_ms.get(resource_id, 0))

    def blocked(self, now_ms: int) -> frozenset[ResourceID]:
        self._until_ms = {resource: until for resource, until in self._until_ms.items() if until > now_ms}
        return frozenset(self._until_ms)
