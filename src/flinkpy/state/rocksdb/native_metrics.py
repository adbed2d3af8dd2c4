"""RocksDB's own figures as metrics: `state.backend.rocksdb.metrics.*`, all off by default.

All states of an operator are in one column family, `default`, so Flink's metrics per column family are metrics per
operator here.

Source: org.apache.flink.state.rocksdb.{RocksDBNativeMetricMonitor,RocksDBProperty}.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from flinkpy.common.configuration import Configuration
from flinkpy.configuration import read_option
from flinkpy.configuration.rocksdb_metric_options import (
    COLUMN_FAMILY_AS_VARIABLE,
    NATIVE_METRICS,
    NUM_FILES_AT_LEVEL,
)

if TYPE_CHECKING:
    from flinkpy.metrics.metric_registry import NamedMetricGroup
    from flinkpy.state.rocksdb.database import RocksDatabase

_COLUMN_FAMILY = "default"
_NUM_LEVELS = 7


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


def _reading(database: RocksDatabase, name: str) -> Callable[[], int]:
    return lambda: database.property(name)
