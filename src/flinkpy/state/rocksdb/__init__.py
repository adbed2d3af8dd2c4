"""Keyed state in RocksDB, on local disk: for state larger than memory, and for incremental checkpoints.

How keys, values and files are laid out, and why: docs/decisions/0006-rocksdb-layout.md.
"""
