"""Bodies of the operations of the cluster itself.

Source: org.apache.flink.runtime.rest.messages.{DashboardConfiguration,JobIdsWithStatusOverview},
org.apache.flink.runtime.rest.handler.legacy.messages.ClusterOverviewWithVersion.
"""

from __future__ import annotations

import msgspec


class DashboardFeatures(msgspec.Struct, kw_only=True):
    """Which operations the dashboard offers to the caller, whose role may be too low for some."""

    web_submit: bool = msgspec.field(name="web-submit")
    web_cancel: bool = msgspec.field(name="web-cancel")
    web_rescale: bool = msgspec.field(name="web-rescale")
    web_history: bool = msgspec.field(name="web-history")


class DashboardConfiguration(msgspec.Struct, kw_only=True, rename="kebab"):
    """The facts about the server that a dashboard needs."""

    refresh_interval: int
    timezone_name: str
    timezone_offset: int
    flink_version: str
    flink_revision: str
    features: DashboardFeatures


class ClusterOverviewWithVersion(msgspec.Struct, kw_only=True):
    """The TaskManagers, slots and jobs of a cluster. The first two are -1 if the ResourceManager does not answer."""

    taskmanagers: int
    taskmanagers_blocked: int = msgspec.field(name="taskmanagers-blocked", default=0)
    slots_total: int = msgspec.field(name="slots-total")
    slots_available: int = msgspec.field(name="slots-available")
    slots_free_and_blocked: int = msgspec.field(name="slots-free-and-blocked", default=0)
    jobs_running: int = msgspec.field(name="jobs-running")
    jobs_finished: int = msgspec.field(name="jobs-finished")
    jobs_cancelled: int = msgspec.field(name="jobs-cancelled")
    jobs_failed: int = msgspec.field(name="jobs-failed")
    flink_version: str = msgspec.field(name="flink-version")
    flink_commit: str = msgspec.field(name="flink-commit")
