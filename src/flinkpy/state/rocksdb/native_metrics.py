"""RocksDB's own figures as metrics: `state.backend.rocksdb.metrics.*`, all off by default.

All states of an operator are in one column family, `default`, so Flink's metrics per column family are metrics per
operator here. Figures of RocksDB's statistics belong to the whole database. They come from `Options.get_statistics`,
a text, because rocksdict has no function for a single one.

Source: org.apache.flink.state.rocksdb.{RocksDBNativeMetricMonitor,RocksDBProperty}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flinkpy.common.configuration import Configuration
from flinkpy.configuration import read_option
from flinkpy.configuration.options import AnyConfiguration
from flinkpy.configuration.rocksdb_metric_options import (
    COLUMN_FAMILY_AS_VARIABLE,
    NATIVE_METRICS,
    NUM_FILES_AT_LEVEL,
    TICKERS,
)

if TYPE_CHECKING:
    from flinkpy.metrics.metric_registry import NamedMetricGroup
    from flinkpy.state.rocksdb.database import RocksDatabase

_COLUMN_FAMILY = "default"
_NUM_LEVELS = 7
#: For each option: Flink's name of the metric after `rocksdb.`, and RocksDB's names of the figures that it adds up.
#: RocksDB counts the bytes of reads of many keys apart from those of single keys, which are all that Flink makes.
_TICKER_NAMES = {
    "block-cache-hit": ("block_cache_hit", "rocksdb.block.cache.hit"),
    "block-cache-miss": ("block_cache_miss", "rocksdb.block.cache.miss"),
    "bloom-filter-useful": ("bloom_filter_useful", "rocksdb.bloom.filter.useful"),
    "bloom-filter-full-positive": ("bloom_filter_full_positive", "rocksdb.bloom.filter.full.positive"),
    "bloom-filter-full-true-positive": ("bloom_filter_full_true_positive", "rocksdb.bloom.filter.full.true.positive"),
    "bytes-read": ("bytes_read", "rocksdb.bytes.read", "rocksdb.number.multiget.bytes.read"),
    "iter-bytes-read": ("iter_bytes_read", "rocksdb.db.iter.bytes.read"),
    "bytes-written": ("bytes_written", "rocksdb.bytes.written"),
    "compaction-read-bytes": ("compact_read_bytes", "rocksdb.compact.read.bytes"),
    "compaction-write-bytes": ("compact_write_bytes", "rocksdb.compact.write.bytes"),
    "stall-micros": ("stall_micros", "rocksdb.stall.micros"),
}


def register_native_metrics(database: RocksDatabase, configuration: Configuration, metrics: NamedMetricGroup) -> None:
    """Registers the figures that are switched on. RocksDB computes them when a metric is read."""
    group = metrics
    if read_option(configuration, COLUMN_FAMILY_AS_VARIABLE):
        group = metrics.add_group("column_family", _COLUMN_FAMILY)
    else:
        group = metrics.add_group(_COLUMN_FAMILY)
    names = [f"rocksdb.{name}" for name, option in NATIVE_METRICS.items() if read_option(configuration, option)]
    if read_option(configuration, NUM_FILES_AT_LEVEL):
        names += [f"rocksdb.num-files-at-level{level}" for level in range(_NUM_LEVELS)]
    for name in names:
        group.gauge(name, _reading(database, name))
    for option_name, option in TICKERS.items():
        if read_option(configuration, option):
            name, *tickers = _TICKER_NAMES[option_name]
            metrics.gauge(f"rocksdb.{name}", _counting(database, tickers))


def has_tickers(configuration: AnyConfiguration) -> bool:
    """True if a figure of RocksDB's statistics is switched on, so that the database must count."""
    return any(read_option(configuration, option) for option in TICKERS.values())


def _counting(database: RocksDatabase, tickers: list[str]) -> Callable[[], int]:
    return lambda: sum(map(database.ticker, tickers))


def _reading(database: RocksDatabase, name: str) -> Callable[[], int]:
    return lambda: database.property(name)
