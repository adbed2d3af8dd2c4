"""Options of the state backends.

Source: org.apache.flink.configuration.StateBackendOptions,
org.apache.flink.state.rocksdb.{RocksDBOptions,RocksDBConfigurableOptions}. Options that are set take precedence over
the predefined options, and these over the defaults here. Differs: RocksDB files have Bloom filters, and compaction is
universal (docs/decisions/0006).
"""

from __future__ import annotations

from flinkpy.configuration.options import (
    bool_option,
    enum_option,
    float_option,
    int_option,
    list_option,
    memory_option,
    string_option,
)

STATE_BACKEND = enum_option(
    "state.backend.type",
    ("hashmap", "rocksdb"),
    "hashmap",
    "Where keyed state is stored: `hashmap` as objects in memory, `rocksdb` on the local disk.",
)
CHANGELOG_ENABLED = bool_option(
    "state.changelog.enabled",
    False,
    "`true` is refused, because there is no changelog state backend. Use `rocksdb` for large state.",
)

LOCAL_DIRECTORIES = string_option(
    "state.backend.rocksdb.localdir",
    None,
    "Directories for the databases, separated by commas. Default: the temporary directory of the task.",
)
TIMER_SERVICE_FACTORY = enum_option(
    "state.backend.rocksdb.timer-service.factory",
    ("ROCKSDB", "HEAP"),
    "ROCKSDB",
    "Where timers are stored: `ROCKSDB` stores them in the database and caches the next ones in memory, `HEAP` "
    "keeps all of them in memory.",
)
TIMER_SERVICE_CACHE_SIZE = int_option(
    "state.backend.rocksdb.timer-service.cache-size",
    128,
    "Number of timers per key group to load into memory at a time.",
    minimum=1,
)
CHECKPOINT_TRANSFER_THREAD_NUM = int_option(
    "state.backend.rocksdb.checkpoint.transfer.thread.num",
    4,
    "Number of threads that copy the files of one database to or from a checkpoint.",
    minimum=1,
)
PREDEFINED_OPTIONS = enum_option(
    "state.backend.rocksdb.predefined-options",
    ("DEFAULT", "SPINNING_DISK_OPTIMIZED", "SPINNING_DISK_OPTIMIZED_HIGH_MEM", "FLASH_SSD_OPTIMIZED"),
    "DEFAULT",
    "Predefined settings for a kind of disk. Options that are set below take precedence over them.",
)
USE_MANAGED_MEMORY = bool_option(
    "state.backend.rocksdb.memory.managed",
    True,
    "Let all databases of a process share `taskmanager.memory.managed.size`, if that is set.",
)
MANAGED_MEMORY_SIZE = memory_option(
    "taskmanager.memory.managed.size",
    None,
    "Memory of a process for its databases and, in batch mode, for column aggregations and joins. If unset, each "
    "database has its own memory.",
)
FIX_PER_SLOT_MEMORY_SIZE = memory_option(
    "state.backend.rocksdb.memory.fixed-per-slot",
    None,
    "Memory per slot for databases. The databases of a process share the memory of all its slots. Takes precedence "
    "over the other memory options.",
)
FIX_PER_TM_MEMORY_SIZE = memory_option(
    "state.backend.rocksdb.memory.fixed-per-tm", None, "Memory that all databases of a process share."
)
WRITE_BUFFER_RATIO = float_option(
    "state.backend.rocksdb.memory.write-buffer-ratio",
    0.5,
    "Maximum fraction of the shared memory for data that is not yet in files.",
    minimum=0.0,
    maximum=1.0,
)
USE_PARTITIONED_INDEX_FILTERS = bool_option(
    "state.backend.rocksdb.memory.partitioned-index-filters",
    False,
    "Partition the indexes and filters of files into blocks that can be evicted from memory one by one.",
)
WRITE_BATCH_SIZE = memory_option(
    "state.backend.rocksdb.write-batch-size",
    "2 mb",
    "Size at which collected changes are written to the database, and the size of one batch.",
    minimum_bytes=1,
)
MAX_BACKGROUND_THREADS = int_option(
    "state.backend.rocksdb.thread.num", 2, "Number of threads for flushes and compactions of one database.", minimum=1
)
MAX_OPEN_FILES = int_option(
    "state.backend.rocksdb.files.open", -1, "Maximum number of files that a database keeps open. -1 means no limit."
)
LOG_DIRECTORY = string_option(
    "state.backend.rocksdb.log.dir",
    None,
    "Directory for the logs of the databases. Default: next to the files of each database.",
)
LOG_FILE_NUM = int_option(
    "state.backend.rocksdb.log.file-num", 4, "Number of log files to keep per database.", minimum=1
)
LOG_MAX_FILE_SIZE = memory_option(
    "state.backend.rocksdb.log.max-file-size",
    "25 mb",
    "Maximum size of a log file before the database starts a new one.",
)
COMPACTION_STYLE = enum_option(
    "state.backend.rocksdb.compaction.style",
    ("LEVEL", "UNIVERSAL", "FIFO", "NONE"),
    "UNIVERSAL",
    "Compaction style. NONE disables compaction. FIFO drops data and is refused.",
)
USE_DYNAMIC_LEVEL_SIZE = bool_option(
    "state.backend.rocksdb.compaction.level.use-dynamic-size",
    False,
    "Derive the sizes of the levels from the size of the last level.",
)
TARGET_FILE_SIZE_BASE = memory_option(
    "state.backend.rocksdb.compaction.level.target-file-size-base", "64 mb", "Target size of files in the first level."
)
MAX_SIZE_LEVEL_BASE = memory_option(
    "state.backend.rocksdb.compaction.level.max-size-level-base", "256 mb", "Maximum size of the first level."
)
COMPRESSION_PER_LEVEL = list_option(
    "state.backend.rocksdb.compression.per.level",
    ("SNAPPY_COMPRESSION",),
    "Compression of each level; the last entry applies to all further levels. Values: NO_COMPRESSION, "
    "SNAPPY_COMPRESSION, ZLIB_COMPRESSION, BZLIB2_COMPRESSION, LZ4_COMPRESSION, LZ4HC_COMPRESSION, "
    "ZSTD_COMPRESSION.",
)
WRITE_BUFFER_SIZE = memory_option(
    "state.backend.rocksdb.writebuffer.size", "64 mb", "Size at which a write buffer in memory is written to a file."
)
MAX_WRITE_BUFFER_NUMBER = int_option(
    "state.backend.rocksdb.writebuffer.count", 2, "Maximum number of write buffers, including full ones.", minimum=1
)
MIN_WRITE_BUFFER_NUMBER_TO_MERGE = int_option(
    "state.backend.rocksdb.writebuffer.number-to-merge",
    1,
    "Minimum number of write buffers to merge into one file.",
    minimum=1,
)
BLOCK_SIZE = memory_option("state.backend.rocksdb.block.blocksize", "4 kb", "Size of the data blocks of a file.")
METADATA_BLOCK_SIZE = memory_option(
    "state.backend.rocksdb.block.metadata-blocksize", "4 kb", "Size of the blocks of a partitioned index."
)
BLOCK_CACHE_SIZE = memory_option(
    "state.backend.rocksdb.block.cache-size",
    "8 mb",
    "Size of a database's block cache, if the databases do not share memory.",
)
USE_BLOOM_FILTER = bool_option(
    "state.backend.rocksdb.use-bloom-filter",
    True,
    "Write Bloom filters, which show that a file does not contain a key.",
)
BLOOM_FILTER_BITS_PER_KEY = float_option(
    "state.backend.rocksdb.bloom-filter.bits-per-key", 10.0, "Size of the Bloom filters in bits per key.", minimum=1.0
)
BLOOM_FILTER_BLOCK_BASED_MODE = bool_option(
    "state.backend.rocksdb.bloom-filter.block-based-mode",
    False,
    "Use one Bloom filter per block instead of one per file.",
)
RESTORE_OVERLAP_FRACTION_THRESHOLD = float_option(
    "state.backend.rocksdb.restore-overlap-fraction-threshold",
    0.0,
    "Minimum fraction of a restored database's key groups that the task needs to use the database directly. Below "
    "it, the needed entries are copied.",
    minimum=0.0,
    maximum=1.0,
)
LATENCY_TRACK_ENABLED = bool_option(
    "state.latency-track.keyed-state-enabled",
    False,
    "Measure how long accesses of functions to keyed state take, in ns, as histograms of each state.",
)
LATENCY_TRACK_SAMPLE_INTERVAL = int_option(
    "state.latency-track.sample-interval", 100, "Measure one access of this many.", minimum=1
)
LATENCY_TRACK_HISTORY_SIZE = int_option(
    "state.latency-track.history-size", 128, "Number of measurements that a histogram covers.", minimum=1
)
LATENCY_TRACK_STATE_NAME_AS_VARIABLE = bool_option(
    "state.latency-track.state-name-as-variable",
    True,
    "Make the name of the state a variable of these metrics, besides a part of their scope.",
)
SIZE_TRACK_ENABLED = bool_option(
    "state.size-track.keyed-state-enabled",
    False,
    "Measure the serialized sizes of keys and values that functions read and write, in bytes, as histograms of "
    "each state.",
)
SIZE_TRACK_SAMPLE_INTERVAL = int_option(
    "state.size-track.sample-interval", 100, "Measure one access of this many.", minimum=1
)
SIZE_TRACK_HISTORY_SIZE = int_option(
    "state.size-track.history-size", 128, "Number of measurements that a histogram covers.", minimum=1
)
SIZE_TRACK_STATE_NAME_AS_VARIABLE = bool_option(
    "state.size-track.state-name-as-variable",
    True,
    "Make the name of the state a variable of these metrics, besides a part of their scope.",
)
