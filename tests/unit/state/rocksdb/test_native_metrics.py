"""RocksDB's own figures are metrics if they are switched on."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("rocksdict")

from flinkpy.common.configuration import Configuration
from flinkpy.configuration.rocksdb_metric_options import TICKERS
from flinkpy.metrics.metric_registry import NamedMetricGroup, read_metric
from flinkpy.state.rocksdb.database import RocksDatabase
from flinkpy.state.rocksdb.native_metrics import register_native_metrics
from flinkpy.state.rocksdb.settings import RocksDBSettings


def test_only_figures_that_are_switched_on_are_metrics(tmp_path: Path) -> None:
    prefix = "state.backend.rocksdb.metrics"
    configuration = Configuration.from_dict(
        {f"{prefix}.estimate-num-keys": "true", f"{prefix}.num-files-at-level": "true"}
    )
    settings = RocksDBSettings.read(configuration)
    database = RocksDatabase(tmp_path / "state", settings.database_options(), 1 << 20)
    try:
        for options, name in (
            (configuration, "default.rocksdb.estimate-num-keys"),
            (
                Configuration.from_dict({**configuration.to_dict(), f"{prefix}.column-family-as-variable": "true"}),
                "column_family.default.rocksdb.estimate-num-keys",
            ),
        ):
            group = NamedMetricGroup()
            register_native_metrics(database, options, group)
            metrics = dict(group.metrics())
            assert len(metrics) == 8  # and seven levels
            before = read_metric(metrics[name]).value
            database.write([(str(before).encode(), b"v")])
            assert read_metric(metrics[name]).value == int(before) + 1
        group = NamedMetricGroup()
        register_native_metrics(database, Configuration(), group)
        assert list(group.metrics()) == []
    finally:
        database.release()


def test_figures_of_the_statistics_are_counted_if_one_of_them_is_switched_on(tmp_path: Path) -> None:
    names = {name: f"state.backend.rocksdb.metrics.{name}" for name in TICKERS}
    configuration = Configuration.from_dict(dict.fromkeys(names.values(), "true"))
    database = RocksDatabase(tmp_path / "on", RocksDBSettings.read(configuration).database_options(), 1 << 20)
    try:
        group = NamedMetricGroup()
        register_native_metrics(database, configuration, group)
        metrics = dict(group.metrics())
        assert len(metrics) == len(TICKERS)

        def values() -> dict[str, int]:
            return {name.removeprefix("rocksdb."): int(read_metric(metric).value) for name, metric in metrics.items()}

        assert values()["bytes_written"] == values()["bytes_read"] == 0
        database.write([(b"k%d" % number, b"v" * 100) for number in range(50)])
        database.link_files_into(tmp_path / "files")
        assert database.get_many([b"k1", b"k2"]) == [b"v" * 100] * 2
        assert database.get(b"unknown") is None
        assert len(list(database.scan(b"k", None))) == 50
        counted = values()
        assert counted["bytes_written"] > 5000 and counted["bytes_read"] == 200 and counted["iter_bytes_read"] > 5000
        assert counted["block_cache_hit"] + counted["block_cache_miss"] > 0
    finally:
        database.release()
    plain = RocksDatabase(tmp_path / "off", RocksDBSettings.read(Configuration()).database_options(), 1 << 20)
    try:
        plain.write([(b"k", b"v")])
        assert plain.ticker("rocksdb.bytes.written") == 0
    finally:
        plain.release()
