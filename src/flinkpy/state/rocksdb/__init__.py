"""Keyed state in RocksDB on local disk, for state larger than memory and for incremental checkpoints.

docs/decisions/0006-rocksdb-layout.md describes the layout of keys, values and files, with its reasons.
"""
