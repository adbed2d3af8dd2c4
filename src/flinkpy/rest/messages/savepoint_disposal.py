"""The request to delete a savepoint. Source: org.apache.flink.runtime.rest.messages.job.savepoints."""

from __future__ import annotations

import msgspec


class SavepointDisposalRequest(msgspec.Struct, kw_only=True):
    savepoint_path: str = msgspec.field(name="savepoint-path")
