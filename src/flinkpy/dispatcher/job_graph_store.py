"""FileJobGraphStore lives in `flinkpy.highavailability`, beside its relative on ZooKeeper."""

from __future__ import annotations

from flinkpy.highavailability.file_job_graph_store import FileJobGraphStore

__all__ = ["FileJobGraphStore"]
