"""Creates the keyed state backend that the configuration of a job names."""

from __future__ import annotations

from flinkpy.configuration import read_option
from flinkpy.configuration.state_backend_options import STATE_BACKEND
from flinkpy.state.backend import KeyedStateBackend, KeyedStateBackendParameters
from flinkpy.state.heap_backend import HeapKeyedStateBackend


def create_keyed_state_backend(parameters: KeyedStateBackendParameters) -> KeyedStateBackend:
    """Creates the backend that `state.backend.type` names.

    The backend reads restored state here, or when the operator requests a state.

    Raises:
        ConfigurationError: there is no such backend.
        UnsupportedOperationError: the package of the backend is not installed.
        FlinkError: the state cannot be restored; see the backend.
    """
    if read_option(parameters.configuration, STATE_BACKEND) == "hashmap":
        return HeapKeyedStateBackend(parameters)
    from flinkpy.state.rocksdb.backend import RocksDBKeyedStateBackend

    return RocksDBKeyedStateBackend(parameters)
