"""Partitioning: the partitioning of an edge, as the user specified it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

FORWARD = "FORWARD"
HASH = "HASH"
REBALANCE = "REBALANCE"
RESCALE = "RESCALE"
SHUFFLE = "SHUFFLE"
BROADCAST = "BROADCAST"
GLOBAL = "GLOBAL"
CUSTOM = "CUSTOM"

#: A consumer subtask reads from some producer subtasks only. With all other kinds it reads from every one.
POINTWISE_KINDS = frozenset({FORWARD, RESCALE})


@dataclass(frozen=True, slots=True)
class Partitioning:
    """One kind of partitioning. `key_selector` is for HASH and CUSTOM, `function` for CUSTOM."""

    kind: str
    key_selector: Any = None
    key_type: Any = None
    function: Any = None

    @property
    def is_pointwise(self) -> bool:
        return self.kind in POINTWISE_KINDS

    @property
    def user_function(self) -> Any:
        """The user's function or key selector, for error messages; None if there is none."""
        return self.function if self.function is not None else self.key_selector

    def create_partitioner(self) -> Any:
        """Returns the runtime's partitioner, which is pickled into the JobGraph."""
        from flinkpy.network import partitioner as runtime

        if self.kind == HASH:
            return runtime.KeyGroupStreamPartitioner(self.key_selector, self.key_type)
        if self.kind == CUSTOM:
            return runtime.CustomPartitioner(self.function, self.key_selector)
        return {
            FORWARD: runtime.ForwardPartitioner,
            REBALANCE: runtime.RebalancePartitioner,
            RESCALE: runtime.RescalePartitioner,
            SHUFFLE: runtime.ShufflePartitioner,
            BROADCAST: runtime.BroadcastPartitioner,
            GLOBAL: runtime.GlobalPartitioner,
        }[self.kind]()
