"""Bodies of the operations of cluster data sets. Source: org.apache.flink.runtime.rest.messages.dataset."""

from __future__ import annotations

import msgspec


class ClusterDataSetEntry(msgspec.Struct, kw_only=True, rename="camel"):
    id: str
    is_complete: bool


class ClusterDataSetListResponseBody(msgspec.Struct, kw_only=True, rename="camel"):
    """Result partitions that outlive their jobs, of which there are none."""

    data_sets: list[ClusterDataSetEntry]
