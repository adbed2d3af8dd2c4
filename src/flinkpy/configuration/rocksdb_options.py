"""The state backend `rocksdb`.

Source: org.apache.flink.state.rocksdb.{RocksDBOptions,RocksDBConfigurableOptions}. What is set goes before the
predefined options, these before the defaults here. Differs: files have Bloom filters, and
compaction is universal (docs/decisions/0006).
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

LOCAL_DIRECTORIES = string_option(
    "state.backend.rocksdb.localdir",
    None,
    "Where the databases lie: directories, separated by commas; unset: in the task's own temporary directory.",
)
TIMER_SERVICE_FACTORY = enum_option(
    "state.backend.rocksdb.timer-service.factory",
    ("ROCKSDB", "HEAP"),
    "ROCKSDB",
    "Where timers are looked up: in the database with the next ones in memory, or with all in memory.",
)
TIMER_SERVICE_CACHE_SIZE = int_option(
    "state.backend.rocksdb.timer-service.cache-size",
    128,
    "Timers per key group that are read into memory at once.",
    minimum=1,
)
CHECKPOINT_TRANSFER_THREAD_NUM = int_option(
    "state.backend.rocksdb.checkpoint.transfer.thread.num",
    4,
    "Threads that copy files of one database to or from a checkpoint.",
    minimum=1,
)
PREDEFINED_OPTIONS = enum_option(
    "state.backend.rocksdb.predefined-options",
    ("DEFAULT", "SPINNING_DISK_OPTIMIZED", "SPINNING_DISK_OPTIMIZED_HIGH_MEM", "FLASH_SSD_OPTIMIZED"),
    "DEFAULT",
    "A set of settings for a kind of disk; the options below go before it.",
)
USE_MANAGED_MEMORY = bool_option(
    "state.backend.rocksdb.memory.managed",
    True,
    "Whether all databases of a process share taskmanager.memory.managed.size, where that is set.",
)
MANAGED_MEMORY_SIZE = memory_option(
    "taskmanager.memory.managed.size",
    None,
    "Memory of a process for its databases, and in batch mode for aggregations and joins over columns; unset: each has "
    "its own.",
)
FIX_PER_SLOT_MEMORY_SIZE = memory_option(
    "state.backend.rocksdb.memory.fixed-per-slot",
    None,
    "Memory for databases per slot; those of a process share that of all its slots. Goes before the others.",
)
FIX_PER_TM_MEMORY_SIZE = memory_option(
    "state.backend.rocksdb.memory.fixed-per-tm", None, "Memory that all databases of a process share."
)
WRITE_BUFFER_RATIO = float_option(
    "state.backend.rocksdb.memory.write-buffer-ratio",
    0.5,
    "The part of shared memory that may hold what is not yet in files.",
    minimum=0.0,
    maximum=1.0,
)
USE_PARTITIONED_INDEX_FILTERS = bool_option(
    "state.backend.rocksdb.memory.partitioned-index-filters",
    False,
    "Whether indexes and filters of files are cut into blocks that can leave memory one by one.",
)
WRITE_BATCH_SIZE = memory_option(
    "state.backend.rocksdb.write-batch-size",
    "2 mb",
    "Changes are given to the database when they are this large, and in batches of this size.",
    minimum_bytes=1,
)
MAX_BACKGROUND_THREADS = int_option(
    "state.backend.rocksdb.thread.num", 2, "Threads for flushes and compactions of one database.", minimum=1
)
MAX_OPEN_FILES = int_option("state.backend.rocksdb.files.open", -1, "Files a database may hold open; -1: all.")
LOG_DIRECTORY = string_option(
    "state.backend.rocksdb.log.dir", None, "Where databases write their logs; unset: beside their files."
)
LOG_FILE_NUM = int_option("state.backend.rocksdb.log.file-num", 4, "Logs of a database that are kept.", minimum=1)
LOG_MAX_FILE_SIZE = memory_option(
    "state.backend.rocksdb.log.max-file-size", "25 mb", "Size at which a database begins a new log."
)
COMPACTION_STYLE = enum_option(
    "state.backend.rocksdb.compaction.style",
    ("LEVEL", "UNIVERSAL", "FIFO", "NONE"),
    "UNIVERSAL",
    "How files are merged; NONE: never. FIFO, which drops data, is refused.",
)
USE_DYNAMIC_LEVEL_SIZE = bool_option(
    "state.backend.rocksdb.compaction.level.use-dynamic-size",
    False,
    "Whether the sizes of levels follow that of the last one.",
)
TARGET_FILE_SIZE_BASE = memory_option(
    "state.backend.rocksdb.compaction.level.target-file-size-base", "64 mb", "Size of files in the first level."
)
MAX_SIZE_LEVEL_BASE = memory_option(
    "state.backend.rocksdb.compaction.level.max-size-level-base", "256 mb", "Size of the first level."
)
COMPRESSION_PER_LEVEL = list_option(
    "state.backend.rocksdb.compression.per.level",
    ("SNAPPY_COMPRESSION",),
    "Compression of each level, the last for all that follow: NO_COMPRESSION, SNAPPY_COMPRESSION, ZLIB_COMPRESSION, "
    "BZLIB2_COMPRESSION, LZ4_COMPRESSION, LZ4HC_COMPRESSION or ZSTD_COMPRESSION.",
)
WRITE_BUFFER_SIZE = memory_option(
    "state.backend.rocksdb.writebuffer.size", "64 mb", "Size at which what is in memory becomes a file."
)
MAX_WRITE_BUFFER_NUMBER = int_option(
    "state.backend.rocksdb.writebuffer.count", 2, "Write buffers, full ones included.", minimum=1
)
MIN_WRITE_BUFFER_NUMBER_TO_MERGE = int_option(
    "state.backend.rocksdb.writebuffer.number-to-merge", 1, "Write buffers that become one file.", minimum=1
)
BLOCK_SIZE = memory_option("state.backend.rocksdb.block.blocksize", "4 kb", "Size of the blocks of a file.")
METADATA_BLOCK_SIZE = memory_option(
    "state.backend.rocksdb.block.metadata-blocksize", "4 kb", "Size of blocks of a partitioned index."
)
BLOCK_CACHE_SIZE = memory_option(
    "state.backend.rocksdb.block.cache-size", "8 mb", "Blocks a database keeps in memory, where memory is not shared."
)
USE_BLOOM_FILTER = bool_option(
    "state.backend.rocksdb.use-bloom-filter", True, "Whether files have filters that tell which keys they lack."
)
BLOOM_FILTER_BITS_PER_KEY = float_option(
    "state.backend.rocksdb.bloom-filter.bits-per-key", 10.0, "Size of these filters.", minimum=1.0
)
BLOOM_FILTER_BLOCK_BASED_MODE = bool_option(
    "state.backend.rocksdb.bloom-filter.block-based-mode", False, "Whether there is one filter per block."
)
RESTORE_OVERLAP_FRACTION_THRESHOLD = float_option(
    "state.backend.rocksdb.restore-overlap-fraction-threshold",
    0.0,
    "A restored database is used as it is where at least this part of its key groups is wanted, else copied from.",
    minimum=0.0,
    maximum=1.0,
)
