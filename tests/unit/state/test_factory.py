from __future__ import annotations

import pytest
from memory_checkpoints import parameters

from flinkpy.common.errors import ConfigurationError
from flinkpy.state.factory import create_keyed_state_backend
from flinkpy.state.heap_backend import HeapKeyedStateBackend


def test_heap_is_the_default_backend():
    assert isinstance(create_keyed_state_backend(parameters()), HeapKeyedStateBackend)


def test_an_unknown_backend_is_refused_by_name():
    with pytest.raises(ConfigurationError, match=r"state\.backend\.type"):
        create_keyed_state_backend(parameters(configuration={"state.backend.type": "paper"}))


def test_rocksdb_is_chosen_by_its_name(tmp_path):
    pytest.importorskip("rocksdict")
    backend = create_keyed_state_backend(
        parameters(configuration={"state.backend.type": "rocksdb"}, directory=tmp_path)
    )
    assert type(backend).__name__ == "RocksDBKeyedStateBackend"
    backend.close()
