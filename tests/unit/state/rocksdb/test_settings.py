from __future__ import annotations

import logging

import pytest
from memory_checkpoints import parameters

from flinkpy.common.errors import ConfigurationError, UnsupportedOperationError
from flinkpy.common.typeinfo import Types
from flinkpy.datastream.state import ValueStateDescriptor
from flinkpy.state.factory import create_keyed_state_backend
from flinkpy.state.rocksdb.settings import RocksDBSettings, _shared_memory

PREFIX = "state.backend.rocksdb."


def options_of(tmp_path, **configuration):
    """Returns the options that the database reports."""
    backend = create_keyed_state_backend(
        parameters(
            directory=tmp_path,
            configuration={
                "state.backend.type": "rocksdb",
                **{PREFIX + key.replace("__", ".").replace("_", "-"): value for key, value in configuration.items()},
            },
        )
    )
    try:
        (path,) = tmp_path.rglob("OPTIONS-*")
        lines = (line.strip().partition("=") for line in path.read_text().splitlines())
        return {key: value for key, _, value in lines}
    finally:
        backend.close()


def test_settings_have_the_defaults_of_the_layout(tmp_path):
    options = options_of(tmp_path)

    assert options["write_buffer_size"] == str(64 << 20)
    assert options["compaction_style"] == "kCompactionStyleUniversal"
    assert options["enable_blob_files"] == "true"
    assert options["min_blob_size"] == "256"
    assert options["filter_policy"].startswith("bloomfilter")


def test_configured_options_reach_the_database(tmp_path):
    options = options_of(
        tmp_path,
        writebuffer__size="8 mb",
        writebuffer__count="5",
        thread__num="3",
        files__open="500",
        compaction__style="LEVEL",
        block__blocksize="16 kb",
        compression__per__level="NO_COMPRESSION;LZ4_COMPRESSION",
        use_bloom_filter="false",
    )

    assert options["write_buffer_size"] == str(8 << 20)
    assert options["max_write_buffer_number"] == "5"
    assert options["max_background_jobs"] == "3"
    assert options["max_open_files"] == "500"
    assert options["compaction_style"] == "kCompactionStyleLevel"
    assert options["block_size"] == str(16 << 10)
    assert options["compression_per_level"].startswith("kNoCompression:kLZ4Compression")
    assert options["filter_policy"] == "nullptr"


def test_configured_options_override_the_predefined_ones(tmp_path):
    options = options_of(tmp_path, predefined_options="SPINNING_DISK_OPTIMIZED_HIGH_MEM", block__blocksize="32 kb")

    assert options["max_write_buffer_number"] == "4"
    assert options["block_size"] == str(32 << 10)
    assert options["level_compaction_dynamic_level_bytes"] == "true"


@pytest.mark.parametrize(
    ("key", "value", "error"),
    [
        ("compaction.style", "FIFO", UnsupportedOperationError),
        ("options-factory", "org.Factory", UnsupportedOperationError),
        ("compression.per.level", "ROT13", ConfigurationError),
        ("timer-service.factory", "DISK", ConfigurationError),
        ("checkpoint.transfer.thread.num", "0", ConfigurationError),
    ],
)
def test_unsupported_options_are_refused_by_name(tmp_path, key, value, error):
    configuration = {"state.backend.type": "rocksdb", PREFIX + key: value}

    with pytest.raises(error, match=PREFIX + key):
        create_keyed_state_backend(parameters(directory=tmp_path, configuration=configuration))
    assert list(tmp_path.iterdir()) == []


def test_options_without_effect_are_logged(caplog):
    with caplog.at_level(logging.WARNING):
        RocksDBSettings.read({PREFIX + "log.level": "INFO_LEVEL", PREFIX + "thread.num": "3"})

    assert "state.backend.rocksdb.log.level" in caplog.text
    assert "thread.num" not in caplog.text


def test_databases_of_a_process_share_memory(tmp_path):
    configuration = {
        "state.backend.type": "rocksdb",
        PREFIX + "memory.fixed-per-slot": "8 mb",
        "taskmanager.numberOfTaskSlots": "4",
    }
    backends = [
        create_keyed_state_backend(parameters(directory=tmp_path, configuration=configuration)) for _ in range(2)
    ]
    for backend in backends:
        state = backend.value_state(ValueStateDescriptor("v", Types.PICKLED_BYTE_ARRAY()))
        state.put_many(range(1000), ["x" * 5000] * 1000)
        backend.num_entries()

    shared = _shared_memory(32 << 20, 0.5)
    assert shared.write_buffers.get_buffer_size() == (32 << 20) // 3
    assert shared.write_buffers.get_usage() > 0
    for backend in backends:
        backend.close()
