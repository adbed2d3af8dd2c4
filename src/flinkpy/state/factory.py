"""Which keyed state backend a job uses."""

from __future__ import annotations

from flinkpy.configuration import read_option
from flinkpy.configuration.state_backend_options import STATE_BACKEND
from flinkpy.state.backend import KeyedStateBackend, KeyedStateBackendParameters
from flinkpy.state.heap_backend import HeapKeyedStateBackend


def create_keyed_state_backend(parameters: KeyedStateBackendParameters) -> KeyedStateBackend:
    """By `state.backend.type`; what is to be restored is in it when this returns, or when a state is asked for.

    Raises: ConfigurationError (no such backend), UnsupportedOperationError (its package is not installed), and what
        the backend raises at a restore.
    """
    if read_option(parameters.configuration, STATE_BACKEND) == "hashmap":
        return HeapKeyedStateBackend(parameters)
    from flinkpy.state.rocksdb.backend import RocksDBKeyedStateBackend

    return RocksDBKeyedStateBackend(parameters)
