"""Options of RocksDB's own metrics. Source: org.apache.flink.state.rocksdb.RocksDBNativeMetricOptions."""

from __future__ import annotations

from flinkpy.configuration.options import ConfigOption, bool_option

_PREFIX = "state.backend.rocksdb.metrics."

#: RocksDB's properties, which are numbers, and what they count.
_DESCRIPTIONS = {
    "num-immutable-mem-table": "write buffers that are not flushed yet",
    "mem-table-flush-pending": "whether a flush of a write buffer is pending",
    "compaction-pending": "whether a compaction is pending",
    "background-errors": "errors of background work",
    "cur-size-active-mem-table": "the bytes of the active write buffer",
    "cur-size-all-mem-tables": "the bytes of all write buffers that are not flushed",
    "size-all-mem-tables": "the bytes of all write buffers, including those that readers pin",
    "num-entries-active-mem-table": "the entries of the active write buffer",
    "num-entries-imm-mem-tables": "the entries of write buffers that are not flushed",
    "num-deletes-active-mem-table": "the deletions in the active write buffer",
    "num-deletes-imm-mem-tables": "the deletions in write buffers that are not flushed",
    "estimate-num-keys": "an estimate of the number of keys",
    "estimate-table-readers-mem": "an estimate of the memory for reading files, without the block cache",
    "num-snapshots": "snapshots that are not released",
    "num-live-versions": "live versions of the set of files",
    "estimate-live-data-size": "an estimate of the bytes of live data",
    "total-sst-files-size": "the bytes of the files of all versions. May slow queries down if there are many files",
    "live-sst-files-size": "the bytes of the files of the last version",
    "estimate-pending-compaction-bytes": "an estimate of the bytes that compactions have to rewrite",
    "num-running-compactions": "running compactions",
    "num-running-flushes": "running flushes",
    "actual-delayed-write-rate": "the delayed write rate; 0: no delay",
    "is-write-stopped": "whether writes are stopped",
    "block-cache-capacity": "the capacity of the block cache",
    "block-cache-usage": "the memory in use by entries of the block cache",
    "block-cache-pinned-usage": "the memory of entries that are pinned in the block cache",
}
NATIVE_METRICS: dict[str, ConfigOption[bool]] = {
    name: bool_option(f"{_PREFIX}{name}", False, f"Report {description}.")
    for name, description in _DESCRIPTIONS.items()
}
#: The figures of RocksDB's statistics, and what they count.
_TICKER_DESCRIPTIONS = {
    "block-cache-hit": "hits of the block cache",
    "block-cache-miss": "misses of the block cache",
    "bloom-filter-useful": "reads that Bloom filters made unnecessary",
    "bloom-filter-full-positive": "reads that Bloom filters did not make unnecessary",
    "bloom-filter-full-true-positive": "reads that Bloom filters did not make unnecessary, and whose key is there",
    "bytes-read": "the uncompressed bytes that were read by key",
    "iter-bytes-read": "the uncompressed bytes that iterators read",
    "bytes-written": "the uncompressed bytes that were written, without those of compactions",
    "compaction-read-bytes": "the bytes that compactions read",
    "compaction-write-bytes": "the bytes that compactions wrote",
    "stall-micros": "the time in us that writes waited for compactions or flushes",
}
#: If one of them is on, RocksDB counts all of its operations, which costs a few percent of its throughput.
TICKERS: dict[str, ConfigOption[bool]] = {
    name: bool_option(f"{_PREFIX}{name}", False, f"Report {description}. Turns RocksDB's statistics on.")
    for name, description in _TICKER_DESCRIPTIONS.items()
}
NUM_FILES_AT_LEVEL = bool_option(f"{_PREFIX}num-files-at-level", False, "Report the number of files at each level.")
COLUMN_FAMILY_AS_VARIABLE = bool_option(
    f"{_PREFIX}column-family-as-variable",
    False,
    "Make the column family a variable of these metrics instead of a part of their scope.",
)
