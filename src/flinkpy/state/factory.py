"""Which keyed state backend a job uses."""

from __future__ import annotations

from flinkpy.common.errors import UnsupportedOperationError
from flinkpy.state.backend import KeyedStateBackend, KeyedStateBackendParameters
from flinkpy.state.heap_backend import HeapKeyedStateBackend


def create_keyed_state_backend(parameters: KeyedStateBackendParameters) -> KeyedStateBackend:
    """By `state.backend.type`; what is to be restored is in it when this returns."""
    kind = parameters.configuration.get_string("state.backend.type", "hashmap")
    if kind == "hashmap":
        return HeapKeyedStateBackend(parameters)
    if kind == "rocksdb":
        from flinkpy.state.rocksdb.backend import RocksDBKeyedStateBackend

        return RocksDBKeyedStateBackend(parameters)
    raise UnsupportedOperationError(f"state.backend.type: there are 'hashmap' and 'rocksdb', not {kind!r}")
