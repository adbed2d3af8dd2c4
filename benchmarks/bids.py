"""The bids that both sides read: 5 M rows of five integer columns in a few CSV files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from pyarrow import csv

from benchmarks.peers import BENCH_DIR

ROWS = 5_000_000
FILES = 4
AUCTIONS = 10_000
COLUMNS = ["auction", "bidder", "price", "channel", "ts"]


def directory(rows: int = ROWS, auctions: int = AUCTIONS, files: int = FILES) -> Path:
    """The folder of CSV files without header, made on first use from a fixed seed."""
    path = BENCH_DIR / (f"bids-{rows}" if auctions == AUCTIONS else f"bids-{rows}-{auctions}")
    if (path / ".ready").exists():
        return path
    path.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(42)
    per_file = rows // files
    for number in range(files):
        columns = {
            "auction": random.integers(0, auctions, per_file),
            "bidder": random.integers(0, 100_000, per_file),
            "price": random.integers(1, 100_000_000, per_file),
            "channel": random.integers(0, 10_000, per_file),
            "ts": 1_700_000_000_000 + np.arange(number * per_file, (number + 1) * per_file),
        }
        with csv.CSVWriter(path / f"bids-{number}.csv", table_schema(), write_options=_options()) as writer:
            writer.write_table(pa.table(columns, schema=table_schema()))
    (path / ".ready").touch()
    return path


def table_schema() -> pa.Schema:
    return pa.schema([(name, pa.int64()) for name in COLUMNS])


def _options() -> csv.WriteOptions:
    return csv.WriteOptions(include_header=False)
