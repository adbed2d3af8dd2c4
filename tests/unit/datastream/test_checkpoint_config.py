from __future__ import annotations

import pytest

from flinkpy.common import Configuration, Duration
from flinkpy.common.errors import ConfigurationError, UnsupportedOperationError
from flinkpy.configuration import validate
from flinkpy.datastream import (
    CheckpointConfig,
    CheckpointingMode,
    CustomCheckpointStorage,
    CustomStateBackend,
    EmbeddedRocksDBStateBackend,
    ExternalizedCheckpointRetention,
    FileSystemCheckpointStorage,
    HashMapStateBackend,
    JobManagerCheckpointStorage,
    PredefinedOptions,
    StreamExecutionEnvironment,
)


@pytest.fixture
def configuration() -> Configuration:
    return Configuration()


@pytest.fixture
def config(configuration: Configuration) -> CheckpointConfig:
    return CheckpointConfig(configuration)


def test_defaults_match_flink(config: CheckpointConfig) -> None:
    assert not config.is_checkpointing_enabled()
    assert config.get_checkpoint_interval() == -1
    assert config.get_checkpointing_mode() is CheckpointingMode.EXACTLY_ONCE
    assert config.get_checkpoint_timeout() == 600_000
    assert config.get_min_pause_between_checkpoints() == 0
    assert config.get_max_concurrent_checkpoints() == 1
    assert config.get_tolerable_checkpoint_failure_number() == 0
    assert config.is_fail_on_checkpointing_errors()
    assert not config.is_externalized_checkpoints_enabled()
    assert not config.is_unaligned_checkpoints_enabled()
    assert not config.is_force_unaligned_checkpoints()
    assert config.get_aligned_checkpoint_timeout() == Duration.of_millis(0)
    assert config.get_max_subtasks_per_channel_state_file() == 5


def test_setter_writes_an_option_that_the_getter_reads(config: CheckpointConfig, configuration: Configuration) -> None:
    config.set_checkpoint_interval(1000).set_checkpoint_timeout(2000).set_min_pause_between_checkpoints(300)
    config.set_max_concurrent_checkpoints(2).set_tolerable_checkpoint_failure_number(3)
    config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    config.set_externalized_checkpoint_retention(ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION)
    config.set_checkpoint_interval_during_backlog(60_000).set_pause_sources_until_first_checkpoint()

    assert config.is_checkpointing_enabled()
    assert (config.get_checkpoint_interval(), config.get_checkpoint_timeout()) == (1000, 2000)
    assert (config.get_min_pause_between_checkpoints(), config.get_max_concurrent_checkpoints()) == (300, 2)
    assert config.get_tolerable_checkpoint_failure_number() == 3
    assert config.get_externalized_checkpoint_retention() is ExternalizedCheckpointRetention.RETAIN_ON_CANCELLATION
    assert config.is_externalized_checkpoints_enabled()
    assert config.get_checkpoint_interval_during_backlog() == 60_000
    assert config.is_pause_sources_until_first_checkpoint()
    entries = configuration.to_dict()
    assert entries["execution.checkpointing.timeout"] == "2000 ms"
    assert entries["execution.checkpointing.externalized-checkpoint-retention"] == "RETAIN_ON_CANCELLATION"
    validate(configuration)


def test_environment_and_its_checkpoint_config_share_options() -> None:
    env = StreamExecutionEnvironment(Configuration())

    env.get_checkpoint_config().set_checkpoint_interval(70)
    assert env.get_checkpoint_interval() == 70

    env.enable_checkpointing(80)
    assert env.get_checkpoint_config().get_checkpoint_interval() == 80
    env.get_checkpoint_config().disable_checkpointing()
    assert env.get_checkpoint_interval() == -1


