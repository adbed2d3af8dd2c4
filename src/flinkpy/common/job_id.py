"""JobID. `str(job_id)` is 32 hex digits."""

from __future__ import annotations

from flinkpy.common.ids import JobID

__all__ = ["JobID"]
