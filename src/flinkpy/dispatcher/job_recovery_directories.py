"""JobRecoveryDirectories lives in `flinkpy.highavailability`, beside its relative on ZooKeeper."""

from __future__ import annotations

from flinkpy.highavailability.job_recovery_directories import JobRecoveryDirectories

__all__ = ["JobRecoveryDirectories"]
