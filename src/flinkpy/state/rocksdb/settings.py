"""RocksDBSettings: translates the configuration to the options of a database.

The precedence is that of Flink: configured options, then predefined options, then the defaults. An option that
rocksdict does not support is refused if it affects the state, and logged if it only affects the speed.

Source: org.apache.flink.state.rocksdb.{RocksDBResourceContainer,PredefinedOptions,RocksDBMemoryControllerUtils}.
"""

from __future__ import annotations

import importlib
import logging
import threading
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from flinkpy.common.errors import ConfigurationError, UnsupportedOperationError
from flinkpy.configuration import state_backend_options as keys
from flinkpy.configuration.checkpointing_options import INCREMENTAL
from flinkpy.configuration.options import AnyConfiguration, ConfigOption, entries_of, raw_value, read_option
from flinkpy.configuration.registry import options_of
from flinkpy.configuration.taskmanager_options import NUM_TASK_SLOTS
from flinkpy.state.rocksdb.native_metrics import has_tickers

_LOG = logging.getLogger(__name__)
_PREFIX = "state.backend.rocksdb."
_MB = 1 << 20

#: Values of at least this size are stored in blob files, which compactions do not rewrite (decision 0006).
MIN_BLOB_SIZE = 256
BLOB_FILE_SIZE = 64 * _MB
#: When this fraction of the blob files is known to be garbage, compactions begin to collect it from the older half of
#: the files. They stop at the lower fraction.
BLOB_GC_AGE_CUTOFF = 0.5
BLOB_GC_START = 0.3
BLOB_GC_STOP = 0.2
#: From this fraction of garbage on, level compactions rewrite files just to remove it. Universal compactions visit all
#: files anyway.
_BLOB_GC_FORCE = 0.5
#: Universal compactions merge everything when the newer runs reach half of the size of the oldest run. If values are in
#: blob files, the runs are small, and only a compaction finds the garbage in the blob files.
_MAX_SIZE_AMPLIFICATION_PERCENT = 50
#: The number of level-0 files that starts a compaction. It is twice RocksDB's default, because every checkpoint creates
#: a file (decision 0006).
_LEVEL_0_TRIGGER = 8

#: The options of each predefined set, by key.
_PREDEFINED: dict[str, dict[str, Any]] = {
    "DEFAULT": {},
    "SPINNING_DISK_OPTIMIZED": {
        keys.MAX_BACKGROUND_THREADS.key: 4,
        keys.COMPACTION_STYLE.key: "LEVEL",
        keys.USE_DYNAMIC_LEVEL_SIZE.key: True,
        keys.MAX_OPEN_FILES.key: -1,
    },
    "SPINNING_DISK_OPTIMIZED_HIGH_MEM": {
        keys.MAX_BACKGROUND_THREADS.key: 4,
        keys.COMPACTION_STYLE.key: "LEVEL",
        keys.USE_DYNAMIC_LEVEL_SIZE.key: True,
        keys.MAX_OPEN_FILES.key: -1,
        keys.TARGET_FILE_SIZE_BASE.key: 256 * _MB,
        keys.MAX_SIZE_LEVEL_BASE.key: 1024 * _MB,
        keys.MAX_WRITE_BUFFER_NUMBER.key: 4,
        keys.MIN_WRITE_BUFFER_NUMBER_TO_MERGE.key: 3,
        keys.BLOCK_CACHE_SIZE.key: 256 * _MB,
        keys.BLOCK_SIZE.key: 128 * 1024,
    },
    "FLASH_SSD_OPTIMIZED": {keys.MAX_BACKGROUND_THREADS.key: 4, keys.MAX_OPEN_FILES.key: -1},
}
_COMPRESSIONS = {
    "NO_COMPRESSION": "none",
    "SNAPPY_COMPRESSION": "snappy",
    "ZLIB_COMPRESSION": "zlib",
    "BZLIB2_COMPRESSION": "bz2",
    "LZ4_COMPRESSION": "lz4",
    "LZ4HC_COMPRESSION": "lz4hc",
    "ZSTD_COMPRESSION": "zstd",
}
_NUM_LEVELS = 7


def load_rocksdict() -> ModuleType:
    """Imports rocksdict. Raises: UnsupportedOperationError if the package is not installed."""
    try:
        return importlib.import_module("rocksdict")
    except ImportError as error:
        raise UnsupportedOperationError(
            "state.backend.type: rocksdb needs the package rocksdict; install it with: pip install 'flinkpy[rocksdb]'"
        ) from error