def test_fail_on_errors_sets_the_number_of_tolerable_failures(config: CheckpointConfig) -> None:
    config.set_fail_on_checkpointing_errors(False)
    assert not config.is_fail_on_checkpointing_errors()
    assert config.get_tolerable_checkpoint_failure_number() == 2**31 - 1

    config.set_fail_on_checkpointing_errors(True)
    assert config.get_tolerable_checkpoint_failure_number() == 0


def test_unaligned_needs_exactly_once(config: CheckpointConfig, configuration: Configuration) -> None:
    config.enable_unaligned_checkpoints()
    assert config.is_unaligned_checkpoints_enabled()

    config.set_checkpointing_mode(CheckpointingMode.AT_LEAST_ONCE)
    assert not config.is_unaligned_checkpoints_enabled()
    with pytest.raises(ConfigurationError, match=r"needs `execution.checkpointing.mode` EXACTLY_ONCE"):
        validate(configuration)

    config.set_alignment_timeout(Duration.of_seconds(1)).disable_unaligned_checkpoints()
    assert config.get_alignment_timeout() == Duration.of_seconds(1)
    validate(configuration)


@pytest.mark.parametrize(
    ("method", "value", "error", "message"),
    [
        ("set_checkpoint_interval", 9, ValueError, "larger than or equal to 10 ms"),
        ("set_checkpoint_interval", "1 s", TypeError, "must be an integer"),
        ("set_checkpoint_interval_during_backlog", 5, ValueError, "larger than or equal to 10 ms"),
        ("set_checkpoint_timeout", 1, ValueError, "larger than or equal to 10 ms"),
        ("set_min_pause_between_checkpoints", -1, ValueError, "zero or positive"),
        ("set_max_concurrent_checkpoints", 0, ValueError, "at least one"),
        ("set_max_concurrent_checkpoints", True, TypeError, "must be an integer"),
        ("set_tolerable_checkpoint_failure_number", -1, ValueError, "non-negative"),
        ("set_checkpointing_mode", "EXACTLY_ONCE", TypeError, "must be a CheckpointingMode"),
        ("set_externalized_checkpoint_retention", 1, TypeError, "must be an ExternalizedCheckpointRetention"),
        ("set_aligned_checkpoint_timeout", 1, TypeError, "must be a Duration"),
        ("set_max_subtasks_per_channel_state_file", 0, ValueError, "larger than or equal to 1"),
    ],
)
def test_wrong_value_is_refused_and_changes_nothing(
    config: CheckpointConfig,
    configuration: Configuration,
    method: str,
    value: object,
    error: type[Exception],
    message: str,
) -> None:
    with pytest.raises(error, match=message):
        getattr(config, method)(value)

    assert configuration.to_dict() == {}


def test_approximate_recovery_is_refused(config: CheckpointConfig) -> None:
    with pytest.raises(UnsupportedOperationError, match="does not trade records"):
        config.enable_approximate_local_recovery()
    assert not config.enable_approximate_local_recovery(False).is_approximate_local_recovery_enabled()


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({"execution.checkpointing.interval": "soon"}, "execution.checkpointing.interval"),
        ({"execution.checkpointing.interval": "5 ms"}, "at least 10 ms"),
        ({"execution.checkpointing.interval": "-1 s"}, "execution.checkpointing.interval"),
        ({"execution.checkpointing.mode": "TWICE"}, "expected one of EXACTLY_ONCE, AT_LEAST_ONCE"),
        ({"execution.checkpointing.storage": "tape"}, "expected one of jobmanager, filesystem"),
        ({"execution.checkpointing.storage": "filesystem"}, "`execution.checkpointing.dir` is not set"),
        ({"execution.checkpointing.timeout": "1 ms"}, "10 ms or more"),
        ({"execution.checkpointing.max-concurrent-checkpoints": "0"}, "1 or more"),
        ({"execution.checkpointing.num-retained": "0"}, "1 or more"),
        ({"execution.checkpointing.data-inline-threshold": "2 mb"}, "at most 1048576 bytes"),
        (
            {
                "execution.checkpointing.unaligned.enabled": "true",
                "execution.checkpointing.max-concurrent-checkpoints": "2",
            },
            "`execution.checkpointing.max-concurrent-checkpoints` 1",
        ),
        ({"execution.state-recovery.claim-mode": "STEAL"}, "expected one of CLAIM, NO_CLAIM, LEGACY"),
        ({"state.backend.type": "paper"}, "expected one of hashmap, rocksdb"),
    ],
)
def test_wrong_option_is_refused_at_submission(entries: dict[str, str], message: str) -> None:
    with pytest.raises(ConfigurationError, match=message):
        validate(Configuration.from_dict(entries))


