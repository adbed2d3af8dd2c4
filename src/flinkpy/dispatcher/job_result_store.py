"""FileJobResultStore lives in `flinkpy.highavailability`, beside its relative on ZooKeeper."""

from __future__ import annotations

from flinkpy.highavailability.file_job_result_store import FileJobResultStore

__all__ = ["FileJobResultStore"]