@dataclass(frozen=True, slots=True)
class RocksDBSettings:
    """The settings of a backend.

    Attributes:
        local_directories: the directories of `state.backend.rocksdb.localdir`.
        is_incremental: checkpoints share files.
    """

    configuration: AnyConfiguration
    local_directories: tuple[str, ...]
    is_incremental: bool
    timers_in_memory: bool
    timer_cache_size: int
    transfer_threads: int
    write_batch_bytes: int
    restore_overlap_threshold: float

    @staticmethod
    def read(configuration: AnyConfiguration) -> RocksDBSettings:
        """Reads the settings. Raises: ConfigurationError, UnsupportedOperationError. Both name the key."""
        _check_known(configuration)
        directories = read_option(configuration, keys.LOCAL_DIRECTORIES) or ""
        return RocksDBSettings(
            configuration,
            tuple(part.strip() for part in directories.split(",") if part.strip()),
            read_option(configuration, INCREMENTAL),
            read_option(configuration, keys.TIMER_SERVICE_FACTORY) == "HEAP",
            read_option(configuration, keys.TIMER_SERVICE_CACHE_SIZE),
            read_option(configuration, keys.CHECKPOINT_TRANSFER_THREAD_NUM),
            read_option(configuration, keys.WRITE_BATCH_SIZE),
            read_option(configuration, keys.RESTORE_OVERLAP_FRACTION_THRESHOLD),
        )

    def database_options(self) -> Any:
        """Returns the rocksdict.Options with which to open a database."""
        rocksdict = load_rocksdict()
        configuration = self.configuration
        predefined = _PREDEFINED[read_option(configuration, keys.PREDEFINED_OPTIONS)]

        def setting(option: ConfigOption[Any]) -> Any:
            if raw_value(configuration, option) is None and option.key in predefined:
                return predefined[option.key]
            return read_option(configuration, option)

        options = rocksdict.Options(raw_mode=True)
        options.create_if_missing(True)
        options.set_max_background_jobs(setting(keys.MAX_BACKGROUND_THREADS))
        options.set_max_open_files(setting(keys.MAX_OPEN_FILES))
        options.set_write_buffer_size(setting(keys.WRITE_BUFFER_SIZE))
        options.set_max_write_buffer_number(setting(keys.MAX_WRITE_BUFFER_NUMBER))
        options.set_min_write_buffer_number_to_merge(setting(keys.MIN_WRITE_BUFFER_NUMBER_TO_MERGE))
        options.set_keep_log_file_num(setting(keys.LOG_FILE_NUM))
        options.set_max_log_file_size(setting(keys.LOG_MAX_FILE_SIZE))
        log_directory = read_option(configuration, keys.LOG_DIRECTORY)
        if log_directory is not None:
            options.set_db_log_dir(log_directory)
        options.set_target_file_size_base(setting(keys.TARGET_FILE_SIZE_BASE))
        options.set_max_bytes_for_level_base(setting(keys.MAX_SIZE_LEVEL_BASE))
        options.set_level_compaction_dynamic_level_bytes(setting(keys.USE_DYNAMIC_LEVEL_SIZE))
        options.set_level_zero_file_num_compaction_trigger(_LEVEL_0_TRIGGER)
        if has_tickers(configuration):
            options.enable_statistics()
        self._set_compaction(rocksdict, options, setting(keys.COMPACTION_STYLE))
        self._set_compression(rocksdict, options)
        self._set_blocks(rocksdict, options, setting)
        return options

    def _set_compaction(self, rocksdict: ModuleType, options: Any, style: str) -> None:
        if style == "FIFO":
            raise UnsupportedOperationError(f"{keys.COMPACTION_STYLE.key}: FIFO is not supported: it would drop state")
        if style == "NONE":
            options.set_disable_auto_compactions(True)
        elif style == "UNIVERSAL":
            options.set_compaction_style(rocksdict.DBCompactionStyle.universal())
            universal = rocksdict.UniversalCompactOptions()
            universal.max_size_amplification_percent = _MAX_SIZE_AMPLIFICATION_PERCENT
            options.set_universal_compaction_options(universal)
        options.set_enable_blob_files(True)
        options.set_min_blob_size(MIN_BLOB_SIZE)
        options.set_blob_file_size(BLOB_FILE_SIZE)
        options.set_blob_gc_age_cutoff(BLOB_GC_AGE_CUTOFF)
        options.set_blob_gc_force_threshold(_BLOB_GC_FORCE)

    def _set_compression(self, rocksdict: ModuleType, options: Any) -> None:
        names = read_option(self.configuration, keys.COMPRESSION_PER_LEVEL)
        unknown = [name for name in names if name.strip().upper() not in _COMPRESSIONS]
        if unknown or not names:
            raise ConfigurationError(
                f"{keys.COMPRESSION_PER_LEVEL.key}: expected some of {', '.join(_COMPRESSIONS)}, not {list(names)}",
                details={"option": keys.COMPRESSION_PER_LEVEL.key},
            )
        kinds = [getattr(rocksdict.DBCompressionType, _COMPRESSIONS[name.strip().upper()])() for name in names]
        options.set_compression_type(kinds[-1])
        if len(kinds) > 1:
            options.set_compression_per_level([*kinds, *[kinds[-1]] * (_NUM_LEVELS - len(kinds))])
        options.set_blob_compression_type(kinds[-1])

    def _set_blocks(self, rocksdict: ModuleType, options: Any, setting: Any) -> None:
        configuration = self.configuration
        blocks = rocksdict.BlockBasedOptions()
        blocks.set_block_size(setting(keys.BLOCK_SIZE))
        blocks.set_metadata_block_size(read_option(configuration, keys.METADATA_BLOCK_SIZE))
        if read_option(configuration, keys.USE_BLOOM_FILTER):
            blocks.set_bloom_filter(
                read_option(configuration, keys.BLOOM_FILTER_BITS_PER_KEY),
                read_option(configuration, keys.BLOOM_FILTER_BLOCK_BASED_MODE),
            )
        shared = self._shared_memory()
        if shared is None:
            blocks.set_block_cache(rocksdict.Cache(setting(keys.BLOCK_CACHE_SIZE)))
        else:
            blocks.set_block_cache(shared.cache)
            blocks.set_cache_index_and_filter_blocks(True)
            blocks.set_pin_l0_filter_and_index_blocks_in_cache(True)
            options.set_write_buffer_manager(shared.write_buffers)
        if read_option(configuration, keys.USE_PARTITIONED_INDEX_FILTERS):
            blocks.set_index_type(rocksdict.BlockBasedIndexType.two_level_index_search())
            blocks.set_partition_filters(True)
            blocks.set_pin_top_level_index_and_filter(True)
        options.set_block_based_table_factory(blocks)

    def _shared_memory(self) -> _SharedMemory | None:
        """Returns the memory that all databases of the process share; None if each database has its own."""
        configuration = self.configuration
        per_slot = read_option(configuration, keys.FIX_PER_SLOT_MEMORY_SIZE)
        per_process = read_option(configuration, keys.FIX_PER_TM_MEMORY_SIZE)
        if per_slot is not None:
            size = per_slot * read_option(configuration, NUM_TASK_SLOTS)
        elif per_process is not None:
            size = per_process
        elif read_option(configuration, keys.USE_MANAGED_MEMORY):
            managed = read_option(configuration, keys.MANAGED_MEMORY_SIZE)
            if managed is None:
                return None
            size = managed
        else:
            return None
        return _shared_memory(size, read_option(configuration, keys.WRITE_BUFFER_RATIO))