def test_interval_of_zero_means_no_checkpoints() -> None:
    configuration = Configuration.from_dict({"execution.checkpointing.interval": "0 ms"})

    validate(configuration)
    assert not CheckpointConfig(configuration).is_checkpointing_enabled()


def test_storages_have_names_and_corresponding_options() -> None:
    memory = JobManagerCheckpointStorage()
    files = FileSystemCheckpointStorage("file:///var/checkpoints/")
    small = FileSystemCheckpointStorage("file:///c", file_state_size_threshold=100, write_buffer_size=8192)

    assert (memory.get_checkpoint_path(), memory.get_max_state_size()) == (None, 5 * 1024 * 1024)
    assert JobManagerCheckpointStorage("file:///c", 100).get_max_state_size() == 100
    assert (files.get_checkpoint_path(), files.get_savepoint_path()) == ("file:///var/checkpoints", None)
    assert (files.get_min_file_size_threshold(), files.get_write_buffer_size()) == (20480, 4096)
    assert (small.get_min_file_size_threshold(), small.get_write_buffer_size()) == (100, 8192)
    assert memory.to_configuration().to_dict() == {"execution.checkpointing.storage": "jobmanager"}
    for storage in (memory, small):
        validate(storage.to_configuration())
    with pytest.raises(ValueError, match="checkpoint_path must not be None"):
        FileSystemCheckpointStorage()
    with pytest.raises(UnsupportedOperationError, match="no option changes it"):
        JobManagerCheckpointStorage(max_state_size=100).to_configuration()


def test_backends_have_names_and_corresponding_options() -> None:
    backend = EmbeddedRocksDBStateBackend(True)
    assert backend.is_incremental_checkpoints_enabled()
    assert not EmbeddedRocksDBStateBackend().is_incremental_checkpoints_enabled()
    assert backend.get_predefined_options() is PredefinedOptions.DEFAULT
    assert (backend.get_number_of_transfer_threads(), backend.get_db_storage_paths()) == (4, [])

    backend.set_db_storage_paths("/a", "file:///b/")
    backend.set_predefined_options(PredefinedOptions.FLASH_SSD_OPTIMIZED)
    backend.set_number_of_transfer_threads(2)

    assert backend.get_db_storage_paths() == ["/a", "/b"]
    assert backend.to_configuration().to_dict() == {
        "state.backend.type": "rocksdb",
        "execution.checkpointing.incremental": "true",
        "state.backend.rocksdb.localdir": "/a,/b",
        "state.backend.rocksdb.predefined-options": "FLASH_SSD_OPTIMIZED",
        "state.backend.rocksdb.checkpoint.transfer.thread.num": "2",
    }
    assert HashMapStateBackend().to_configuration().to_dict() == {"state.backend.type": "hashmap"}


def test_java_backends_and_storages_are_refused_by_name() -> None:
    for make in (CustomStateBackend, CustomCheckpointStorage, HashMapStateBackend):
        with pytest.raises(UnsupportedOperationError, match=f"{make.__name__}.*no JVM"):
            make(object())
    with pytest.raises(UnsupportedOperationError, match="options factory is a Java class"):
        EmbeddedRocksDBStateBackend().set_options("org.example.Factory")
    assert EmbeddedRocksDBStateBackend().get_options() is None
