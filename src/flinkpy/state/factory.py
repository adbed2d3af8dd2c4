"""Which keyed state backend a job uses."""

from __future__ import annotations

from typing import Any

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.common.key_groups import KeyGroupRange
from flinkpy.state.backend import KeyContext, KeyedStateBackend
from flinkpy.state.heap_backend import HeapKeyedStateBackend


def create_keyed_state_backend(
    configuration: Any, key_context: KeyContext, key_groups: KeyGroupRange, max_parallelism: int
) -> KeyedStateBackend:
    """By `state.backend.type`."""
    kind = configuration.get_string("state.backend.type", "hashmap")
    if kind != "hashmap":
        raise UnsupportedOperationError(f"state.backend.type: this release has 'hashmap', not {kind!r}")
    return HeapKeyedStateBackend(key_context, key_groups, max_parallelism)