@dataclass(frozen=True, slots=True)
class _SharedMemory:
    cache: Any
    write_buffers: Any


_shared: dict[tuple[int, float], _SharedMemory] = {}
_shared_lock = threading.Lock()


def _shared_memory(size_bytes: int, write_buffer_ratio: float) -> _SharedMemory:
    """Returns the shared memory of this process.

    Write buffers are charged to the cache. So the cache may exceed its size by half of the size of the write buffers.
    """
    rocksdict = load_rocksdict()
    with _shared_lock:
        known = _shared.get((size_bytes, write_buffer_ratio))
        if known is None:
            cache = rocksdict.Cache(int((3 - write_buffer_ratio) * size_bytes / 3))
            buffers = rocksdict.WriteBufferManager.new_write_buffer_manager_with_cache(
                max(1, int(2 * size_bytes * write_buffer_ratio / 3)), False, cache
            )
            known = _shared[size_bytes, write_buffer_ratio] = _SharedMemory(cache, buffers)
        return known


def shared_memory_in_use() -> int:
    """Returns the bytes in use of the memory that databases of this process share: block caches and write buffers."""
    with _shared_lock:
        known = list(_shared.values())
    # Write buffers are charged to the cache.
    return sum(int(one.cache.get_usage()) for one in known)


def _check_known(configuration: AnyConfiguration) -> None:
    """Refuses or logs options of Flink's RocksDB backend that this backend ignores."""
    modules = ("state_backend_options", "rocksdb_metric_options")
    acted_on = {option.key for module in modules for option in options_of(module)}
    left = sorted(key for key in entries_of(configuration) if key.startswith(_PREFIX) and key not in acted_on)
    if f"{_PREFIX}options-factory" in left:
        raise UnsupportedOperationError(
            f"{_PREFIX}options-factory names a Java class; use {keys.PREDEFINED_OPTIONS.key} and other options instead"
        )
    if left:
        _LOG.warning("flinkpy's state backend rocksdb ignores these options: %s", ", ".join(left))
